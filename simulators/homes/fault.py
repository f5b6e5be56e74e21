"""Faults of meters and networks: which readings arrive, when, and with which stamps.

Each reading may be dropped, sent twice, overtaken by the next or late. In addition, a home has episodes, of
which at most one of each kind begins on a day: the meter's clock runs at a wrong rate (skew) or shows a wrong
time (jump) until it is set, readings are delayed and then arrive all at once (burst), or no reading is sent
(silence). Faults are a pure function of the seed, the home and the reading's true time, so batching and order
do not change them.

The ground truth has a row for each fault: the home, the reading's true time, the fault's name and the
reading's stamp. A reading that was never sent has one row, which names its cause, so the number of messages
that arrive is readings - drops - silences + duplicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.units import DAY_MS, MINUTE_MS
from simulators.homes.chance import Floats, Integers, uniforms
from simulators.homes.meter import Readings

Flags = NDArray[np.bool_]

NETWORK_MS: Final = 500
"""The longest delay of a message without a fault."""
OVERTAKEN_MS: Final = 90_000
"""The delay of a reading that arrives out of order. If the meter sends every minute, the next reading arrives
first."""
_COPY_MS: Final = 60_000
"""The longest time between the first and the second copy of a reading."""
_LATE_MS: Final = 5 * MINUTE_MS, 30 * MINUTE_MS
_LONGEST_MS: Final = 40 * MINUTE_MS
"""The longest duration of an episode."""
_SKEW: Final = 0.02
"""The largest error of a clock's rate."""
_JUMP_MS: Final = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Messages in order of arrival: their readings, true times, arrival times, stamps and values.

    `readings` holds the indices of the readings, `sent_ms` their true times, and `times_ms` their stamps. All
    have shape (messages,).
    """

    readings: Integers
    sent_ms: Integers
    arrived_ms: Integers
    times_ms: Integers
    values: Floats

    def __len__(self) -> int:
        return len(self.readings)


class Row(NamedTuple):
    """A fault in the ground truth: the reading's home and true time, the fault, and the reading's stamp."""

    home: int
    sent_ms: int
    fault: str
    stamp_ms: int


class _Episode(NamedTuple):
    """For each time: whether an episode is active, its beginning and end, and its random size in (0, 1)."""

    is_active: Flags
    begin_ms: Integers
    end_ms: Integers
    size: Floats


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of faults: the first four are per reading, and the others per home and day.

    Raises ValueError if a value is not a probability.
    """

    drop: float = 0.002
    duplicate: float = 0.002
    reorder: float = 0.002
    late: float = 0.001
    skew: float = 0.2
    jump: float = 0.2
    burst: float = 0.2
    silence: float = 0.2

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= 1:
                raise ValueError(f"{field.name} must be a probability, not {getattr(self, field.name)}")

    def strike(
        self, seed: int, home: int, sent_ms: Integers, readings: Readings
    ) -> tuple[Arrivals, list[Row]]:
        """Apply faults to a home's readings, sent at true times (Unix ms); return arrivals and faults.

        Raises ValueError if the numbers of times and readings differ, or if the seed is out of range.
        """
        if len(sent_ms) != len(readings):
            raise ValueError(f"{len(readings)} readings need as many times, not {len(sent_ms)}")
        chance = _draw_per_reading(seed, "fault", home, sent_ms)
        silence, burst, skew, jump = (
            self._draw_episode(seed, name, home, sent_ms) for name in ("silence", "burst", "skew", "jump")
        )
        drop = ~silence.is_active & (chance[0] < self.drop)
        is_sent = ~silence.is_active & ~drop
        flags_by_fault = {
            "silence": silence.is_active,
            "drop": drop,
            "duplicate": is_sent & (chance[1] < self.duplicate),
            "reorder": is_sent & (chance[2] < self.reorder),
            "late": is_sent & (chance[3] < self.late),
            "burst": is_sent & burst.is_active,
            "skew": is_sent & skew.is_active,
            "jump": is_sent & jump.is_active,
        }
        stamps_ms = readings.times_ms + _skew_error_ms(skew, sent_ms) + _jump_error_ms(jump)
        first_ms, second_ms = _arrival_ms(seed, home, sent_ms, flags_by_fault, burst)
        copies = np.flatnonzero(is_sent), np.flatnonzero(flags_by_fault["duplicate"])
        index = np.concatenate(copies)
        arrived_ms = np.concatenate([first_ms[copies[0]], second_ms[copies[1]]])
        order = np.lexsort((index, arrived_ms))
        index = index[order]
        arrivals = Arrivals(
            index, sent_ms[index], arrived_ms[order], stamps_ms[index], readings.values[index]
        )
        return arrivals, _make_rows(home, sent_ms, stamps_ms, flags_by_fault)

    def _draw_episode(self, seed: int, name: str, home: int, sent_ms: Integers) -> _Episode:
        """Return the episode, if any, that is active at each time; it began that day or the day before."""
        is_active = np.zeros(len(sent_ms), bool)
        begin_ms, end_ms, size = np.zeros_like(sent_ms), np.zeros_like(sent_ms), np.zeros(len(sent_ms))
        for days_ago in (1, 0):
            day = sent_ms // DAY_MS - days_ago
            chance, start, duration, number = uniforms(seed, f"fault {name}", home, day)
            start_ms = day * DAY_MS + (start * DAY_MS).astype(np.int64)
            stop_ms = start_ms + 1 + (duration * _LONGEST_MS).astype(np.int64)
            in_episode = (chance < getattr(self, name)) & (start_ms <= sent_ms) & (sent_ms < stop_ms)
            begin_ms = np.where(in_episode, start_ms, begin_ms)
            end_ms = np.where(in_episode, stop_ms, end_ms)
            is_active, size = is_active | in_episode, np.where(in_episode, number, size)
        return _Episode(is_active, begin_ms, end_ms, size)


