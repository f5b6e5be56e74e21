"""The ground truth of a simulated world, and checks that the releases agree with it.

The energy of a slot is computed from the readings as the meters stamped them, before any fault, by one
cumulative sum and independently of the agent. When a slot opens, before any reading, its accumulator contains
only noise and dither. If no fault can have touched a slot, its record must be the sum of noise, dither and
energy, rounded down to the quantum. In unclear cases, a slot counts as touched.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.domain import grid
from meteragent.domain.units import MICRO, MINUTE_MS
from meteragent.store.commands import DayCharge
from simulators.chance import Integers
from simulators.fault import Row
from simulators.invariant import InvariantViolation, check
from simulators.meter import Readings

HARMLESS = frozenset({"duplicate", "reorder"})
"""Faults without effect: repetitions are ignored, and readings that arrive within `lateness` count."""
_MARGIN_MS = 2 * MINUTE_MS
"""A margin that exceeds the minute between readings plus the error with which a clock is set."""


class Slot(NamedTuple):
    """A slot, named by its home and its start in Unix ms."""

    home: int
    start_ms: int


class Rules(NamedTuple):
    """What a world's configuration means, computed without the agent.

    `hold_ms` is the longest time for which a reading stands, `quantum_u` the step of values in millionths of
    a W, and `charge` that of a window, as epsilon in 1/W.
    """

    length_ms: int
    step_ms: int
    hold_ms: int
    quantum_u: int
    charge: Fraction


@dataclass(frozen=True, slots=True)
class Account:
    """All data that is checked at the end of a run.

    `released` are the released values in quanta, in order; `initial` the noise and dither of each slot in
    the units of an accumulator; `spent` the ledger's charges; `readings` the readings by home, before faults;
    `rows` the faults; `first_ms` the start of each home's first window; `end_ms` the end of all readings;
    `counts` the agent's counters; `messages` the number of messages that arrived; and `tokens` the
    acknowledged tokens, in order.
    """

    rules: Rules
    released: Sequence[tuple[Slot, int]]
    initial: Mapping[Slot, int]
    spent: Sequence[DayCharge]
    readings: Mapping[int, Readings]
    rows: Sequence[Row]
    first_ms: Mapping[int, int]
    end_ms: int
    counts: Mapping[str, int]
    messages: int
    tokens: Sequence[int]

    def energies(self) -> dict[Slot, int]:
        """Compute the exact energy of every released slot, in millionths of the unit times milliseconds."""
        slots = sorted({slot for slot, _ in self.released})
        energies: dict[Slot, int] = {}
        for home, readings in self.readings.items():
            slots_of_home = [slot for slot in slots if slot.home == home]
            start_ms = np.array([slot.start_ms for slot in slots_of_home], np.int64)
            energy = energy_u(readings, start_ms, start_ms + self.rules.step_ms, self.rules.hold_ms)
            energies.update(zip(slots_of_home, energy.tolist(), strict=True))
        return energies

    def touched(self) -> set[Slot]:
        """Return the slots that a fault may have changed; `HARMLESS` faults change none.

        Such slots are near a faulty reading's true time, near its stamp, or between the two.
        """
        step_ms = self.rules.step_ms
        slots = set()
        for row in self.rows:
            if row.fault in HARMLESS:
                continue
            from_ms = min(row.sent_ms, row.stamp_ms) - _MARGIN_MS
            to_ms = max(row.sent_ms, row.stamp_ms) + self.rules.hold_ms + _MARGIN_MS
            slots |= {
                Slot(row.home, start_ms) for start_ms in range(grid.floor(from_ms, step_ms), to_ms, step_ms)
            }
        return slots

    def check(self) -> int:
        """Check everything; return the number of slots whose record is the exact mean plus noise.

        Raises InvariantViolation if a check fails.
        """
        self._check_readings()
        self._check_slots()
        self._check_ledger()
        return self._check_values()

    def _check_readings(self) -> None:
        """Check that the counted outcomes add up, and that each message is acknowledged exactly once."""
        outcomes = ("accepted", "late", "duplicate", "early", "retained")
        message_count = sum(
            n for name, n in self.counts.items() if name in outcomes or name.startswith("refused_")
        )
        check(self.counts["received"] == self.messages, "a message is not received", self.messages)
        check(message_count == self.messages, "a message is not counted once", (message_count, self.messages))
        is_complete = sorted(self.tokens) == list(range(self.messages))
        check(is_complete, "a message is acknowledged twice or never")

    def _check_slots(self) -> None:
        """Check that each slot of a home is released once, and that the agent counts all releases.

        The slots form whole windows, from the home's first window at least until the readings end.
        """
        step_ms, length_ms = self.rules.step_ms, self.rules.length_ms
        times: dict[int, list[int]] = {home: [] for home in self.readings}
        for slot, _ in self.released:
            times[slot.home].append(slot.start_ms)
        for home, starts_ms in times.items():
            end_ms = max(starts_ms, default=0) + step_ms
            if sorted(starts_ms) != list(range(self.first_ms[home], end_ms, step_ms)):
                raise InvariantViolation("a slot is released twice or never", home)
            if end_ms < self.end_ms or (end_ms - self.first_ms[home]) % length_ms:
                raise InvariantViolation("a home ends too early or within a window", home)
        released = self.counts["released"]
        check(released == len(self.released), "a counter is wrong", "released")

    def _check_ledger(self) -> None:
        """Check that the ledger has exactly the charges of the released windows, by home and day."""
        starts = {
            (f"m{slot.home}", grid.floor(slot.start_ms, self.rules.length_ms)) for slot, _ in self.released
        }
        windows = Counter((meter, grid.day(start_ms)) for meter, start_ms in starts)
        charged = {(line.meter, line.start_ms): (line.windows, line.epsilon_per_w) for line in self.spent}
        due_charges = {key: (count, count * self.rules.charge) for key, count in windows.items()}
        if charged != due_charges:
            raise InvariantViolation("the ledger differs from the releases")

    def _check_values(self) -> int:
        touched_slots, energies, exact = self.touched(), self.energies(), 0
        if self.initial.keys() != energies.keys():
            raise InvariantViolation("the slots with noise are not the released slots")
        for slot, quanta in self.released:
            if slot in touched_slots:
                continue
            exact += 1
            if quanta != (self.initial[slot] + energies[slot]) // (self.rules.quantum_u * self.rules.step_ms):
                raise InvariantViolation("a record minus its noise is not the exact mean", slot)
        return exact


def energy_u(readings: Readings, from_ms: Integers, to_ms: Integers, hold_ms: int) -> Integers:
    """Integrate readings over intervals; each reading holds until the next one, for at most `hold_ms`.

    The values are rounded to millionths of the unit. The result is exact for the rounded values, in
    millionths of the unit times milliseconds.
    """
    begin_ms = readings.times_ms
    lasts_ms = np.minimum(np.diff(begin_ms, append=begin_ms[-1] + hold_ms), hold_ms)
    value_u = np.rint(readings.values * MICRO).astype(np.int64)
    energy_before = np.concatenate([[0], np.cumsum(value_u * lasts_ms)])

    def energy_until(time_ms: Integers) -> NDArray[np.int64]:
        """Return the energy before each time."""
        index = np.searchsorted(begin_ms, time_ms, "right") - 1
        elapsed_ms = np.minimum(time_ms - begin_ms[index], lasts_ms[index])
        return np.where(index < 0, 0, energy_before[index] + value_u[index] * elapsed_ms)

    return np.asarray(energy_until(to_ms) - energy_until(from_ms), np.int64)


def first_window_ms(arrived_ms: Integers, stamps_ms: Integers, ahead_ms: int, length_ms: int) -> int:
    """Return the start of a home's first window.

    This is the first boundary at or after the arrival of the first reading that is stamped at most `ahead_ms`
    after it arrives.
    """
    first_ms = int(arrived_ms[stamps_ms <= arrived_ms + ahead_ms].min())
    return -(-first_ms // length_ms) * length_ms
