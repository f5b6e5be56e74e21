"""The effect of a received message: a row, a descriptor, a waiting record, or a refusal.

`Core.take_messages` checks messages in the order of their arrival; it remembers the terms that each meter has
announced, and how many records wait. The caller commits the effects before it passes further messages. After
a failed commit, the caller builds a new core from the tables and passes the same messages again.

The rules about the content of records and descriptors are in `consume`. The core also bounds what it keeps
for one sender: a meter's terms, their bytes, its waiting records, and its values a day. Slots of a meter do
not overlap, so the meter's terms bound the number of its values. `Limits.max_meters` bounds the memory that a
sender can use by inventing meters.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from meteragent.collect.topic import Place, Role, StreamTopic
from meteragent.consume.message import Descriptor, Record, RecordCheck, digest_of, load_fields
from meteragent.domain.errors import RecordError
from meteragent.domain.identity import fits_segment
from meteragent.domain.units import DAY_MS, MICRO, UNIT_FACTOR
from meteragent.wire.grammar import DESCRIPTOR
from meteragent.wire.number import VALUE_MAX

REASONS: Final = {
    "unreadable": "the message is neither a record nor a descriptor, or a field is missing or wrong",
    "too_large": "the message is larger than 16 KiB",
    "topic": "the topic belongs to no stream, or names a different meter from the message",
    "meter": "the meter is not in `accept.meters_file`",
    "descriptor": "the descriptor contradicts itself or an earlier one of the meter with the same id, or its "
    "values are not whole millionths of the unit",
    "descriptors": "too many descriptors of the meter, or too many bytes of them",
    "meters": "more meters than `accept.max_meters`: list yours in `accept.meters_file`",
    "rate": "the descriptor's terms give more values a day than `accept.max_per_day`",
    "terms": "the value, unit, duration, band or sd does not match the record's descriptor",
    "grid": "the slot does not start on its descriptor's grid",
    "range": "the value exceeds 64 bits in millionths of the unit",
    "early": "the slot starts too far ahead of this machine's clock",
    "old": "the slot is older than `accept.oldest`",
    "twice": "the table already has a different value for the interval, which stays",
    "overlap": "the slot overlaps another slot of the meter in the same stream",
    "no_descriptor": "too many records wait for a descriptor, or the record waited longer than `accept.wait`",
    "unstorable": "the message cannot be stored; with Parquet, the table `quarantine` of `collect.db` has it",
}
"""The meaning of each reason for a refusal."""

PAYLOAD_MAX: Final = DESCRIPTOR.bytes_max
"""The largest number of bytes of a message."""
ORIGIN_MAX: Final = 256
"""The largest number of characters of a topic that are stored with a refusal."""
DESCRIPTORS_MAX: Final = 64
"""The largest number of descriptors of a meter in a stream: each change of its terms makes one."""
DESCRIPTORS_MIN: Final = 2
"""The number of descriptors that each meter may announce even if the room for all meters is full."""
DESCRIPTOR_BYTES: Final = 128 * 1024
"""The largest number of bytes of a meter's descriptors in a stream."""
WAITING_MAX: Final = 2_000
"""The largest number of waiting records per meter of a stream: 41 days of half-hourly records."""
_DESCRIPTORS_PER_METER, _WAITING_PER_METER = 4, 10
"""The room for all meters' different descriptors and waiting records, divided by `Limits.max_meters`."""
_JOULES_PER_WH = 3600
_T = TypeVar("_T")


class Message(NamedTuple):
    """A message as it arrived, empty if it was too large to be read; `token` is needed to acknowledge it."""

    topic: str
    payload: bytes
    token: Any = None


