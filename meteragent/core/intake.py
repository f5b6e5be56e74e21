"""Messages as readings of meters: what a message holds, and what its readings mean to their meter.

A message may hold several readings; they are taken in in order of their time, each is counted by what
became of it, and the message is free when all of them are. Of a meter with phases, each reading changes
the sum, which is what counts.
"""

from collections.abc import Iterable
from typing import NamedTuple

from meteragent.core.phases import Phases, phases_of
from meteragent.core.share import Share
from meteragent.core.stream import Stream
from meteragent.core.timeline import Outcome, Pending, Timeline
from meteragent.domain import identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Token
from meteragent.domain.units import Kind


class Found(NamedTuple):
    """A reading, and the meter and the phase that it is of."""

    meter: str
    phase: str | None
    reading: Pending


class Intake:
    """How a stream's messages are read; it keeps what stands of each meter's phases.

    `shares` says whether tokens may stand for more than a message.
    """

    def __init__(self, stream: Stream) -> None:
        self.shares = bool(stream.source.phases)
        self._stream = stream
        self._phases: dict[str, Phases] = {}
        self._places: dict[str, tuple[str, str | None]] = {}

    def take(self, messages: Iterable[Message], counts: Counts, free: list[Token]) -> list[Found]:
        """Return the readings of messages that arrived in one millisecond.

        `free` takes the tokens of the others. What waited in a broker arrives at once, and of readings that
        this stamps with the same time only their order tells which is the newest. The newest counts: a power
        that is used from then on, a register that holds what those before it held, the only interval that is
        known to have just ended.
        """
        found: list[Found] = []
        stamped: dict[tuple[str, str | None, int], Found] = {}
        for message in messages:
            try:
                meter, phase, readings = self.read(message)
            except PayloadError as error:
                counts.add(error.reason)
                free.append(message.token)
                continue
            for reading in readings:
                if not reading.stamped:
                    found.append(Found(meter, phase, reading))
                    continue
                key = meter, phase, reading.time_ms
                if (older := stamped.pop(key, None)) is not None:
                    counts.add("replaced")
                    free.append(older.reading.token)
                stamped[key] = Found(meter, phase, reading)
        return found + sorted(stamped.values(), key=lambda one: one.reading.time_ms) if stamped else found

    def read(self, message: Message) -> tuple[str, str | None, list[Pending]]:
        """The meter, its phase and the readings in a message; raises PayloadError when there are none."""
        topic, payload, retain, received_ms, token = message
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._stream.max_payload:
            raise PayloadError("refused_size")
        place = self._places.get(topic) or self._place(topic)
        found = self._stream.decode(payload)
        if not found:
            raise PayloadError("refused_missing")
        if len(found) > 1:
            token, self.shares = Share((token,), len(found)), True
        readings: list[Pending] = []
        for time_ms, value_u in found:
            if time_ms is None or time_ms < 0:
                readings.append(Pending(received_ms + (time_ms or 0), value_u, token, stamped=True))
            else:
                readings.append(Pending(time_ms, value_u, token))
        if len(readings) > 1:
            readings.sort(key=lambda reading: reading.time_ms)
        return *place, readings

    def _place(self, topic: str) -> tuple[str, str | None]:
        """The meter and the phase that a topic names, worked out once; raises PayloadError for another's."""
        source = self._stream.source
        place = source.place(topic)
        if place is None:
            raise PayloadError("refused_topic")
        if self._stream.pseudonym_key is None and not identity.holds_name(place[0]):
            raise PayloadError("refused_name")
        if not source.holds(place[0]):
            raise PayloadError("other_shard")
        if len(self._places) >= self._stream.max_meters * max(1, len(source.phases)):
            self._places.clear()
        self._places[topic] = place
        return place

    def accept(
        self, meter: str, phase: str, timeline: Timeline, reading: Pending
    ) -> tuple[Outcome, list[Token], Pending | None]:
        """Give a phase's reading to its meter: what became of it, what is free by that, and the sum."""
        phases = self._phases.get(meter)
        if phases is None:
            phases = self._phases[meter] = phases_of(self._stream.source.phases, self._stream.terms)
        outcome, total, free = phases.hear(phase, reading)
        if outcome is None:
            return timeline.refusal(reading.time_ms), free, None
        if outcome is Outcome.ACCEPTED and (total is None or self._stream.terms.kind is Kind.REGISTER):
            timeline.hear(reading.time_ms)
        if total is None:
            return outcome, free, None
        counted, more = timeline.revise(total)
        if counted is not Outcome.ACCEPTED and self._stream.terms.kind is Kind.REGISTER:
            return outcome, [*free, *more], None  # told again after a stop: the sum is from before
        return counted, [*free, *more], total

    def forget(self, meter: str) -> list[Token]:
        """Forget a meter's phases; what is free by that."""
        phases = self._phases.pop(meter, None)
        return [] if phases is None else phases.forget()
