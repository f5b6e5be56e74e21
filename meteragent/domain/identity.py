"""Topic templates, and the public names of meters.

A source template such as ``meters/{meter}/power`` has one segment that names the meter. The same name, or a
keyed pseudonym of it, goes into the sink template. Devices with a topic for each phase have a segment
``{phase}``.

Each agent of a fleet takes the meters of its shard: those on the branch that ``{shard}`` in the source's
template selects, or, without such a segment, those whose names hash to its number.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Self

PLACEHOLDER = "{meter}"
PHASE = "{phase}"
SHARD = "{shard}"
_SHARD = re.compile(r"(0|[1-9][0-9]{0,4})/([1-9][0-9]{0,4})", re.ASCII)
_SHARED = ("$share/", "$queue/")
_NAME_MAX = 128
_TEMPLATE_MAX_BYTES = 32_768
"""Half the length of a topic, which leaves room for the name and for the topics below."""
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)
)
_UNFIT = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_NONCHARACTERS}]")
"""Control characters, lone surrogates, noncharacters: a broker may close the connection (MQTT 5, 1.5.4)."""
_WILDCARDS = "+#"


def holds_topic(text: str) -> bool:
    """Return whether a client may publish to this topic.

    It may not be empty, hold a wildcard or a control character, or begin with $, which is reserved for
    brokers.
    """
    return (
        bool(text)
        and not text.startswith("$")
        and not set(_WILDCARDS) & set(text)
        and not _UNFIT.search(text)
    )


def holds_name(name: str) -> bool:
    """Return whether a meter's name is allowed in any segment of a sink topic.

    The rules are those of `holds_topic`, and no $ anywhere.
    """
    return holds_topic(name) and "$" not in name


def parse_template(text: str) -> tuple[str, ...]:
    """Split a template into segments.

    Raises ValueError unless exactly one segment is ``{meter}`` and clients may publish to the rest.
    """
    segments = tuple(text.split("/"))
    if segments.count(PLACEHOLDER) != 1 or text.count("{") != 1:
        raise ValueError("a topic with one segment {meter}, such as 'meters/{meter}/power'")
    if not holds_topic(text):
        raise ValueError(
            "a topic without the wildcards + and # and control characters that does not start with $"
        )
    if len(text.encode()) > _TEMPLATE_MAX_BYTES:
        raise ValueError(f"a topic of at most {_TEMPLATE_MAX_BYTES} bytes")
    return segments


def fnv1a(data: bytes) -> int:
    """Hash with 32-bit FNV-1a (Fowler, Noll and Vo): 2166136261; then for each byte, xor, times 16777619."""
    digest = 2_166_136_261
    for byte in data:
        digest = (digest ^ byte) * 16_777_619 & 0xFFFF_FFFF
    return digest


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` (from 0) of the meters of a fleet of `count` agents."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as ``2/8``; raises ValueError for anything else."""
        match = _SHARD.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if number >= count:
            last = f"'0/{count}' to '{count - 1}/{count}'" if count else "'0/8' to '7/8'"
            raise ValueError(f"a shard's number and the number of shards: {last}")
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, meter: str) -> bool:
        """Return whether a meter is in the shard: FNV-1a of its name's UTF-8, modulo `count`, is `number`.

        Any program can compute this, and NATS maps subjects to partitions by the same number.
        """
        return fnv1a(meter.encode()) % self.count == self.number


def parse_source(text: str, *, named: bool, phases: bool, shard: Shard | None = None) -> tuple[str, ...]:
    """Split a source's template into segments.

    One is ``{meter}``, or none if the configuration has `named` the meter; one is ``{phase}`` if there are
    `phases`; one may be ``{shard}`` if there is a `shard`, and becomes its number. Raises ValueError for any
    other template.
    """
    if text.startswith(_SHARED):
        # The broker sends each message to one of the agents, and to another when that one is away. So a
        # meter's window would be split, and each agent would release its part.
        raise ValueError("no shared subscription, which splits a meter's window over agents: source.shard")
    text = _of_shard(text, shard)
    segments = tuple(text.split("/"))
    if segments.count(PHASE) != phases:
        expected = f"one segment {PHASE}" if phases else f"no {PHASE}: source.phases lists the phases to sum"
        raise ValueError(f"a topic with {expected}")
    if named:
        if "{" in text.replace(PHASE, "", 1):
            raise ValueError("a topic without {meter}: source.meter names the meter")
        parse_template(f"{text}/{PLACEHOLDER}".replace(PHASE, "phase"))
    else:
        parse_template(text.replace(PHASE, "phase", 1))
    return segments


