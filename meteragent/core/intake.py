"""The intake, which turns messages into readings of meters.

A message may hold several readings. They are processed in time order, and each is counted under its outcome.
A message may be acknowledged once the tokens of all its readings have been given back. For a meter with
phases, a reading of a phase may complete a new sum of the phases, which is then the meter's reading.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import NamedTuple

from meteragent.core.arrivals import Arrival, Arrivals
from meteragent.core.judgement import Judge
from meteragent.core.phases import phases_of, rules_of_phase
from meteragent.core.register import RegisterTimeline
from meteragent.core.stream import Stream
from meteragent.core.timeline import Outcome, Pending, Phases, Timeline, add_sums
from meteragent.core.tokens import Share
from meteragent.decode.unit import stated_unit
from meteragent.domain import identity
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Reading, Token
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

SETTLED_MS = MINUTE_MS
"""The time for which the difference from the arrival must be steady before readings are refused."""
_NEAR_MS = 2_000
"""How far ahead of its arrival the time of a reading may be if the meter's clock is right."""
_ON_THE_WAY_MS = 10_000
"""How far behind its arrival the time of a reading may be if the meter's clock is right."""
_FAST_MS = 5_000
"""How far ahead of an arrival the newest reading's time is only if the meter's clock has been fast."""
_STEADY_MS = 10_000
"""The largest change in a difference that counts as steady; delays of messages cause such changes."""
_CLOCK_MS = 2 * MINUTE_MS
"""The largest assumed error of a meter's clock."""


