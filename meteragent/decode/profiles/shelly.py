"""Shelly Gen2, Gen3 and Gen4 (JSON), and Gen1 (bare numbers).

A Gen2+ device sends the status of a component, such as em:0, on ``<prefix>/status/em:0``, without a time. It
sends the changes of all components in a NotifyStatus on ``<prefix>/events/rpc``, with ``params.ts``. Both
messages are read. A notification without the quantity is neither an error nor a reading.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

_NOTIFICATIONS = ("NotifyStatus", "NotifyFullStatus")
_WH, _MWH, _W_MIN = Fraction(1), Fraction(1, 1000), Fraction(1, 60)
_STEP_WH = Fraction(1, 100)
"""The step of registers, which are in Wh with two decimals or more."""
_ABSENT = object()


def _status(payload: bytes, component: str, *names: str) -> tuple[Any, int | None]:
    """Return the value at a path of names in a component, and its time; raises PayloadError.

    A value that is missing from a notification has not changed: the message is counted as `other`.
    """
    document = document_of(payload)
    if not isinstance(document, dict):
        raise PayloadError("refused_type")
    if "method" not in document:
        return value_at(document, *names), None
    if document["method"] not in _NOTIFICATIONS:
        raise PayloadError("other")
    params = document.get("params")
    fields = value_at(params, component, *names[:-1])
    value = fields.get(names[-1], _ABSENT) if isinstance(fields, dict) else _ABSENT
    if value is _ABSENT:
        raise PayloadError("other")
    return value, time_of(value_at(params, "ts"))


def _number(component: str, *names: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of one number of a component."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number and its time, if there is one; raises PayloadError."""
        value, time_ms = _status(payload, component, *names)
        return (PayloadNumber(time_ms, number_of(value)),)

    return read


