"""The intake, which turns messages into readings of meters.

The readings of a message are processed in time order, and the outcome of each is counted. The message may be
acknowledged once the tokens of all its readings have been given back. If a reading of a phase completes a sum
of the phases, this sum is the meter's reading.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from meteragent.core.arrivals import Arrivals, OriginHistory
from meteragent.core.pending import Outcome, Pending, SharedToken
from meteragent.core.phases import make_phases, rules_of_phase
from meteragent.core.register_judgement import Judge
from meteragent.core.stream import Stream
from meteragent.core.timeline import Timeline
from meteragent.decode.unit import stated_unit
from meteragent.domain import identity
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Reading, Token
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

# NOTE: these six are guesses; timestamps and arrivals of many real meters with clocks would settle them.
SETTLED_MS = MINUTE_MS
"""How long the difference between times and arrivals must be steady before readings are refused."""
_NEAR_MS = 2_000
"""How far ahead of its arrival the time of a reading may be if the meter's clock is right."""
_ON_THE_WAY_MS = 10_000
"""How far behind its arrival the time of a reading may be if the meter's clock is right."""
_FAST_MS = 5_000
"""If the newest reading's time is further ahead of an arrival than this, the meter's clock was fast."""
_STEADY_MS = 10_000
"""The largest change of a difference that is still called steady; message delays cause such changes."""
_CLOCK_MS = 2 * MINUTE_MS
"""The largest error that a meter's clock is assumed to have."""


