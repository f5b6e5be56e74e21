"""The pipeline as a mechanism: windows of numbers go in as readings, and are read back from what leaves.

So whatever tests mechanisms tests all of it: accumulators, rounding, the draws of slots one by one, the
messages. The core runs under the terms of a stream for one meter, its windows one after another, with three
things that a household has not: a decoder of its own, since what a device writes says nothing of noise; no
`range`, since windows that are told apart may be far apart (clamping only brings them nearer); and a grid on
which all windows are alike (on the calendar, one day of 23 hours after another).

A slot's number is put where one reading can reach: the first millisecond and as much as follows of the
slot's first stretch of time. The rest of the slot is gap, which those two values make up for, to the
millionth of a millisecond: so `hold`, `interval` and `gap` take part as they are. Of a register, the first
stretch of a slot is between two readings, and has all that is used in the slot; there is no gap.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.decode import one
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import Epoch, iso_time
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message, Reading
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Rounding, Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.dithered import DitheredLaplace
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.space import Windows

_FAR_U = 1 << 100
"""Beyond any number that is tried."""


class _Lent:
    """Bits of a caller, who may have more use for those that were fetched."""

    def __init__(self, bits: Bits) -> None:
        self.integer, self.array = bits.integer, bits.array

    def discard(self) -> None:
        """Leave what was fetched to the caller."""


class Rehearsal:
    """What leaves of windows under some terms: a mechanism on windows of n slots, with the terms' promise.

    Windows are integers in multiples of `step`, so that rounding takes part: half a quantum, of dithered
    terms a quarter, where that is a whole accumulator (it is, but for slots of odd milliseconds) or register.
    What leaves is in quanta. What is promised follows from the terms: of dithered ones it is that of
    `DitheredLaplace`.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = replace(terms, low_u=-_FAR_U, high_u=_FAR_U)
        self._registers = terms.kind is Kind.REGISTER
        lattices = [terms.quantum_u] if self._registers else map(terms.lattice, range(terms.n))
        self._dithered = terms.rounding == "dithered"
        self._per = math.gcd(4 if self._dithered else 2, *lattices)
        self._claim: LInfLaplace | DitheredLaplace = self._terms.mechanism
        if self._dithered:
            self._claim = DitheredLaplace(terms.epsilon, terms.quantum, terms.n, self.step)

    @property
    def rounding(self) -> Rounding:
        """How windows become whole quanta."""
        return self._terms.rounding

    @property
    def n(self) -> int:
        """Slots in a window."""
        return self._terms.n

    @property
    def quantum(self) -> Fraction:
        """The lattice of what leaves, in the unit."""
        return self._terms.quantum

    @property
    def step(self) -> Fraction:
        """What windows are counted in, in the unit."""
        return self.quantum / self._per

    @property
    def space(self) -> Windows:
        """The windows that it takes."""
        return Windows(self.n, self.step)

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the privacy lost between windows at `distance`, as the configured mechanism has it."""
        return self._claim.loss(distance)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(output | point) if all is right: as claimed, half-up of the rounded window."""
        window = np.asarray(point)
        if not self._dithered:
            window = round_half_up(window, self._per)
        return self._claim.log_mass(np.rint(outputs).astype(np.int64), window)

    def release(self, windows: ArrayLike, *, bits: Bits | None = None) -> NDArray[np.number]:
        """Windows of shape (.., n) in steps, as records have them in quanta; each window is charged.

        Raises:
            ValueError: a slot's record did not leave.
        """
        points = np.asarray(windows)
        rows = points.reshape(-1, self.n).tolist()
        source = _Lent(bits or BulkBits())
        core = Pipeline(self._stream(), Snapshot({}, {}, {}), Spending(), source, Counts())
        messages, length_ms = self._messages(rows), self._terms.length_ms
        end_ms = messages[-1].received_ms
        outgoing = core.feed(messages, end_ms, end_ms).commit.outgoing
        values = dict(self._value(message.payload) for message in outgoing if not message.retain)
        try:
            quanta = [values[key] for row in range(len(rows)) for key in self._keys((row + 1) * length_ms)]
        except KeyError:
            raise ValueError("a slot's record did not leave") from None
        return np.array(quanta).reshape(points.shape)

    def _stream(self) -> Stream:
        return Stream(
            name="rehearsal",
            source=SourceTopic.parse("{meter}"),
            sink_topic="private/{meter}",
            decode=one(_decode),
            schedule=Schedule(self._terms, Epoch(self._terms.length_ms)),
            ahead_ms=1,
            forget_ms=self._terms.length_ms,
            spread_ms=0,
            max_meters=1,
            max_payload=1000,
            secret=b"",
        )

    def _messages(self, rows: Sequence[Sequence[int]]) -> list[Message]:
        """The readings of windows one after another, the first of which starts at its length; and an end."""
        terms, length_ms = self._terms, self._terms.length_ms
        slots = [(place, terms.stretches(place)[0]) for place in range(terms.n)]
        parts = [
            (start_ms * length_ms + from_ms, to_ms - from_ms, place, number)
            for start_ms, row in enumerate(rows, 1)
            for (place, (from_ms, to_ms)), number in zip(slots, row, strict=True)
        ]
        readings = self._of_a_register(parts) if self._registers else self._of_powers(parts)
        end_ms = (len(rows) + 1) * length_ms + terms.lateness_ms
        readings = {end_ms: readings[max(readings)] if self._registers else terms.gap_u} | readings
        # A register is read at a boundary, and arrives before the slot closes there.
        early_ms = 1 if self._registers else 0
        times_ms = [(time_ms, time_ms - early_ms) for time_ms in sorted(readings)]
        return [
            Message("m", b"%d %d" % (time_ms, readings[time_ms]), False, received_ms, None)
            for time_ms, received_ms in [*times_ms, (end_ms, end_ms)]
        ]

    def _of_a_register(self, parts: Sequence[tuple[int, int, int, int]]) -> dict[int, int]:
        """Return readings around the parts (from, for so long, slot, number), and at the ends of slots."""
        used, register_u = Counter[int](), 0
        for at_ms, stretch_ms, place, number in parts:
            stretches = self._terms.stretches(place)
            used[at_ms + stretch_ms] += number * (self._terms.quantum_u // self._per)
            used[at_ms] += 0
            used[at_ms - stretches[0][0] + stretches[-1][1]] += 0
        readings = dict[int, int]()
        for at_ms in sorted(used):
            register_u += used[at_ms]
            readings[at_ms] = register_u
        return readings

    def _of_powers(self, parts: Sequence[tuple[int, int, int, int]]) -> dict[int, int]:
        """Return readings that say the parts (from, for so long, slot, number), and the gap's elsewhere."""
        silent, spoken = {self._terms.length_ms - 1: self._terms.gap_u}, dict[int, int]()
        for part in parts:
            self._speak(*part, silent, spoken)
        return {**silent, **spoken}

    def _speak(
        self,
        at_ms: int,
        stretch_ms: int,
        place: int,
        number: int,
        silent: dict[int, int],
        spoken: dict[int, int],
    ) -> None:
        """The readings of one slot; a silent one is that of the gap, wherever nothing is spoken."""
        terms, power = self._terms, self._terms.kind is Kind.POWER
        reach_ms = min(stretch_ms, terms.hold_ms + 1 if power else terms.interval_ms)
        sought = number * (terms.lattice(place) // self._per)
        sought -= terms.gap_u * (terms.slot_ms(place) - reach_ms)
        steady, first = divmod(sought, reach_ms - 1) if reach_ms > 1 else (0, sought)
        end_ms = at_ms + reach_ms
        if power:  # a reading stands from its time on
            silent[end_ms] = terms.gap_u
            spoken |= {at_ms + 1: steady, at_ms: first} if reach_ms > 1 else {at_ms: first}
        else:  # a reading covers what comes before its time
            silent[at_ms] = terms.gap_u
            spoken |= {end_ms: steady, at_ms + 1: first}

    def _keys(self, start_ms: int) -> list[tuple[str, str | None]]:
        """The time and the band of each slot's record, in order."""
        if self._terms.bands:
            return [(iso_time(start_ms), band.name) for band in self._terms.bands]
        return [(iso_time(start_ms + place * self._terms.step_ms), None) for place in range(self.n)]

    def _value(self, payload: bytes) -> tuple[tuple[str, str | None], float]:
        """A record's time, band and value in quanta: whole, unless it is off the lattice."""
        record = json.loads(payload, parse_float=Decimal)
        whole, rest = divmod(int(record["value"] * MICRO), self._terms.quantum_u)
        return (record["t"], record.get("band")), whole + rest / self._terms.quantum_u if rest else whole


def _decode(payload: bytes) -> Reading:
    time_ms, value_u = payload.split()
    return Reading(int(time_ms), int(value_u))
