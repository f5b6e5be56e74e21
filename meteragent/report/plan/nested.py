"""Plans for nested streams: shares of a level that make numbers of several lengths accurate enough.

All streams hide the same energy, and their shares of the level add up to one, so the promise is that of a
single stream (THEORY 3.8). All shares in steps of 1/20 are tried, with at least one step for the finest
length. The best shares minimise the largest ratio of an error to its goal or, without goals, to the error of
a single stream of that length. They are proposed only if they are better than a single stream of the finest
length, whose numbers receivers add up to days and months.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import format_duration
from meteragent.privacy import LInfLaplace, nested, sd
from meteragent.privacy.nested import Node
from meteragent.report.format import energy_text, full_text, localise, wrap_text
from meteragent.report.language import say
from meteragent.report.plan.ask import Change, Goal, Share
from meteragent.report.plan.render import error_text, paste_lines
from meteragent.report.plan.setting import configuration_text, level_text
from meteragent.wire.number import shorten

LEVEL_PARTS = 20
"""The number of equal parts into which the search grid divides a level."""
_NO_SHARE = Fraction(1, 10**6)  # used instead of a share of 0, whose noise would be infinite
_QUANTA = 220
"""The number of quanta per radius while shares are tried; errors on the real lattice differ by less
than 0.1%."""


@dataclass(frozen=True)
class Division:
    """Lengths from fine to coarse, each length's share of the level, and the energy that each number hides.

    A length whose share is 0 has no stream: its numbers are sums of a finer length's numbers.
    """

    lengths: tuple[Share, ...]
    shares: tuple[Fraction, ...]
    hide_wh: Fraction
    level: Fraction

    @cached_property
    def errors_w(self) -> tuple[float, ...]:
        """One standard deviation of each length's best estimate, as mean power, in W."""
        kinds = []
        for length, share in zip(self.lengths, self.shares, strict=True):
            level = max(share, _NO_SHARE) * self.level  # numbers with a share of 0 have almost no weight
            mechanism = noise_mechanism(self.hide_wh / length.hours, level)
            kinds.append(Node(mechanism, "dithered", float(length.hours / 1000)))  # in kWh
        counts = [coarse.step_ms // fine.step_ms for fine, coarse in pairwise(self.lengths)]
        path = nested.regular_path(kinds, counts)
        return tuple(
            1000 * nested.sd(path[: len(path) - index]) / float(length.hours)
            for index, length in enumerate(self.lengths)
        )


@dataclass(frozen=True)
class NestedQuestion:
    """A question: what to hide, the lengths to share (from fine to coarse), and the goals for errors."""

    hide: Change
    lengths: tuple[Share, ...]
    goals: tuple[Goal | None, ...] = ()
    level: Fraction = Fraction(1)
    timezone: str = "UTC"

    def limits_w(self) -> tuple[float, ...]:
        """Return the limit of each length's error: its goal or, without goals, the error of a single stream.

        If only some lengths have goals, the limits of the other lengths are infinite.
        """
        if any(self.goals):
            pairs = zip(self.lengths, self.goals, strict=True)
            return tuple(goal.power_w(length) if goal else math.inf for length, goal in pairs)
        return tuple(
            sd(noise_mechanism(self.hide.energy_wh / length.hours, self.level)) for length in self.lengths
        )


@dataclass(frozen=True)
class NestedAnswer:
    """The best shares, a single stream of the finest length, and whether sharing is possible and better."""

    question: NestedQuestion
    best: Division
    single: Division
    is_better: bool
    is_possible: bool

    @property
    def text(self) -> str:
        """The configuration to paste."""
        question, chosen = self.question, self.best if self.is_better else self.single
        keys = {"privacy.hide": f'"{exact_text(question.hide.energy_wh)}Wh"'}
        keys["privacy.level"] = level_text(question.level)
        pairs = zip(chosen.lengths, chosen.shares, strict=True)
        shares = {length: share for length, share in pairs if share}
        names = [length.unit or format_duration(length.step_ms) for length in shares]
        if len(shares) > 1:
            parts = zip(names, shares.values(), strict=True)
            table = ", ".join(f'"{name}" = {exact_text(share)}' for name, share in parts)
            keys["privacy.shares"] = f"{{ {table} }}"
        else:
            keys["window.length"] = f'"{names[0]}"'
        if any(length.unit for length in shares):
            keys["window.timezone"] = f'"{question.timezone}"'
        return configuration_text(keys)


def noise_mechanism(radius_w: Fraction, level: Fraction) -> LInfLaplace:
    """Return the mechanism of one number on a fine lattice."""
    return LInfLaplace(level / radius_w, radius_w / _QUANTA, 1)


def solve(question: NestedQuestion) -> NestedAnswer:
    """Find the best shares, and compare them with one stream of the finest length. Raises ValueError."""
    _check(question)
    limits_w = question.limits_w()

    def largest_ratio(division: Division) -> float:
        """Return the largest ratio of a division's errors to their limits."""
        return max(watts / limit for watts, limit in zip(division.errors_w, limits_w, strict=True))

    divisions = [
        Division(question.lengths, shares, question.hide.energy_wh, question.level)
        for shares in _share_grid(len(question.lengths))
    ]
    single = next(division for division in divisions if division.shares[0] == 1)
    best = min(divisions, key=largest_ratio)
    answer = NestedAnswer(
        question,
        best,
        single,
        is_better=largest_ratio(best) < largest_ratio(single),
        is_possible=not any(question.goals) or largest_ratio(best) <= 1,
    )
    try:
        config.parse(answer.text)
    except ConfigError as refusal:
        raise ValueError(f"lengths that nest in {question.timezone}: {refusal.text}") from None
    return answer


def _check(question: NestedQuestion) -> None:
    """Raise ValueError for a question that has no answer."""
    if len(question.lengths) < 2 or not all(length.is_one for length in question.lengths):
        raise ValueError("two or more of 15min, half-hour, hour, day and month, such as half-hour,day,month")
    if any(fine.step_ms >= coarse.step_ms for fine, coarse in pairwise(question.lengths)):
        raise ValueError("lengths from fine to coarse, such as half-hour,day,month")
    if question.goals and len(question.goals) != len(question.lengths):
        raise ValueError("an error for each length, such as any,0.7kWh,1.5kWh")


def _share_grid(length_count: int) -> Iterator[tuple[Fraction, ...]]:
    """Yield all shares in whole steps that add up to one, with at least one step for the finest length."""

    def distribute(places: int, steps: int) -> Iterator[tuple[int, ...]]:
        """Yield all ways to distribute `steps` steps over `places` places."""
        if places == 1:
            yield (steps,)
            return
        for given_steps in range(steps + 1):
            for tail in distribute(places - 1, steps - given_steps):
                yield (given_steps, *tail)

    for steps in distribute(length_count, LEVEL_PARTS):
        if steps[0]:
            yield tuple(Fraction(step, LEVEL_PARTS) for step in steps)


# In words and as JSON -------------------------------------------------------------------------------


def as_text(answer: NestedAnswer) -> str:
    """Return the answer as text: its errors, its configuration, and the next step."""
    question = answer.question
    shares = ", ".join(length.title for length in question.lengths)
    parts = say("plan.hide", change=question.hide.title), say("plan.share", share=shares)
    verdict = "plan.nested_possible" if answer.is_possible else "plan.nested_impossible"
    choice = say("plan.nested_is_better" if answer.is_better else "plan.nested_is_single")
    head = f"{say(verdict, question=say('plan.join').join(parts))} {choice}"
    heads = [say(f"plan.nested_{name}") for name in ("share", "nested", "single", "goal")]
    lines = [wrap_text(head), "", say("plan.nested_costs"), _row_text("", *heads)]
    goals = question.goals or (None,) * len(question.lengths)
    rows = zip(
        question.lengths, answer.best.shares, answer.best.errors_w, answer.single.errors_w, goals, strict=True
    )
    for length, share, error_w, single_w, goal in rows:
        cells = localise(exact_text(share)), error_text(error_w, length), error_text(single_w, length)
        lines.append(_row_text(length.title, *cells, goal.text if goal else "-"))
    hides = say(
        "plan.nested_hides", energy=energy_text(question.hide.energy_wh), level=full_text(question.level)
    )
    return "\n".join([*lines, "", hides, "", *paste_lines(answer.text)])


def _row_text(name: str, share: str, nested_error: str, single_error: str, goal: str) -> str:
    return f"  {name:<16}{share:>8}{nested_error:>14}{single_error:>16}{goal:>12}"


def as_json(answer: NestedAnswer) -> str:
    """Return the answer as JSON: errors as mean powers in W, and exact numbers as text."""
    question = answer.question
    document: dict[str, Any] = {
        "hides_wh": str(question.hide.energy_wh),
        "level": str(question.level),
        "possible": answer.is_possible,
        "nested_is_better": answer.is_better,
        "lengths": _row_facts(answer),
        "configuration": answer.text,
    }
    return json.dumps(document, indent=2)


def _row_facts(answer: NestedAnswer) -> Sequence[dict[str, Any]]:
    best, single = answer.best, answer.single
    columns = best.lengths, best.shares, best.errors_w, single.errors_w
    return [
        {
            "share": length.name,
            "part_of_level": str(share),
            "error_w": shorten(error_w),
            "error_of_one_stream_w": shorten(single_w),
        }
        for length, share, error_w, single_w in zip(*columns, strict=True)
    ]
