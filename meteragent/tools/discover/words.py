"""The meaning of names: the kind, unit, direction, phase and tariff that a name's words state.

Theory of operation
-------------------
A name is the key of a field, a segment of a topic, or the description of a number. It is split into words at
punctuation, digits and capitals. A unit (kWh, Wh, kW, W) takes precedence over any other word, so
`total_power_import_kwh` is an energy. A word that belongs to another quantity (VA, volts, a maximum, a
tariff's price), to another medium (gas, water, heat), to a battery or to a part of a register (today) is an
objection: a number with such a name is not proposed, unless a known family's profile reads it.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from meteragent.domain.units import UNITS, Kind


class Direction(StrEnum):
    """The direction of the energy counted by a number."""

    DRAWN = "drawn"
    FED_IN = "fed in"
    NET = "drawn minus fed in"
    PRODUCED = "produced"
    UNSTATED = "direction not stated"


class Role(StrEnum):
    """What a number measures in a home."""

    MAINS = "main meter"
    UNKNOWN = "meter"
    DEVICE = "sub-meter of a device"
    PRODUCER = "panels or another producer"


_UNIT = r"(?<![A-Z])(?:[kKM]Wh|KWH|MWH|[kKM]W|[kK]VAR?|[kK]VArh?|KVARH)(?![a-z])"
_LOWER = r"(?:(?!k(?:Wh|W|VA))[^\W\d_A-Z])"
_WORD = re.compile(rf"{_UNIT}|[^\W\d_]?{_LOWER}+|[A-Z]+(?![^\W\d_A-Z])|[^\W\d_]|\d+")
_OBIS = re.compile(
    r"(?<!\d)(1|2|16|21|22|41|42|61|62)[._](7|8)[._](\d)(?!\d)|01000(1|2)0(8|7)0(\d)ff|(01001007)00ff"
)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_POWER = word_set(
    "power watt watts w kw mw kilowatt load demand apower currently instantaneous leistung wirkleistung"
    " momentanleistung puissance vermogen potencia potenza effekt teho moc"
)
_ENERGY = word_set(
    "energy kwh wh mwh consumption register import export imported exported delivered returned consumed"
    " energie wirkenergie zaehlerstand zählerstand verbrauch energia energi index meterstand"
    " consommation"
)
_SURE_ENERGY = word_set(
    "energy kwh wh mwh energie wirkenergie zaehlerstand zählerstand energia energi meterstand"
)
_UNITS = {
    **{unit.lower(): (kind, unit) for kind in (Kind.POWER, Kind.REGISTER) for unit in UNITS[kind]},
    **dict.fromkeys(("watt", "watts"), (Kind.POWER, "W")),
    **dict.fromkeys(("kilowatt", "kilowatts"), (Kind.POWER, "kW")),
}
_GROWS = word_set(
    "total register import export imported exported delivered returned cumulative counter lifetime"
    " index reading zaehlerstand zählerstand meterstand gesamt totaal ever"
)
"""Words for a register that only grows. An energy with such a word is not the energy of an interval."""
PART_WORDS = word_set(
    "today yesterday day daily week weekly month monthly year yearly hour hourly period minute last"
    " session trip heute gestern tag monat jahr dag maand jaar jour mois since interval previous prev"
    " current_day"
)
_LIMITS = word_set(
    "max maximum min minimum avg average mean peak limit rated nominal threshold target setpoint"
    " available forecast predicted prediction estimated estimate remaining capacity quota contract"
    " subscribed setting calibration overload trip standby alarm price cost tariff_price factor cos phi"
    " pf frequency voltage temperature humidity duration count uptime rssi linkquality signal error"
)
_APPARENT = word_set("va kva apparent scheinleistung apparente papp sinsts")
_REACTIVE = word_set("var kvar varh kvarh reactive blindleistung réactive reactiva")
_MEDIA = word_set(
    "gas water heat heating thermal gaz eau wasser wärme waerme warmte warmwasser heizung agua gás"
    " acqua steam m3 ft3 m³ ft³ cubic cold hot extra"
)
_FED_IN = word_set(
    "export exported returned return ret feedin injection injected teruglevering teruggeleverd surplus"
    " excess einspeisung eingespeist reverse backward geleverd terug inyectada injectée returndelivery"
    " rückspeisung"
)
_DRAWN = word_set(
    "load import imported consumed consumption drawn bezug purchased forward verbrauch afname usage demand"
    " demanded soutirage soutirée consumo consommation"
)
_FED_IN_PAIRS = {("feed", "in"), ("fed", "in"), ("to", "grid")}
_FED_IN_PAIRS |= {("total", "out"), ("e", "out"), ("energy", "out")}
_DRAWN_PAIRS = {("from", "grid"), ("total", "in"), ("e", "in"), ("energy", "in")}
_DELIVERED = frozenset({"delivered", "delivery"})
_AMBIGUOUS_DIRECTIONS = word_set("delivered delivery received supplied supply lieferung")
"""Words that some devices use for one direction and other devices for the opposite direction."""
_PRODUCER = word_set(
    "solar pv inverter produced production produce generated generation generator yield"
    " mppt dtu photovoltaic photovoltaik wechselrichter ertrag erzeugung zonnepanelen zon opwek wind"
    " string dc producing produce productie opbrengst"
)
_BATTERY = word_set("battery batteries batt bat accu akku soc storage speicher discharge discharging ess")
_DEVICES = word_set(
    "plug plugs socket outlet steckdose prise stekker charger wallbox evse washer dryer dishwasher"
    " fridge freezer oven boiler kettle tv pump pool aircon ac_unit lamp light appliance switch relay"
    " heater charge ev loadpoint"
)
_MAINS = word_set(
    "main mains grid smartmeter p1 dsmr netz hauptzähler hauptzaehler house household linky teleinfo"
    " sml ehz electricitymeter utility meter zaehler zähler stromzaehler stromzähler smart"
)
_TARIFFS = {
    **dict.fromkeys(word_set("low night nt offpeak hc hchc dal laag creuse creuses"), "low"),
    **dict.fromkeys(word_set("high ht onpeak hp hchp piek hoog pleine pleines normal"), "high"),
}
_AFTER_TARIFF = word_set("tariff tarif t rate tarief band")
_AFTER_PHASE = word_set("l phase ph leg fase phases")
_CHANNEL = word_set("channel ch kanal clamp emeter port input circuit")
_PHASES = {"1": "1", "2": "2", "3": "3", "a": "1", "b": "2", "c": "3"}
_FILLERS = word_set(
    "active real current currently actual total sum all act value val state sensor the of in to aktuell"
    " momentan gesamt summe sum total in_ tot electric electrical electricity strom meter instantaneous"
    " now usage cumulative lifetime reading counter register index ever positive energy_meter and ac"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a name's words; `objection` is the reason not to propose such a number.

    `is_quiet` is true if no word names apparent or reactive power, another medium, or a battery;
    `is_register` if a word or an OBIS code implies that an energy only grows. `labels` are the remaining
    words, which distinguish a device's measuring points.
    """

    kind: Kind | None = None
    unit: str | None = None
    direction: Direction | None = None
    phase: str | None = None
    channel: str | None = None
    tariff: str | None = None
    role: Role = Role.UNKNOWN
    is_delivered: bool = False
    is_register: bool = False
    is_total: bool = False
    objection: str | None = None
    is_quiet: bool = False
    is_medium: bool = False
    labels: frozenset[str] = frozenset()

    def complete_with(self, context: "Meaning") -> "Meaning":
        """Return this meaning, completed from `context` where this meaning states nothing."""
        return replace(
            self,
            direction=self.direction or context.direction,
            phase=self.phase or context.phase,
            tariff=self.tariff or context.tariff,
            channel=self.channel or context.channel,
            is_register=self.is_register or context.is_register,
            is_total=self.is_total or context.is_total,
        )


