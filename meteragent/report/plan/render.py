"""An answer in words and as JSON: the verdict, error, configuration to paste, and alternatives."""

import json
import textwrap
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from meteragent.domain.grid import duration_text
from meteragent.report import facts, guarantee, wording
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import MEAN_W, amount, energy, full, mean_of, odds, share_of_home
from meteragent.report.guarantee import CROWDS
from meteragent.report.plan.ask import Share
from meteragent.report.plan.setting import Setting, candidates, covered, odds_level, radius_percent
from meteragent.report.plan.solve import Answer, Sliding, around, homes_needed, is_chosen, sliding
from meteragent.wire.number import figure

GOALS = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))
"""Errors of a mean, as shares of `MEAN_W`; the answer shows how many homes each error requires."""
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
NEXT = "Next: save the configuration as home.toml, set its topics, and run meteragent check home.toml"


def error(watts: float, share: Share) -> str:
    """Return an error with its unit: an energy for shares that people read as energies, or else a power."""
    return amount(watts * float(share.hours) / 1000, "kWh") if share.in_kwh else amount(watts, "W")


def _question(answer: Answer) -> str:
    """Return the question in one line."""
    question = answer.question
    parts = []
    if question.hide is not None:
        parts.append(f"hide {question.hide.name}")
    if question.share is not None:
        parts.append(f"share {question.share.name}")
    if question.homes is not None or question.goal is not None:
        homes = question.homes or (answer.homes if question.hide and question.share else 1)
        is_given = question.homes is not None or question.hide is None or question.share is None
        parts.append(mean_of(homes) if is_given else "the mean of enough homes")
    if question.goal is not None:
        parts[-1] += f" within {question.goal.text}"
    return ", ".join(parts)


# In words -----------------------------------------------------------------------------------------------


def as_text(answer: Answer) -> str:
    """Return the answer as text: its configuration, a table of errors, and the next step."""
    verdict = "possible" if answer.is_possible else f"NOT possible: {answer.why_not}"
    lines = [f"To {_question(answer)}: {verdict}.", "", *_considered(answer)]
    if not answer.is_possible:
        lines += [*_nearest(answer), ""]
        setting = answer.nearest[0].setting if answer.nearest else None
        return "\n".join([*lines, *(_paste(setting, "Paste the first of these") if setting else [])])
    setting = answer.setting
    assert setting is not None  # noqa: S101  a possible answer has a setting
    for section in (
        _costs(answer, setting),
        _paste(setting),
        _table(answer, setting),
        _slots(answer, setting),
    ):
        lines += [*section, ""] if section else []
    windows = sliding(answer.question, setting)
    lines += [*_sliding(windows), ""] if windows else []
    lines += [*_blocks(setting), ""] if is_chosen(setting) else []
    return "\n".join([*lines, *_wrapped(NEXT)])


def _considered(answer: Answer) -> list[str]:
    """Return the lines about the compared shares."""
    if not answer.considered:
        return []
    goal = answer.question.goal
    lines = [
        f"What could be shared, finest first (error of {mean_of(answer.homes)}), and whether it is enough"
    ]
    for setting in answer.considered:
        watts = setting.error_w(answer.homes)
        is_enough = goal is not None and homes_needed(setting, goal.watts(setting.share)) <= answer.homes
        mark = "yes" if is_enough else "no"
        lines.append(
            f"  {setting.share.name:<28}{error(watts, setting.share):>11}{share_of_home(watts):>12}   {mark}"
        )
    return [*lines, ""]


