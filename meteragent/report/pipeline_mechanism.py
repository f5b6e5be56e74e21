"""The pipeline as a mechanism: a window's numbers enter as readings, and outputs are read from messages.

Theory of operation
-------------------
With this class, every test of a mechanism can test the whole core: accumulators, rounding, the draw for each
slot, and the messages. The core runs under a stream's terms for one meter, window by window. Three things
differ from a real stream: the decoder is simple, because payload formats do not affect the noise; there is no
`range`, because the windows to distinguish may be far apart (clamping only brings them closer); and all
windows of the grid are alike (under the terms of a day of 23 hours, every day has 23 hours).

Two readings at the start of a slot set its value: one for the first millisecond, and one for as much of the
rest as one reading can cover. The remainder of the slot is a gap, for which the two readings compensate
exactly, so `hold`, `interval` and `gap` are used as configured. With a register, two readings enclose the
first stretch of a slot, all energy of the slot is used between these readings, and there is no gap. The
shape is replaced by one whose values are plain sums.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.decode import wrap_single
from meteragent.domain.commit import Receiver, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import EpochGrid, iso_time
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message, Reading
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.mechanism.dithered import DitheredLaplace
from meteragent.privacy.space import Windows
from meteragent.report.shapes import row_of

_FAR_U = 1 << 100
"""A bound, in millionths, that is larger than any number in a test."""


class _BorrowedBits:
    """A caller's random bits, of which the core discards none: unused bits remain for the caller."""

    def __init__(self, bits: Bits) -> None:
        self.integer, self.array = bits.integer, bits.array

    def discard(self) -> None:
        """Do nothing: bits that were fetched in advance belong to the caller."""