class Row(NamedTuple):
    """A row of the table `record`: the private value of one slot, in quanta of the descriptor `d` (a digest).

    For a band or a peak, `time_ms` and `until_ms` are those of its window. `band` is empty if slots are not
    bands. `draws` is how often the agent drew noise for a peak, and 1 for other values.
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
    """A record that waits for the descriptor `d`; `place` is its number in the table, 0 if not yet stored."""

    d: str
    stream: str
    meter: str
    topic: str
    payload: bytes
    place: int = 0

    @property
    def key(self) -> "Meter":
        """The stream and the meter."""
        return self.stream, self.meter


Meter = tuple[str, str]
"""A stream and a meter."""
Key = tuple[str, str, str]
"""A stream, a meter, and the id of a descriptor."""


class Link(NamedTuple):
    """A descriptor that a meter has announced in a stream, by its digest."""

    stream: str
    meter: str
    digest: str

    @property
    def key(self) -> Key:
        """The stream, the meter and the descriptor's id, by which the meter's records name it."""
        return self.stream, self.meter, self.digest[:8]


class AnnouncedTerms(NamedTuple):
    """Terms that a meter has announced, by their digest; `size` is the length of the descriptor in bytes."""

    digest: str
    size: int
    check: RecordCheck


@dataclass(slots=True)
class Batch:
    """The effects of messages, all of which are committed together.

    `descriptors` holds the new descriptors by their digests, and `links` the descriptors that meters have
    announced, as stream, meter and digest. `mixed` holds the streams and meters of rows whose slots could
    overlap others, as far as the core knows the meters' terms: `known_terms` is their number by meter.
    `released_places` holds the places of records that no longer wait. `refusal_counts` is the number of
    refused messages by stream (empty if unknown) and reason. `refusals` has an entry for each of them.
    """

    rows: list[Row] = field(default_factory=list)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)
    links: "set[Link]" = field(default_factory=set)
    mixed: set[Meter] = field(default_factory=set)
    known_terms: dict[Meter, int] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    released_places: list[int] = field(default_factory=list)
    refusal_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: "list[Refusal]" = field(default_factory=list)

    def add_refusal(self, refusal: "Refusal") -> None:
        """Count a refusal, and keep its origin."""
        self.refusal_counts[refusal.key] += 1
        self.refusals.append(refusal)

    def add_batch(self, batch: "Batch") -> None:
        """Add the effects in another batch to this batch."""
        self.rows += batch.rows
        self.descriptors |= batch.descriptors
        self.links |= batch.links
        self.mixed |= batch.mixed
        self.known_terms |= batch.known_terms
        self.waiting += batch.waiting
        self.released_places += batch.released_places
        self.refusal_counts += batch.refusal_counts
        self.refusals += batch.refusals


class Refused(Exception):
    """The refusal of a message; `reason` is a key of REASONS, and `detail` may name the field."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class Refusal(NamedTuple):
    """A refused message; `origin` is the beginning of its topic, or its meter; `detail` may name a field."""

    stream: str
    reason: str
    origin: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The stream and the reason, under which the refusal is counted."""
        return self.stream, self.reason


def last_refusals(refusals: Iterable[Refusal]) -> dict[tuple[str, str], Refusal]:
    """Return the last refusal for each stream and reason."""
    return {refusal.key: refusal for refusal in refusals}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on accepted messages.

    A slot may start at most `oldest_ms` before and `ahead_ms` after this machine's time. The meter must be
    one of `meters` or, if that is None, of the first `max_meters` that announce terms. Terms may give at most
    `max_per_day` values a day.
    """

    oldest_ms: int = 400 * DAY_MS
    ahead_ms: int = DAY_MS
    meters: Collection[str] | None = None
    max_meters: int = 100_000
    max_per_day: int = 1_440