def _costs(answer: Answer, setting: Setting) -> list[str]:
    share, one_w = setting.share, setting.error_w()
    rows = sorted({1, answer.homes, *CROWDS})
    lines = [f"What it costs: the error of {share.name} (one standard deviation)"]
    for homes in rows:
        watts = setting.error_w(homes)
        figures = f"{error(watts, share):>11}{share_of_home(watts):>12}"
        lines.append(f"  {mean_of(homes):<28}{figures} of a home's {MEAN_W} W")
    within = wording.within(error(setting.terms.half_width(0.95), share))
    lines.append(f"  One home's number: {within}.")
    counts = [f"{float(100 * goal):g} %: {homes_needed(setting, float(goal * MEAN_W)):,}" for goal in GOALS]
    lines.append(f"  Homes needed for the mean to have an error of {'; '.join(counts)}.")
    lines += _slack(answer, setting)
    lines.append(
        f"  Lower bound: no noise that keeps this promise has an error below {error(setting.floor_w, share)};"
    )
    lines.append(f"  this noise has {error(one_w, share)}.")
    return [*lines, "", *_hidden(answer, setting)]


def _slack(answer: Answer, setting: Setting) -> list[str]:
    """Return a line that compares the error with the goal."""
    goal = answer.question.goal
    if goal is None:
        return []
    watts, goal_w = setting.error_w(answer.homes), goal.watts(setting.share)
    count, spare = homes_needed(setting, goal_w), f"{100 - 100 * watts / goal_w:.0f} %"
    least_homes = "one home is" if count == 1 else f"{count:,} homes are"
    return [f"  Within {goal.text}: {mean_of(answer.homes)} has {spare} to spare; {least_homes} enough."]


def _hidden(answer: Answer, setting: Setting) -> list[str]:
    hides = f"What it hides: {energy(setting.hide_wh)} in each number, at level {full(setting.level)}."
    limit = wording.guess_limit(radius_percent(setting), _names(covered(setting)))
    return _wrapped(f"{hides} {limit} {_odds(answer, setting)}")


def _names(events: Iterable[Event]) -> str:
    return "; ".join(event.name for event in events) or "none of the examples"


def _odds(answer: Answer, setting: Setting) -> str:
    """Return a sentence about the odds of a whole event: the levels of the windows that it touches add up."""
    hide = answer.question.hide
    if hide is None:
        return ""
    if hide.event is None:
        return (
            f"Within one window it changes the odds by a factor of at most {odds(setting.level)}, whatever"
            " its shape; spread over several windows by no more, apart from a quantum in each."
        )
    factor = odds(Fraction(odds_level(setting, hide.event)))
    return f"Together, all windows that {hide.name} touches change its odds by a factor of at most {factor}."


def _paste(setting: Setting, title: str = "Paste this") -> list[str]:
    preset_text = f" (it is the preset {setting.preset!r})" if setting.preset else ""
    return [f"{title}{preset_text}", "", *setting.text.splitlines()]


def _table(answer: Answer, setting: Setting) -> list[str]:
    """Return a table, in five rows, of the error against the energy hidden."""
    homes = answer.homes if answer.homes > 1 else CROWDS[0]
    mean = f"{homes:,} homes"
    lines = [
        "Error against energy hidden (* marks this setting)",
        f"  {'hides':>10}{'one home':>12}{mean:>16}{'lower bound':>13}   also hides",
    ]
    listed_names: set[str] = set()
    for row in around(setting, FACTORS):
        names = [event.name for event in covered(row) if event.name not in listed_names]
        listed_names.update(names)
        mark = " *" if row == setting else "  "
        errors_w = row.error_w(), row.error_w(homes), row.floor_w
        one_home, mean, floor = (error(error_w, row.share) for error_w in errors_w)
        cells = f"{energy(row.hide_wh):>10}{one_home:>12}{mean:>16}{floor:>13}"
        lines.append(f"{mark}{cells}   {'; '.join(names) or '-'}")
    return lines


def _slots(answer: Answer, setting: Setting) -> list[str]:
    """Return the lines about the choice of the number of slots for an event longer than one slot."""
    question = answer.question
    if question.hide is None:
        return []
    options = candidates(question.hide, setting.share, question.level, question.timezone)
    if len(options) == 1:
        return []
    cells = ", ".join(f"{option.slots}: {error(option.error_w(), option.share)}" for option in options)
    return _wrapped(f"Numbers in a window: {setting.slots} has the least error of {cells}.")


