"""The messages between homes, leader and helper: their encoding and strict decoding (crowd.md 7).

Decoding checks only the form of a message. The step that takes a signed message checks its signature.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Self, TypeVar

from meteragent.crowd.codec import MESSAGE_BYTES_MAX, Malformed, Reader, pack, pack_opaque
from meteragent.crowd.group import ROLES, VERSION
from meteragent.crowd.share import HOMES_MAX

ID_BYTES = 32
"""The size of a group's id, of a digest and of a public key."""
KEY_ID_BYTES = 8
SEALED_BYTES = 56
SIGNATURE_BYTES = 64
CHUNKS_MAX = 64
DAYS_MAX = 64
REJECTED_MAX = HOMES_MAX // 2
"""The largest number of entries that an answer can reject; with all 2^20, it would be too long."""

REPORT, REQUEST, ANSWER, REFUSAL, KEYS = range(1, 6)
REASONS = {1: "too_few", 2: "malformed", 3: "other_batch", 4: "early", 5: "expired"}
"""The reasons in refusal messages, by number."""
FINAL_REASONS = ("too_few", "malformed")
"""The reasons in refusals that are the helper's one answer for a slot."""

_CHUNK_BYTES_MAX = MESSAGE_BYTES_MAX - 1024
"""The largest size of a chunk, in bytes, which leaves room for its topic in an MQTT packet of 4 MiB."""

M = TypeVar("M")
Sign = Callable[[bytes], bytes]
"""A function that returns the signature of a body."""


class OtherGroup(Malformed):
    """A message that names another group."""

    refusal = "other_group"


class Entry(NamedTuple):
    """A home's part of a request: its label, the id of the helper's key, and the pad sealed to this key."""

    label: str
    key_id: bytes
    pad: bytes

    def encode(self) -> bytes:
        """Encode the entry."""
        return pack_opaque(self.label.encode("ascii")) + self.key_id + self.pad


class Report(NamedTuple):
    """A home's message for a slot; `pad` is sealed to the key `helper_key`, and `share` to `leader_key`."""

    slot_s: int
    label: str
    helper_key: bytes
    leader_key: bytes
    pad: bytes
    share: bytes

    def encode(self, group_id: bytes) -> bytes:
        """Encode the report."""
        label = pack_opaque(self.label.encode("ascii"))
        keys = self.helper_key + self.leader_key
        return _head(REPORT, group_id) + pack(self.slot_s, 8) + label + keys + self.pad + self.share

    @classmethod
    def decode(cls, group_id: bytes, data: bytes) -> Self:
        """Decode a report. Raises Malformed, or OtherGroup for the report of another group."""
        reader = _reader(REPORT, group_id, data)
        slot_s, label = reader.read_number(8), reader.read_label()
        keys = reader.read_bytes(KEY_ID_BYTES), reader.read_bytes(KEY_ID_BYTES)
        report = cls(slot_s, label, *keys, reader.read_bytes(SEALED_BYTES), reader.read_bytes(SEALED_BYTES))
        reader.check_end()
        return report

    @property
    def entry(self) -> Entry:
        """The entry for this report in a request."""
        return Entry(self.label, self.helper_key, self.pad)


class Batch(NamedTuple):
    """The fields that all chunks of a request have in common; the answer is sealed to `leader_key`."""

    slot_s: int
    digest: bytes
    leader_key: bytes
    homes: int
    chunks: int

    def encode(self) -> bytes:
        """Encode the batch as a row of the helper's store."""
        counts = pack(self.homes, 4) + pack(self.chunks, 2)
        return pack(self.slot_s, 8) + self.digest + self.leader_key + counts


