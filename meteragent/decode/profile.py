"""Profiles: the quantities in a known device's messages, their readers, and the fields that must never leave.

A profile names quantities. Each is one number of a device's messages, or several of the same kind, with the
kind and unit that the device's documentation states. The configuration repeats both, and a profile refuses
others (law 5). All other content of a message is ignored (default deny).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from meteragent.decode import Decoder, PayloadNumber
from meteragent.decode.number import scaled
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in a device's messages.

    `read` returns the numbers in a payload, or raises PayloadError. `scale` is the number of W or Wh in one
    of the device's units; None: the payload does not state its unit, so the configuration does. `interval_ms`
    is the time that an interval energy covers, if the device's documentation states it. If it is not `timed`,
    the messages have no unambiguous time, so the arrival counts. `step_wh` is the step in which an energy is
    counted, if it is known; a quantity that `is_count` has steps of 1. `counters` is the number of counters
    that are summed.
    """

    kind: Kind
    scale: Fraction | None
    read: Callable[[bytes], Sequence[PayloadNumber]]
    interval_ms: int | None = None
    timed: bool = True
    step_wh: Fraction | None = None
    is_count: bool = False
    counters: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of devices on MQTT.

    `topics` are the usual templates, with the one to try first at the beginning. `quantities` are by name;
    the first of a kind is its default. `named` makes the quantity of any other name, for families whose users
    name their quantities themselves; it returns None for an impossible name.

    `every_ms` is the usual time between readings and `period_ms` the longest time between powers (0: they are
    sent on change; None: the operator has to state it). `hold_ms` is the default of `source.hold`.
    `quantum_w` is the device's resolution. The power is within `dead_band_w` of the last one sent (DESIGN 2);
    if that is not `dead_band_known`, the operator has to state it.

    `identifies` describes the {meter} of its topics if that names a device or a contract and so must not
    leave unchanged. If it `needs_id`, messages of several meters, which they name, come on one topic.
    `personal` are the fields that identify a person, a place or a contract; they are dropped. `traps` are
    facts to know before trusting a number.
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
    dead_band_known: bool = True
    identifies: str | None = None
    needs_id: bool = False
    personal: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()

    def quantity(self, kind: Kind, name: str | None) -> Quantity | None:
        """Return the quantity of a name, or without a name the first of the kind; None if there is none."""
        if name is not None:
            quantity = self.quantities.get(name)
            if quantity is not None and quantity.kind is kind:
                return quantity
            return None if self.named is None else self.named(kind, name)
        return next((quantity for quantity in self.quantities.values() if quantity.kind is kind), None)


def decoder(
    read: Callable[[bytes], Sequence[PayloadNumber]],
    scale: Fraction | None,
    unit: str,
    meter_id: str | None = None,
) -> Decoder:
    """Make a decoder that converts the numbers of `read` to readings in `unit`.

    `scale` is the number of W or Wh in one of the device's units; None: its unit is `unit`. If the payload
    names meters, only readings of `meter_id` count, because a radio hears the neighbours, too. The decoder
    raises PayloadError.
    """
    micro = scaled(Fraction(1) if scale is None else scale / UNIT_FACTOR[unit])

    def decode(payload: bytes) -> list[Reading]:
        numbers = read(payload)
        own_numbers = numbers if meter_id is None else [number for number in numbers if number.id == meter_id]
        if numbers and not own_numbers:
            raise PayloadError("refused_meter")
        return [Reading(number.time_ms, micro(number.number)) for number in own_numbers]

    return decode
