"""What a profile is: what a known device says, how it is read, and what of it must never leave.

A profile names quantities. Each is one number of a device's messages, or several of the same kind,
with its kind and unit as the device's documentation states them: the configuration repeats both,
and a profile refuses others (law 5). Whatever else a message holds is not looked at (default deny).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from meteragent.decode import Decoder, Found
from meteragent.decode.number import scaled
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a device's messages hold.

    `read` gives what it finds in a payload, or raises PayloadError. `scale` is how many W or Wh one of
    its own unit is; None: the payload does not say, the unit is the configuration's. `interval_ms` is
    what an interval energy covers, where the device's documentation states it. Not `timed`: the messages
    have no time that says which instant it is, so the arrival counts. `step_wh` is the step in which an
    energy is counted, where it is known; one that `is_count` has steps of 1. `counters` of them are summed.
    """

    kind: Kind
    scale: Fraction | None
    read: Callable[[bytes], Sequence[Found]]
    interval_ms: int | None = None
    timed: bool = True
    step_wh: Fraction | None = None
    is_count: bool = False
    counters: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of devices on MQTT.

    `topics` are the usual templates, the first the one to try; `quantities` by name, the first of a kind
    being its default; `named` makes the quantity of another name, where the users of a family name what
    their devices send (None: it cannot be one). `every_ms` is how far apart readings usually are,
    `period_ms` how far apart powers are at most (0: they are sent on change; None: the operator has to state
    it), `hold_ms` how long a power reading stands where nothing is written; `quantum_w` is the device's
    resolution, and a power stands within `dead_band_w` of what the device last sent (DESIGN 2); where that is
    not `dead_band_known`, the operator has to state it. `identifies` says what the {meter} of its topics is,
    when that names a device or a contract: then it must not leave as it is. `needs_id`: its messages name
    meters, several of which come on one topic. `personal` are the fields that identify a person, a place or a
    contract, and are dropped; `traps` are what to know before trusting a number.
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
        """The quantity of a name; without one the first of the kind. None when there is none."""
        if name is not None:
            found = self.quantities.get(name)
            if found is not None and found.kind is kind:
                return found
            return None if self.named is None else self.named(kind, name)
        return next((one for one in self.quantities.values() if one.kind is kind), None)


def decoder(
    read: Callable[[bytes], Sequence[Found]], scale: Fraction | None, unit: str, meter_id: str | None = None
) -> Decoder:
    """What `read` finds as readings in `unit`; `scale` is how many W or Wh a number is (None: one unit).

    Of a payload that names meters, only what is of `meter_id` counts: a radio hears the neighbours
    too. The decoder raises PayloadError.
    """
    micro = scaled(Fraction(1) if scale is None else scale / UNIT_FACTOR[unit])

    def decode(payload: bytes) -> list[Reading]:
        found = read(payload)
        mine = found if meter_id is None else [one for one in found if one.id == meter_id]
        if found and not mine:
            raise PayloadError("refused_meter")
        return [Reading(one.time_ms, micro(one.number)) for one in mine]

    return decode
