"""Faults of meters and networks: what arrives of the readings that were sent, when, and stamped how.

Each reading may be dropped, sent twice, overtaken by the next or late. Besides, a home has episodes, at most
one of a kind a day: its clock runs wrong (skew) or stands wrong (jump) until it is set, readings are kept and
come all at once (burst), or none is sent (silence). Whether and how is a pure function of the seed, the home
and the true time of the reading alone: faults are the same in one batch, in many, or in another order.

Each fault is a row of the ground truth: home, true time of the reading, what. A reading that never left has
one row, of what lost it; so readings - dropped - silenced + duplicates are the messages that arrive.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.units import DAY_MS, MINUTE_MS
from simulators.chance import Floats, Integers, uniforms
from simulators.meter import Readings

Flags = NDArray[np.bool_]

NETWORK_MS: Final = 500
"""Whatever arrives takes at most so long where nothing is wrong."""
OVERTAKEN_MS: Final = 90_000
"""A reading out of order comes so much later: after the next of a meter that sends every minute."""
_AGAIN_MS: Final = 60_000
"""A second copy comes within so long of the first."""
_LATE_MS: Final = 5 * MINUTE_MS, 30 * MINUTE_MS
_LONGEST_MS: Final = 40 * MINUTE_MS
"""Of an episode."""
_SKEW: Final = 0.02
"""The largest error of a clock's rate."""
_JUMP_MS: Final = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """What arrives, in order of arrival: which reading it is, when it comes, and what it says.

    `sent` counts the readings given; `sent_ms` is their true time; all have shape (messages,).
    """

    sent: Integers
    sent_ms: Integers
    arrived_ms: Integers
    times_ms: Integers
    values: Floats

    def __len__(self) -> int:
        return len(self.sent)


class Row(NamedTuple):
    """A fault of the ground truth: a reading, by its home and true time, what was wrong, and its stamp."""

    home: int
    sent_ms: int
    what: str
    stamp_ms: int


class _Episode(NamedTuple):
    """For each time: whether it is in an episode, where that one begins and ends, and a number in (0, 1)."""

    inside: Flags
    begin_ms: Integers
    end_ms: Integers
    size: Floats