class PipelineMechanism:
    """The core under given terms, as a mechanism on windows of n slots that makes the terms' promise.

    The values of a window are integers in multiples of `step`, so that a test includes the rounding. A step
    is a quarter of a quantum if that is a whole number of accumulator or register units (it is, unless slots
    last an odd number of milliseconds). Outputs are in quanta. The promise is that of `DitheredLaplace`.

    Under the metric l1, each slot is treated as a window with n = 1. Consecutive such windows are the slots
    of one real window, so noise shared by slots would show up as dependence between windows. A band without
    hours is left out.
    """

    rounding = DitheredLaplace.rounding
    """The rounding of slot values to whole quanta."""

    def __init__(self, terms: Terms) -> None:
        terms, self._price_u, self._offset = row_of(terms.shape).plain_sum(terms)
        self._terms = replace(terms, readings=replace(terms.readings, low_u=-_FAR_U, high_u=_FAR_U))
        self._registers = terms.readings.kind is Kind.REGISTER
        self._quantum_u = self._quantum_size(0) // terms.readings.interval_ms if self._registers else 0
        lattices = [self._quantum_u] if self._registers else map(self._quantum_size, range(terms.n))
        self._steps_per_quantum = math.gcd(4, *lattices)
        self._claim = DitheredLaplace(terms.epsilon, terms.quantum, self.n, self.step)
        self._slots = [index for index in range(terms.n) if terms.slot_ms(index)]

    def _quantum_size(self, slot_index: int) -> int:
        """Return the size of one quantum of a slot, in the unit of its readings times milliseconds."""
        return self._terms.steps_per_quantum[slot_index] // self._price_u

    @property
    def n(self) -> int:
        """The number of slots in a window."""
        return self._terms.slots_per_bound

    @property
    def quantum(self) -> Fraction:
        """The step of the lattice of outputs, in the unit."""
        return self._terms.quantum

    @property
    def step(self) -> Fraction:
        """The step of the lattice of inputs, in the unit."""
        return self.quantum / self._steps_per_quantum

    @property
    def space(self) -> Windows:
        """The space of the inputs."""
        return Windows(self.n, self.step)

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the privacy loss between windows at `distance`, according to the configured mechanism."""
        return self._claim.loss(distance)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(output | point) as promised."""
        return self._claim.log_mass(np.rint(outputs).astype(np.int64), point)

    def release(self, windows: ArrayLike, *, bits: Bits | None = None) -> NDArray[np.number]:
        """Release windows, in steps; return values in quanta. Raises ValueError if a slot has no record."""
        points = np.asarray(windows)
        numbers = np.concatenate([points.ravel(), np.zeros(-points.size % len(self._slots), np.int64)])
        rows = numbers.reshape(-1, len(self._slots)).tolist()
        source = _BorrowedBits(bits or BulkBits())
        core = Pipeline(self._stream(), Snapshot({}, {}, {}), Spending(), source, Counts())
        messages, length_ms = self._messages(rows), self._terms.length_ms
        end_ms = messages[-1].received_ms
        outgoing = core.feed(messages, end_ms, end_ms).commit.outgoing
        values = dict(self._record_value(message.payload) for message in outgoing if not message.retain)
        try:
            quanta = [values[key] for row in range(len(rows)) for key in self._keys((row + 1) * length_ms)]
        except KeyError:
            raise ValueError("a slot has no record") from None
        return np.array(quanta)[: points.size].reshape(points.shape)

    def _stream(self) -> Stream:
        return Stream(
            name="rehearsal",
            source=SourceTopic.parse("{meter}"),
            receivers=(Receiver("rehearsal", "{meter}"),),
            decode=wrap_single(_decode),
            schedule=Schedule(self._terms, EpochGrid(self._terms.length_ms)),
            ahead_ms=1,
            forget_ms=self._terms.length_ms,
            spread_ms=0,
            max_meters=1,
            max_payload=1000,
            secret=b"",
        )

    def _messages(self, rows: Sequence[Sequence[int]]) -> list[Message]:
        """Return messages with the readings of windows, the first at `length_ms`, and one later reading."""
        terms, length_ms = self._terms, self._terms.length_ms
        slots = [(index, terms.stretches[index][0]) for index in self._slots]
        parts = [
            (window * length_ms + from_ms, to_ms - from_ms, index, number)
            for window, row in enumerate(rows, 1)
            for (index, (from_ms, to_ms)), number in zip(slots, row, strict=True)
        ]
        readings = self._register_readings(parts) if self._registers else self._power_readings(parts)
        end_ms = (len(rows) + 1) * length_ms + terms.lateness_ms
        readings = {end_ms: readings[max(readings)] if self._registers else terms.readings.gap_u} | readings
        # A register's reading for the end of a slot must arrive before the slot closes.
        early_ms = 1 if self._registers else 0
        times_ms = [(time_ms, time_ms - early_ms) for time_ms in sorted(readings)]
        return [
            Message("m", b"%d %d" % (time_ms, readings[time_ms]), False, received_ms, None)
            for time_ms, received_ms in [*times_ms, (end_ms, end_ms)]
        ]

    def _register_readings(self, parts: Sequence[tuple[int, int, int, int]]) -> dict[int, int]:
        """Return register readings at both ends of each part (start, duration, slot, number) and its slot."""
        used_u = Counter[int]()
        for start_ms, stretch_ms, index, number in parts:
            stretches = self._terms.stretches[index]
            used_u[start_ms + stretch_ms] += number * (self._quantum_u // self._steps_per_quantum)
            used_u[start_ms] += 0
            used_u[start_ms - stretches[0][0] + stretches[-1][1]] += 0
        times_ms = sorted(used_u)
        return dict(zip(times_ms, accumulate(used_u[time_ms] for time_ms in times_ms), strict=True))

    def _power_readings(self, parts: Sequence[tuple[int, int, int, int]]) -> dict[int, int]:
        """Return readings that yield these parts (start, duration, slot, number), and gaps elsewhere."""
        gaps, carriers = {self._terms.length_ms - 1: self._terms.readings.gap_u}, dict[int, int]()
        for part in parts:
            self._carry(part, gaps, carriers)
        return {**gaps, **carriers}

    def _carry(self, part: tuple[int, int, int, int], gaps: dict[int, int], carriers: dict[int, int]) -> None:
        """Add the readings that give one slot its number, and a reading of `gap_u` before or after them."""
        start_ms, stretch_ms, index, number = part
        terms, power = self._terms, self._terms.readings.kind is Kind.POWER
        reach_ms = min(stretch_ms, terms.readings.hold_ms + 1 if power else terms.readings.interval_ms)
        integral = number * (self._quantum_size(index) // self._steps_per_quantum)
        integral -= terms.readings.gap_u * (terms.slot_ms(index) - reach_ms)
        # A spike is the reading for the first millisecond of a slot.
        steady, spike = divmod(integral, reach_ms - 1) if reach_ms > 1 else (0, integral)
        end_ms = start_ms + reach_ms
        if power:  # readings hold from their time on
            gaps[end_ms] = terms.readings.gap_u
            carriers |= {start_ms + 1: steady, start_ms: spike} if reach_ms > 1 else {start_ms: spike}
        else:  # readings cover the time before them
            gaps[start_ms] = terms.readings.gap_u
            carriers |= {end_ms: steady, start_ms + 1: spike}

    def _keys(self, start_ms: int) -> list[tuple[str, str | None]]:
        """Return the time and the band of each slot's record, in order."""
        if self._terms.places:
            return [(iso_time(start_ms), self._terms.places[index].name) for index in self._slots]
        return [(iso_time(start_ms + index * self._terms.step_ms), None) for index in self._slots]

    def _record_value(self, payload: bytes) -> tuple[tuple[str, str | None], float]:
        """Return a record's time, band and value in quanta; a value on the lattice is an integer."""
        record = json.loads(payload, parse_float=Decimal)
        quanta, excess_u = divmod(int(record["value"] * MICRO), self._terms.quantum_u)
        quanta -= self._offset
        value = quanta + excess_u / self._terms.quantum_u if excess_u else quanta
        return (record["t"], record.get("band")), value


def _decode(payload: bytes) -> Reading:
    time_ms, value_u = payload.split()
    return Reading(int(time_ms), int(value_u))
