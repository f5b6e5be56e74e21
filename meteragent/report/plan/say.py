"""An answer in words and as JSON: what is possible, what it costs, what to paste, and what would be."""

import json
import textwrap
from fractions import Fraction
from typing import Any

from meteragent import config
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.report import facts, guarantee, terminal, wording
from meteragent.report.event import EVENTS
from meteragent.report.format import MEAN_W, amount, energy, mean_of, odds, share_of_home
from meteragent.report.guarantee import CROWDS
from meteragent.report.plan.ask import Share
from meteragent.report.plan.setting import Setting, candidates, covered, odds_level, radius_percent
from meteragent.report.plan.solve import Answer, Sliding, around, is_chosen, needed, sliding
from meteragent.wire.number import figure

GOALS = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))
"""Parts of a home of `MEAN_W` within which the mean of homes may be wanted."""
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def error(watts: float, share: Share) -> str:
    """An error as people read what is shared: a power, or the energy of a day or a month."""
    return amount(watts * float(share.hours) / 1000, "kWh") if share.in_kwh else amount(watts, "W")


def _question(answer: Answer) -> str:
    """Return the question in a line."""
    question = answer.question
    parts = []
    if question.hide is not None:
        parts.append(f"hide {question.hide.name}")
    if question.share is not None:
        parts.append(f"share {question.share.name}")
    if question.homes is not None or question.goal is not None:
        homes = question.homes or (answer.homes if question.hide and question.share else 1)
        known = question.homes is not None or question.hide is None or question.share is None
        parts.append(mean_of(homes) if known else "the mean of enough homes")
    if question.goal is not None:
        parts[-1] += f" within {question.goal.text}"
    return ", ".join(parts)


# In words -----------------------------------------------------------------------------------------------


def as_text(answer: Answer) -> str:
    """All that is to say, with the configuration and with what `check` says of it."""
    verdict = "possible" if answer.possible else f"NOT possible: {answer.why_not}"
    lines = [f"To {_question(answer)}: {verdict}.", "", *_considered(answer)]
    if not answer.possible:
        lines += [*_nearest(answer), ""]
        setting = answer.nearest[0].setting if answer.nearest else None
        return "\n".join([*lines, *(_paste(setting, "The first of these, to paste") if setting else [])])
    setting = answer.setting
    assert setting is not None  # noqa: S101  what is possible has one
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
    parsed = config.parse(setting.text)
    promised = guarantee.of(parsed.stream[0])
    return "\n".join([*lines, "What `meteragent check` says of it", "", terminal.text([promised], parsed)])


def _considered(answer: Answer) -> list[str]:
    """What was looked at to choose what to share."""
    if not answer.considered:
        return []
    goal = answer.question.goal
    lines = [f"What could be shared, the finest first ({mean_of(answer.homes)})"]
    for setting in answer.considered:
        watts = setting.error_w(answer.homes)
        good = goal is not None and needed(setting, goal.watts(setting.share)) <= answer.homes
        mark = "yes" if good else "no"
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
        lines.append(f"  {mean_of(homes):<28}{figures} of a home of {MEAN_W} W")
    within = wording.within(error(setting.terms.half_width(0.95), share))
    lines.append(f"  One home's number: {within}.")
    takes = [f"to {float(100 * goal):g} %: {needed(setting, float(goal * MEAN_W)):,}" for goal in GOALS]
    lines.append(f"  Homes that it takes for a mean that is right {', '.join(takes)}.")
    lines += _slack(answer, setting)
    lines.append(
        f"  The floor: no noise that keeps this promise has less error than {error(setting.floor_w, share)};"
    )
    lines.append(f"  this has {error(one_w, share)}.")
    return [*lines, "", *_hidden(answer, setting)]


def _slack(answer: Answer, setting: Setting) -> list[str]:
    """How far from the goal it is."""
    goal = answer.question.goal
    if goal is None:
        return []
    watts, goal_w = setting.error_w(answer.homes), goal.watts(setting.share)
    least, spare = needed(setting, goal_w), f"{100 - 100 * watts / goal_w:.0f} %"
    enough = "one home is" if least == 1 else f"{least:,} homes are"
    return [f"  Within {goal.text}: {mean_of(answer.homes)} has {spare} to spare; {enough} enough."]


def _hidden(answer: Answer, setting: Setting) -> list[str]:
    names = "; ".join(event.name for event in covered(setting)) or "none of the examples"
    hides = f"What it hides: {energy(setting.hide_wh)} in each number, at level {exact(setting.level)}."
    guess = f"{wording.guesses(str(radius_percent(setting)))}: {names}."
    return _wrapped(f"{hides} {guess} {_odds(answer, setting)}")


def _odds(answer: Answer, setting: Setting) -> str:
    """What leaves of a whole event: the levels of the windows that it touches add."""
    hide = answer.question.hide
    if hide is None:
        return ""
    if hide.event is None:
        return (
            f"Within one window it changes the odds by a factor of at most {odds(setting.level)}, whatever"
            " its shape; spread over several by no more, but for a quantum's worth in each."
        )
    factor = odds(Fraction(odds_level(setting, hide.event)))
    return f"All windows that {hide.name} touches together change its odds by a factor of at most {factor}."


