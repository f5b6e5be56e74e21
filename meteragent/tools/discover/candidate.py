"""What may be a meter: where it is heard, how it is read, and what is to be known about it."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from meteragent.decode import Found
from meteragent.decode.profile import Profile
from meteragent.domain.units import UNIT_FACTOR, Kind
from meteragent.tools.discover.heard import Heard

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.ASCII)

_POWER = "power watt watts w kw load demand apower currently instantaneous"
_ENERGY = "energy kwh wh consumption register import export total delivered returned"
_OTHER = "reactive apparent factor var kvar va kva price cost gas water heat temperature voltage frequency"
_PART = "today yesterday day daily week weekly month monthly year yearly hour hourly period minute last"
POWER_WORDS = frozenset(_POWER.split())
ENERGY_WORDS = frozenset(_ENERGY.split())
OTHER_WORDS = frozenset(_OTHER.split())
PART_WORDS = frozenset(_PART.split())
"""Of registers that begin again: parts of the same secret."""

_OBIS = {"0100100700ff": Kind.POWER, "0100010800ff": Kind.REGISTER, "0100020800ff": Kind.REGISTER}
_IDENTIFIER = re.compile(r"(?=.*\d)(?:[0-9a-f]{6,}|[0-9A-F]{6,})|\d{5,}|(?:[0-9A-Fa-f]{2}[:-]){3,}", re.ASCII)


@dataclass(slots=True)
class Candidate:
    """One way to read some topics.

    `template` has {meter} where there are `meters`; `value` and `time` are for the configuration. `scale` is
    how many W or Wh a number is (None: not known). `rank`: 0 a known family on its usual topic, 1 by its
    payload, 2 a guess by names.
    """

    rank: int
    title: str
    profile: str
    template: str
    kind: Kind
    unit: str
    heard: Sequence[Heard]
    found: Sequence[Sequence[Found]] = ()
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
        """How many messages."""
        return sum(heard.count for heard in self.heard)

    @property
    def retained(self) -> int:
        """How many of them the broker had kept."""
        return sum(heard.retained for heard in self.heard)

    @property
    def watts(self) -> list[list[Decimal]]:
        """The numbers found, by topic and id, in W or Wh as far as that is known."""
        scale = self.scale if self.scale is not None else Fraction(UNIT_FACTOR[self.unit])
        factor = Decimal(scale.numerator) / Decimal(scale.denominator)
        rows: defaultdict[tuple[int, str | None], list[Decimal]] = defaultdict(list)
        for place, numbers in enumerate(self.found):
            for one in numbers:
                rows[place, one.id].append(one.number * factor)
        return list(rows.values())


def words(name: str) -> frozenset[str]:
    """The words that a name is made of, in lower case."""
    return frozenset(part.lower() for part in _PARTS.findall(name))


def implied(name: str) -> Kind | None:
    """The kind that a field's or a topic's name speaks of; None when it does not, or of several."""
    codes = {_OBIS[code] for code in _OBIS if code in name}
    if codes:
        return codes.pop()
    said = words(name)
    if said & OTHER_WORDS or said & PART_WORDS:
        return None
    if said & POWER_WORDS:
        return Kind.POWER
    return Kind.REGISTER if said & ENERGY_WORDS else None


def unit_in(name: str, kind: Kind) -> str | None:
    """The unit that a name says, where it fits the kind."""
    said = words(name)
    if kind is Kind.POWER:
        return "kW" if "kw" in said else "W" if said & {"w", "watt", "watts"} else None
    return "kWh" if "kwh" in said else "Wh" if "wh" in said else None


def identifies(topic: str) -> bool:
    """Whether a topic seems to hold a serial number, a MAC address or the like."""
    return _IDENTIFIER.search(topic) is not None