@dataclass(frozen=True, slots=True)
class Faults:
    """How often: `drop`, `duplicate`, `reorder` and `late` per reading, the others per home and day.

    Raises ValueError for what is no probability.
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
        for one in fields(self):
            if not 0 <= getattr(self, one.name) <= 1:
                raise ValueError(f"{one.name} is a probability, not {getattr(self, one.name)}")

    def strike(
        self, seed: int, home: int, sent_ms: Integers, readings: Readings
    ) -> tuple[Arrivals, list[Row]]:
        """What arrives of a home's readings, sent at these true times (Unix ms), and what was wrong.

        Raises:
            ValueError: there are not as many times as readings, or the seed is none.
        """
        if len(sent_ms) != len(readings):
            raise ValueError(f"{len(readings)} readings have as many times, not {len(sent_ms)}")
        chance = _per_reading(seed, "fault", home, sent_ms)
        silence, burst, skew, jump = (
            self._episode(seed, what, home, sent_ms) for what in ("silence", "burst", "skew", "jump")
        )
        drop = ~silence.inside & (chance[0] < self.drop)
        left = ~silence.inside & ~drop
        struck = {
            "silence": silence.inside,
            "drop": drop,
            "duplicate": left & (chance[1] < self.duplicate),
            "reorder": left & (chance[2] < self.reorder),
            "late": left & (chance[3] < self.late),
            "burst": left & burst.inside,
            "skew": left & skew.inside,
            "jump": left & jump.inside,
        }
        stamps_ms = readings.times_ms + _skewed_ms(skew, sent_ms) + _jumped_ms(jump)
        first_ms, second_ms = _arrival_ms(seed, home, sent_ms, struck, burst)
        copies = np.flatnonzero(left), np.flatnonzero(struck["duplicate"])
        sent = np.concatenate(copies)
        arrived_ms = np.concatenate([first_ms[copies[0]], second_ms[copies[1]]])
        order = np.lexsort((sent, arrived_ms))
        sent = sent[order]
        arrivals = Arrivals(sent, sent_ms[sent], arrived_ms[order], stamps_ms[sent], readings.values[sent])
        return arrivals, _rows(home, sent_ms, stamps_ms, struck)

    def _episode(self, seed: int, what: str, home: int, sent_ms: Integers) -> _Episode:
        """Of the day of each time, or of the day before where that one goes on over midnight."""
        inside = np.zeros(len(sent_ms), bool)
        begin_ms, end_ms, size = np.zeros_like(sent_ms), np.zeros_like(sent_ms), np.zeros(len(sent_ms))
        for ago in (1, 0):
            day = sent_ms // DAY_MS - ago
            happens, at, lasts, number = uniforms(seed, f"fault {what}", home, day)
            start_ms = day * DAY_MS + (at * DAY_MS).astype(np.int64)
            stop_ms = start_ms + 1 + (lasts * _LONGEST_MS).astype(np.int64)
            now = (happens < getattr(self, what)) & (start_ms <= sent_ms) & (sent_ms < stop_ms)
            begin_ms, end_ms = np.where(now, start_ms, begin_ms), np.where(now, stop_ms, end_ms)
            inside, size = inside | now, np.where(now, number, size)
        return _Episode(inside, begin_ms, end_ms, size)


NONE: Final = Faults(0, 0, 0, 0, 0, 0, 0, 0)
"""Nothing goes wrong: every reading arrives once, within `NETWORK_MS`."""


def count(rows: Sequence[Row]) -> dict[str, int]:
    """How many readings each fault struck, by its name; those that struck none are 0."""
    found = Counter(row.what for row in rows)
    return {one.name: found[one.name] for one in fields(Faults)}


def _per_reading(seed: int, stream: str, home: int, sent_ms: Integers) -> Floats:
    """Four numbers for each reading, by its home, its day and its millisecond of the day."""
    return uniforms(seed, stream, home, sent_ms // DAY_MS, sent_ms % DAY_MS)


def _skewed_ms(skew: _Episode, sent_ms: Integers) -> Integers:
    """How far a clock is off that runs wrong since the episode's begin."""
    rate = _SKEW * (2 * skew.size - 1)
    return np.where(skew.inside, np.floor(rate * (sent_ms - skew.begin_ms)), 0).astype(np.int64)


def _jumped_ms(jump: _Episode) -> Integers:
    """How far a clock is off that stands wrong."""
    return np.where(jump.inside, np.floor(_JUMP_MS * (2 * jump.size - 1)), 0).astype(np.int64)


def _arrival_ms(
    seed: int, home: int, sent_ms: Integers, struck: dict[str, Flags], burst: _Episode
) -> tuple[Integers, Integers]:
    """When the first and a second copy of each reading come."""
    network, again, late, _ = _per_reading(seed, "fault delay", home, sent_ms)
    least, most = _LATE_MS
    leaves_ms = np.where(struck["burst"], burst.end_ms, sent_ms)
    delay_ms = network * NETWORK_MS + OVERTAKEN_MS * struck["reorder"]
    delay_ms += (least + late * (most - least)) * struck["late"]
    first_ms = leaves_ms + delay_ms.astype(np.int64)
    return first_ms, first_ms + (again * _AGAIN_MS).astype(np.int64)


def _rows(home: int, sent_ms: Integers, stamps_ms: Integers, struck: dict[str, Flags]) -> list[Row]:
    """By true time, then by name."""
    return sorted(
        Row(home, int(sent_ms[at]), what, int(stamps_ms[at]))
        for what, flags in struck.items()
        for at in np.flatnonzero(flags)
    )