class _WaitingRoom:
    """The number of waiting records by meter; meters without terms take no room from those with terms."""

    def __init__(self, counts: Mapping[Meter, int], known_meters: Container[Meter], max_meters: int) -> None:
        self._known, self._max_meters = known_meters, max_meters
        self._counts: dict[bool, Counter[Meter]] = {True: Counter(), False: Counter()}
        self._totals = Counter[bool]()
        for key, count in counts.items():
            self._add(key, count)

    def enter(self, key: Meter) -> None:
        """Count a record. Raises Refused if there is no room for the record."""
        is_known = key in self._known
        counts, room = self._counts[is_known], _WAITING_PER_METER * self._max_meters
        is_new = key not in counts
        if counts[key] >= _room_share(WAITING_MAX, self._totals[is_known], room) or (
            is_new and not is_known and len(counts) >= self._max_meters
        ):
            raise Refused("no_descriptor")
        self._add(key, 1)

    def leave(self, key: Meter) -> None:
        """Reduce the count by a record that no longer waits."""
        self._add(key, -1)

    def introduce(self, key: Meter) -> None:
        """Count the records of a meter that has announced its first terms among those of known meters."""
        count = self._counts[False].pop(key, 0)
        self._totals[False] -= count
        self._add(key, count)

    def known_meters(self) -> Iterable[Meter]:
        """Return the meters that have announced terms and have waiting records."""
        return self._counts[True]

    def _add(self, key: Meter, count: int) -> None:
        is_known = key in self._known
        counts = self._counts[is_known]
        counts[key] += count
        self._totals[is_known] += count
        if counts[key] <= 0:
            del counts[key]


def _room_share(maximum: int, count: int, room: int) -> float:
    """Return the limit for one meter: `maximum` while half of the room is free, then less, down to 0."""
    return maximum * min(1, 2 * (1 - count / room))