def _of_shard(text: str, shard: Shard | None) -> str:
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
    """A source template: the filter to subscribe to, and the meter and phase that a topic names.

    `name` is the meter's name if the template has no ``{meter}``; `phases` are the values of ``{phase}`` that
    are summed. Only meters that `shard` holds by name count; None: all meters.
    """

    segments: tuple[str, ...]
    name: str | None = None
    phases: tuple[str, ...] = ()
    shard: Shard | None = None

    @classmethod
    def parse(
        cls, text: str, name: str | None = None, phases: tuple[str, ...] = (), shard: Shard | None = None
    ) -> "SourceTopic":
        """Parse a template; raises ValueError as `parse_source`."""
        segments = parse_source(text, named=name is not None, phases=bool(phases), shard=shard)
        by_name = None if SHARD in text.split("/") else shard
        return cls(segments, name, phases, by_name)

    @property
    def filter(self) -> str:
        """The MQTT subscription: the template with ``+`` for the meter and the phase."""
        return "/".join("+" if s in (PLACEHOLDER, PHASE) else s for s in self.segments)

    def holds(self, meter: str) -> bool:
        """Return whether a meter belongs to the agent's shard of a fleet."""
        return self.shard is None or self.shard.holds(meter)

    def meter(self, topic: str) -> str | None:
        """Return the meter that a topic names; None if the topic does not match the template."""
        names = self.place(topic)
        return None if names is None else names[0]

    def place(self, topic: str) -> tuple[str, str | None] | None:
        """Return the meter and the phase that a topic names; None if it does not match the template."""
        segments = topic.split("/")
        if len(segments) != len(self.segments):
            return None
        name, phase = self.name, None
        for segment, expected in zip(segments, self.segments, strict=True):
            if expected == PLACEHOLDER:
                name = segment
            elif expected == PHASE:
                phase = segment
            elif segment != expected:
                return None
        if not name or len(name) > _NAME_MAX or (self.phases and phase not in self.phases):
            return None
        return name, phase


def overlap(source: tuple[str, ...], sink: tuple[str, ...]) -> bool:
    """Return whether a topic of the sink template, or one below it, could match the source template.

    Segments are compared one by one; ``{meter}`` matches anything.
    """
    below = [sink, (*sink, "privacy"), (*sink, "privacy", PLACEHOLDER), (*sink, "total")]
    return any(len(source) == len(t) and all(map(_meet, source, t)) for t in below)


def _meet(segment: str, other: str) -> bool:
    return segment == other or bool({segment, other} & {PLACEHOLDER, PHASE, SHARD})


def render(template: str, public_id: str) -> str:
    """Fill in the sink topic of a meter with its public name."""
    return template.replace(PLACEHOLDER, public_id)


def pseudonym(key: bytes, meter: str) -> str:
    """Derive a keyed name for a meter: 16 hex digits of HMAC-SHA-256(key, meter).

    Without the key nobody can tell which meter it is, or test names against it.
    """
    return hmac.new(key, meter.encode(), hashlib.sha256).hexdigest()[:16]


def claim(key: bytes, sink_topic: str) -> str:
    """Derive a store's mark on a sink topic: 16 hex digits of HMAC-SHA-256(key, sink topic).

    It distinguishes two stores on one topic and reveals nothing else: a store's marks differ from topic to
    topic.
    """
    return hmac.new(key, sink_topic.encode(), hashlib.sha256).hexdigest()[:16]


def delay_ms(secret: bytes, stream: str, meter: str, spread_ms: int) -> int:
    """Derive a meter's fixed delay in a stream, in [0, spread_ms], from a keyed hash (law 4).

    A meter's delays in two streams are independent, so two receivers cannot match its pseudonyms by them.
    """
    digest = hmac.new(secret, f"spread/{stream}/{meter}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") % (spread_ms + 1)