class Chunk(NamedTuple):
    """A part of a request; `place` is its index, from 0, among the request's chunks."""

    batch: Batch
    place: int
    entries: tuple[Entry, ...]

    def encode(self, group_id: bytes, sign: Sign) -> bytes:
        """Encode and sign the chunk."""
        batch = self.batch
        head = pack(batch.slot_s, 8) + batch.digest + batch.leader_key + pack(batch.homes, 4)
        place = pack(self.place, 2) + pack(batch.chunks, 2) + pack(len(self.entries), 4)
        body = _head(REQUEST, group_id) + head + place + b"".join(entry.encode() for entry in self.entries)
        return body + sign(body)

    @classmethod
    def decode(cls, group_id: bytes, data: bytes) -> "Signed[Self]":
        """Decode a chunk. Raises Malformed, or OtherGroup for a chunk of another group."""
        reader = _reader(REQUEST, group_id, data)
        slot_s = reader.read_number(8)
        digest, leader_key = reader.read_bytes(ID_BYTES), reader.read_bytes(ID_BYTES)
        homes, index, chunks = reader.read_number(4), reader.read_number(2), reader.read_number(2)
        count = reader.read_number(4)
        if not (0 < homes <= HOMES_MAX and index < chunks <= CHUNKS_MAX and 0 < count <= homes):
            raise Malformed("counts that are not allowed")
        entries = tuple(
            Entry(reader.read_label(), reader.read_bytes(KEY_ID_BYTES), reader.read_bytes(SEALED_BYTES))
            for _ in range(count)
        )
        _check_ascending([entry.label for entry in entries])
        return _finish(reader, data, cls(Batch(slot_s, digest, leader_key, homes, chunks), index, entries))


class Answer(NamedTuple):
    """The helper's total of a batch, sealed to `leader_key`, and the indices of the `rejected` entries."""

    slot_s: int
    digest: bytes
    homes: int
    rejected: tuple[int, ...]
    leader_key: bytes
    total: bytes

    def encode(self, group_id: bytes, sign: Sign) -> bytes:
        """Encode and sign the answer."""
        rejected = b"".join(pack(place, 4) for place in self.rejected)
        head = pack(self.slot_s, 8) + self.digest + pack(self.homes, 4)
        tail = pack(len(self.rejected), 4) + rejected + self.leader_key + self.total
        body = _head(ANSWER, group_id) + head + tail
        return body + sign(body)

    @classmethod
    def decode(cls, group_id: bytes, data: bytes) -> "Signed[Self]":
        """Decode an answer. Raises Malformed, or OtherGroup for an answer of another group."""
        reader = _reader(ANSWER, group_id, data)
        slot_s, digest, homes = reader.read_number(8), reader.read_bytes(ID_BYTES), reader.read_number(4)
        count = reader.read_number(4)
        if not (count <= homes <= HOMES_MAX and count <= REJECTED_MAX):
            raise Malformed("counts that are not allowed")
        rejected = tuple(reader.read_number(4) for _ in range(count))
        _check_ascending(rejected)
        if rejected and rejected[-1] >= homes:
            raise Malformed("an index beyond the batch")
        key_id, total = reader.read_bytes(KEY_ID_BYTES), reader.read_bytes(SEALED_BYTES)
        return _finish(reader, data, cls(slot_s, digest, homes, rejected, key_id, total))


class Refusal(NamedTuple):
    """The helper's refusal of a request; `digest` is the digest of the request's batch."""

    slot_s: int
    digest: bytes
    reason: str

    def encode(self, group_id: bytes, sign: Sign) -> bytes:
        """Encode and sign the refusal."""
        code = {name: number for number, name in REASONS.items()}[self.reason]
        body = _head(REFUSAL, group_id) + pack(self.slot_s, 8) + self.digest + pack(code, 1)
        return body + sign(body)

    @classmethod
    def decode(cls, group_id: bytes, data: bytes) -> "Signed[Self]":
        """Decode a refusal. Raises Malformed, or OtherGroup for a refusal of another group."""
        reader = _reader(REFUSAL, group_id, data)
        slot_s, digest, code = reader.read_number(8), reader.read_bytes(ID_BYTES), reader.read_number(1)
        if code not in REASONS:
            raise Malformed("an unknown reason")
        return _finish(reader, data, cls(slot_s, digest, REASONS[code]))


