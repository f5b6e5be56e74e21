"""Tasmota: the ENERGY section of plugs and meters, and the frames of a French meter (Teleinfo)."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, number_or_text, value_at
from meteragent.decode.number import total
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_PERIOD_MS = 5 * MINUTE_MS
_HOLD_MS = 3 * _PERIOD_MS
_STEP_WH = Fraction(1)
"""Registers have three decimals of a kWh (EnergyRes); those of a French meter are in whole Wh."""
_TIME = "Time is local and has no zone: arrival counts"


def _section(payload: bytes, name: str) -> dict[str, Any]:
    """Return a section of a SENSOR message; raises PayloadError, `other` if there is no such section."""
    document = document_of(payload)
    if not isinstance(document, dict):
        raise PayloadError("refused_type")
    if name not in document:
        raise PayloadError("other")
    section = document[name]
    if not isinstance(section, dict):
        raise PayloadError("refused_type" if section is not None else "refused_missing")
    return section


def _energy(name: str, channel: int | None = None) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of a field, which is a number or a list with one number for each channel.

    Without a `channel`, the reader returns the sum of the channels.
    """

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number of the channel or the sum; raises PayloadError."""
        value = value_at(_section(payload, "ENERGY"), name)
        numbers = [number_of(number) for number in (value if isinstance(value, list) else [value])]
        if channel is not None:
            numbers = numbers[channel : channel + 1]
        if not numbers:
            raise PayloadError("refused_missing")
        return (PayloadNumber(None, total(numbers)),)

    return read


TASMOTA = Profile(
    name="tasmota",
    title="a Tasmota plug or meter",
    topics=("tele/{meter}/SENSOR",),
    quantities={
        "power": Quantity(Kind.POWER, Fraction(1), _energy("Power"), timed=False),
        **{
            f"power-{channel + 1}": Quantity(Kind.POWER, Fraction(1), _energy("Power", channel), timed=False)
            for channel in range(3)
        },
        "total": Quantity(Kind.REGISTER, Fraction(1000), _energy("Total"), timed=False, step_wh=_STEP_WH),
        "export": Quantity(
            Kind.REGISTER, Fraction(1000), _energy("ExportActive"), timed=False, step_wh=_STEP_WH
        ),
    },
    every_ms=_PERIOD_MS,
    period_ms=_PERIOD_MS,
    hold_ms=_HOLD_MS,
    identifies="the device's name, which by default ends in its MAC address",
    personal=("TotalStartTime", "other sensors of the message"),
    traps=(
        _TIME,
        "Power and Total are a number, or a list with one for each channel: summed, or one as power-1",
        "Today, Yesterday and Period are parts of Total: not offered",
        "EnergyTotal sets Total: a reset",
        "sent each TelePeriod (300 s), and on a change by PowerDelta if that is set: see source.dead_band",
        "the default period is long for power: shorten TelePeriod and source.every, or read total (no gaps)",
        "reading heads with a script choose their own fields: use profile = 'json'",
    ),
)

_CONTRACTS = (
    ("EAST",),
    ("BASE",),
    ("HCHC", "HCHP"),
    ("EJPHN", "EJPHPM"),
    ("BBRHCJB", "BBRHPJB", "BBRHCJW", "BBRHPJW", "BBRHCJR", "BBRHPJR"),
)
"""The registers of each contract, whose sum is the import. The first entry is for the standard mode."""


def _import_wh(payload: bytes) -> tuple[PayloadNumber]:
    """Read the sum of the registers of the frame's contract; raises PayloadError."""
    frame = _section(payload, "TIC")
    names = next((names for names in _CONTRACTS if any(name in frame for name in names)), None)
    if names is None:
        raise PayloadError("other")
    return (PayloadNumber(None, total(number_or_text(frame.get(name)) for name in names)),)


def _export_wh(payload: bytes) -> tuple[PayloadNumber]:
    """Read the register of the energy fed in; raises PayloadError."""
    frame = _section(payload, "TIC")
    if "EAIT" not in frame:
        raise PayloadError("other")
    return (PayloadNumber(None, number_or_text(frame["EAIT"])),)


TELEINFO = Profile(
    name="tasmota-teleinfo",
    title="a French meter's frames by Tasmota Teleinfo (it sends no power in W: PAPP and SINSTS are VA)",
    topics=("tele/{meter}/SENSOR",),
    quantities={
        "total": Quantity(
            Kind.REGISTER,
            Fraction(1),
            _import_wh,
            timed=False,
            step_wh=_STEP_WH,
            counters=max(map(len, _CONTRACTS)),
        ),
        "export": Quantity(Kind.REGISTER, Fraction(1), _export_wh, timed=False, step_wh=_STEP_WH),
    },
    every_ms=10_000,
    hold_ms=_HOLD_MS,
    identifies="the device's name, which by default ends in its MAC address",
    personal=("ADCO", "ADSC", "PRM", "OPTARIF", "NGTF", "ISOUSC", "MSG1", "MSG2"),
    traps=(
        _TIME,
        "PAPP and SINSTS are apparent power in VA, not W, and are refused; the registers have the energy",
        "the registers of all tariffs (HCHC + HCHP and so on) are summed: a frame without one is refused",
        "registers are texts with leading zeros, in Wh",
        "frames of changed fields alone cannot be read for contracts with tariffs: publish full frames",
    ),
)

PROFILES = (TASMOTA, TELEINFO)
