"""SenML in JSON (RFC 8428): whatever device sends it.

The names of records are the device's own, and have no spaces: quantities that mean no name have some.
"""

import re
from fractions import Fraction

from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.senml import J_IN_WH, reader
from meteragent.domain.units import MINUTE_MS, Kind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:./_-]*", re.ASCII)


def _named(kind: Kind, name: str) -> Quantity | None:
    """The records of a name, or of its end behind a ``:`` or ``/``."""
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
    named=_named,
    every_ms=MINUTE_MS,
    hold_ms=15 * MINUTE_MS,
    identifies="what names the device in its topic",
    dead_band_known=False,
    personal=("bn", "n"),
    traps=(
        "where a pack has several names of a fitting unit, source.value says which: the full name or its end",
        "names often hold a MAC address or a serial number",
        "times below 2**28 s are relative to the arrival",
        "a field whose label ends in _ must be understood: such a pack is refused",
        "an energy in J, Wh or kWh may be a register or an interval's: source.kind says which",
    ),
)

PROFILES = (SENML,)
