"""A possible meter: its topics, how to read it, and its uncertainties."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber
from meteragent.decode.profile import Profile
from meteragent.domain.units import UNIT_FACTOR, Kind
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.words import Direction, Role

NOT_HEARD = "described on the broker, but no message came while listening: is the device on?"
"""The doubt about a candidate or point that a description states, but from which no message came."""
_IDENTIFIER = re.compile(r"(?=.*\d)(?:[0-9a-f]{6,}|[0-9A-F]{6,})|\d{5,}|(?:[0-9A-Fa-f]{2}[:-]){3,}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A topic or a number that is not proposed: the reason, and the missing and known keys of `source`."""

    topic: str
    reason: str
    missing: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Candidate:
    """One way to read a meter from one or more topics.

    `template` contains {meter} if there are `meters`. `value` and `time` are the keys of the same names in
    `[source]`, and `factor` is the key `scale`. `numbers` has a list of numbers for each topic. `scale` is
    what 1 in a payload means, in W or Wh, if known. `rank` is 0 for a known family on its usual topic or a
    description on the broker, 1 for a family recognised by its payload, and 2 for a name that states kind and
    unit. `alternatives` are other quantities of the meter. A message on `unit_topic` may state the unit.
    """

    rank: int
    title: str
    profile: str
    template: str
    kind: Kind
    unit: str
    topics: Sequence[TopicLog]
    numbers: Sequence[Sequence[PayloadNumber]] = ()
    meters: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    ids: Counter[str] = field(default_factory=Counter)
    value: str | None = None
    time: str | None = None
    has_time: bool = False
    interval_ms: int | None = None
    device: Profile | None = None
    scale: Fraction | None = None
    factor: Fraction | None = None
    direction: Direction = Direction.UNSTATED
    role: Role = Role.UNKNOWN
    label: str = ""
    certainty: str = ""
    doubts: list[str] = field(default_factory=list)
    unit_topic: str | None = None
    alternatives: list["Candidate"] = field(default_factory=list)

    @property
    def message_count(self) -> int:
        """The number of messages."""
        return sum(log.count for log in self.topics)

    @property
    def retained_count(self) -> int:
        """The number of messages that the broker had retained."""
        return sum(log.retained for log in self.topics)

    @property
    def watts(self) -> list[list[Decimal]]:
        """The numbers by topic and id, in W or Wh; if `scale` is None, `unit` is assumed."""
        scale = self.scale if self.scale is not None else Fraction(UNIT_FACTOR[self.unit])
        factor = Decimal(scale.numerator) / Decimal(scale.denominator)
        rows: defaultdict[tuple[int, str | None], list[Decimal]] = defaultdict(list)
        for index, numbers in enumerate(self.numbers):
            for match in numbers:
                rows[index, match.id].append(match.number * factor)
        return list(rows.values())

    @property
    def quantity_text(self) -> str:
        """The quantity in words, such as 'power in W, drawn'."""
        suffix = "" if self.direction is Direction.UNSTATED else f", {self.direction}"
        label = f" ({self.label})" if self.label else ""
        return f"{str(self.kind).replace('_', ' ')} in {self.unit}{suffix}{label}"


def logs_of(candidate: Candidate) -> list[TopicLog]:
    """Return the topics of a candidate and of its alternatives."""
    return [log for offer in (candidate, *candidate.alternatives) for log in offer.topics]


def has_identifier(topic: str) -> bool:
    """Return whether a topic seems to contain a serial number, a MAC address or a similar identifier."""
    return _IDENTIFIER.search(topic) is not None