def off_max_ms(terms: Terms) -> int:
    """Return how far a time may be from its arrival: the lateness, and a minute or 2% of a slot."""
    slot_ms = terms.length_ms // terms.n
    return terms.lateness_ms + max(slot_ms // 50, min(slot_ms, MINUTE_MS))


class Origin(NamedTuple):
    """The meter and phase that a topic names, and what has arrived of them."""

    meter: str
    phase: str | None
    arrival: Arrival


class MeterReading(NamedTuple):
    """A reading with its origin; None if a gateway says that it no longer hears the meter."""

    origin: Origin
    reading: Pending | None


class Intake:
    """The decoder of a stream's messages, and the way of a phase's readings to the sums of its meter.

    `shares` is True as soon as a token may be a `Share`.
    """

    def __init__(self, stream: Stream, arrivals: Arrivals) -> None:
        self.shares = bool(stream.source.phases)
        self._stream = stream
        self._arrivals = arrivals
        self._judges: dict[tuple[str, str | None], Judge] = {}
        self._phases: dict[str, Phases] = {}
        self._origins: dict[str, Origin] = {}
        self._zones = ZoneWatch() if stream.local_times else None
        readings = stream.terms.readings  # a register that is repeated has not moved
        self._rules_of_phase = rules_of_phase(readings, stream.source.subtracted)
        self._kept_ms = readings.hold_ms if readings.kind is Kind.POWER else inf
        self._wrong_units: set[tuple[str, str | None]] = set()

    def take(self, messages: Iterable[Message], free_tokens: list[Token]) -> list[MeterReading]:
        """Return the readings of messages that arrived in the same millisecond.

        Refused messages and replaced readings are counted, and their tokens are appended to `free_tokens`.
        Messages that waited in a broker arrive together. If several readings of a meter or phase are stamped
        with the same time on arrival, only the last one counts: a power reading holds from then on; a
        register reading includes the use before it; and only the last interval reading is known to describe
        an interval that has just ended.
        """
        items: list[MeterReading] = []
        arrivals: dict[tuple[str, str | None, int], tuple[Origin, Pending]] = {}
        units = self._stream.source.unit
        for message in messages:
            if units is not None and (place := units.place(message.topic)) is not None:
                self._note_unit(place, message.payload)
                free_tokens.append(message.token)
                continue
            try:
                origin, readings = self.read(message)
            except PayloadError as error:
                cached = self._origins.get(message.topic)
                self._arrivals.count(cached and cached.arrival, error.reason)
                free_tokens.append(message.token)
                if cached is not None and error.reason == "refused_stale":
                    items.append(MeterReading(cached, None))
                continue
            for reading in readings:
                if not reading.stamped:
                    items.append(MeterReading(origin, reading))
                    continue
                key = origin.meter, origin.phase, reading.time_ms
                if (replaced_item := arrivals.pop(key, None)) is not None:
                    self._arrivals.counts.add("replaced")
                    free_tokens.append(replaced_item[1].token)
                arrivals[key] = origin, reading
        stamped_items = sorted(arrivals.values(), key=lambda item: item[1].time_ms)
        return items + [MeterReading(*item) for item in stamped_items]

    def _note_unit(self, place: tuple[str, str | None], payload: bytes) -> None:
        """Note the unit that a program states of a meter's or phase's readings; a retained message counts."""
        self._arrivals.counts.add("other")
        unit = stated_unit(payload[: self._stream.max_payload])
        if unit in self._stream.source.units[place[1]]:
            self._wrong_units.discard(place)
        elif unit is not None and len(self._wrong_units) < self._stream.max_meters:
            self._wrong_units.add(place)

    def read(self, message: Message) -> tuple[Origin, list[Pending]]:
        """Return the origin and readings of a message.

        Raises PayloadError if the message is refused.
        """
        topic, payload, retain, received_ms, token = message
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._stream.max_payload:
            raise PayloadError("refused_size")
        origin = self._origins.get(topic) or self._origin(topic)
        if self._wrong_units and origin[:2] in self._wrong_units:
            raise PayloadError("refused_unit")
        decode = self._stream.decode
        decoded = (decode if callable(decode) else decode[origin.phase])(payload)
        if not decoded:
            raise PayloadError("refused_missing")
        newest_ms = decoded[-1].time_ms if self._zones is not None else None
        if self._zones is not None and newest_ms and self._zones.is_off(origin[:2], newest_ms, received_ms):
            raise PayloadError("refused_zone")
        if len(decoded) > 1:
            token, self.shares = Share((token,), len(decoded)), True
        return origin, self._pending(decoded, received_ms, token)

    def _pending(self, decoded: Sequence[Reading], received_ms: int, token: Token) -> list[Pending]:
        """Return the readings in order of time. Raises PayloadError if the gateway no longer hears the meter.

        A negative time is relative to the arrival; a reading without a time gets the time of its arrival.
        """
        readings: list[Pending] = []
        for time_ms, value_u, seen_ms in decoded:
            if seen_ms is not None and received_ms - seen_ms >= self._kept_ms:
                raise PayloadError("refused_stale")
            if time_ms is None or time_ms < 0:
                since_ms = None if seen_ms is None or self._kept_ms is inf else min(seen_ms, received_ms)
                readings.append(Pending(received_ms + (time_ms or 0), value_u, token, since_ms, stamped=True))
            else:
                readings.append(Pending(time_ms, value_u, token))
        if len(readings) > 1:
            readings.sort(key=lambda reading: reading.time_ms)
        return readings

    def _origin(self, topic: str) -> Origin:
        """Return the origin that a topic names, and cache it; a full cache is emptied first.

        Raises PayloadError if the topic names no meter of this stream and shard, or if the meter would leave
        under a name that is not allowed in a topic.
        """
        source = self._stream.source
        place = source.place(topic)
        if place is None:
            raise PayloadError("refused_topic")
        meter, phase = place
        if self._stream.pseudonym_key is None and not identity.holds_name(meter):
            raise PayloadError("refused_name")
        if not source.holds(meter):
            raise PayloadError("other_shard")
        if len(self._origins) >= self._stream.max_meters * max(1, len(source.phases)):
            self._origins.clear()
            if self._zones is not None:
                self._zones.clear()
        origin = self._origins[topic] = Origin(meter, phase, self._arrivals.of(meter, phase))
        return origin

    def accept(
        self, meter: str, phase: str | None, timeline: Timeline, reading: Pending
    ) -> tuple[Outcome, list[Token], list[Pending]]:
        """Add a reading to its meter; return the outcome, the freed tokens and the meter's new readings.

        These are the reading, or the new sums of phases that are accepted. What a phase's register did is
        counted.
        """
        if phase is None:
            return *timeline.accept(reading), [reading]
        phases = self._phases.get(meter)
        if phases is None:
            source = self._stream.source
            phases = phases_of(source.phases, self._stream.terms, source.subtracted)
            self._phases[meter] = phases
            if isinstance(timeline, RegisterTimeline):
                timeline.phases = phases
        result = phases.accept(phase, reading)
        for name in result.counters:
            self._arrivals.note_event(meter, name)
        if result.outcome is None:
            return timeline.refusal(reading.time_ms), result.free, []
        is_register = self._stream.terms.readings.kind is Kind.REGISTER
        if result.outcome is Outcome.ACCEPTED and (is_register or not result.sums):
            timeline.note_activity(reading.time_ms)
        sums, outcome, free_tokens = add_sums(timeline, result)
        # A sum of registers is refused if it was counted before a restart, after which messages come again.
        return result.outcome if is_register else outcome, free_tokens, sums

    def judge(self, origin: Origin, reading: Pending | None, sums: Sequence[Pending]) -> None:
        """Note what is wrong with the value of an accepted reading, and of its meter's new readings."""
        meter, phase, arrival = origin
        readings = self._stream.terms.readings
        if readings.kind is not Kind.REGISTER:
            if sums and not readings.holds(sums[-1].value_u):
                self._arrivals.note_clamped(meter)
            return
        items = [] if reading is None else [(phase, arrival, reading)]
        if phase is not None:
            items += [(None, self._arrivals.of(meter), total) for total in sums]
        for name, its_arrival, item in items:
            judge = self._judges.get((meter, name))
            if judge is None:
                judge = self._judges[meter, name] = Judge()
            rules = readings if name is None else self._rules_of_phase
            for verdict in judge.hear(item, rules, item.shift_u):
                self._arrivals.note_verdict(its_arrival, verdict)

    def set_right(
        self, meter: str, timeline: Timeline, reading: Pending, received_ms: int, free_tokens: list[Token]
    ) -> bool:
        """Drop what is later than a reading that shows that its meter's clock was fast and is right now.

        Return whether it shows that; tokens are appended to `free_tokens`. Under the event clock, arrivals
        show nothing. A register's readings are judged by their values. The choice depends on times alone.
        """
        terms, newest_ms = self._stream.terms, timeline.newest_ms
        was_fast = newest_ms is not None and newest_ms > received_ms + _FAST_MS
        if not was_fast or not -_ON_THE_WAY_MS <= reading.time_ms - received_ms <= _NEAR_MS:
            return False
        if terms.clock is not Clock.WALL or terms.readings.kind is Kind.REGISTER:
            return False
        index = bisect_left(timeline.pending, reading.time_ms, key=attrgetter("time_ms"))
        free_tokens += [pending.token for pending in timeline.pending[index:]]
        free_tokens += self.forget_phases(meter, timeline)
        self._arrivals.counts.add("from_future", len(timeline.pending) - index)
        del timeline.pending[index:]
        timeline.newest_ms = max(reading.time_ms, timeline.integrated_until_ms)
        if timeline.standing_ms is not None:  # what stood at the split was stamped in the future, too
            timeline.standing_ms = min(timeline.standing_ms, reading.time_ms)
        return True

    def forget(self, meter: str, timeline: Timeline) -> list[Token]:
        """Forget a meter's phases, and what has arrived of it; return the freed tokens."""
        self._arrivals.forget(meter)
        self._origins.clear()
        for name in (None, *self._stream.source.phases):
            self._judges.pop((meter, name), None)
        return self.forget_phases(meter, timeline)

    def end(self, meter: str, timelines: Mapping[str, Timeline], time_ms: int) -> list[Token]:
        """End what stands, because a gateway no longer hears the meter; return the freed tokens."""
        if (timeline := timelines.get(meter)) is None:
            return []
        pending, hold_ms = timeline.pending, self._stream.terms.readings.hold_ms
        is_power = self._stream.terms.readings.kind is Kind.POWER
        if is_power and pending and pending[-1].time_ms <= time_ms:
            since_ms = pending[-1].time_ms if pending[-1].since_ms is None else pending[-1].since_ms
            pending[-1] = pending[-1]._replace(since_ms=min(since_ms, time_ms - hold_ms))
        return self.forget_phases(meter, timeline)

    def forget_phases(self, meter: str, timeline: Timeline) -> list[Token]:
        """Forget the readings of a meter's phases; return the freed tokens."""
        if isinstance(timeline, RegisterTimeline):
            timeline.phases = None
        phases = self._phases.pop(meter, None)
        return [] if phases is None else phases.forget()


class ZoneWatch:
    """A detector of meters whose local times are read in the wrong time zone.

    A single time far from its arrival proves nothing, because its message may have waited in a broker. But
    messages that waited arrive at shorter intervals than those at which they were sent, so their times catch
    up with their arrivals. If the difference between times and arrivals stays nearly constant for a minute,
    and is close to a whole number of hours, the meter's times are taken to be in another zone. Each message
    of the meter is then refused until the difference changes. The state is in memory only: after a restart,
    the first minute is treated as at the first start.
    """

    __slots__ = ("_steady",)

    def __init__(self) -> None:
        self._steady: dict[object, tuple[int, int]] = {}

    def is_off(self, meter: object, time_ms: int, received_ms: int) -> bool:
        """Note the time of a reading; return whether the meter's times have been off by whole hours.

        The difference must have been steady for `SETTLED_MS` or longer.
        """
        off_ms = time_ms - received_ms
        since_ms, first_off_ms = self._steady.get(meter, (received_ms, off_ms))
        if abs(off_ms - first_off_ms) > _STEADY_MS or received_ms < since_ms:
            since_ms, first_off_ms = received_ms, off_ms
        self._steady[meter] = since_ms, first_off_ms
        hours = (abs(first_off_ms) + HOUR_MS // 2) // HOUR_MS
        is_whole = hours > 0 and abs(abs(first_off_ms) - hours * HOUR_MS) <= _CLOCK_MS
        return is_whole and received_ms - since_ms >= SETTLED_MS

    def clear(self) -> None:
        """Forget all meters."""
        self._steady.clear()
