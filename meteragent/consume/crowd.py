"""The totals of crowds (docs/crowd.md): energies and means with their intervals, from messages.

    for total in crowd_totals(payloads)["elm-street"]:      # in any order, repeated or not
        total.energy(), total.mean(), total.homes

`homes` counts the gateways that reported in the slot, over which a mean is taken: not people, and not
verified meters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from meteragent.consume.message import Fields, Message, id_of, load_fields
from meteragent.consume.series import Estimate
from meteragent.crowd.error import COVERAGE, crowd_half_width, crowd_sd
from meteragent.crowd.group import LOSS_MAX, LOSS_MIN
from meteragent.crowd.share import HOMES_MAX, MODULUS
from meteragent.domain.errors import RecordError
from meteragent.domain.units import HOUR_MS
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire import grammar
from meteragent.wire.grammar import Row, Table, constant, exact_number, number
from meteragent.wire.number import BOUNDS, Bounds
from meteragent.wire.shapes import TWO_OPERATORS

_DESCRIPTOR = Table(
    "descriptor",
    16_384,
    {
        "v": grammar.VERSION,
        "id": Row(grammar.ID),
        "mechanism": Row(constant(TWO_OPERATORS["mechanism"])),
        "group": Row(grammar.NAME),
        "group_id": Row(grammar.NAME),
        **{name: Row(exact_number(BOUNDS[name])) for name in ("epsilon", "level", "hides_wh", "quantum")},
        "epsilon_unit": Row(constant("1/Wh")),
        "n": Row(constant(1)),
        "unit": Row(constant("Wh")),
        "step": Row(grammar.duration()),
        "draws": Row(constant(2)),
        "rounding": Row(constant("dithered")),
    },
)
_VALUE_MAX = MODULUS * 10**6
_TOTAL = Table(
    "total",
    2_048,
    {
        "v": grammar.VERSION,
        "group": Row(grammar.NAME),
        "t": Row(grammar.TIME),
        "for": Row(grammar.duration()),
        "homes": Row(grammar.integer(Bounds(1, HOMES_MAX))),
        "value": Row(number(Bounds(-_VALUE_MAX, _VALUE_MAX))),
        "unit": Row(constant("Wh")),
        "sd": Row(grammar.SD),
        "d": Row(grammar.ID),
    },
)


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
        """Parse a descriptor. Raises RecordError, which names a field that is missing or wrong."""
        fields = Fields(_DESCRIPTOR, message, float)
        if fields["id"] != id_of(fields.facts, {"id"}):
            raise fields.error("id", "does not match its facts")
        names = "epsilon", "quantum", "level", "hides_wh"
        epsilon, quantum, level, hides_wh = (fields[name] for name in names)
        is_exact = LOSS_MIN <= epsilon * quantum <= LOSS_MAX and epsilon * hides_wh == level
        fields.require([("epsilon", is_exact)])
        try:
            noise = LInfLaplace(epsilon, quantum, 1)
        except ValueError:
            raise fields.error("epsilon", "does not make a mechanism with the quantum") from None
        group = fields["group"], fields["group_id"]
        return cls(fields["id"], *group, noise, level, hides_wh, fields["step"], fields.facts)


@dataclass(frozen=True, slots=True)
class CrowdTotal:
    """The energy, in Wh, of the gateways of a group that reported in a slot; their number is `homes`."""

    time_ms: int
    homes: int
    value_wh: Fraction
    descriptor: CrowdDescriptor

    def energy(self, coverage: float = COVERAGE) -> Estimate:
        """Estimate these gateways' energy in Wh. Raises ValueError unless coverage is between 0 and 1."""
        return self._estimate(1.0, coverage, "Wh")

    def mean(self, coverage: float = COVERAGE) -> Estimate:
        """Estimate the mean power per gateway, in W. Raises ValueError as `energy` does."""
        hours = self.descriptor.step_ms / HOUR_MS
        return self._estimate(1 / (self.homes * hours), coverage, "W")

    def _estimate(self, factor: float, coverage: float, unit: str) -> Estimate:
        noise = self.descriptor.noise
        value = float(self.value_wh) * factor
        half = crowd_half_width(noise, self.homes, coverage) * factor
        return Estimate(
            value, crowd_sd(noise, self.homes) * factor, value - half, value + half, coverage, unit
        )


def crowd_totals(messages: Iterable[Message]) -> dict[str, list[CrowdTotal]]:
    """Collect the totals of each group, in time order, by the name of the group.

    Raises RecordError if a message is neither a valid total nor a valid descriptor of totals; a total names a
    missing descriptor or contradicts its descriptor; or two different totals have the same group and slot.
    """
    descriptors: dict[str, CrowdDescriptor] = {}
    records: list[Fields] = []
    for message in messages:
        facts = load_fields(message)
        if "mechanism" in facts:
            descriptor = CrowdDescriptor.parse(message)
            descriptors[descriptor.id] = descriptor
        else:
            records.append(Fields(_TOTAL, message, Decimal))
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
    """Return the total with the given fields. Raises RecordError if it contradicts its descriptor."""
    descriptor = descriptors.get(fields["d"])
    if descriptor is None:
        raise RecordError("a total whose descriptor is missing")
    time_ms, homes = fields["t"], fields["homes"]
    quanta = fields["value"] / descriptor.noise.quantum
    agreements = {
        "group": fields["group"] == descriptor.group,
        "for": fields["for"] == descriptor.step_ms,
        "t": time_ms % descriptor.step_ms == 0,
        "value": quanta.denominator == 1 and abs(quanta) < MODULUS,
    }
    fields.require(agreements.items(), "contradicts the descriptor")
    expected_sd = Fraction(crowd_sd(descriptor.noise, homes))
    if abs(fields["sd"] - expected_sd) > expected_sd / 1000:
        raise fields.error("sd", "does not match the descriptor")
    return CrowdTotal(time_ms, homes, fields["value"], descriptor)
