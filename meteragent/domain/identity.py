"""Topic templates, the public names of meters, and the words for what a person can do to a receiver.

A source template such as ``meters/{meter}/power`` has one segment for the meter's name, unless the
configuration names the meter. The name, or a keyed pseudonym of it, is inserted into the sink template. If
each phase has a topic, there is a segment ``{phase}``. An agent of a fleet processes only the meters of its
shard: their topics have its number in the segment ``{shard}`` or, if there is none, their names hash to it.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

PLACEHOLDER = "{meter}"
PHASE = "{phase}"
SHARD = "{shard}"
VERBS = PAUSE, RESUME, END = "pause", "resume", "end"
"""What a person can do to a receiver."""
ALL_METERS = "0/1 by name"
"""The shard of a stream outside a fleet, as a store records it."""
_SHARD = re.compile(r"(0|[1-9][0-9]{0,4})/([1-9][0-9]{0,4})", re.ASCII)
_SHARED = ("$share/", "$queue/")
_NAME_MAX = 128
_TEMPLATE_MAX_BYTES = 32_768
"""Half the length of the longest topic, which leaves room for the name and for subtopics."""
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)
)
_UNFIT = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_NONCHARACTERS}]")
"""Control characters, lone surrogates and noncharacters: a broker may refuse them by closing the connection
(MQTT 5, 1.5.4)."""


def is_valid_name(name: str) -> bool:
    """Return whether a name is safe in all files and messages: 1 to 128 characters, none in `_UNFIT`."""
    return 0 < len(name) <= _NAME_MAX and not _UNFIT.search(name)


def is_publishable(text: str) -> bool:
    """Return whether clients may publish to the topic `text`; topics that begin with $ are for brokers."""
    return bool(text) and not (text[0] == "$" or "+" in text or "#" in text or _UNFIT.search(text))


def fits_segment(name: str) -> bool:
    """Return whether a meter's name may be a segment of a sink topic; slashes are not checked."""
    return is_publishable(name) and "$" not in name


def parse_sink_template(text: str) -> tuple[str, ...]:
    """Split a sink's template into segments. Raises ValueError with a text that says what is expected."""
    segments = tuple(text.split("/"))
    if segments.count(PLACEHOLDER) != 1 or text.count("{") != 1:
        raise ValueError("a topic with one segment {meter}, such as 'meters/{meter}/power'")
    if not is_publishable(text):
        raise ValueError(
            "a topic without the wildcards + or #, without control characters and without $ at the start"
        )
    if len(text.encode()) > _TEMPLATE_MAX_BYTES:
        raise ValueError(f"a topic of at most {_TEMPLATE_MAX_BYTES} bytes")
    return segments


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash (Fowler, Noll, Vo)."""
    digest = 2_166_136_261
    for byte in data:
        digest = (digest ^ byte) * 16_777_619 & 0xFFFF_FFFF
    return digest


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number`, counted from 0, of the `count` parts into which a fleet's meters are divided."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as ``2/8``. Raises ValueError for anything else."""
        match = _SHARD.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if number >= count:
            shards = f"'0/{count}' to '{count - 1}/{count}'" if count else "'0/8' to '7/8'"
            raise ValueError(f"a shard's number and the number of shards: {shards}")
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, meter: str) -> bool:
        """Return whether a meter's name hashes to `number`, with the hash that NATS uses for partitions."""
        return fnv1a(meter.encode()) % self.count == self.number


def parse_source_template(
    text: str, *, is_named: bool, is_phased: bool, shard: Shard | None = None
) -> tuple[str, ...]:
    """Split a source's template into segments. Raises ValueError that says what is expected.

    One segment is ``{meter}``, unless the configuration names the meter (`is_named`). One segment is
    ``{phase}`` if `is_phased`. If there is a `shard`, one may be ``{shard}``, replaced by its number.
    """
    if text.startswith(_SHARED):
        # With a shared subscription, the broker sends each message to only one of the agents. So a meter's
        # readings would be split, and each agent would release windows made from a part of them.
        raise ValueError("source.shard, not a shared subscription, which splits a meter's window over agents")
    text = _insert_shard(text, shard)
    segments = tuple(text.split("/"))
    if segments.count(PHASE) != is_phased:
        expected = (
            f"one segment {PHASE}" if is_phased else f"no {PHASE} unless source.phases lists the phases"
        )
        raise ValueError(f"a topic with {expected}")
    if is_named:
        if "{" in text.replace(PHASE, "", 1):
            raise ValueError("a topic without {meter}, because source.meter names the meter")
        parse_sink_template(f"{text}/{PLACEHOLDER}".replace(PHASE, "phase"))
    else:
        parse_sink_template(text.replace(PHASE, "phase", 1))
    return segments