def clock_error_max_ms(terms: Terms) -> int:
    """Return how far a time may be off its arrival: the lateness plus a minute or, if more, 2% of a slot."""
    slot_ms = terms.length_ms // terms.n
    return terms.lateness_ms + max(slot_ms // 50, min(slot_ms, MINUTE_MS))


class Origin(NamedTuple):
    """The meter and phase that a topic names, and the history of what they sent."""

    meter: str
    phase: str | None
    history: OriginHistory


MeterReading = tuple[Origin, Pending | None]
"""A reading with its origin; instead of the reading, None if a gateway no longer hears the meter."""


class Intake:
    """The decoder of a stream's messages, which also passes the readings of phases on to be summed."""

    def __init__(self, stream: Stream, arrivals: Arrivals) -> None:
        self._stream = stream
        self._arrivals = arrivals
        self._judges = defaultdict[tuple[str, str | None], Judge](Judge)
        self._origins: dict[str, Origin] = {}
        self._zones = ZoneWatch()
        readings = self._readings = stream.terms.readings
        self._is_register = readings.kind is Kind.REGISTER
        self._rules_of_phase = rules_of_phase(readings, stream.source.subtracted)
        # A register reading that a gateway repeats is not stale: the register has not moved.
        self._kept_ms = readings.hold_ms if readings.kind is Kind.POWER else inf
        self._wrong_units: set[tuple[str, str | None]] = set()

    def take_messages(self, messages: Iterable[Message], free_tokens: list[Token]) -> list[MeterReading]:
        """Return the readings of messages that arrived in one millisecond; free tokens of refused ones."""
        items: list[MeterReading] = []
        # Messages that waited in a broker arrive together. Of the readings of a meter or phase that are
        # stamped with the same time, the last one is used: a power reading holds from then on; a register
        # reading includes the use before it; and only the last interval is known to have just ended.
        stamped_items: dict[tuple[str, str | None, int], tuple[Origin, Pending]] = {}
        units = self._stream.source.unit
        for message in messages:
            if units is not None and (place := units.place_of(message.topic)) is not None:
                self._note_unit(place, message.payload)
                free_tokens.append(message.token)
                continue
            try:
                origin, readings = self.read_message(message)
            except PayloadError as error:
                cached = self._origins.get(message.topic)
                self._arrivals.count_outcome(cached and cached.history, error.reason)
                free_tokens.append(message.token)
                if cached is not None and error.reason == "refused_stale":
                    items.append((cached, None))
                continue
            for reading in readings:
                if not reading.is_stamped:
                    items.append((origin, reading))
                    continue
                key = origin.meter, origin.phase, reading.time_ms
                if (replaced_item := stamped_items.pop(key, None)) is not None:
                    self._arrivals.counts.add("replaced")
                    free_tokens.append(replaced_item[1].token)
                stamped_items[key] = origin, reading
        return [*items, *sorted(stamped_items.values(), key=lambda item: item[1].time_ms)]

    def _note_unit(self, place: tuple[str, str | None], payload: bytes) -> None:
        """Note the unit that a program states for the readings of a meter or phase, even if retained."""
        self._arrivals.counts.add("other")
        unit = stated_unit(payload[: self._stream.max_payload])
        if unit in self._stream.source.units[place[1]]:
            self._wrong_units.discard(place)
        elif unit is not None and len(self._wrong_units) < self._stream.max_meters:
            self._wrong_units.add(place)

    def read_message(self, message: Message) -> tuple[Origin, list[Pending]]:
        """Return the origin and readings of a message. Raises PayloadError if the message is refused."""
        topic, payload, retain, received_ms, token = message
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._stream.max_payload:
            raise PayloadError("refused_size")
        origin = self._origins.get(topic) or self._origin_of(topic)
        if self._wrong_units and origin[:2] in self._wrong_units:
            raise PayloadError("refused_unit")
        decode = self._stream.decode
        decoded = (decode if callable(decode) else decode[origin.phase])(payload)
        if not decoded:
            raise PayloadError("refused_missing")
        newest_ms = decoded[-1].time_ms
        if self._stream.needs_zone and newest_ms and self._zones.is_off(origin[:2], newest_ms, received_ms):
            raise PayloadError("refused_zone")
        if len(decoded) > 1:
            token = SharedToken((token,), len(decoded))
        return origin, self._pending_readings(decoded, received_ms, token)

    def _pending_readings(self, decoded: Sequence[Reading], received_ms: int, token: Token) -> list[Pending]:
        """Return the readings in order of time. Raises PayloadError if a gateway repeats an old reading."""
        readings: list[Pending] = []
        for time_ms, value_u, seen_ms in decoded:
            if seen_ms is not None and received_ms - seen_ms >= self._kept_ms:
                raise PayloadError("refused_stale")
            if time_ms is None or time_ms < 0:
                since_ms = None if seen_ms is None or self._kept_ms is inf else min(seen_ms, received_ms)
                readings.append(
                    Pending(received_ms + (time_ms or 0), value_u, token, since_ms, is_stamped=True)
                )
            else:
                readings.append(Pending(time_ms, value_u, token))
        return sorted(readings, key=lambda reading: reading.time_ms) if len(readings) > 1 else readings

    def _origin_of(self, topic: str) -> Origin:
        """Return the origin that a topic names. Raises PayloadError if this agent must not release it."""
        source = self._stream.source
        place = source.place_of(topic)
        if place is None:
            raise PayloadError("refused_topic")
        meter, phase = place
        if self._stream.pseudonym_key is None and not identity.fits_segment(meter):
            raise PayloadError("refused_name")
        if not source.holds(meter):
            raise PayloadError("other_shard")
        if len(self._origins) >= self._stream.max_meters * max(1, len(source.phases)):
            self._origins.clear()
            self._zones.clear()
        origin = self._origins[topic] = Origin(meter, phase, self._arrivals.history_of(meter, phase))
        return origin

    def accept_reading(
        self, phase: str | None, timeline: Timeline, reading: Pending
    ) -> tuple[Outcome, list[Token], list[Pending]]:
        """Add a reading to its meter; return the outcome, the freed tokens and the meter's new readings."""
        if phase is None:
            return *timeline.accept_reading(reading), [reading]
        if timeline.phases is None:
            source = self._stream.source
            timeline.phases = make_phases(source.phases, self._stream.terms, source.subtracted)
        result = timeline.phases.accept_reading(phase, reading)
        for name in result.counters:
            self._arrivals.note_event(timeline.meter, name)
        if result.outcome is None:
            return timeline.refusal_outcome(reading.time_ms), result.free_tokens, []
        if result.outcome is Outcome.ACCEPTED and (self._is_register or not result.sums):
            timeline.note_activity(reading.time_ms)
        sums, outcome, free_tokens = timeline.add_sums(result)
        # After a restart, messages come again, and a sum of registers may be refused as integrated already.
        return result.outcome if self._is_register else outcome, free_tokens, sums

    def judge_reading(self, origin: Origin, reading: Pending | None, sums: Sequence[Pending]) -> None:
        """Note what is wrong with an accepted reading's value, and with the sums that it completes."""
        (meter, phase, history), readings = origin, self._readings
        if not self._is_register:
            if sums and not readings.low_u <= sums[-1].value_u <= readings.high_u:
                self._arrivals.note_clamped(meter)
            return
        items = [] if reading is None else [(phase, history, reading)]
        if phase is not None:
            items += [(None, self._arrivals.history_of(meter), total) for total in sums]
        for name, its_history, item in items:
            rules = readings if name is None else self._rules_of_phase
            for verdict in self._judges[meter, name].judge(item, rules, item.shift_u):
                self._arrivals.note_verdict(its_history, verdict)

    def undo_fast_clock(self, timeline: Timeline, reading: Pending, received_ms: int) -> list[Token] | None:
        """Drop the later readings if a reading shows that the meter's clock was fast and is now right.

        Return the freed tokens, or None if the clock was not fast. The decision depends on times alone.
        """
        newest_ms = timeline.newest_ms
        if newest_ms is None or newest_ms <= received_ms + _FAST_MS:
            return None
        if not -_ON_THE_WAY_MS <= reading.time_ms - received_ms <= _NEAR_MS:
            return None
        # Under the event clock, arrival times say nothing. Registers are judged by their values instead.
        if self._stream.terms.clock is not Clock.WALL or self._is_register:
            return None
        tokens = timeline.drop_pending_from(reading.time_ms)
        self._arrivals.counts.add("from_future", len(tokens))
        return tokens + timeline.forget_phases()

    def forget_meter(self, meter: str) -> None:
        """Forget the history of a meter."""
        self._arrivals.forget_meter(meter)
        self._origins.clear()
        for name in (None, *self._stream.source.phases):
            self._judges.pop((meter, name), None)


class ZoneWatch(dict[object, tuple[int, int]]):
    """A detector of meters whose local times are read in the wrong time zone.

    It maps each meter to the time since which the difference between times and arrivals has been steady, and
    to that difference. Messages that waited in a broker arrive at shorter intervals than those at which they
    were sent, so their times catch up with their arrivals. If the difference stays nearly constant for a
    minute, and is close to a whole number of hours, the meter's times are taken to be in another zone, and
    its messages are refused until the difference changes.
    """

    def is_off(self, meter: object, time_ms: int, received_ms: int) -> bool:
        """Note a reading's time; return whether the meter's times are steadily off by whole hours."""
        clock_error_ms = time_ms - received_ms
        since_ms, first_error_ms = self.get(meter, (received_ms, clock_error_ms))
        if abs(clock_error_ms - first_error_ms) > _STEADY_MS or received_ms < since_ms:
            since_ms, first_error_ms = received_ms, clock_error_ms
        self[meter] = since_ms, first_error_ms
        hours = (abs(first_error_ms) + HOUR_MS // 2) // HOUR_MS
        is_whole = hours > 0 and abs(abs(first_error_ms) - hours * HOUR_MS) <= _CLOCK_MS
        return is_whole and received_ms - since_ms >= SETTLED_MS
