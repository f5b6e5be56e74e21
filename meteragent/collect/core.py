"""What a received message means: a row, a descriptor, a record that waits, or a refusal. No I/O, no clock.

`Core.take` judges messages in the order of their arrival. It remembers the descriptors that it has accepted,
and nothing else of a message. The caller commits each `Batch` before it uses the core again. After a failed
commit, it builds a new core from the tables and has the same messages judged again.

Every rule about records is `consume`'s: `Record.parse`, `Descriptor.parse` and `require_agreement`. The core
adds rules of its own, each with the name of its refusal (`REASONS`).
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
    "topic": "the topic belongs to no stream, or names another meter than the message",
    "meter": "the meter is not on the list",
    "descriptor": "the descriptor contradicts itself or an earlier one with the same id, or its values are "
    "not whole millionths of the unit",
    "terms": "the value, unit, duration, band or sd does not match the record's descriptor",
    "grid": "the slot does not start where its descriptor's slots start",
    "range": "the value exceeds 64 bits in millionths of the unit",
    "early": "the slot begins too far ahead of this machine's clock",
    "old": "the slot is older than `accept.oldest`",
    "twice": "the table already has a different value for the interval",
    "overlap": "the slot overlaps another slot of the meter in the same stream",
    "no_descriptor": "too many records of the meter wait for a descriptor",
}
"""Every reason for a refusal, with its meaning."""

PAYLOAD_MAX: Final = 64 * 1024
NAME_MAX: Final = 128
ORIGIN_MAX: Final = 256
"""The number of characters of a topic that are kept with a refusal."""
WAITING_MAX: Final = 2_000
"""The largest number of records of a stream's meter that wait for a descriptor: 41 days of half hours."""
_MICRO_MAX = 2**63 - 1
"""The largest value in millionths, so that the views compute with 64 bits."""
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_OF_ONE_METER = ("meter", "valid_from", "store")


class Message(NamedTuple):
    """A message as it arrived; `token` is what its source needs to acknowledge it.

    A message that was too large to be read has neither topic nor payload.
    """

    topic: str
    payload: bytes
    token: Any = None