class KeyList(NamedTuple):
    """An operator's public keys: pairs (day, key), sorted by day. Newer lists have higher serials."""

    role: str
    serial: int
    keys: tuple[tuple[int, bytes], ...]

    def encode(self, group_id: bytes, sign: Sign) -> bytes:
        """Encode and sign the list."""
        keys = b"".join(pack(day, 4) + key for day, key in self.keys)
        head = pack(ROLES.index(self.role) + 1, 1) + pack(self.serial, 8) + pack(len(self.keys), 2)
        body = _head(KEYS, group_id) + head + keys
        return body + sign(body)

    @classmethod
    def decode(cls, group_id: bytes, data: bytes) -> "Signed[Self]":
        """Decode a list. Raises Malformed, or OtherGroup for a list of another group."""
        reader = _reader(KEYS, group_id, data)
        role, serial, count = reader.read_number(1), reader.read_number(8), reader.read_number(2)
        if not (1 <= role <= len(ROLES) and count <= DAYS_MAX):
            raise Malformed("counts that are not allowed")
        keys = tuple((reader.read_number(4), reader.read_bytes(ID_BYTES)) for _ in range(count))
        _check_ascending([day for day, _ in keys])
        return _finish(reader, data, cls(ROLES[role - 1], serial, keys))


class Signed(NamedTuple, Generic[M]):
    """A decoded message, with its signed bytes and its signature, which is not yet checked."""

    message: M
    body: bytes
    signature: bytes


def message_type(data: bytes) -> int:
    """Return the type of a message; 0 if the message is too short to have a type."""
    return data[1] if len(data) > 1 else 0


def batch_digest(group_id: bytes, slot_s: int, entries: Sequence[Entry]) -> bytes:
    """Return the digest of a batch with these entries in this order."""
    return _digest(b"batch", group_id, slot_s, len(entries), (entry.encode() for entry in entries))


def reports_digest(group_id: bytes, slot_s: int, reports: Sequence[bytes]) -> bytes:
    """Return a digest of the reports that the leader adds up, as received and in the batch's order."""
    hashes = (hashlib.sha256(report).digest() for report in reports)
    return _digest(b"reports", group_id, slot_s, len(reports), hashes)


def split_entries(entries: Sequence[Entry], bytes_max: int = _CHUNK_BYTES_MAX) -> list[tuple[Entry, ...]]:
    """Divide entries into chunks whose messages have at most `bytes_max` bytes."""
    room = bytes_max - _EMPTY_CHUNK_BYTES
    chunks: list[list[Entry]] = [[]]
    chunk_bytes = 0
    for entry in entries:
        size = len(entry.encode())
        if chunks[-1] and chunk_bytes + size > room:
            chunks.append([])
            chunk_bytes = 0
        chunks[-1].append(entry)
        chunk_bytes += size
    return [tuple(chunk) for chunk in chunks]


_EMPTY_CHUNK_BYTES = 2 + ID_BYTES + 8 + 2 * ID_BYTES + 4 + 2 + 2 + 4 + SIGNATURE_BYTES
"""The size of a chunk without entries, in bytes."""


def _head(type_: int, group_id: bytes) -> bytes:
    return bytes([VERSION, type_]) + group_id


def _reader(type_: int, group_id: bytes, data: bytes) -> Reader:
    """Return a reader that is positioned after the head of a message. Raises Malformed or OtherGroup."""
    reader = Reader(data)
    if (reader.read_number(1), reader.read_number(1)) != (VERSION, type_):
        raise Malformed("another version or type")
    if reader.read_bytes(ID_BYTES) != group_id:
        raise OtherGroup("another group")
    return reader


def _finish(reader: Reader, data: bytes, message: M) -> Signed[M]:
    """Read the signature at the end of a message. Raises Malformed if its length is wrong."""
    body = data[: reader.position]
    signature = reader.read_bytes(SIGNATURE_BYTES)
    reader.check_end()
    return Signed(message, body, signature)


def _check_ascending(values: Sequence[Any]) -> None:
    if any(value >= next_value for value, next_value in pairwise(values)):
        raise Malformed("values that are not in ascending order")


def _digest(kind: bytes, group_id: bytes, slot_s: int, count: int, parts: Iterable[bytes]) -> bytes:
    """Return the SHA-256 of a prefix, followed by the kind, group's id, slot, `count` and parts."""
    sha256 = hashlib.sha256(b"meteragent crowd 1 " + kind + group_id + pack(slot_s, 8) + pack(count, 4))
    for part in parts:
        sha256.update(part)
    return sha256.digest()
