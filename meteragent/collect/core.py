"""The effect of a received message: a row, a descriptor, a waiting record, or a refusal.

The core needs neither I/O nor a clock. `Core.take` checks messages in the order of their arrival. The core
remembers accepted descriptors, the descriptors that each stream's rows name, and how many records wait. The
caller commits the effects of messages before it passes further messages to the core. After a failed commit,
the caller builds a new core from the tables and passes the same messages to it.

The rules about the content of records and descriptors are in `consume`: `Record.parse`, `Descriptor.parse`
and `require_agreement`. The core adds further rules. `REASONS` lists the reasons of all refusals.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from meteragent.collect.topic import Place, Role, StreamTopic
from meteragent.consume.message import Descriptor, Record, load
from meteragent.consume.series import require_agreement
from meteragent.domain.errors import RecordError
from meteragent.domain.identity import holds_name
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.wire.descriptor import canonical

REASONS: Final = {
    "unreadable": "the message is neither a record nor a descriptor, or a field is missing or wrong",
    "too_large": "the message is larger than 64 KiB",
    "topic": "the topic belongs to no stream, or names a different meter from the message",
    "meter": "the meter is not in `accept.meters_file`",
    "descriptor": "the descriptor contradicts itself or an earlier one with the same id, or its values are "
    "not whole millionths of the unit",
    "terms": "the value, unit, duration, band or sd does not match the record's descriptor",
    "grid": "the slot does not start on its descriptor's grid",
    "range": "the value exceeds 64 bits in millionths of the unit",
    "early": "the slot starts too far ahead of this machine's clock",
    "old": "the slot is older than `accept.oldest`",
    "twice": "the table already has a different value for the interval",
    "overlap": "the slot overlaps another slot of the meter in the same stream",
    "no_descriptor": "too many records of the meter wait for a descriptor",
}
"""The meaning of each reason for a refusal."""

PAYLOAD_MAX: Final = 64 * 1024
NAME_MAX: Final = 128
ORIGIN_MAX: Final = 256
"""The largest number of characters of a topic that are stored with a refusal."""
WAITING_MAX: Final = 2_000
"""The largest number of waiting records per meter of a stream: 41 days of half-hourly records."""
_MICRO_MAX = 2**63 - 1
"""The largest absolute value in millionths of the unit; the views compute with 64-bit integers."""
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_METER_FIELDS = ("meter", "valid_from", "store")


class Message(NamedTuple):
    """A message as it arrived; its source needs `token` to acknowledge it.

    The topic and the payload are empty if an MQTT message was too large to be read. The payload of a NATS or
    Kafka message is cut to at most PAYLOAD_MAX + 1 bytes.
    """

    topic: str
    payload: bytes
    token: Any = None


class Row(NamedTuple):
    """A row of the table `record`: the private value of one slot, in quanta of the descriptor with id `d`.

    The slot lasts from `time_ms` to `until_ms`. For a band or a peak, these are the start and the end of the
    window. `band` is empty if slots are not bands. `draws` is the number of times that the agent drew noise
    for a peak, and 1 for other values.
    """

    stream: str
    meter: str
    time_ms: int
    band: str
    until_ms: int
    quanta: int
    d: str
    draws: int


class Waiting(NamedTuple):
    """A record as it arrived, whose descriptor `d` is unknown.

    `place` is the record's number in the table `waiting`, and 0 until the record is stored there.
    """

    d: str
    stream: str
    meter: str
    topic: str
    payload: bytes
    place: int = 0


@dataclass(slots=True)
class Batch:
    """The effects of messages, all of which are committed together.

    `descriptors` holds the new descriptors by id. `terms` holds the new pairs of a stream and the id of a
    descriptor that its rows name. `released` holds the places of records that no longer wait. `refused` is
    the number of refused messages by stream (empty if unknown) and reason. `refusals` has an entry for each
    refused message.
    """

    rows: list[Row] = field(default_factory=list)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)
    terms: set[tuple[str, str]] = field(default_factory=set)
    waiting: list[Waiting] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: "list[Refusal]" = field(default_factory=list)

    def refuse(self, refusal: "Refusal") -> None:
        """Count a refusal, and keep its origin."""
        self.refused[refusal.key] += 1
        self.refusals.append(refusal)

    def add(self, batch: "Batch") -> None:
        """Add the effects in another batch to this batch."""
        self.rows += batch.rows
        self.descriptors |= batch.descriptors
        self.terms |= batch.terms
        self.waiting += batch.waiting
        self.released += batch.released
        self.refused += batch.refused
        self.refusals += batch.refusals


class Refused(Exception):
    """The refusal of a message; `reason` is a key of REASONS, and `detail` may name the field."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class Refusal(NamedTuple):
    """A refused message. `origin` is the beginning of its topic, or its meter.

    `detail` states what is wrong. It may name a field, but never contains the field's value.
    """

    stream: str
    reason: str
    origin: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The stream and the reason, under which the refusal is counted."""
        return self.stream, self.reason


def latest(refusals: Iterable[Refusal]) -> dict[tuple[str, str], Refusal]:
    """Return the last refusal for each stream and reason."""
    return {refusal.key: refusal for refusal in refusals}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on accepted records.

    A slot may start at most `oldest_ms` before and `ahead_ms` after this machine's time. Its meter must be
    one of `meters`, unless `meters` is None.
    """

    oldest_ms: int = 400 * DAY_MS
    ahead_ms: int = DAY_MS
    meters: Collection[str] | None = None