def split_words(name: str) -> list[str]:
    """Split a name into its words, in lower case; numbers are also words."""
    return [word.lower() for word in _WORD.findall(name)]


@lru_cache(maxsize=20_000)
def meaning_of(name: str) -> Meaning:
    """Return the meaning of one name's words."""
    parts = split_words(name)
    words = frozenset(parts)
    phase, channel, tariff, places = _numbered_words(parts)
    obis, direction = _obis(name), _direction(parts, words)
    kind, unit = _kind(words)
    if obis is not None:
        kind, unit = (obis[0], unit) if unit is None or kind is obis[0] else (None, None)
        direction, tariff, phase = obis[1], tariff or obis[2], phase or obis[3]
    return Meaning(
        kind=kind,
        unit=unit,
        direction=direction,
        phase=phase,
        channel=channel,
        tariff=tariff,
        role=_role(words),
        is_delivered=bool(words & _DELIVERED),
        is_register=bool(words & _GROWS) or obis is not None,
        is_total=bool(words & {"total", "sum", "all", "gesamt", "summe", "tot", "totaal"}),
        objection=_objection(words, parts),
        is_quiet=not words & (_APPARENT | _REACTIVE | _MEDIA | _BATTERY)
        and ("m", "3") not in pairwise(parts),
        is_medium=bool(words & _MEDIA),
        labels=frozenset(
            word
            for place, word in enumerate(parts)
            if place not in places
            and word not in _KNOWN
            and not (obis and (word.isdecimal() or word == "ff"))
        ),
    )