def _paste(setting: Setting, title: str = "Paste this") -> list[str]:
    named = f" (it is the preset {setting.preset!r})" if setting.preset else ""
    return [f"{title}{named}", "", *setting.text.splitlines()]


def _table(answer: Answer, setting: Setting) -> list[str]:
    """Error against hiding, in five rows."""
    homes = answer.homes if answer.homes > 1 else CROWDS[0]
    mean = f"{homes:,} homes"
    lines = [
        "Error against hiding",
        f"  {'hides':>10}{'one home':>12}{mean:>16}{'floor, one':>13}   also hides",
    ]
    known: set[str] = set()
    for row in around(setting, FACTORS):
        names = [event.name for event in covered(row) if event.name not in known]
        known.update(names)
        mark = " *" if row == setting else "  "
        single, mean, floor = (error(w, row.share) for w in (row.error_w(), row.error_w(homes), row.floor_w))
        cells = f"{energy(row.hide_wh):>10}{single:>12}{mean:>16}{floor:>13}"
        lines.append(f"{mark}{cells}   {'; '.join(names) or '-'}")
    return lines


def _slots(answer: Answer, setting: Setting) -> list[str]:
    """How the number of slots was picked for an event that is longer than one."""
    question = answer.question
    if question.hide is None:
        return []
    tried = candidates(question.hide, setting.share, question.level, question.timezone)
    if len(tried) == 1:
        return []
    cells = ", ".join(f"{option.slots}: {error(option.error_w(), option.share)}" for option in tried)
    return _wrapped(f"Numbers in a window: {setting.slots} has the least error of {cells}; more cost more.")


def _sliding(offer: Sliding) -> list[str]:
    """The offer of a stronger promise."""
    plan, setting, simple = offer.plan, offer.setting, offer.simple
    share, windows = setting.share, plan.touched(plan.span)
    length, level = format_duration(share.step_ms * setting.slots), exact(setting.level)
    all_of_it = exact(windows * setting.level)
    text = (
        f"Stronger, if you want it: odds within e^{all_of_it} over the whole event, wherever it "
        f"starts and whatever its shape below {setting.radius_w} W. Any {plan.span} {share.name} "
        f"in a row touch at most {windows} windows of {length}, each at level {level}. One home's error is "
        f"then {error(setting.error_w(), share)}; to hide {energy(simple.hide_wh)} in each number instead "
        f"would cost {error(simple.error_w(), share)}. To paste:"
    )
    return [*_wrapped(text), "", *setting.text.splitlines()]


def _blocks(setting: Setting) -> list[str]:
    """On the number of blocks, and where it may come from."""
    if setting.share.blocks:
        why = "the preset's; more are noisier, fewer say less."
    else:
        why = (
            f"by a bound for a day on which each of the {len(EVENTS)} public examples happens once. "
            "It is a worst case: try fewer on simulated or public homes."
        )
    never = "Never choose it by a private trace: that choice is itself a release, and nobody has charged it."
    return _wrapped(f"The number of blocks: {setting.slots}, {why} {never}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def _nearest(answer: Answer) -> list[str]:
    """What is possible instead, each with its error."""
    if not answer.nearest:
        return ["Nothing near is possible either."]
    lines = ["What would be"]
    for near in answer.nearest:
        setting = near.setting
        of = "" if near.change.startswith("share") else f"{setting.share.name}, "
        what = f"{of}{mean_of(near.homes)}, {energy(setting.hide_wh)} hidden"
        lines.append(f"  {near.change}: {what}: {error(setting.error_w(near.homes), setting.share)}")
        if near.change.startswith("hide") or answer.question.hide is None:
            names = "; ".join(event.name for event in covered(setting)) or "none of the examples"
            lines.append(f"    hides {names}")
    return lines


# As JSON ------------------------------------------------------------------------------------------------


def as_json(answer: Answer) -> str:
    """The same facts as JSON; errors in W over a number's time, exact numbers as text."""
    setting, windows = answer.setting, None
    if answer.possible and setting is not None:
        windows = sliding(answer.question, setting)
    answered: dict[str, Any] = {
        "question": _question(answer),
        "possible": answer.possible,
        "why_not": answer.why_not or None,
        "homes": answer.homes,
        "setting": _facts(setting, answer.homes) if answer.possible and setting else None,
        "considered": [_facts(option, answer.homes) for option in answer.considered],
        "nearest": [{"change": near.change} | _facts(near.setting, near.homes) for near in answer.nearest],
        "sliding": windows and _windows(windows, answer.homes),
        "error_against_hiding": [
            {name: value for name, value in _facts(row, answer.homes).items() if name != "configuration"}
            for row in (around(setting, FACTORS) if answer.possible and setting else ())
        ],
    }
    if answer.possible and setting is not None:
        answered["check"] = facts.of(guarantee.of(setting.stream))
    return json.dumps(answered, indent=2)


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
    """Any `span` numbers in a row touch at most so many windows."""
    plan = offer.plan
    return {"span": plan.span, "windows": plan.touched(plan.span), **_facts(offer.setting, homes)}
