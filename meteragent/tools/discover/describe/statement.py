"""Statements: the content of retained descriptions on the broker, one statement for each number."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meteragent.decode import PayloadNumber
from meteragent.decode.profiles import PROFILES
from meteragent.domain.counters import REFUSALS
from meteragent.domain.identity import is_publishable
from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import NOT_HEARD, Unplaced
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.points import UNIT_NAMES, Point, Unit, foreign_form, numbers_at
from meteragent.tools.discover.rows import place_of
from meteragent.tools.discover.words import Meaning, Role, meaning_of, split_words

_CLASSES = {"power": Kind.POWER, "energy": Kind.REGISTER}
_OTHER_CLASSES = {
    "apparent_power": "apparent power in VA is not power in W",
    "reactive_power": "reactive power is not power in W",
    "gas": "gas is not electricity",
    "water": "water is not electricity",
}
_APPARENT = frozenset({"VA", "kVA", "MVA"})
_REACTIVE = frozenset({"var", "kvar", "varh", "kvarh", "VAr", "kVAr", "VAR", "kVAR"})
_NO_NUMBER = "its messages have no number at the described place"
_BARE_NUMBER_PROFILES = ("homeassistant-statestream", "esphome")
"""Profiles for bare numbers that recognise the words by which a device says that it has no value."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The content of a description of one number; a field that the description omits is None or empty.

    `value` is the number's JMESPath expression, or None for a bare number. `names` holds the number's names,
    most specific first. `device` distinguishes devices. `problem` is the reason why the number cannot be
    read, if there is one. `is_total` is true if every energy in the description's format is a growing
    register. `profile` is the family's profile, if only that family describes numbers in this way.
    `unit_topic` is the topic of the description, if the agent can follow the unit there.
    """

    source: str
    topic: str
    value: str | None
    unit: str | None
    names: tuple[str, ...]
    device: str
    device_name: str = ""
    device_model: str = ""
    device_class: str | None = None
    state_class: str | None = None
    problem: str | None = None
    is_total: bool = False
    role: Role = Role.UNKNOWN
    profile: str | None = None
    unit_topic: str | None = None

    @property
    def is_electric(self) -> bool:
        """Whether the number may be power or energy, judging by its class or unit."""
        is_electric = self.device_class in {*_CLASSES, "apparent_power"}
        return is_electric or self.unit in UNIT_NAMES or self.unit in _APPARENT


def point_of(statement: Statement, logs: Mapping[str, TopicLog]) -> Point | Unplaced | None:
    """Return the point that a statement describes, or why it is not proposed; None if it is not electric."""
    if not statement.is_electric and statement.device_class not in _OTHER_CLASSES:
        return None
    stated = _meaning(statement)
    reason = _objection(statement, stated)
    unit = UNIT_NAMES.get(statement.unit or "")
    if reason is not None or unit is None:
        return _to_unplaced(statement, reason or "its description states no known unit")
    if (kind_problem := _kind_problem(statement, stated, unit)) is not None:
        return _to_unplaced(statement, kind_problem)
    log = logs.get(statement.topic)
    value: str | None = statement.value
    numbers: list[PayloadNumber] = []
    if log is not None and log.payloads:
        value, numbers = _numbers(statement, log)
        if not numbers:
            form = foreign_form(log)
            return _to_unplaced(statement, _NO_NUMBER if form is None else REFUSALS[form])
    return Point(
        log=log or TopicLog(statement.topic),
        value=value,
        kind=unit.kind,
        unit=unit.name,
        meaning=replace(stated, kind=unit.kind, unit=unit.name, role=_role(statement, stated)),
        device=statement.device,
        source=statement.source,
        rank=0,
        profile=statement.profile or _profile(statement.topic, value),
        factor=unit.factor,
        numbers=numbers,
        doubts=[] if log is not None and log.count else [NOT_HEARD],
        unit_topic=statement.unit_topic,
        device_name=statement.device_name or next(iter(statement.names), ""),
    )


def _numbers(statement: Statement, log: TopicLog) -> tuple[str | None, list[PayloadNumber]]:
    """Return the expression for a statement's numbers, which may be spelled as strings, and the numbers."""
    numbers = numbers_at(log, statement.value)
    if numbers or statement.value is None:
        return statement.value, numbers
    value = f"to_number({statement.value})"
    return value, numbers_at(log, value)


def _to_unplaced(statement: Statement, reason: str) -> Unplaced:
    name = statement.names[0] if statement.names else ""
    return Unplaced(statement.topic, f"{name}: {reason} ({statement.source})" if name else reason)


def _meaning(statement: Statement) -> Meaning:
    """Return the meaning of the names, the most specific first, without the words of the device's name."""
    stated, *context = [meaning_of(name) for name in statement.names or ("",)]
    for outer in context:
        stated = replace(
            stated.complete_with(outer),
            role=stated.role if stated.role is not Role.UNKNOWN else outer.role,
            objection=stated.objection or outer.objection,
        )
    device = frozenset(split_words(statement.device_name))
    return replace(stated, labels=stated.labels - device)


def _objection(statement: Statement, stated: Meaning) -> str | None:
    """Return the reason why a number is not a meter's power or energy, or cannot be read; otherwise None."""
    if statement.device_class in _OTHER_CLASSES:
        return _OTHER_CLASSES[statement.device_class]
    for kind, units in (("apparent_power", _APPARENT), ("reactive_power", _REACTIVE)):
        if statement.unit in units:
            return _OTHER_CLASSES[kind]
    if stated.objection is not None:
        return stated.objection
    if not is_publishable(statement.topic) or "{" in statement.topic:
        return "the agent cannot read its topic"
    return statement.problem


def _kind_problem(statement: Statement, stated: Meaning, unit: Unit) -> str | None:
    """Return the reason why the kind is uncertain; None if it is certain."""
    expected = _CLASSES.get(statement.device_class or "", unit.kind)
    if expected is not unit.kind:
        return f"device class {statement.device_class} and unit {statement.unit} contradict each other"
    if stated.kind is not None and stated.kind is not unit.kind and stated.unit is not None:
        return f"its name and its unit {statement.unit} contradict each other"
    if unit.kind is Kind.POWER:
        cumulative = statement.state_class in {"total", "total_increasing"}
        return f"state class {statement.state_class} of a power is a contradiction" if cumulative else None
    if statement.state_class is None:
        return None if statement.is_total or stated.is_register else _KIND_UNKNOWN
    return _NOT_REGISTERS.get(statement.state_class)


_NOT_REGISTERS = {
    "total": "state class total: it may be a register that falls or is reset, and its name does not say",
    "measurement": "state class measurement contradicts an energy: is it the energy of an interval?",
}
_KIND_UNKNOWN = (
    "its description does not say whether it is a register that only grows or the energy of each interval"
)


def _role(statement: Statement, stated: Meaning) -> Role:
    """Return the first role stated by the names, the description, or the device's name and model."""
    device = meaning_of(f"{statement.device_name} {statement.device_model}").role
    roles = (stated.role, statement.role, device)
    return next((role for role in roles if role is not Role.UNKNOWN), Role.UNKNOWN)


def _profile(topic: str, value: str | None) -> str:
    """Return a device's profile for a bare number on its usual topic, or else the profile of the format."""
    if value is not None:
        return "json"
    names = (name for name in _BARE_NUMBER_PROFILES if name in PROFILES)
    log = TopicLog(topic)
    matches = (name for name in names if any(place_of(template, log) for template in PROFILES[name].topics))
    return next(matches, "number")