class Core:
    """The rules by which messages are accepted or refused, and the state that the rules need.

    `announced` and `links` are the content of the sink; with a list `limits.meters`, what belongs to other
    meters is left out. `waiting` is the number of records that wait in the sink,
    by stream and meter. The id of a descriptor has 32 bits and can be forged, so the id in a record refers
    only to descriptors that the record's meter has announced in the stream.
    """

    def __init__(
        self,
        streams: Sequence[StreamTopic],
        limits: Limits,
        announced: Iterable[AnnouncedTerms] = (),
        links: "Iterable[Link]" = (),
        waiting: Mapping[Meter, int] | None = None,
    ) -> None:
        self._streams, self._limits = tuple(streams), limits
        self._announced: dict[str, AnnouncedTerms] = {}
        self._of_meter: dict[Meter, dict[str, AnnouncedTerms]] = {}
        self._mixed: set[Meter] = set()
        stored_terms = {terms.digest: terms for terms in announced}
        for link in links:
            is_listed = limits.meters is None or link.meter in limits.meters  # others take no room
            if is_listed and (terms := stored_terms.get(link.digest)) is not None:
                self._announced[link.digest] = terms
                self._keep_terms((link.stream, link.meter), terms)
        self._waiting = _WaitingRoom(waiting or {}, self._of_meter, limits.max_meters)

    @property
    def filters(self) -> tuple[str, ...]:
        """The topic filters of all streams."""
        return tuple(topic_filter for stream in self._streams for topic_filter in stream.filters)

    def take_messages(self, messages: "Iterable[Message | Waiting]", now_ms: int) -> Batch:
        """Check messages and waiting records in order, and return their effects; the records stop waiting."""
        batch = Batch()
        for message in messages:
            self._end_waiting(message, batch)
            place = self._place(message.topic)
            try:
                if place is None or len(message.payload) > PAYLOAD_MAX:
                    reason = "too_large" if place is not None or not message.topic else "topic"
                    raise Refused(reason)  # noqa: TRY301 -- counted below
                self._add_effect(message, place, now_ms, batch)
            except Refused as refusal:
                stream = "" if place is None else place.stream
                batch.add_refusal(Refusal(stream, refusal.reason, _origin(message.topic), refusal.detail))
        if batch.links and batch.waiting:
            # Check again the records that arrived before their descriptor.
            early_records = [record for record in batch.waiting if self._terms(record.key, record.d)]
            batch.waiting = [record for record in batch.waiting if not self._terms(record.key, record.d)]
            batch.add_batch(self.take_messages(early_records, now_ms))
        return batch

    def refuse_message(self, message: "Message | Waiting") -> Batch:
        """Return the refusal of a message whose effect cannot be stored."""
        batch, place = Batch(), self._place(message.topic)
        self._end_waiting(message, batch)
        batch.add_refusal(
            Refusal("" if place is None else place.stream, "unstorable", _origin(message.topic))
        )
        return batch

    def _end_waiting(self, message: "Message | Waiting", batch: Batch) -> None:
        if isinstance(message, Waiting):
            self._waiting.leave(message.key)
            if message.place:
                batch.released_places.append(message.place)

    def knows(self, key: Key) -> bool:
        """Return whether a meter has announced a descriptor."""
        return self._terms(key[:2], key[2]) is not None

    def awaited_descriptors(self) -> "list[Key]":
        """Return the known descriptors of meters that have records waiting in the sink."""
        return [(*key, d) for key in self._waiting.known_meters() for d in self._of_meter[key]]

    def _terms(self, key: Meter, d: str) -> AnnouncedTerms | None:
        return self._of_meter.get(key, {}).get(d)

    def _place(self, topic: str) -> Place | None:
        places = (stream.place_of(topic) for stream in self._streams)
        return next((place for place in places if place is not None), None)

    def _add_effect(self, message: "Message | Waiting", place: Place, now_ms: int, batch: Batch) -> None:
        """Add the effect of a message to `batch`. Raises Refused if the message breaks a rule."""
        if place.role is Role.DESCRIPTOR:
            if message.payload:  # an empty payload removes a retained message
                self._add_descriptor(message.payload, place, batch)
            return
        record = _parse_record(message.payload)
        if record.meter != place.meter:
            raise Refused("topic")
        self._require_meter(place.meter)
        key = place.stream, place.meter
        terms = self._terms(key, record.descriptor)
        if terms is None:
            self._waiting.enter(key)
            batch.waiting.append(Waiting(record.descriptor, *key, message.topic, message.payload))
            return
        row = _make_row(place.stream, record, terms)
        if row.time_ms > now_ms + self._limits.ahead_ms:
            raise Refused("early")
        if row.time_ms < now_ms - self._limits.oldest_ms:
            raise Refused("old")
        batch.rows.append(row)
        batch.known_terms[key] = len(self._of_meter[key])
        if key in self._mixed:
            batch.mixed.add(key)

    def _require_meter(self, meter: str) -> None:
        if self._limits.meters is not None and meter not in self._limits.meters:
            raise Refused("meter")

    def _add_descriptor(self, payload: bytes, place: Place, batch: Batch) -> None:
        """Add a meter's descriptor to `batch` unless it is known. Raises Refused if a rule is broken."""
        facts = _parse_or_refuse(lambda text: load_fields(text, float), payload)
        if facts.get("meter") != place.meter:
            raise Refused("topic")
        self._require_meter(place.meter)
        digest, key = digest_of(facts), (place.stream, place.meter)
        if digest is None or facts.get("id") != digest[:8]:
            raise Refused("descriptor", "a descriptor whose 'id' does not match its facts")
        earlier_terms, terms = self._terms(key, digest[:8]), self._announced.get(digest)
        if earlier_terms is not None:
            if earlier_terms.digest != digest:
                raise Refused("descriptor", "a descriptor whose 'id' is that of other terms of the meter")
            return
        self._require_room(key, len(payload), is_new=terms is None)
        if terms is None:
            descriptor = _parse_descriptor(payload, self._limits)
            terms = self._announced[digest] = AnnouncedTerms(digest, len(payload), descriptor.record_check)
            batch.descriptors[digest] = descriptor
        self._keep_terms(key, terms)
        self._waiting.introduce(key)
        batch.links.add(Link(*key, digest))

    def _require_room(self, key: Meter, size: int, *, is_new: bool) -> None:
        """Raise Refused if a meter may not announce further terms, which no meter has yet if `is_new`."""
        meters, own_terms = self._of_meter, self._of_meter.get(key, {})
        if not own_terms and self._limits.meters is None and len(meters) >= self._limits.max_meters:
            raise Refused("meters")
        room = _DESCRIPTORS_PER_METER * self._limits.max_meters
        share = _room_share(DESCRIPTORS_MAX, len(self._announced), room) if is_new else DESCRIPTORS_MAX
        sizes = sum(terms.size for terms in own_terms.values())
        if len(own_terms) >= max(DESCRIPTORS_MIN, share) or sizes + size > DESCRIPTOR_BYTES:
            raise Refused("descriptors")

    def _keep_terms(self, key: Meter, terms: AnnouncedTerms) -> None:
        """Keep a meter's terms. With several grids, or on a calendar, slots of the meter could overlap."""
        own_terms = self._of_meter.setdefault(key, {})
        own_terms[terms.digest[:8]] = terms
        first_terms = next(iter(own_terms.values()))
        if terms.check.timezone is not None or terms.check.shape != first_terms.check.shape:
            self._mixed.add(key)


