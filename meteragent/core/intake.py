"""The intake, which turns messages into readings of meters.

A message may hold several readings. They are processed in time order, and each is counted under its outcome.
A message may be acknowledged once the tokens of all its readings have been given back. For a meter with
phases, a reading of a phase may complete a new sum of the phases, which is then the meter's reading.
"""

from collections.abc import Iterable
from typing import NamedTuple

from meteragent.core.phases import Phases, phases_of
from meteragent.core.share import Share
from meteragent.core.stream import Stream
from meteragent.core.timeline import Outcome, Pending, Timeline
from meteragent.core.zone import ZoneWatch
from meteragent.domain import identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Token
from meteragent.domain.units import Kind


class MeterReading(NamedTuple):
    """A reading with its meter and phase."""

    meter: str
    phase: str | None
    reading: Pending


class Intake:
    """The decoder of a stream's messages, together with the phases of each meter.

    `shares` is True as soon as a token may be a `Share`.
    """

    def __init__(self, stream: Stream) -> None:
        self.shares = bool(stream.source.phases)
        self._stream = stream
        self._phases: dict[str, Phases] = {}
        self._origins: dict[str, tuple[str, str | None]] = {}
        self._zones = ZoneWatch() if stream.local_times else None

    def take(
        self, messages: Iterable[Message], counts: Counts, free_tokens: list[Token]
    ) -> list[MeterReading]:
        """Return the readings of messages that arrived in the same millisecond.

        Refused messages and replaced readings are counted, and their tokens are appended to `free_tokens`.
        Messages that waited in a broker arrive together. If several readings of a meter or phase are stamped
        with the same time on arrival, only the last one counts: a power reading holds from then on; a
        register reading includes the use before it; and only the last interval reading is known to describe
        an interval that has just ended.
        """
        items: list[MeterReading] = []
        arrivals: dict[tuple[str, str | None, int], MeterReading] = {}
        for message in messages:
            try:
                meter, phase, readings = self.read(message)
            except PayloadError as error:
                counts.add(error.reason)
                free_tokens.append(message.token)
                continue
            for reading in readings:
                if not reading.stamped:
                    items.append(MeterReading(meter, phase, reading))
                    continue
                key = meter, phase, reading.time_ms
                if (replaced_item := arrivals.pop(key, None)) is not None:
                    counts.add("replaced")
                    free_tokens.append(replaced_item.reading.token)
                arrivals[key] = MeterReading(meter, phase, reading)
        return items + sorted(arrivals.values(), key=lambda item: item.reading.time_ms) if arrivals else items

    def read(self, message: Message) -> tuple[str, str | None, list[Pending]]:
        """Return the meter, phase and readings of a message.

        Raises PayloadError if the message is refused.
        """
        topic, payload, retain, received_ms, token = message
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._stream.max_payload:
            raise PayloadError("refused_size")
        origin = self._origins.get(topic) or self._origin(topic)
        decoded = self._stream.decode(payload)
        if not decoded:
            raise PayloadError("refused_missing")
        newest_ms = decoded[-1].time_ms if self._zones is not None else None
        if self._zones is not None and newest_ms and self._zones.is_off(origin, newest_ms, received_ms):
            raise PayloadError("refused_zone")
        if len(decoded) > 1:
            token, self.shares = Share((token,), len(decoded)), True
        readings: list[Pending] = []
        for time_ms, value_u in decoded:
            # A negative time is relative to the arrival; a reading without a time gets the time of its
            # arrival.
            if time_ms is None or time_ms < 0:
                readings.append(Pending(received_ms + (time_ms or 0), value_u, token, stamped=True))
            else:
                readings.append(Pending(time_ms, value_u, token))
        if len(readings) > 1:
            readings.sort(key=lambda reading: reading.time_ms)
        return *origin, readings

    def _origin(self, topic: str) -> tuple[str, str | None]:
        """Return the meter and phase that a topic names, and cache them; a full cache is emptied first.

        Raises PayloadError if the topic names no meter of this stream and shard, or if the meter would leave
        under a name that is not allowed in a topic.
        """
        source = self._stream.source
        origin = source.place(topic)
        if origin is None:
            raise PayloadError("refused_topic")
        if self._stream.pseudonym_key is None and not identity.holds_name(origin[0]):
            raise PayloadError("refused_name")
        if not source.holds(origin[0]):
            raise PayloadError("other_shard")
        if len(self._origins) >= self._stream.max_meters * max(1, len(source.phases)):
            self._origins.clear()
            if self._zones is not None:
                self._zones.clear()
        self._origins[topic] = origin
        return origin

    def accept(
        self, meter: str, phase: str, timeline: Timeline, reading: Pending
    ) -> tuple[Outcome, list[Token], Pending | None]:
        """Add a phase's reading to its meter; return the outcome, the freed tokens and the sum.

        The sum is None if the reading completes no new sum, or if a sum of registers is not accepted.
        """
        phases = self._phases.get(meter)
        if phases is None:
            phases = self._phases[meter] = phases_of(self._stream.source.phases, self._stream.terms)
        outcome, total, free_tokens = phases.accept(phase, reading)
        if outcome is None:
            return timeline.refusal(reading.time_ms), free_tokens, None
        if outcome is Outcome.ACCEPTED and (total is None or self._stream.terms.kind is Kind.REGISTER):
            timeline.note_activity(reading.time_ms)
        if total is None:
            return outcome, free_tokens, None
        sum_outcome, tokens = timeline.replace_sum(total)
        if sum_outcome is not Outcome.ACCEPTED and self._stream.terms.kind is Kind.REGISTER:
            # The message was redelivered after a restart, and its sum has already been counted.
            return outcome, [*free_tokens, *tokens], None
        return sum_outcome, [*free_tokens, *tokens], total

    def forget(self, meter: str) -> list[Token]:
        """Forget a meter's phases; return the freed tokens."""
        phases = self._phases.pop(meter, None)
        return [] if phases is None else phases.forget()
