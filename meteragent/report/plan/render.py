"""An answer in words and as JSON: the verdict, the error, the configuration to paste, and alternatives."""

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from meteragent.report import facts, guarantee
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import (
    MEAN_W,
    amount_text,
    energy_text,
    figures_text,
    full_text,
    localise,
    mean_label,
    odds_text,
    percent_text,
    whole_text,
    wrap_text,
)
from meteragent.report.guarantee import CROWDS
from meteragent.report.language import say
from meteragent.report.plan.ask import ENERGY_MAX_WH, Share
from meteragent.report.plan.meters import judge_meters
from meteragent.report.plan.setting import Setting, covered_events, odds_level, radius_percent
from meteragent.report.plan.solve import Answer, homes_needed, nearby_settings
from meteragent.wire.number import shorten

ERROR_GOALS = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))
"""Errors of a mean, as shares of `MEAN_W`; the answer shows how many homes each error requires."""
_PERCENT_BELOW = 10
ENERGY_FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def error_text(watts: float, share: Share) -> str:
    """Return an error as text: as energy if people read the share's numbers as energy, else as power."""
    return (
        amount_text(watts * float(share.hours) / 1000, "kWh") if share.is_in_kwh else amount_text(watts, "W")
    )


def share_of_home(power_w: float) -> str:
    """Return a power as a share of a home's mean: ``12.3%`` or, from 1000% on, ``15 times``."""
    share = power_w / MEAN_W
    if share < _PERCENT_BELOW:
        return percent_text(figures_text(100 * share))
    return say("number.times", count=localise(f"{share:,.0f}"))


def _question_text(answer: Answer) -> str:
    question, goal = answer.question, answer.question.goal
    parts = [] if question.hide is None else [say("plan.hide", change=question.hide.title)]
    parts += [] if question.share is None else [say("plan.share", share=question.share.title)]
    if question.homes is not None or goal is not None:
        is_given = question.homes is not None or question.hide is None or question.share is None
        homes_text = mean_label(question.homes or 1) if is_given else say("plan.enough_homes")
        parts.append(say("plan.within", homes=homes_text, goal=goal.text) if goal else homes_text)
    return say("plan.join").join(parts)


# In words -----------------------------------------------------------------------------------------------


def as_text(answer: Answer) -> str:
    """Return the answer as text: its configuration, a table of errors, and the next step."""
    verdict = "possible" if answer.is_possible else "impossible"
    head = say(f"plan.{verdict}", question=_question_text(answer), reason=answer.why_not)
    lines = [wrap_text(head), "", *_considered_lines(answer)]
    if not answer.is_possible:
        lines += [*_nearest_lines(answer), ""]
        setting = answer.nearest[0].setting if answer.nearest else None
        return "\n".join([*lines, *(_setting_lines(setting, say("plan.paste_first")) if setting else [])])
    setting = answer.setting
    assert setting is not None
    for section in (
        _cost_lines(answer, setting),
        _setting_lines(setting, say("plan.paste")),
        _table_lines(answer, setting),
    ):
        lines += [*section, ""] if section else []
    if setting.share.unit is not None and setting.slots > 1:  # the number of blocks was chosen
        key = "plan.blocks_of_preset" if setting.share.blocks else "plan.blocks_of_bound"
        origin = say(key, blocks=setting.slots, examples=len(EVENTS))
        lines += [wrap_text(f"{origin} {say('plan.blocks_warning')}"), ""]
    return "\n".join([*lines, *_meter_lines(setting), "", wrap_text(say("plan.next"))])


def _considered_lines(answer: Answer) -> list[str]:
    """Return the lines about the shares that were compared; empty if none were compared."""
    if not answer.considered_settings:
        return []
    goal = answer.question.goal
    lines = [say("plan.considered", homes=mean_label(answer.homes))]
    for setting in answer.considered_settings:
        watts = setting.error_w(answer.homes)
        is_enough = goal is not None and homes_needed(setting, goal.power_w(setting.share)) <= answer.homes
        mark = say("plan.yes" if is_enough else "plan.no")
        cells = f"{error_text(watts, setting.share):>11}{share_of_home(watts):>12}   {mark}"
        lines.append(f"  {setting.share.title:<28}{cells}")
    return [*lines, ""]


