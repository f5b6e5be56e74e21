"""SenML in JSON (RFC 8428), from any device.

Devices choose the names of records, which contain no spaces. The quantities here have names with spaces, so
they never clash with a record's name.
"""

import re
from fractions import Fraction

from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.senml import J_IN_WH, reader
from meteragent.domain.units import MINUTE_MS, Kind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:./_-]*", re.ASCII)


def _named_quantity(kind: Kind, name: str) -> Quantity | None:
    """Return the quantity of records whose name is `name`, or ends in `name` after ``:`` or ``/``.

    Return None if no record can have such a name.
    """
    if not _NAME.fullmatch(name):
        return None
    return Quantity(kind, Fraction(1) if kind is Kind.POWER else J_IN_WH, reader(kind, name))


SENML = Profile(
    name="senml",
    title="a device that sends SenML packs in JSON (RFC 8428)",
    topics=("senml/{meter}",),
    quantities={
        "the only power": Quantity(Kind.POWER, Fraction(1), reader(Kind.POWER, None)),
        "the only register": Quantity(Kind.REGISTER, J_IN_WH, reader(Kind.REGISTER, None)),
        "the only sum": Quantity(Kind.REGISTER, J_IN_WH, reader(Kind.REGISTER, None, of_sum=True)),
        "the only interval": Quantity(Kind.INTERVAL_ENERGY, J_IN_WH, reader(Kind.INTERVAL_ENERGY, None)),
    },
    named=_named_quantity,
    every_ms=MINUTE_MS,
    hold_ms=15 * MINUTE_MS,
    identifies="the device's name in its topic",
    dead_band_known=False,
    personal=("bn", "n"),
    traps=(
        "if several names have a matching unit, source.value selects one: the full name or its end",
        "names often hold a MAC address or a serial number",
        "times below 2**28 s are relative to the arrival",
        "a pack with a field whose label ends in _ is refused, because such a field must be understood",
        "an energy in J, Wh or kWh may be that of a register or an interval: source.kind states which",
    ),
)

PROFILES = (SENML,)
