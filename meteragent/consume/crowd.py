"""The totals of crowds (docs/crowd.md): energies and means with their intervals, from messages.

    for total in crowd_totals(payloads)["elm-street"]:      # in any order, repeated or not
        total.energy(), total.mean(), total.homes

`homes` counts the gateways that reported in the slot. It does not count people, and nobody has verified that
each gateway has a real meter. A mean is taken over these gateways.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from meteragent.consume.message import Fields, Message, duration_ms, exact, load
from meteragent.consume.series import Estimate
from meteragent.crowd.group import LOSS_MAX, LOSS_MIN
from meteragent.crowd.share import HOMES_MAX, MODULUS
from meteragent.crowd.total import COVERAGE, half_width, sd
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import parse_time
from meteragent.domain.units import HOUR_MS
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire.descriptor import MECHANISM, facts_id


@dataclass(frozen=True)
class CrowdDescriptor:
    """The terms of a group's totals; each of the two operators draws from the distribution `noise`."""

    id: str
    group: str
    group_id: str
    noise: LInfLaplace
    level: Fraction
    hides_wh: Fraction
    step_ms: int
    facts: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, message: Message) -> Self:
        """Parse a descriptor, which must be consistent and have the id of its facts.

        Raises:
            RecordError: a field is missing, invalid or inconsistent; the error names it.
        """
        fields = Fields("descriptor", message, float)
        facts = {name: value for name, value in fields.facts.items() if name != "id"}
        if fields.text("id") != facts_id(facts):
            raise fields.error("id", "does not match its facts")
        epsilon, quantum = (fields.parse_with(name, exact) for name in ("epsilon", "quantum"))
        level, hides_wh = (fields.parse_with(name, exact) for name in ("level", "hides_wh"))
        agreements = {
            "mechanism": fields.text("mechanism") == MECHANISM,
            "draws": fields.number("draws") == 2,
            "rounding": fields.text("rounding") == "dithered",
            "unit": fields.text("unit") == "Wh",
            "epsilon_unit": fields.text("epsilon_unit") == "1/Wh",
            "quantum": quantum > 0,
            "epsilon": LOSS_MIN <= epsilon * quantum <= LOSS_MAX and epsilon * hides_wh == level,
            "n": fields.number("n") == 1,
        }
        for name, agrees in agreements.items():
            if not agrees:
                raise fields.error(name, "contradicts other fields, or is unknown to this version")
        try:
            noise = LInfLaplace(epsilon, quantum, 1)
        except ValueError:
            raise fields.error("epsilon", "does not make a mechanism with the quantum") from None
        step_ms = fields.parse_with("step", duration_ms)
        names = fields.text("id"), fields.text("group"), fields.text("group_id")
        return cls(*names, noise, level, hides_wh, step_ms, fields.facts)


@dataclass(frozen=True, slots=True)
class CrowdTotal:
    """The energy, in Wh, of those gateways of a group that reported in a slot.

    `homes` is the number of these gateways.
    """

    time_ms: int
    homes: int
    value_wh: Fraction
    descriptor: CrowdDescriptor

    def energy(self, coverage: float = COVERAGE) -> Estimate:
        """Estimate the energy of these gateways, in Wh.

        Raises:
            ValueError: the coverage is not between 0 and 1.
        """
        return self._estimate(1.0, coverage, "Wh")

    def mean(self, coverage: float = COVERAGE) -> Estimate:
        """Estimate the mean power per gateway over the slot, in W.

        Raises:
            ValueError: the coverage is not between 0 and 1.
        """
        hours = self.descriptor.step_ms / HOUR_MS
        return self._estimate(1 / (self.homes * hours), coverage, "W")

    def _estimate(self, factor: float, coverage: float, unit: str) -> Estimate:
        noise = self.descriptor.noise
        value = float(self.value_wh) * factor
        half = half_width(noise, self.homes, coverage) * factor
        return Estimate(value, sd(noise, self.homes) * factor, value - half, value + half, coverage, unit)


def crowd_totals(messages: Iterable[Message]) -> dict[str, list[CrowdTotal]]:
    """Collect the totals of each group, in time order, by the name of the group.

    Raises:
        RecordError: a message is neither a valid total nor a valid descriptor of totals; a total names a
            missing descriptor or contradicts its descriptor; or two different totals have the same group and
            slot.
    """
    descriptors: dict[str, CrowdDescriptor] = {}
    records: list[Fields] = []
    for message in messages:
        facts = load(message)
        if "mechanism" in facts:
            descriptor = CrowdDescriptor.parse(message)
            descriptors[descriptor.id] = descriptor
        else:
            records.append(Fields("total", message, Decimal))
    totals: dict[tuple[str, int], CrowdTotal] = {}
    for fields in records:
        total = _total(fields, descriptors)
        key = (total.descriptor.group_id, total.time_ms)
        if totals.setdefault(key, total) != total:
            raise fields.error("t", "is that of another total of the group")
    groups: dict[str, list[CrowdTotal]] = {}
    for total in sorted(totals.values(), key=lambda total: (total.time_ms, total.descriptor.group_id)):
        groups.setdefault(total.descriptor.group, []).append(total)
    return groups


def _total(fields: Fields, descriptors: Mapping[str, CrowdDescriptor]) -> CrowdTotal:
    """Return the total with the given fields.

    Raises RecordError if a field is invalid or contradicts the descriptor, or the descriptor is missing.
    """
    descriptor = descriptors.get(fields.text("d"))
    if descriptor is None:
        raise RecordError("a total whose descriptor is missing")
    time_ms, homes = fields.parse_with("t", parse_time), fields.integer("homes")
    quanta = fields.number("value") / descriptor.noise.quantum
    agreements = {
        "group": fields.text("group") == descriptor.group,
        "for": fields.parse_with("for", duration_ms) == descriptor.step_ms,
        "t": time_ms % descriptor.step_ms == 0,
        "unit": fields.text("unit") == "Wh",
        "homes": 0 < homes <= HOMES_MAX,
        "value": quanta.denominator == 1 and abs(quanta) < MODULUS,
    }
    for name, agrees in agreements.items():
        if not agrees:
            raise fields.error(name, "contradicts the descriptor")
    expected_sd = Fraction(sd(descriptor.noise, homes))
    if abs(fields.number("sd") - expected_sd) > expected_sd / 1000:
        raise fields.error("sd", "does not match the descriptor")
    return CrowdTotal(time_ms, homes, fields.number("value"), descriptor)