def _cost_lines(answer: Answer, setting: Setting) -> list[str]:
    share, one_w = setting.share, setting.error_w()
    lines, of_home = [say("plan.costs", share=share.title)], say("plan.of_home", watts=MEAN_W)
    for homes in sorted({1, answer.homes, *CROWDS}):
        watts = setting.error_w(homes)
        cells = f"{error_text(watts, share):>11}{share_of_home(watts):>12}"
        lines.append(f"  {mean_label(homes):<28}{cells} {of_home}")
    within = say("cost.within", half_width=error_text(setting.terms.half_width(0.95), share))
    lines.append(f"  {say('plan.one_home', within=within)}")
    homes_by_goal = {goal: whole_text(homes_needed(setting, float(goal * MEAN_W))) for goal in ERROR_GOALS}
    counts = "; ".join(f"{percent_text(str(100 * goal))}: {homes}" for goal, homes in homes_by_goal.items())
    lines.append(f"  {say('plan.homes_needed', counts=counts)}")
    lines += _slack_lines(answer, setting)
    floor = say("plan.floor", floor=error_text(setting.floor_w, share), error=error_text(one_w, share))
    lines.append(wrap_text(floor, "  "))
    return [*lines, "", *_hidden_lines(answer, setting)]


def _slack_lines(answer: Answer, setting: Setting) -> list[str]:
    """Return a line that compares the error with the goal; empty if there is no goal."""
    goal = answer.question.goal
    if goal is None:
        return []
    watts, goal_w = setting.error_w(answer.homes), goal.power_w(setting.share)
    count, spare = homes_needed(setting, goal_w), percent_text(f"{100 - 100 * watts / goal_w:.0f}")
    key = "plan.slack_one" if count == 1 else "plan.slack"
    text = say(key, goal=goal.text, homes=mean_label(answer.homes), spare=spare, count=whole_text(count))
    return [wrap_text(text, "  ")]


def _hidden_lines(answer: Answer, setting: Setting) -> list[str]:
    hides = say("plan.hides", energy=energy_text(setting.hide_wh), level=full_text(setting.level))
    events, percentage = covered_events(setting), radius_percent(setting)
    limit = guess_limit_text(percentage, _event_names(events) if events else "")
    has_limit = answer.question.hide is None and setting.hide_wh >= ENERGY_MAX_WH
    search = say("plan.search_limit", energy=energy_text(setting.hide_wh)) if has_limit else ""
    sentences = (hides, search, limit, _odds_sentence(answer, setting), say("plan.assumed"))
    return [wrap_text(" ".join(filter(None, sentences)))]


def _event_names(events: Iterable[Event]) -> str:
    return join_titles(events) or say("plan.no_example")


def _odds_sentence(answer: Answer, setting: Setting) -> str:
    """Return a sentence about the odds of a whole event: the levels of the windows that it touches add up."""
    hide = answer.question.hide
    if hide is None:
        return ""
    if hide.event is None:
        return say("plan.odds_of_energy", odds=odds_text(setting.level))
    factor = odds_text(Fraction(odds_level(setting, hide.event)))
    return say("plan.odds_of_event", event=hide.title, odds=factor)


def guess_limit_text(percent: int, events: str) -> str:
    """Return a text: how often a guess about these events (if none, about the hidden energy) is right."""
    return say("guess.limit" if events else "guess.limit_of_size", percent=percent, events=events)


def join_titles(events: Iterable[Event]) -> str:
    """Join the titles of events; return an empty string if there are none."""
    return "; ".join(event.title for event in events)


def paste_lines(text: str) -> list[str]:
    """Return a configuration to paste, with the lines around it, and the next step."""
    return [say("plan.paste"), "", *text.splitlines(), "", wrap_text(say("plan.next"))]


def _setting_lines(setting: Setting, title: str) -> list[str]:
    head = say("plan.paste_preset", title=title, preset=repr(setting.preset)) if setting.preset else title
    return [head, "", *setting.text.splitlines()]


