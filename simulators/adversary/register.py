"""Measure how well an attacker who has the exact trace detects a change in a register with whole steps.

A home may once use a little more energy; this is the change. The home's register shows whole steps, so the
change shifts the register for ever, and about half of all later slots differ by a step. The attacker knows
the mechanism, the time of the change and, to the last digit, the energy used without the change. The best
possible test is a likelihood-ratio test on all slots of the month.

The register is read at the ends of the slots. The cost of the change, in levels, is the sum of epsilon
|difference| over all slots: the largest log-odds that an output can show. This cost is compared with the
bound of `meteragent.domain.loads.level_in_all` (THEORY T.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Self

import numpy as np

from meteragent import config
from meteragent.domain import loads
from meteragent.domain.figures import exact_text
from meteragent.domain.terms import Terms
from meteragent.privacy import SeededBits, success_bound, success_in_all
from meteragent.privacy.statistics import clopper_pearson
from simulators.adversary.measure import ALARM, SURE
from simulators.adversary.scene import Floats, Integers

DAYS = 30
SLOT_MIN = 30
CHANGES_WH = {Fraction(1): Fraction("110.5"), Fraction(10): Fraction(115)}
"""For each step of the register, the change to detect: an odd number of half steps. Both are in Wh."""
_STREAM = """
source = {{ topic = "meters/{{meter}}/energy", kind = "register", unit = "Wh", dead_band = {step} }}
window = {{ lateness = "1min" }}
privacy = {{ accept = ["coarse_register"] }}
sink = {{ topic = "private/{{meter}}/energy" }}
"""
_BATCH = 500


@dataclass(frozen=True)
class Row:
    """What a register with steps of `step_wh` reveals about a single change of `moved_wh`.

    `slots` is the number of later slots that differ and `levels` the total cost, both averaged over homes;
    `worst_levels` is the largest total cost, and `bound` the upper bound on it. The attacker was right in a
    fraction `rate` of the trials (95%: `low` to `high`). `limit` is the success limit in % if only one slot
    changes by this energy, and `limit_of_month` the limit over all slots of the month. If `is_confirmed` is
    false, the bound or the limit of the month is refuted; a true limit is refuted with a probability of at
    most `SURE`.
    """

    step_wh: str
    moved_wh: str
    slots: float
    levels: float
    worst_levels: float
    bound: float
    rate: float
    low: float
    high: float
    limit: int
    limit_of_month: int
    is_confirmed: bool

    @classmethod
    def of(cls, step: Fraction, energy_wh: Floats, trials: int, seed: int) -> Self:
        """Attack a register with steps of `step` Wh; `energy_wh` has shape (homes, slots)."""
        moved_wh, terms = CHANGES_WH[step], terms_of(step)
        shifts = [shift(home_wh, step, moved_wh) for home_wh in energy_wh]
        levels = [float(terms.level_per_wh * int(np.abs(home_wh).sum())) for home_wh in shifts]
        trials_each = max(2, 2 * (trials // (2 * len(shifts))))
        count = trials_each * len(shifts)
        right_count = sum(_right(terms, home_wh, trials_each, seed + i) for i, home_wh in enumerate(shifts))
        low, high = clopper_pearson(right_count, count, ALARM)
        surely, _ = clopper_pearson(right_count, count, SURE)
        slots = energy_wh.shape[1]
        bound = float(loads.level_in_all(terms, moved_wh, slots))
        limits = (
            success_in_all(terms.mechanism, moved_wh),
            success_bound(terms.mechanism, [loads.distance_bound(terms, moved_wh), *[step] * (slots - 1)]),
        )
        limit, limit_of_month = (ceil(100 * chance) for chance in limits)
        return cls(
            step_wh=str(step),
            moved_wh=str(moved_wh),
            slots=float(np.mean([np.count_nonzero(home_wh[1:]) for home_wh in shifts])),
            levels=float(np.mean(levels)),
            worst_levels=max(levels),
            bound=bound,
            rate=right_count / count,
            low=float(low),
            high=float(high),
            limit=limit,
            limit_of_month=limit_of_month,
            is_confirmed=max(levels) <= bound and bool(100 * surely <= limit_of_month),
        )


def terms_of(step: Fraction) -> Terms:
    """Return the terms for a register in steps of `step` Wh, with the default preset."""
    return config.terms(config.parse(_STREAM.format(step=exact_text(step))).stream[0])


def confirm(loads_w: Floats, trials: int, seed: int) -> list[Row]:
    """Attack each register; `loads_w` holds the power of homes by the minute in W, (homes, days, 1440)."""
    energy_wh = loads_w.reshape(len(loads_w), -1, SLOT_MIN).sum(axis=2) / 60
    return [Row.of(step, energy_wh, trials, seed) for step in CHANGES_WH]


def shift(energy_wh: Floats, step: Fraction, moved_wh: Fraction) -> Integers:
    """Return the change of each slot's energy in Wh, (slots,), if `moved_wh` is added to the first slot."""
    totals_wh = np.cumsum(energy_wh)
    register, changed_register = (
        np.floor(sums / float(step)).astype(np.int64) for sums in (totals_wh, totals_wh + float(moved_wh))
    )
    return np.diff(changed_register - register, prepend=0) * int(step)


def _right(terms: Terms, shift_wh: Integers, trials: int, seed: int) -> int:
    """Count the right answers of the likelihood-ratio test; the change is present in every second trial."""
    quanta = (shift_wh[shift_wh != 0] / float(terms.quantum)).astype(np.int64)
    bits, right_count = SeededBits(seed), 0
    for first in range(0, trials, _BATCH):
        count = min(_BATCH, trials - first)
        noise = terms.mechanism.release(np.zeros((count * quanta.size, 1), np.int64), bits=bits)
        changed = (np.arange(first, first + count) % 2 == 1)[:, np.newaxis]
        values = noise.reshape(count, quanta.size) + changed * quanta
        score = (np.abs(values) - np.abs(values - quanta)).sum(axis=1)
        right_count += int(np.count_nonzero((score > 0) == changed[:, 0]))
    return right_count


def table(rows: Sequence[Row], homes: str, trials: int, seed: int) -> str:
    """Format the rows as a Markdown table with a heading."""
    heads = "step", "moved once", "later slots that differ", "levels", "in the worst home", "bound"
    heads_of_guesses = "right in % (95%)", "limit of one slot", "limit of the month"
    lines = [
        f"{homes}, a month of half hours that hide 110 Wh each, {trials:,} trials a row, seed {seed}.",
        "",
        f"| {' | '.join((*heads, *heads_of_guesses))} |",
        "|" + "---|" * len((*heads, *heads_of_guesses)),
    ]
    for row in rows:
        interval = f"{100 * row.rate:.1f} ({100 * row.low:.1f} to {100 * row.high:.1f})"
        mark = "" if row.is_confirmed else " **more than claimed**"
        levels = f"{row.levels:.1f} | {row.worst_levels:.1f} | {row.bound:.1f}"
        limits = f"{row.limit} | {row.limit_of_month}{mark}"
        moved = f"{float(Fraction(row.moved_wh)):g} Wh"
        lines.append(f"| {row.step_wh} Wh | {moved} | {row.slots:.0f} | {levels} | {interval} | {limits} |")
    return "\n".join(lines)
