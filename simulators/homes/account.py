"""The ground truth of a simulated world, and checks that the releases agree with it.

The energy of a slot is computed from the readings as the meters stamped them, before any fault, by one
cumulative sum and independently of the agent. When a slot opens, before any reading, its accumulator contains
only noise and dither. If no fault can have touched a slot, its record must be the sum of noise, dither and
energy, rounded down to a watt. In unclear cases, a slot is treated as touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.units import MICRO, MINUTE_MS
from simulators.homes.chance import Integers
from simulators.homes.fault import Row
from simulators.homes.meter import Readings
from simulators.invariant import check

HARMLESS = frozenset({"duplicate", "reorder"})
"""Faults without effect: repetitions are ignored, and readings that arrive within `lateness` are used."""
STEP_MS, HOLD_MS = 10 * MINUTE_MS, 5 * MINUTE_MS
"""The length of a slot, and the longest time for which a reading applies; values are in whole watts."""
_MARGIN_MS = 2 * MINUTE_MS
"""A margin that exceeds the sum of the minute between readings and the error with which a clock is set."""


class Slot(NamedTuple):
    """A slot, named by its home and its start in Unix ms."""

    home: int
    start_ms: int


@dataclass(frozen=True, slots=True)
class Account:
    """All data that is compared at the end of a run.

    `released` are the released values in quanta, in order; `initial` the noise and dither of each slot in
    the units of an accumulator; `readings` the readings by home, before faults; and `rows` the faults.
    """

    released: Sequence[tuple[Slot, int]]
    initial: Mapping[Slot, int]
    readings: Mapping[int, Readings]
    rows: Sequence[Row]

    def energies(self) -> dict[Slot, int]:
        """Compute the exact energy of every released slot, in millionths of the unit times milliseconds."""
        slots = sorted({slot for slot, _ in self.released})
        energies: dict[Slot, int] = {}
        for home, readings in self.readings.items():
            slots_of_home = [slot for slot in slots if slot.home == home]
            start_ms = np.array([slot.start_ms for slot in slots_of_home], np.int64)
            energy = energy_u(readings, start_ms, start_ms + STEP_MS, HOLD_MS)
            energies.update(zip(slots_of_home, energy.tolist(), strict=True))
        return energies

    def touched(self) -> set[Slot]:
        """Return the slots that a fault may have changed; `HARMLESS` faults change none.

        Such slots are near a faulty reading's true time, near its stamp, or between the two.
        """
        slots = set()
        for row in self.rows:
            if row.fault in HARMLESS:
                continue
            from_ms = min(row.sent_ms, row.stamp_ms) - _MARGIN_MS
            to_ms = max(row.sent_ms, row.stamp_ms) + HOLD_MS + _MARGIN_MS
            slots |= {
                Slot(row.home, start_ms) for start_ms in range(from_ms // STEP_MS * STEP_MS, to_ms, STEP_MS)
            }
        return slots

    def check(self) -> int:
        """Check all records; return the number of slots whose record is the exact mean plus noise.

        Raises InvariantViolation if an untouched record is wrong, or if noise and records differ in slots.
        """
        touched_slots, energies = self.touched(), self.energies()
        check(self.initial.keys() == energies.keys(), "the slots with noise are not the released slots")
        exact = [(slot, quanta) for slot, quanta in self.released if slot not in touched_slots]
        for slot, quanta in exact:
            is_exact = quanta == (self.initial[slot] + energies[slot]) // (MICRO * STEP_MS)
            check(is_exact, "a record minus its noise is not the exact mean", slot)
        return len(exact)


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
