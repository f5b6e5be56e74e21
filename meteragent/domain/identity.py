"""Topic templates, and the names under which meters leave.

A source template such as ``meters/{meter}/power`` has one segment that names the meter; the same
name goes into the sink template, or a keyed pseudonym of it. Devices that have a topic for each phase have
a segment ``{phase}``.

Of a fleet of agents each takes the meters of its shard: those on the branch that ``{shard}`` stands for in
the source's template, or without it those whose names hash to its number.
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
"""Half of what a topic may hold: a name and what is sent below the topic come on top."""
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)
)
_UNFIT = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_NONCHARACTERS}]")
"""Control characters, lone surrogates and noncharacters: brokers may close the connection (MQTT 5, 1.5.4)."""
_WILDCARDS = "+#"


def holds_topic(text: str) -> bool:
    """Return whether a client may publish to a topic of this text.

    It may not be empty, hold a wildcard or a control character, nor begin with $, which is the broker's own.
    """
    return (
        bool(text)
        and not text.startswith("$")
        and not set(_WILDCARDS) & set(text)
        and not _UNFIT.search(text)
    )


def holds_name(name: str) -> bool:
    """Return whether a meter's name may stand in a sink topic, wherever its segment is.

    As `holds_topic`, with no $ at all.
    """
    return holds_topic(name) and "$" not in name


def parse_template(text: str) -> tuple[str, ...]:
    """The segments of a template.

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
    """The 32-bit FNV-1a hash (Fowler, Noll and Vo): 2166136261; then for each byte, xor, times 16777619."""
    found = 2_166_136_261
    for byte in data:
        found = (found ^ byte) * 16_777_619 & 0xFFFF_FFFF
    return found


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` (from 0) of the meters of a fleet of `count` agents."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``2/8``; raises ValueError for what is no shard."""
        match = _SHARD.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if number >= count:
            last = f"'0/{count}' to '{count - 1}/{count}'" if count else "'0/8' to '7/8'"
            raise ValueError(f"a number from 0 on and how many there are: {last}")
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, meter: str) -> bool:
        """Whether a meter is of it by its name: FNV-1a of the name's UTF-8, modulo `count`, is `number`.

        So it stays in a fleet of any programs, and NATS maps subjects to partitions by the same number.
        """
        return fnv1a(meter.encode()) % self.count == self.number


def parse_source(text: str, *, named: bool, phases: bool, shard: Shard | None = None) -> tuple[str, ...]:
    """The segments of a source's template.

    One is ``{meter}``, or none where the configuration has `named` the meter; one is ``{phase}`` where there
    are `phases`; one may be ``{shard}`` where there is a `shard`, whose number stands there then. Raises
    ValueError for any other.
    """
    if text.startswith(_SHARED):
        # Each message of it goes to some agent, and to another as soon as one is away: a meter's window
        # would be in parts, and released by each that has one.
        raise ValueError("no shared subscription, which splits a meter's window over agents: source.shard")
    text = _of_shard(text, shard)
    segments = tuple(text.split("/"))
    if segments.count(PHASE) != phases:
        expected = f"one segment {PHASE}" if phases else f"no {PHASE}: source.phases says which are summed"
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
        raise ValueError(f"a topic without {SHARD}: source.shard says which it is, such as '2/8'")
    if segments.count(SHARD) > 1:
        raise ValueError(f"a topic with at most one segment {SHARD}")
    return "/".join(str(shard.number) if segment == SHARD else segment for segment in segments)


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A source template: the filter to subscribe to, and the meter and phase that a topic names.

    `name` is the meter's where the template has no ``{meter}``; `phases` are those that are summed, in
    the place of ``{phase}``. Of the meters those count that `shard` holds by name; None: all of them.
    """

    segments: tuple[str, ...]
    name: str | None = None
    phases: tuple[str, ...] = ()
    shard: Shard | None = None

    @classmethod
    def parse(
        cls, text: str, name: str | None = None, phases: tuple[str, ...] = (), shard: Shard | None = None
    ) -> "SourceTopic":
        """Read a template; raises ValueError as `parse_source`."""
        segments = parse_source(text, named=name is not None, phases=bool(phases), shard=shard)
        by_name = None if SHARD in text.split("/") else shard
        return cls(segments, name, phases, by_name)

    @property
    def filter(self) -> str:
        """The MQTT subscription: the template with ``+`` for the meter and the phase."""
        return "/".join("+" if s in (PLACEHOLDER, PHASE) else s for s in self.segments)

    def holds(self, meter: str) -> bool:
        """Whether a meter is of the agent's part of a fleet."""
        return self.shard is None or self.shard.holds(meter)

    def meter(self, topic: str) -> str | None:
        """The meter named by a topic; None when the topic is not of this template."""
        found = self.place(topic)
        return None if found is None else found[0]

    def place(self, topic: str) -> tuple[str, str | None] | None:
        """The meter and the phase named by a topic; None when the topic is not of this template."""
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
    """Whether a topic of the sink template, or of what is sent below it, could match the source's.

    Compared segment by segment, ``{meter}`` matching anything.
    """
    below = [sink, (*sink, "privacy"), (*sink, "privacy", PLACEHOLDER), (*sink, "total")]
    return any(len(source) == len(t) and all(map(_meet, source, t)) for t in below)


def _meet(one: str, other: str) -> bool:
    return one == other or bool({one, other} & {PLACEHOLDER, PHASE, SHARD})


def render(template: str, label: str) -> str:
    """The sink topic of a meter that leaves as `label`."""
    return template.replace(PLACEHOLDER, label)


def pseudonym(key: bytes, meter: str) -> str:
    """A keyed name for a meter: 16 hex digits of HMAC-SHA-256(key, meter).

    Whoever lacks the key cannot tell which meter it is, nor try names against it.
    """
    return hmac.new(key, meter.encode(), hashlib.sha256).hexdigest()[:16]


def claim(key: bytes, sink_topic: str) -> str:
    """Return a store's mark on a sink topic: 16 hex digits of HMAC-SHA-256(key, sink topic).

    It tells two stores apart, and nothing else: a store has another mark on each of its topics.
    """
    return hmac.new(key, sink_topic.encode(), hashlib.sha256).hexdigest()[:16]


def delay_ms(secret: bytes, stream: str, meter: str, spread_ms: int) -> int:
    """Return a meter's fixed delay in a stream, in [0, spread_ms], from a keyed hash (law 4).

    Delays of two streams have nothing in common: two receivers cannot match a meter's pseudonyms by them.
    """
    digest = hmac.new(secret, f"spread/{stream}/{meter}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") % (spread_ms + 1)