def _sliding(offer: Sliding) -> list[str]:
    """Return lines that offer a stronger promise."""
    plan, setting, simple = offer.plan, offer.setting, offer.simple
    share, windows = setting.share, plan.touched(plan.span)
    length, level = duration_text(share.step_ms * setting.slots), full(setting.level)
    text = (
        f"Stronger, if you want it: odds within {odds(windows * setting.level)} over the whole event,"
        f" wherever it starts and whatever its shape below {setting.radius_w} W. Any {plan.span} {share.name}"
        f" in a row touch at most {windows} windows of {length}, each at level {level}. One home's error is"
        f" then {error(setting.error_w(), share)}; hiding {energy(simple.hide_wh)} in each number instead"
        f" would cost {error(simple.error_w(), share)}. To paste:"
    )
    return [*_wrapped(text), "", *setting.text.splitlines()]


def _blocks(setting: Setting) -> list[str]:
    """Return lines about the origin of the number of blocks, with a warning against private traces."""
    if setting.share.blocks:
        origin = "taken from the preset. More blocks mean more noise, fewer show less detail."
    else:
        origin = (
            f"from a bound for a day on which each of the {len(EVENTS)} public examples happens once. "
            "That is a worst case: try fewer on simulated or public homes."
        )
    warning = "Never choose it on a private trace: the choice would reveal something that no budget counts."
    return _wrapped(f"The number of blocks: {setting.slots}, {origin} {warning}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def _nearest(answer: Answer) -> list[str]:
    """Return lines about settings that are possible instead, each with its error."""
    if not answer.nearest:
        return ["No similar setting is possible. Hide less, or accept a larger error."]
    lines = ["What is possible instead"]
    for change, setting, homes in answer.nearest:
        share = "" if change.startswith("share") else f"{setting.share.name}, "
        numbers = f"{share}{mean_of(homes)}, {energy(setting.hide_wh)} hidden"
        lines.append(f"  {change}: {numbers}: {error(setting.error_w(homes), setting.share)}")
        if change.startswith("hide") or answer.question.hide is None:
            lines.append(f"    hides {_names(covered(setting))}")
    return lines


# As JSON ------------------------------------------------------------------------------------------------


def as_json(answer: Answer) -> str:
    """Return the same facts as JSON: errors in W over a number's time, and exact numbers as text."""
    setting, windows = answer.setting, None
    if answer.is_possible and setting is not None:
        windows = sliding(answer.question, setting)
    document: dict[str, Any] = {
        "question": _question(answer),
        "possible": answer.is_possible,
        "why_not": answer.why_not or None,
        "homes": answer.homes,
        "setting": _facts(setting, answer.homes) if answer.is_possible and setting else None,
        "considered": [_facts(option, answer.homes) for option in answer.considered],
        "nearest": [{"change": change} | _facts(option, homes) for change, option, homes in answer.nearest],
        "sliding": windows and _windows(windows, answer.homes),
        "error_against_hiding": [
            {name: value for name, value in _facts(row, answer.homes).items() if name != "configuration"}
            for row in (around(setting, FACTORS) if answer.is_possible and setting else ())
        ],
    }
    if answer.is_possible and setting is not None:
        document["check"] = facts.of(guarantee.of(setting.stream))
    return json.dumps(document, indent=2)


def _facts(setting: Setting, homes: int) -> dict[str, Any]:
    return {
        "share": setting.share.name,
        "slots": setting.slots,
        "hides_wh": str(setting.hide_wh),
        "level": str(setting.level),
        "preset": setting.preset,
        "homes": homes,
        "error_w": figure(setting.error_w(homes)),
        "error_of_one_home_w": figure(setting.error_w()),
        "floor_of_one_home_w": figure(setting.floor_w),
        "right_of_100": radius_percent(setting),
        "hides": [event.name for event in covered(setting)],
        "configuration": setting.text,
    }


def _windows(offer: Sliding, homes: int) -> dict[str, Any]:
    """Return the facts about consecutive windows: any `span` numbers touch at most `windows` windows."""
    plan = offer.plan
    return {"span": plan.span, "windows": plan.touched(plan.span), **_facts(offer.setting, homes)}
