"""What is true of a simulated world, and whether what left it agrees.

The energy of a slot is computed here from the readings as the meters stamped them, before any fault, by one
cumulative sum and not as the agent does; noise and dither are what an accumulator holds when its slot opens,
before any reading is in it. Where no fault can have touched a slot, what leaves is the sum of these and the
energy, rounded down to the quantum. Which slots those are errs on the safe side.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.domain import grid
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, MINUTE_MS
from meteragent.store.ledger import Spent
from simulators.chance import Integers
from simulators.fault import Row
from simulators.invariant import InvariantViolation, check
from simulators.meter import Readings

HARMLESS = frozenset({"duplicate", "reorder"})
"""Faults that cost nothing: what comes again is not counted, what comes within `lateness` is."""
_MARGIN_MS = 2 * MINUTE_MS
"""More than a step between readings and than what a clock is off."""


class Slot(NamedTuple):
    """A slot of a home."""

    home: int
    start_ms: int


@dataclass(frozen=True, slots=True)
class Account:
    """Everything that the books are made of, once all is over.

    `released` are the values that left, in quanta, in order; `begun` what was drawn for each slot, noise and
    dither, in the units of an accumulator; `readings` by home, before faults; `first_ms` where each home's
    first window starts; `counts` are the agent's counters; `messages` arrived, and `tokens` were
    acknowledged, in order.
    """

    terms: Terms
    released: Sequence[tuple[Slot, int]]
    begun: Mapping[Slot, int]
    spent: Sequence[Spent]
    readings: Mapping[int, Readings]
    rows: Sequence[Row]
    first_ms: Mapping[int, int]
    end_ms: int
    counts: Mapping[str, int]
    messages: int
    tokens: Sequence[int]

    def energies(self) -> dict[Slot, int]:
        """The exact energy of every slot that left, in millionths of the unit times milliseconds."""
        slots = sorted({slot for slot, _ in self.released})
        found: dict[Slot, int] = {}
        for home, readings in self.readings.items():
            mine = [slot for slot in slots if slot.home == home]
            start_ms = np.array([slot.start_ms for slot in mine], np.int64)
            energy = energy_u(readings, start_ms, start_ms + self.terms.step_ms, self.terms.hold_ms)
            found.update(zip(mine, energy.tolist(), strict=True))
        return found

    def touched(self) -> set[Slot]:
        """The slots that a fault may have touched: near a reading's true time, its stamp, or between."""
        step_ms = self.terms.step_ms
        found = set()
        for row in self.rows:
            if row.what in HARMLESS:
                continue
            from_ms = min(row.sent_ms, row.stamp_ms) - _MARGIN_MS
            to_ms = max(row.sent_ms, row.stamp_ms) + self.terms.hold_ms + _MARGIN_MS
            found |= {Slot(row.home, at) for at in range(grid.floor(from_ms, step_ms), to_ms, step_ms)}
        return found

    def check(self) -> int:
        """Hold everything against everything; returns in how many slots the exact mean was found.

        Raises:
            InvariantViolation: something does not hold.
        """
        self._check_readings()
        self._check_slots()
        self._check_ledger()
        return self._check_values()

    def _check_readings(self) -> None:
        """Each message has one fate and is acknowledged once."""
        fates = ("accepted", "late", "duplicate", "early", "retained")
        told = sum(n for name, n in self.counts.items() if name in fates or name.startswith("refused_"))
        check(self.counts["received"] == self.messages, "a message is not taken in", self.messages)
        check(told == self.messages, "a message has no fate", (told, self.messages))
        once = sorted(self.tokens) == list(range(self.messages))
        check(once, "a message is acknowledged twice or never")

    def _check_slots(self) -> None:
        """From each home's first window on, each slot leaves once, to after the last reading."""
        step_ms, length_ms = self.terms.step_ms, self.terms.length_ms
        times: dict[int, list[int]] = {home: [] for home in self.readings}
        for slot, _ in self.released:
            times[slot.home].append(slot.start_ms)
        for home, left in times.items():
            last_ms = max(left, default=0) + step_ms
            if sorted(left) != list(range(self.first_ms[home], last_ms, step_ms)):
                raise InvariantViolation("a slot left twice or never", home)
            if last_ms < self.end_ms or (last_ms - self.first_ms[home]) % length_ms:
                raise InvariantViolation("a home ends too early or within a window", home)
        released = self.counts["released"]
        check(released == len(self.released), "a counter is wrong", "released")

    def _check_ledger(self) -> None:
        """What was charged is what left, by home, day and window."""
        starts = {
            (f"m{slot.home}", grid.floor(slot.start_ms, self.terms.length_ms)) for slot, _ in self.released
        }
        windows = Counter((meter, grid.day(start_ms)) for meter, start_ms in starts)
        charged = {(one.meter, one.start_ms): (one.windows, one.epsilon_per_w) for one in self.spent}
        left = {key: (count, count * self.terms.epsilon_per_w) for key, count in windows.items()}
        if charged != left:
            raise InvariantViolation("the ledger is not what left")

    def _check_values(self) -> int:
        touched, energies, exact = self.touched(), self.energies(), 0
        if self.begun.keys() != energies.keys():
            raise InvariantViolation("noise was drawn for other slots than left")
        for slot, quanta in self.released:
            if slot in touched:
                continue
            exact += 1
            if quanta != (self.begun[slot] + energies[slot]) // self.terms.lattice(0):
                raise InvariantViolation("what left less its noise is not the exact mean", slot)
        return exact


def energy_u(readings: Readings, from_ms: Integers, to_ms: Integers, hold_ms: int) -> Integers:
    """The energy between times, a reading standing until the next one, for at most `hold_ms`.

    In millionths of the unit times milliseconds: exact.
    """
    begin_ms = readings.times_ms
    lasts_ms = np.minimum(np.diff(begin_ms, append=begin_ms[-1] + hold_ms), hold_ms)
    value_u = np.rint(readings.values * MICRO).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(value_u * lasts_ms)])

    def until(time_ms: Integers) -> NDArray[np.int64]:
        at = np.searchsorted(begin_ms, time_ms, "right") - 1
        stood_ms = np.minimum(time_ms - begin_ms[at], lasts_ms[at])
        return np.where(at < 0, 0, before[at] + value_u[at] * stood_ms)

    return np.asarray(until(to_ms) - until(from_ms), np.int64)


def first_window_ms(arrived_ms: Integers, stamps_ms: Integers, ahead_ms: int, length_ms: int) -> int:
    """Where a home's first window starts: the first boundary once a reading has come that is not refused."""
    first_ms = int(arrived_ms[stamps_ms <= arrived_ms + ahead_ms].min())
    return -(-first_ms // length_ms) * length_ms
