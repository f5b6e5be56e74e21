"""Profiles: the quantities in a known device's messages, their readers, and the fields that are dropped.

The kind and, if it is known, the unit of a quantity come from the device's documentation. The configuration
states both, too (law 5): a kind that the device does not have is refused, and numbers are converted to the
configured unit. The rest of a message is ignored (default deny).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from meteragent.decode import Decoder, Read
from meteragent.decode.number import make_scaler
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import UNIT_FACTOR, Kind

Direction = Literal["import", "export", "net", "both"]
"""The direction of a number: energy drawn, energy fed in, their difference, or their sum."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a profile's facts: an address, a date, and whether the messages were captured."""

    address: str
    date: str
    facts: Literal["captured", "from documentation"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The `origins` of facts about a family, and signs that show the family if users have changed its topics.

    `marks` returns whether a document certainly comes from the family; it is None if messages are
    recognised by their quantities, or not at all. `ends` are ends of topics that the family always uses.
    If other families may use the same ends, one of the topics in `beside` must have been received, too.
    """

    origins: tuple[Origin, ...] = ()
    marks: Callable[[Any], bool] | None = None
    ends: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def is_captured(self) -> bool:
        """Whether real messages were captured, not only documentation read."""
        return any(origin.facts == "captured" for origin in self.origins)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in a device's messages.

    `read` returns the numbers in a payload, or raises PayloadError. `scale` is the number of W or Wh in one
    of the device's units; None if the configuration has to state the unit. `interval_ms` is the time that an
    interval energy covers, and `every_ms` the usual time between readings, if it is not the profile's.
    `has_time` is False if the messages have no unambiguous time. `step_wh` is the step in which an energy is
    counted, if known; if `is_count`, the step is one count, whose energy `source.scale` states. `counters` is
    the number of counters that are summed. `topic` is the end of the topic on which this quantity is sent as
    a bare number. If times are local, `in_zone` makes a reader for another time zone, or for "arrival".
    """

    kind: Kind
    scale: Fraction | None
    read: Read
    interval_ms: int | None = None
    every_ms: int | None = None
    has_time: bool = True
    step_wh: Fraction | None = None
    is_count: bool = False
    counters: int = 1
    direction: Direction | None = None
    topic: str | None = None
    in_zone: Callable[[str], Read] | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of devices on MQTT.

    `topics` are the usual topic templates, the most likely first. Of `quantities`, the first of a kind is the
    default of that kind. `named` makes the quantity for any other name, for families whose users name the
    quantities; it returns None if the name is impossible.

    `every_ms` is the usual time between readings. `period_ms` is the longest time between powers (0: on
    change; None: the operator has to state it). `hold_ms` is the default of `source.hold`. `quantum_w` is the
    step in which the device states powers. The load is within `dead_band_w` of the last power sent (DESIGN
    2); if `knows_dead_band` is False, the operator has to state it.

    `identifies` describes the `{meter}` in the topics if it names a device, a person or a contract. If
    `needs_id`, one topic carries messages of several meters. `personal` lists the fields that identify a
    person, a place or a contract; these fields are dropped. `traps` are facts to know beforehand, and
    `fields` the names that the profile reads in payloads.
    """

    name: str
    title: str
    topics: tuple[str, ...]
    quantities: Mapping[str, Quantity]
    every_ms: int
    hold_ms: int
    period_ms: int | None = None
    named: Callable[[Kind, str], Quantity | None] | None = None
    quantum_w: Fraction = Fraction(1)
    dead_band_w: Fraction = Fraction(0)
    knows_dead_band: bool = True
    identifies: str | None = None
    needs_id: bool = False
    personal: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    evidence: Evidence = Evidence()

    def find_quantity(self, kind: Kind, name: str | None) -> Quantity | None:
        """Return the quantity with a kind and, if it is given, a name; None if there is no such quantity."""
        if name is not None:
            quantity = self.quantities.get(name)
            if quantity is not None and quantity.kind is kind:
                return quantity
            return None if self.named is None else self.named(kind, name)
        return next((quantity for quantity in self.quantities.values() if quantity.kind is kind), None)

    def usual_period_ms(self, quantity: Quantity | None) -> int:
        """Return the usual time between readings of a quantity, or else between messages."""
        return (quantity and quantity.every_ms) or self.every_ms


@dataclass(frozen=True, slots=True)
class CodedPart:
    """The facts about a family that only code can state; a `Profile` combines them with its file's facts."""

    quantities: Mapping[str, Quantity]
    named: Callable[[Kind, str], Quantity | None] | None = None
    needs_id: bool = False
    fields: tuple[str, ...] = ()


def make_decoder(read: Read, scale: Fraction | None, unit: str, meter_id: str | None = None) -> Decoder:
    """Make a decoder that converts the numbers from `read` to readings in `unit`.

    `scale` is the number of W or Wh in one of the device's units; None if that is `unit`. With a `meter_id`,
    only that meter's numbers are used, because a radio also receives the neighbours' meters.
    """
    micro = make_scaler(Fraction(1) if scale is None else scale / UNIT_FACTOR[unit])

    def decode(payload: bytes) -> list[Reading]:
        """Return the meter's readings. Raises PayloadError if the payload only has other meters' numbers."""
        numbers = read(payload)
        own_numbers = numbers if meter_id is None else [number for number in numbers if number.id == meter_id]
        if numbers and not own_numbers:
            raise PayloadError("refused_meter")
        return [Reading(number.time_ms, micro(number.number), number.seen_ms) for number in own_numbers]

    return decode