_KNOWN = (
    _POWER | _ENERGY | _FED_IN | _DRAWN | _AMBIGUOUS_DIRECTIONS | _FILLERS | frozenset(_UNITS) | {"k"}
) - {"load"}


def _numbered_words(parts: list[str]) -> tuple[str | None, str | None, str | None, set[int]]:
    """Return the phase, channel and tariff that the words name, and the positions of these words."""
    phase = channel = tariff = None
    places = set[int]()
    for place, word in enumerate(parts):
        following = parts[place + 1] if place + 1 < len(parts) else ""
        if word in _AFTER_PHASE and following in _PHASES:
            phase, places = _PHASES[following], places | {place, place + 1}
        elif word in _AFTER_TARIFF and following in {"0", "1", "2", "3", "4", "5", "6"}:
            places |= {place, place + 1}
            tariff = following if following != "0" else tariff
        elif word in _CHANNEL and following.isdecimal():
            channel, places = following, places | {place, place + 1}
        elif word in _TARIFFS:
            tariff, places = _TARIFFS[word], places | {place}
        elif word in _AFTER_TARIFF or word in _AFTER_PHASE:
            places.add(place)
    if phase is None and len(parts) > 1 and parts[-1] in {"a", "b", "c"}:
        phase, places = _PHASES[parts[-1]], places | {len(parts) - 1}
    return phase, channel, tariff, places


def _obis(name: str) -> tuple[Kind, Direction, str | None, str | None] | None:
    """Return the kind, direction, tariff and phase of an OBIS code in a name; None if there is no code."""
    match = _OBIS.search(name)
    if match is None:
        return None
    if match.group(7):
        return Kind.POWER, Direction.NET, None, None
    group = match.group(1) or match.group(4)
    kind = Kind.REGISTER if (match.group(2) or match.group(5)) == "8" else Kind.POWER
    tariff = (match.group(3) or match.group(6)) if kind is Kind.REGISTER else "0"
    phase = {"2": "1", "4": "2", "6": "3"}[group[0]] if len(group) == 2 and group != "16" else None
    ways = {"16": Direction.NET, "1": Direction.DRAWN, "2": Direction.FED_IN}
    direction = ways.get(group) or (Direction.DRAWN if group[1] == "1" else Direction.FED_IN)
    return kind, direction, None if tariff == "0" else tariff, phase


def _kind(words: frozenset[str]) -> tuple[Kind | None, str | None]:
    """Return the kind and unit that words name, first by units; None if they are ambiguous or not named."""
    units = {_UNITS[word] for word in words if word in _UNITS}
    if units:
        return units.pop() if len(units) == 1 else (None, None)
    if words & _SURE_ENERGY and not words & {"power"}:
        return Kind.REGISTER, None
    if words & _POWER:
        return (None, None) if words & _SURE_ENERGY else (Kind.POWER, None)
    return (Kind.REGISTER, None) if words & _ENERGY else (None, None)


def _direction(parts: list[str], words: frozenset[str]) -> Direction | None:
    """Return the direction; None if the words name no direction, or UNSTATED if they are ambiguous."""
    pairs = set(pairwise(parts))
    is_export = bool(words & _FED_IN or pairs & _FED_IN_PAIRS)
    is_import = bool(words & _DRAWN or pairs & _DRAWN_PAIRS)
    if is_export and is_import:
        return Direction.UNSTATED
    if is_export:
        return Direction.FED_IN
    if is_import:
        return Direction.DRAWN
    if words & {"net", "netto", "saldo", "balance", "saldiert"}:
        return Direction.NET
    if words & _PRODUCER:
        return Direction.PRODUCED
    return Direction.UNSTATED if words & _AMBIGUOUS_DIRECTIONS else None


def _role(words: frozenset[str]) -> Role:
    if words & _PRODUCER:
        return Role.PRODUCER
    if words & _DEVICES:
        return Role.DEVICE
    return Role.MAINS if words & _MAINS else Role.UNKNOWN


def _objection(words: frozenset[str], parts: list[str]) -> str | None:
    """Return the reason why a name's number is not a meter's power or energy; None if it may be."""
    if ("m", "3") in set(pairwise(parts)):
        return "m3 is a volume of gas or water"
    for names, reason in _OBJECTIONS:
        if matches := words & names:
            return reason.format(repr(min(matches)))
    return None


_OBJECTIONS = (
    (_APPARENT, "apparent power in VA is not power in W"),
    (_REACTIVE, "reactive power or energy is not power in W"),
    (_MEDIA, "{} names a medium other than electricity"),
    (_BATTERY, "a battery's charge or discharge is not what a home draws"),
    (PART_WORDS, "{} names a part of a register, which restarts at zero"),
    (_LIMITS, "{} names another quantity, a limit or a statistic"),
)
"""Words for something other than a meter's power or energy, each with the reason for the objection."""