NONE: Final = Faults(0, 0, 0, 0, 0, 0, 0, 0)
"""No faults: every reading arrives once, within `NETWORK_MS`."""


def count(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of readings that each fault affected, by the fault's name."""
    counts = Counter(row.fault for row in rows)
    return {field.name: counts[field.name] for field in fields(Faults)}


def _draw_per_reading(seed: int, stream: str, home: int, sent_ms: Integers) -> Floats:
    """Draw four numbers for each reading, keyed by its home, its day and its millisecond of the day."""
    return uniforms(seed, stream, home, sent_ms // DAY_MS, sent_ms % DAY_MS)


def _skew_error_ms(skew: _Episode, sent_ms: Integers) -> Integers:
    """Return the error, in ms, of a clock that has run at a wrong rate since the episode began."""
    rate = _SKEW * (2 * skew.size - 1)
    return np.where(skew.is_active, np.floor(rate * (sent_ms - skew.begin_ms)), 0).astype(np.int64)


def _jump_error_ms(jump: _Episode) -> Integers:
    """Return the error, in ms, of a clock that shows a wrong time during the episode."""
    return np.where(jump.is_active, np.floor(_JUMP_MS * (2 * jump.size - 1)), 0).astype(np.int64)


def _arrival_ms(
    seed: int, home: int, sent_ms: Integers, flags_by_fault: dict[str, Flags], burst: _Episode
) -> tuple[Integers, Integers]:
    """Return the arrival times of the first and the second copy of each reading, in Unix ms."""
    network, copy, lateness, _ = _draw_per_reading(seed, "fault delay", home, sent_ms)
    shortest_ms, longest_ms = _LATE_MS
    departure_ms = np.where(flags_by_fault["burst"], burst.end_ms, sent_ms)
    delay_ms = network * NETWORK_MS + OVERTAKEN_MS * flags_by_fault["reorder"]
    delay_ms += (shortest_ms + lateness * (longest_ms - shortest_ms)) * flags_by_fault["late"]
    first_ms = departure_ms + delay_ms.astype(np.int64)
    return first_ms, first_ms + (copy * _COPY_MS).astype(np.int64)


def _make_rows(
    home: int, sent_ms: Integers, stamps_ms: Integers, flags_by_fault: dict[str, Flags]
) -> list[Row]:
    """Return the rows of the ground truth, sorted by true time, then by the fault's name."""
    return sorted(
        Row(home, int(sent_ms[index]), name, int(stamps_ms[index]))
        for name, flags in flags_by_fault.items()
        for index in np.flatnonzero(flags)
    )