def _minutes(component: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of the last full minutes; the first minute in the list ends at `minute_ts`."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the energies of the minutes, oldest first; raises PayloadError."""
        energy, _ = _status(payload, component, "aenergy")
        end_ms, blocks = time_of(value_at(energy, "minute_ts")), value_at(energy, "by_minute")
        if end_ms % MINUTE_MS:
            raise PayloadError("refused_time")
        if not isinstance(blocks, list):
            raise PayloadError("refused_missing" if blocks is None else "refused_type")
        numbers: list[Decimal] = [number_of(block) for block in blocks]
        if not numbers:
            raise PayloadError("refused_missing")
        return [
            PayloadNumber(end_ms - position * MINUTE_MS, number)
            for position, number in reversed(list(enumerate(numbers)))
        ]

    return read


def _channels(count: int, name: str, make: Callable[[int], Quantity]) -> dict[str, Quantity]:
    """Make a quantity for each channel; the quantity of channel 0 has the name without a number."""
    return {name if channel == 0 else f"{name}-{channel}": make(channel) for channel in range(count)}


def _power(component: str, *names: str) -> Quantity:
    return Quantity(Kind.POWER, Fraction(1), _number(component, *names))


def _register(component: str, *names: str) -> Quantity:
    return Quantity(Kind.REGISTER, _WH, _number(component, *names), step_wh=_STEP_WH)


def _by_minute(component: str) -> Quantity:
    return Quantity(Kind.INTERVAL_ENERGY, _MWH, _minutes(component), interval_ms=MINUTE_MS, step_wh=_MWH)


def _metered(component: str, channels: int) -> dict[str, Quantity]:
    """Make the quantities of a component with a power meter."""
    return {
        **_channels(channels, "power", lambda i: _power(f"{component}:{i}", "apower")),
        **_channels(channels, "energy", lambda i: _register(f"{component}:{i}", "aenergy", "total")),
        **_channels(channels, "returned", lambda i: _register(f"{component}:{i}", "ret_aenergy", "total")),
        **_channels(channels, "minutes", lambda i: _by_minute(f"{component}:{i}")),
    }


_IDENTIFIES = "the device's name, which holds its MAC address"
_PERSONAL = ("src", "dst", "mac", "ssid", "sta_ip")
_ON_CHANGE = "sent when the power has changed by more than 10 W or 5 %, so up to 10 W remain unsent"
_TIMES = "status/… has no time (arrival counts), events/rpc has params.ts"
_STEADY = "while the power is constant, possibly nothing is sent: a reading holds for an hour"
_PARTIAL = "a NotifyStatus holds only changes: one without the quantity is counted as other"
_RESET = "ResetCounters sets registers to 0: a reset"
_CHANNELS = "on events/rpc power is the first channel; select others by name (power-1) or by status topic"


def _gen2(
    name: str,
    title: str,
    components: tuple[str, ...],
    quantities: dict[str, Quantity],
    *traps: str,
    band_w: int = 10,
) -> Profile:
    """Make the profile of a Gen2+ device with these components and a dead band of `band_w`."""
    return Profile(
        name=name,
        title=title,
        topics=("{meter}/events/rpc", *(f"{{meter}}/status/{component}" for component in components)),
        quantities=quantities,
        every_ms=MINUTE_MS,
        hold_ms=HOUR_MS,
        period_ms=0,
        quantum_w=Fraction(1, 10),
        dead_band_w=Fraction(band_w),
        identifies=_IDENTIFIES,
        personal=_PERSONAL,
        traps=(*traps, _STEADY, _PARTIAL, _TIMES, _RESET),
    )


EM = _gen2(
    "shelly-gen2-em",
    "a Shelly Pro 3EM or 3EM Gen3 (triphase)",
    ("em:0", "emdata:0"),
    {
        "power": _power("em:0", "total_act_power"),
        **{f"phase-{letter}": _power("em:0", f"{letter}_act_power") for letter in "abc"},
        "import": _register("emdata:0", "total_act"),
        "export": _register("emdata:0", "total_act_ret"),
    },
    "power is net of feed-in: with panels window.range must reach below 0",
    "each phase is sent when it has changed by more than 10 W or 5 %, so up to 30 W of the sum remain unsent",
    "the sum and the phases are one secret: the charges of several of them add up",
    band_w=30,
)
EM1 = _gen2(
    "shelly-gen2-em1",
    "a Shelly Pro EM, EM Gen3, or 3EM in its monophase profile",
    ("em1:0", "em1data:0"),
    {
        **_channels(3, "power", lambda i: _power(f"em1:{i}", "act_power")),
        **_channels(3, "import", lambda i: _register(f"em1data:{i}", "total_act_energy")),
        **_channels(3, "export", lambda i: _register(f"em1data:{i}", "total_act_ret_energy")),
    },
    _ON_CHANGE,
    "several channels of one home: topic '{meter}/status/{phase}', phases = ['em1:0', 'em1:1']",
    _CHANNELS,
)
_BY_MINUTE = (
    "by_minute repeats each minute in three messages (counted once), in mWh; one that does not begin"
    " at a full minute (old firmware) is refused"
)
SWITCH = _gen2(
    "shelly-gen2-switch",
    "a Shelly Plus, Pro or Gen3 switch that measures, such as a Plug",
    ("switch:0",),
    _metered("switch", 4),
    _ON_CHANGE,
    _BY_MINUTE,
    _CHANNELS,
)
PM1 = _gen2("shelly-gen2-pm1", "a Shelly PM Mini", ("pm1:0",), _metered("pm1", 1), _ON_CHANGE, _BY_MINUTE)

GEN1 = Profile(
    name="shelly-gen1",
    title="a Shelly EM, 3EM or 1PM of the first generation",
    topics=(
        "shellies/{meter}/emeter/{phase}/power",
        "shellies/{meter}/emeter/{phase}/total",
        "shellies/{meter}/relay/0/power",
        "shellies/{meter}/relay/0/energy",
    ),
    quantities={
        "power": Quantity(Kind.POWER, Fraction(1), bare, timed=False),
        "total": Quantity(Kind.REGISTER, _WH, bare, timed=False, step_wh=_WH),
        "energy": Quantity(Kind.REGISTER, _W_MIN, bare, timed=False, step_wh=_W_MIN),
    },
    every_ms=30_000,
    hold_ms=5 * MINUTE_MS,
    period_ms=0,
    quantum_w=Fraction(1, 100),
    dead_band_known=False,
    identifies=_IDENTIFIES,
    traps=(
        "a bare number does not state its quantity: the end of the topic must match it",
        "relay/…/energy is in watt-minutes since the start of the device, which sets it to 0: a reset",
        "emeter/…/energy is not a register but the energy since the last message: use emeter/…/total, in Wh",
        "one topic for each phase: phases = ['0', '1', '2']",
        "the smallest change that is sent is not documented: source.dead_band states it",
    ),
)

PROFILES = (EM, EM1, SWITCH, PM1, GEN1)