def _insert_shard(text: str, shard: Shard | None) -> str:
    segments = text.split("/")
    if SHARD not in segments:
        return text
    if shard is None:
        raise ValueError(f"a topic without {SHARD}, unless source.shard states the shard, such as '2/8'")
    if segments.count(SHARD) > 1:
        raise ValueError(f"a topic with at most one segment {SHARD}")
    return "/".join(str(shard.number) if segment == SHARD else segment for segment in segments)


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A source template: the filters to subscribe to, and the meter and phase that a topic names.

    `name` is the meter's name if the template has no ``{meter}``. `phases` are summed, minus those in
    `subtracted`; `parts` maps topics to phases if each has its own topic. `shard` selects meters by the hash
    of their names. `unit` matches the topics that state a unit, and `units` has the allowed units by phase.
    """

    segments: tuple[str, ...]
    name: str | None = None
    phases: tuple[str, ...] = ()
    shard: Shard | None = None
    unit: "SourceTopic | None" = None
    units: Mapping[str | None, Collection[str]] = field(default_factory=dict, hash=False)
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    subtracted: frozenset[str] = frozenset()

    @classmethod
    def parse(
        cls, text: str, name: str | None = None, phases: tuple[str, ...] = (), shard: Shard | None = None
    ) -> "SourceTopic":
        """Parse a template. Raises ValueError as `parse_source_template` does."""
        segments = parse_source_template(text, is_named=name is not None, is_phased=bool(phases), shard=shard)
        hash_shard = None if SHARD in text.split("/") else shard
        return cls(segments, name, phases, hash_shard)

    @property
    def filter(self) -> str:
        """The topic filter to subscribe to: the template with ``+`` for the meter and the phase."""
        return "/".join("+" if s in (PLACEHOLDER, PHASE) else s for s in self.segments)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters to subscribe to: the topics of the phases if each has its own, else the template's."""
        return tuple(self.parts) or (self.filter,)

    def holds(self, meter: str) -> bool:
        """Return whether a meter belongs to the agent's shard of a fleet."""
        return self.shard is None or self.shard.holds(meter)

    def meter_of(self, topic: str) -> str | None:
        """Return the meter that `topic` names; None if `place_of` returns None."""
        names = self.place_of(topic)
        return None if names is None else names[0]

    def place_of(self, topic: str) -> tuple[str, str | None] | None:
        """Return the meter and the phase, if any, that a topic names; None for other topics."""
        if self.parts:
            return (self.name or "", self.parts[topic]) if topic in self.parts else None
        segments = topic.split("/")
        if len(segments) != len(self.segments):
            return None
        name, phase = self.name, None
        for segment, template_segment in zip(segments, self.segments, strict=True):
            if template_segment == PLACEHOLDER:
                name = segment
            elif template_segment == PHASE:
                phase = segment
            elif segment != template_segment:
                return None
        if not name or len(name) > _NAME_MAX or (self.phases and phase not in self.phases):
            return None
        return name, phase


def can_overlap(source: tuple[str, ...], sink: tuple[str, ...]) -> bool:
    """Return whether a topic of the sink template, or one below it, could match the source template."""
    topics = [sink, (*sink, "privacy"), (*sink, "privacy", PLACEHOLDER), (*sink, "total")]
    return any(len(source) == len(topic) and all(map(_can_match, source, topic)) for topic in topics)


def _can_match(segment_a: str, segment_b: str) -> bool:
    return segment_a == segment_b or bool({segment_a, segment_b} & {PLACEHOLDER, PHASE, SHARD})


def render_topic(template: str, public_id: str) -> str:
    """Return the sink topic of a meter: the template with the meter's public name inserted."""
    return template.replace(PLACEHOLDER, public_id)


def pseudonym(key: bytes, meter: str) -> str:
    """Return a keyed hash of a meter's name (HMAC-SHA-256, 16 hex digits); testing a guess needs the key."""
    return hmac.new(key, meter.encode(), hashlib.sha256).hexdigest()[:16]


def store_mark(key: bytes, sink_topic: str) -> str:
    """Return a store's mark for a sink topic, which distinguishes stores and reveals nothing else."""
    return hmac.new(key, sink_topic.encode(), hashlib.sha256).hexdigest()[:16]


def release_delay_ms(secret: bytes, stream: str, meter: str, spread_ms: int) -> int:
    """Return a meter's fixed delay in a stream, from 0 to `spread_ms`, derived from a keyed hash (law 4).

    The delay differs from stream to stream, so two receivers cannot match a meter's pseudonyms by delay.
    """
    digest = hmac.new(secret, f"spread/{stream}/{meter}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") % (spread_ms + 1)