def _parse_descriptor(payload: bytes, limits: Limits) -> Descriptor:
    """Parse a descriptor. Raises Refused for errors, or for numbers that no table can hold."""
    try:
        descriptor = Descriptor.parse(payload)
        numbers_of(descriptor)
    except RecordError as error:
        raise Refused("descriptor", str(error)) from None
    if descriptor.n * DAY_MS > limits.max_per_day * descriptor.length_ms:
        raise Refused("rate")
    return descriptor


class Numbers(NamedTuple):
    """The numbers of a descriptor that are stored next to its facts, so that SQL can use them.

    `is_summable` is whether values of several homes may be summed, `quantum_u` the quantum in millionths of
    the unit, and `variance` the variance of a value's noise in unit². `joules` is one unit in J, or in W if
    values are powers; it is None if no energy follows from the values. `bands` is JSON: the seconds of each
    band in a window.
    """

    is_summable: bool
    unit: str
    quantum_u: int
    variance: float
    joules: int | None
    is_energy: bool
    bands: str


def numbers_of(descriptor: Descriptor) -> Numbers:
    """Return the numbers of a descriptor. Raises RecordError if the quantum is not whole millionths."""
    shape, joules = descriptor.shape, None
    is_energy = shape.is_energy(descriptor.kind)
    if shape.is_additive:
        joules = UNIT_FACTOR[descriptor.unit] * (_JOULES_PER_WH if is_energy else 1)
    quantum_u, variance = descriptor.mechanism.quantum * MICRO, float(descriptor.variance)
    if quantum_u.denominator != 1:
        raise RecordError("a descriptor whose 'quantum' is not whole millionths of the unit")
    bands = json.dumps({name: shape.slot_ms(index) / 1000 for index, name in enumerate(shape.names)})
    return Numbers(shape.is_summable, descriptor.unit, int(quantum_u), variance, joules, is_energy, bands)


def _origin(topic: str) -> str:
    """Return the beginning of a topic, with ? for characters that a sink cannot store."""
    return topic[:ORIGIN_MAX].replace("\0", "?").encode(errors="replace").decode()


def _parse_or_refuse(parse: Callable[[bytes], _T], payload: bytes) -> _T:
    try:
        return parse(payload)
    except (RecordError, UnicodeError) as error:
        # An encoding error would contain the payload.
        detail = str(error) if isinstance(error, RecordError) else "text that is not UTF-8"
        raise Refused("unreadable", detail) from None


def _parse_record(payload: bytes) -> Record:
    """Parse a record. Raises Refused for an invalid record, or for a name that the sink cannot store."""
    record = _parse_or_refuse(Record.parse, payload)
    if not fits_segment(record.meter):
        raise Refused("unreadable", "'meter' is not a name")
    return record


def _make_row(stream: str, record: Record, terms: AnnouncedTerms) -> Row:
    """Return a record's row. Raises Refused if the record contradicts its terms or has too large a value."""
    try:
        quanta = terms.check.require_match(record)
    except RecordError as error:
        raise Refused("terms", str(error)) from None
    # The agent's time-zone data may differ from ours, so on a calendar only overlapping slots are refused.
    is_on_grid = terms.check.timezone is not None or not record.time_ms % record.step_ms
    if not is_on_grid:
        raise Refused("grid")
    if abs(record.value.numerator) > VALUE_MAX * record.value.denominator:
        raise Refused("range")
    span = record.time_ms, record.band or "", record.time_ms + record.step_ms
    return Row(stream, record.meter, *span, quanta, terms.digest, record.draws)