def _table_lines(answer: Answer, setting: Setting) -> list[str]:
    """Return a table of the error against the hidden energy, with a row for each of `ENERGY_FACTORS`."""
    homes = answer.homes if answer.homes > 1 else CROWDS[0]
    heads = [
        say(f"plan.table_{name}", homes=whole_text(homes)) for name in ("hides", "homes", "floor", "also")
    ]
    hides, mean, floor, also = heads
    one_width, floor_width = max(12, len(mean_label(1)) + 2), max(13, len(floor) + 2)
    heads_text = f"{hides:>10}{mean_label(1):>{one_width}}{mean:>16}{floor:>{floor_width}}   {also}"
    lines = [say("plan.table"), f"  {heads_text}"]
    listed: set[Event] = set()
    for row in nearby_settings(setting, ENERGY_FACTORS):
        new_events = [event for event in covered_events(row) if event not in listed]
        listed.update(new_events)
        mark = " *" if row == setting else "  "
        errors_w = row.error_w(), row.error_w(homes), row.floor_w
        one_home, mean, floor = (error_text(error_w, row.share) for error_w in errors_w)
        cells = f"{energy_text(row.hide_wh):>10}{one_home:>{one_width}}{mean:>16}{floor:>{floor_width}}"
        lines.append(f"{mark}{cells}   {join_titles(new_events) or '-'}")
    return lines


def _meter_lines(setting: Setting) -> list[str]:
    """Return the profiles whose readings are fine enough or too coarse, by their kind."""
    texts = [
        say(f"plan.meters_{verdict}", kind=say(f"stream.kind_{kind}"), names=", ".join(names))
        for kind, names_by_verdict in judge_meters(setting.without_source).items()
        for verdict in ("fine", "coarse")
        if (names := names_by_verdict.get(verdict))
    ]
    texts.append(say("plan.meters_unknown"))
    return [say("plan.meters"), *(wrap_text(text, "  ", "    ") for text in texts)]


def _nearest_lines(answer: Answer) -> list[str]:
    if not answer.nearest:
        return [say("plan.none_near")]
    lines = [say("plan.near")]
    for near in answer.nearest:
        setting, homes = near.setting, near.homes
        share = "" if near.kind == "share" else f"{setting.share.title}, "
        size_hidden = say("plan.near_hidden", energy=energy_text(setting.hide_wh))
        numbers = f"{share}{mean_label(homes)}, {size_hidden}"
        size = error_text(setting.error_w(homes), setting.share)
        lines.append(wrap_text(f"{near.title}: {numbers}: {size}", "  ", "    "))
        if near.kind == "less" or answer.question.hide is None:
            lines.append(f"    {say('plan.near_hides', events=_event_names(covered_events(setting)))}")
    return lines


# As JSON ------------------------------------------------------------------------------------------------


def as_json(answer: Answer) -> str:
    """Return the answer as JSON: errors as mean powers in W, and exact numbers as text."""
    setting = answer.setting if answer.is_possible else None
    document: dict[str, Any] = {
        "question": _question_text(answer),
        "possible": answer.is_possible,
        "why_not": answer.why_not or None,
        "homes": answer.homes,
        "setting": _facts(setting, answer.homes) if setting else None,
        "considered": [_facts(option, answer.homes) for option in answer.considered_settings],
        "nearest": [{"change": near.title} | _facts(near.setting, near.homes) for near in answer.nearest],
        "error_against_hiding": [
            {name: value for name, value in _facts(row, answer.homes).items() if name != "configuration"}
            for row in (nearby_settings(setting, ENERGY_FACTORS) if setting else ())
        ],
    }
    if setting is not None:
        document["meters"] = judge_meters(setting.without_source)
        document["check"] = facts.facts_of(guarantee.compute_guarantee(setting.stream))
    return json.dumps(document, indent=2)


def _facts(setting: Setting, homes: int) -> dict[str, Any]:
    return {
        "share": setting.share.name,
        "slots": setting.slots,
        "hides_wh": str(setting.hide_wh),
        "level": str(setting.level),
        "preset": setting.preset,
        "homes": homes,
        "error_w": shorten(setting.error_w(homes)),
        "error_of_one_home_w": shorten(setting.error_w()),
        "floor_of_one_home_w": shorten(setting.floor_w),
        "right_of_100": radius_percent(setting),
        "hides": [event.name for event in covered_events(setting)],
        "configuration": setting.text,
    }
