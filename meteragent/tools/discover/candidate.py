"""A possible meter: its topics, how to read it, and what is uncertain about it."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.profile import Profile
from meteragent.domain.units import UNIT_FACTOR, Kind
from meteragent.tools.discover.listener import TopicLog

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.ASCII)

_POWER = "power watt watts w kw load demand apower currently instantaneous"
_ENERGY = "energy kwh wh consumption register import export total delivered returned"
_OTHER = "reactive apparent factor var kvar va kva price cost gas water heat temperature voltage frequency"
_PART = "today yesterday day daily week weekly month monthly year yearly hour hourly period minute last"
POWER_WORDS = frozenset(_POWER.split())
ENERGY_WORDS = frozenset(_ENERGY.split())
OTHER_WORDS = frozenset(_OTHER.split())
PART_WORDS = frozenset(_PART.split())
"""Words of registers that start again each day, week, ..: parts of the same secret."""

_OBIS = {"0100100700ff": Kind.POWER, "0100010800ff": Kind.REGISTER, "0100020800ff": Kind.REGISTER}
_IDENTIFIER = re.compile(r"(?=.*\d)(?:[0-9a-f]{6,}|[0-9A-F]{6,})|\d{5,}|(?:[0-9A-Fa-f]{2}[:-]){3,}", re.ASCII)


@dataclass(slots=True)
class Candidate:
    """One way to read some topics.

    `template` has {meter} if there are `meters`; `value` and `time` are for the configuration. `numbers` has
    the numbers of each topic; `scale` is the value of 1 in W or Wh (None: unknown). `rank` is 0 for a known
    family on its usual topic, 1 for a family recognised by its payload, 2 for a guess by names.
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
    timed: bool = False
    interval_ms: int | None = None
    device: Profile | None = None
    scale: Fraction | None = None
    doubts: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of messages."""
        return sum(log.count for log in self.topics)

    @property
    def retained(self) -> int:
        """The number of messages that the broker had retained."""
        return sum(log.retained for log in self.topics)

    @property
    def watts(self) -> list[list[Decimal]]:
        """The numbers by topic and id, in W or Wh as far as that is known."""
        scale = self.scale if self.scale is not None else Fraction(UNIT_FACTOR[self.unit])
        factor = Decimal(scale.numerator) / Decimal(scale.denominator)
        rows: defaultdict[tuple[int, str | None], list[Decimal]] = defaultdict(list)
        for index, numbers in enumerate(self.numbers):
            for match in numbers:
                rows[index, match.id].append(match.number * factor)
        return list(rows.values())


def words(name: str) -> frozenset[str]:
    """Split a name into its words, in lower case."""
    return frozenset(part.lower() for part in _PARTS.findall(name))


def implied(name: str) -> Kind | None:
    """Return the kind that the name of a field or topic suggests; None if it suggests none or several."""
    codes = {_OBIS[code] for code in _OBIS if code in name}
    if codes:
        return codes.pop()
    parts = words(name)
    if parts & OTHER_WORDS or parts & PART_WORDS:
        return None
    if parts & POWER_WORDS:
        return Kind.POWER
    return Kind.REGISTER if parts & ENERGY_WORDS else None


def unit_in(name: str, kind: Kind) -> str | None:
    """Return the unit that a name contains, if it fits the kind."""
    parts = words(name)
    if kind is Kind.POWER:
        return "kW" if "kw" in parts else "W" if parts & {"w", "watt", "watts"} else None
    return "kWh" if "kwh" in parts else "Wh" if "wh" in parts else None


def identifies(topic: str) -> bool:
    """Return whether a topic seems to hold a serial number, a MAC address or the like."""
    return _IDENTIFIER.search(topic) is not None
