"""Hildebrand Glow: the display or stick of a British SMETS2 meter, over local MQTT."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_KILO, _WH = Fraction(1000), Fraction(1)


def _reader(unit: str, *names: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of a number in an object that states its unit."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number and its time; raises PayloadError, `other` for a gas meter."""
        document = document_of(payload)
        meter = value_at(document, "electricitymeter")
        if meter is None and value_at(document, "gasmeter") is not None:
            raise PayloadError("other")
        number = number_of(value_at(meter, *names))
        if value_at(meter, *names[:-1], "units") != unit:
            raise PayloadError("refused_unit")
        return (PayloadNumber(time_of(value_at(meter, "timestamp")), number),)

    return read


GLOW = Profile(
    name="glow",
    title="a Glow display or stick (electricity)",
    topics=("glow/{meter}/SENSOR/electricitymeter",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _reader("kW", "power", "value")),
        "import": Quantity(
            Kind.REGISTER, _KILO, _reader("kWh", "energy", "import", "cumulative"), step_wh=_WH
        ),
        "export": Quantity(
            Kind.REGISTER, _KILO, _reader("kWh", "energy", "export", "cumulative"), step_wh=_WH
        ),
    },
    every_ms=10_000,
    period_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    identifies="the device's MAC address",
    personal=("mpan", "supplier", "price", "day", "week", "month"),
    traps=(
        "MPAN, supplier and tariff are in the same object as the register",
        "the registers of day, week and month are not offered: they are parts of the same secret",
        "the gas meter is on another topic; its messages are counted as other",
    ),
)

PROFILES = (GLOW,)