class Row(NamedTuple):
    """A row of the table `record`: the private value of one slot, in quanta of its descriptor `d`.

    `band` is empty if slots are not bands. `draws` is the number of draws of noise in a peak, otherwise 1.
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
    """A record whose descriptor `d` is unknown, as it arrived; `place` is where it waits in the table."""

    d: str
    stream: str
    meter: str
    topic: str
    payload: bytes
    place: int = 0


@dataclass(slots=True)
class Batch:
    """The effects of messages: all of them are committed together.

    `descriptors` are the new ones, and `terms` the new pairs of a stream and a descriptor that its rows name.
    `released` are the places of records that no longer wait.
    `refused` counts by stream (empty if unknown) and reason, and `refusals` has each message that is refused.
    """

    rows: list[Row] = field(default_factory=list)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)
    terms: set[tuple[str, str]] = field(default_factory=set)
    waiting: list[Waiting] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: "list[Refusal]" = field(default_factory=list)

    def refuse(self, refusal: "Refusal") -> None:
        """Count a refusal, and keep where it comes from."""
        self.refused[refusal.key] += 1
        self.refusals.append(refusal)

    def add(self, batch: "Batch") -> None:
        """Add the effects of further messages."""
        self.rows += batch.rows
        self.descriptors |= batch.descriptors
        self.terms |= batch.terms
        self.waiting += batch.waiting
        self.released += batch.released
        self.refused += batch.refused
        self.refusals += batch.refusals


class Refused(Exception):
    """A message that is refused; `reason` is one of REASONS, and `detail` may name the field."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class Refusal(NamedTuple):
    """A refusal: `origin` is the topic or the meter, and `detail` names the field, but never its value."""

    stream: str
    reason: str
    origin: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The stream and the reason, under which it is counted."""
        return self.stream, self.reason


def latest(refusals: Iterable[Refusal]) -> dict[tuple[str, str], Refusal]:
    """Return the latest refusal of each stream and reason."""
    return {refusal.key: refusal for refusal in refusals}


@dataclass(frozen=True, slots=True)
class Limits:
    """What is accepted: slots of at most this age, or this far ahead; these meters, or all (None)."""

    oldest_ms: int = 400 * DAY_MS
    ahead_ms: int = DAY_MS
    meters: Collection[str] | None = None


class Core:
    """The judge of received messages.

    `descriptors` and `terms` are those in the database; `waiting` counts, for each meter of a stream, the
    records that wait there.
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
        """Judge messages in order, and return their effects."""
        batch = Batch()
        for message in messages:
            place = self._place(message.topic)
            try:
                if place is None or len(message.payload) > PAYLOAD_MAX:
                    reason = "too_large" if place is not None or not message.topic else "topic"
                    raise Refused(reason)  # noqa: TRY301 -- counted below
                self._judge(message, place, now_ms, batch)
            except Refused as refusal:
                stream = "" if place is None else place.stream
                batch.refuse(Refusal(stream, refusal.reason, _origin(message.topic), refusal.detail))
        if batch.descriptors and batch.waiting:
            self._settle(batch, now_ms)
        return batch

    def release(self, records: Sequence[Waiting], now_ms: int) -> Batch:
        """Judge records that have waited for a descriptor that is now known."""
        batch = self.take([Message(record.topic, record.payload) for record in records], now_ms)
        self._waiting.subtract((record.stream, record.meter) for record in records)
        batch.released = [record.place for record in records]
        return batch

    def _settle(self, batch: Batch, now_ms: int) -> None:
        """Judge again the records of a batch that arrived before their descriptor, if the batch has both."""
        early_records = [record for record in batch.waiting if record.d in batch.descriptors]
        batch.waiting = [record for record in batch.waiting if record.d not in batch.descriptors]
        self._waiting.subtract((record.stream, record.meter) for record in early_records)
        batch.add(self.take([Message(record.topic, record.payload) for record in early_records], now_ms))

    @property
    def mixed(self) -> tuple[str, ...]:
        """The streams whose slots are on more than one grid, so that two slots of a meter could overlap."""
        return tuple(topic.stream for topic in self._streams if not self._has_one_grid(topic.stream))

    def _has_one_grid(self, stream: str) -> bool:
        all_terms = [self._descriptors[d] for name, d in self._terms if name == stream]
        grids = {(terms.length_ms, terms.step_ms, terms.space, terms.timezone) for terms in all_terms}
        return len(grids) <= 1 and all(terms.timezone is None for terms in all_terms)

    def _place(self, topic: str) -> Place | None:
        places = (stream.place(topic) for stream in self._streams)
        return next((place for place in places if place is not None), None)

    def _judge(self, message: Message, place: Place, now_ms: int, batch: Batch) -> None:
        """Add the effect of a message; raises Refused."""
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
        """Accept a descriptor; raises Refused."""
        facts = _load(payload)
        if facts.get("meter") != place.meter:
            raise Refused("topic")
        self._require_meter(place.meter)
        earlier_descriptor = self._descriptors.get(str(facts.get("id")))
        if earlier_descriptor is not None:
            if _shared(facts) != _shared(
                earlier_descriptor.facts
            ):  # 32 bits of a hash do not exclude a forgery
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
    """Return the facts of a descriptor that all meters under its terms share, as JSON."""
    return _shared(descriptor.facts).decode()


def _shared(facts: Mapping[str, Any]) -> bytes:
    return canonical({name: fact for name, fact in facts.items() if name not in _OF_ONE_METER})


def _fits_jsonb(facts: Mapping[str, Any]) -> bool:
    """Return whether PostgreSQL can store facts: no NUL, no lone surrogate."""
    try:
        return rb"\u0000" not in _shared(facts)
    except UnicodeEncodeError:
        return False


def _origin(topic: str) -> str:
    """Return a topic as it can be stored in either sink."""
    return topic[:ORIGIN_MAX].replace("\0", "?").encode(errors="replace").decode()


def _detail(error: Exception) -> str:
    """Return what is wrong; the text of an error of encoding would hold the payload."""
    return str(error) if isinstance(error, RecordError) else "text that is not UTF-8"


def _load(payload: bytes) -> Mapping[str, Any]:
    try:
        return load(payload, float)
    except (RecordError, UnicodeError) as error:
        raise Refused("unreadable", _detail(error)) from None


def _record(payload: bytes) -> Record:
    """Parse a record whose names can be stored; raises Refused."""
    try:
        record = Record.parse(payload)
    except (RecordError, UnicodeError) as error:
        raise Refused("unreadable", _detail(error)) from None
    if not holds_name(record.meter) or len(record.meter) > NAME_MAX or not _ID.fullmatch(record.descriptor):
        raise Refused("unreadable", "'meter' or 'd' is not a name")
    return record


def _row(stream: str, record: Record, terms: Descriptor) -> Row:
    """Return the row of a record; raises Refused if it does not match its descriptor."""
    try:
        require_agreement(record, terms)
    except RecordError as error:
        raise Refused("terms", str(error)) from None
    # On a calendar, the receiver's time-zone data may differ from the agent's: the table finds overlaps.
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
    """Parse the facts of a stored descriptor (`shared_facts`)."""
    return Descriptor.parse(json.loads(text) | {"meter": "", "valid_from": "1970-01-01T00:00:00Z"})
