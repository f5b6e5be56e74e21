"""Topic templates, and the names under which meters leave.

A source template such as ``meters/{meter}/power`` has one segment that names the meter; the same
name goes into the sink template, or a keyed pseudonym of it. Devices that have a topic for each phase have
a segment ``{phase}``.
"""

import hashlib
import hmac
from dataclasses import dataclass

PLACEHOLDER = "{meter}"
PHASE = "{phase}"
_FORBIDDEN = ("+", "#", "\0")
_NAME_MAX = 128


def parse_template(text: str) -> tuple[str, ...]:
    """The segments of a template.

    Raises ValueError unless exactly one segment is ``{meter}`` and none is a wildcard.
    """
    segments = tuple(text.split("/"))
    if segments.count(PLACEHOLDER) != 1 or text.count("{") != 1:
        raise ValueError("a topic with one segment {meter}, such as 'meters/{meter}/power'")
    if any(mark in text for mark in _FORBIDDEN) or text.startswith("$"):
        raise ValueError("a topic without the wildcards + and # that does not start with $")
    return segments


def parse_source(text: str, *, named: bool, phases: bool) -> tuple[str, ...]:
    """The segments of a source's template.

    One is ``{meter}``, or none where the configuration has `named` the meter; one is ``{phase}`` where there
    are `phases`. Raises ValueError for any other.
    """
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


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A source template: the filter to subscribe to, and the meter and phase that a topic names.

    `name` is the meter's where the template has no ``{meter}``; `phases` are those that are summed, in
    the place of ``{phase}``.
    """

    segments: tuple[str, ...]
    name: str | None = None
    phases: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, name: str | None = None, phases: tuple[str, ...] = ()) -> "SourceTopic":
        """Read a template; raises ValueError as `parse_source`."""
        return cls(parse_source(text, named=name is not None, phases=bool(phases)), name, phases)

    @property
    def filter(self) -> str:
        """The MQTT subscription: the template with ``+`` for the meter and the phase."""
        return "/".join("+" if s in (PLACEHOLDER, PHASE) else s for s in self.segments)

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
    return one == other or bool({one, other} & {PLACEHOLDER, PHASE})


def render(template: str, label: str) -> str:
    """The sink topic of a meter that leaves as `label`."""
    return template.replace(PLACEHOLDER, label)


def pseudonym(key: bytes, meter: str) -> str:
    """A keyed name for a meter: 16 hex digits of HMAC-SHA-256(key, meter).

    Whoever lacks the key cannot tell which meter it is, nor try names against it.
    """
    return hmac.new(key, meter.encode(), hashlib.sha256).hexdigest()[:16]


def delay_ms(secret: bytes, meter: str, spread_ms: int) -> int:
    """A meter's fixed delay in [0, spread_ms], from a keyed hash (law 4)."""
    digest = hmac.new(secret, b"spread/" + meter.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") % (spread_ms + 1)