class Core:
    """The rules by which messages are accepted or refused, and the state that the rules need.

    `descriptors` and `terms` are the content of the sink. `waiting` is the number of records that wait there,
    by stream and meter.
    """

    def __init__(
        self,
        streams: Sequence[StreamTopic],
        limits: Limits,
        descriptors: Iterable[Descriptor] = (),
        terms: Iterable[tuple[str, str]] = (),
        waiting: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self._streams, self._limits = tuple(streams), limits
        self._descriptors = {descriptor.id: descriptor for descriptor in descriptors}
        self._terms = set(terms)
        self._waiting = Counter(waiting or {})

    @property
    def filters(self) -> tuple[str, ...]:
        """The topic filters of all streams."""
        return tuple(topic_filter for stream in self._streams for topic_filter in stream.filters)

    def take(self, messages: Iterable[Message], now_ms: int) -> Batch:
        """Check messages in order, and return their effects."""
        batch = Batch()
        for message in messages:
            place = self._place(message.topic)
            try:
                if place is None or len(message.payload) > PAYLOAD_MAX:
                    reason = "too_large" if place is not None or not message.topic else "topic"
                    raise Refused(reason)  # noqa: TRY301 -- counted below
                self._add_effect(message, place, now_ms, batch)
            except Refused as refusal:
                stream = "" if place is None else place.stream
                batch.refuse(Refusal(stream, refusal.reason, _origin(message.topic), refusal.detail))
        if batch.descriptors and batch.waiting:
            self._settle(batch, now_ms)
        return batch

    def release(self, records: Sequence[Waiting], now_ms: int) -> Batch:
        """Return the effects of records that were waiting for a descriptor that is now known."""
        batch = self.take([Message(record.topic, record.payload) for record in records], now_ms)
        self._waiting.subtract((record.stream, record.meter) for record in records)
        batch.released = [record.place for record in records]
        return batch

    def _settle(self, batch: Batch, now_ms: int) -> None:
        """Check again the records that arrived before a descriptor in the same batch."""
        early_records = [record for record in batch.waiting if record.d in batch.descriptors]
        batch.waiting = [record for record in batch.waiting if record.d not in batch.descriptors]
        self._waiting.subtract((record.stream, record.meter) for record in early_records)
        batch.add(self.take([Message(record.topic, record.payload) for record in early_records], now_ms))

    @property
    def mixed(self) -> tuple[str, ...]:
        """The streams in which two slots of a meter could overlap.

        These are the streams with more than one grid and those with windows on a calendar.
        """
        return tuple(topic.stream for topic in self._streams if not self._has_one_grid(topic.stream))

    def _has_one_grid(self, stream: str) -> bool:
        all_terms = [self._descriptors[d] for name, d in self._terms if name == stream]
        grids = {(terms.length_ms, terms.step_ms, terms.space, terms.timezone) for terms in all_terms}
        return len(grids) <= 1 and all(terms.timezone is None for terms in all_terms)

    def _place(self, topic: str) -> Place | None:
        places = (stream.place(topic) for stream in self._streams)
        return next((place for place in places if place is not None), None)

    def _add_effect(self, message: Message, place: Place, now_ms: int, batch: Batch) -> None:
        """Add the effect of a message to `batch`. Raises Refused if the message breaks a rule."""
        if place.role is Role.DESCRIPTOR:
            if message.payload:  # an empty payload removes a retained message
                self._describe(message.payload, place, batch)
            return
        record = _record(message.payload)
        if record.meter != place.meter:
            raise Refused("topic")
        self._require_meter(place.meter)
        terms = self._descriptors.get(record.descriptor)
        if terms is None:
            self._keep_waiting(message, place, record.descriptor, batch)
            return
        row = _row(place.stream, record, terms)
        if row.time_ms > now_ms + self._limits.ahead_ms:
            raise Refused("early")
        if row.time_ms < now_ms - self._limits.oldest_ms:
            raise Refused("old")
        batch.rows.append(row)
        if (pair := (place.stream, terms.id)) not in self._terms:
            self._terms.add(pair)
            batch.terms.add(pair)

    def _require_meter(self, meter: str) -> None:
        if self._limits.meters is not None and meter not in self._limits.meters:
            raise Refused("meter")

    def _keep_waiting(self, message: Message, place: Place, d: str, batch: Batch) -> None:
        key = place.stream, place.meter
        if self._waiting[key] >= WAITING_MAX:
            raise Refused("no_descriptor")
        self._waiting[key] += 1
        batch.waiting.append(Waiting(d, *key, message.topic, message.payload))

    def _describe(self, payload: bytes, place: Place, batch: Batch) -> None:
        """Add a descriptor to `batch` unless it is known. Raises Refused if the descriptor breaks a rule."""
        facts = _load(payload)
        if facts.get("meter") != place.meter:
            raise Refused("topic")
        self._require_meter(place.meter)
        earlier_descriptor = self._descriptors.get(str(facts.get("id")))
        if earlier_descriptor is not None:
            if _shared(facts) != _shared(earlier_descriptor.facts):  # ids of 32 bits can be forged
                raise Refused("descriptor")
            return
        try:
            descriptor = Descriptor.parse(payload)
        except RecordError as error:
            raise Refused("descriptor", str(error)) from None
        if (descriptor.mechanism.quantum * MICRO).denominator != 1 or not _fits_jsonb(descriptor.facts):
            raise Refused("descriptor")
        self._descriptors[descriptor.id] = batch.descriptors[descriptor.id] = descriptor


def shared_facts(descriptor: Descriptor) -> str:
    """Return, as JSON, the facts that the descriptors of all meters under the same terms share."""
    return _shared(descriptor.facts).decode()


def _shared(facts: Mapping[str, Any]) -> bytes:
    return canonical({name: fact for name, fact in facts.items() if name not in _METER_FIELDS})


def _fits_jsonb(facts: Mapping[str, Any]) -> bool:
    """Return whether PostgreSQL can store facts, which must contain neither NUL nor a lone surrogate."""
    try:
        return rb"\u0000" not in _shared(facts)
    except UnicodeEncodeError:
        return False


def _origin(topic: str) -> str:
    """Return the beginning of a topic, with ? for characters that a sink cannot store."""
    return topic[:ORIGIN_MAX].replace("\0", "?").encode(errors="replace").decode()


def _detail(error: Exception) -> str:
    """Return what is wrong with a message.

    The message of an encoding error is not used, because it would contain the payload.
    """
    return str(error) if isinstance(error, RecordError) else "text that is not UTF-8"


def _load(payload: bytes) -> Mapping[str, Any]:
    try:
        return load(payload, float)
    except (RecordError, UnicodeError) as error:
        raise Refused("unreadable", _detail(error)) from None


def _record(payload: bytes) -> Record:
    """Parse a record. Raises Refused if it is not valid or the sink could not store one of its names."""
    try:
        record = Record.parse(payload)
    except (RecordError, UnicodeError) as error:
        raise Refused("unreadable", _detail(error)) from None
    if not holds_name(record.meter) or len(record.meter) > NAME_MAX or not _ID.fullmatch(record.descriptor):
        raise Refused("unreadable", "'meter' or 'd' is not a name")
    return record


def _row(stream: str, record: Record, terms: Descriptor) -> Row:
    """Return a record's row. Raises Refused if it contradicts its descriptor or its value is too large."""
    try:
        require_agreement(record, terms)
    except RecordError as error:
        raise Refused("terms", str(error)) from None
    # Time-zone data here may differ from the agent's: on a calendar, only overlapping slots are refused.
    is_on_grid = terms.timezone is not None or not record.time_ms % record.step_ms
    if not is_on_grid:
        raise Refused("grid")
    quanta = record.value / terms.mechanism.quantum
    if abs(record.value) * MICRO > _MICRO_MAX:
        raise Refused("range")
    until_ms = record.time_ms + record.step_ms
    band = record.band or ""
    return Row(stream, record.meter, record.time_ms, band, until_ms, quanta.numerator, terms.id, record.draws)


def decoded_facts(text: str) -> Descriptor:
    """Return the descriptor with the given stored facts (see `shared_facts`), which belongs to no meter."""
    return Descriptor.parse(json.loads(text) | {"meter": "", "valid_from": "1970-01-01T00:00:00Z"})
