"""sml2mqtt: one topic for each OBIS code of a German SML meter, with a bare number.

sml2mqtt sends a value when it changes, and again after two minutes (option `republish after`).
"""

from fractions import Fraction

from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.units import MINUTE_MS, Kind

_WHOLE_KWH = Fraction(1000)
"""The step of the register without a PIN; after a PIN was entered, the step is finer."""

SML2MQTT = Profile(
    name="sml2mqtt",
    title="an SML meter read by sml2mqtt",
    topics=("sml2mqtt/{meter}/0100100700ff", "sml2mqtt/{meter}/0100010800ff"),
    quantities={
        "power": Quantity(Kind.POWER, Fraction(1), bare, timed=False),
        "register": Quantity(Kind.REGISTER, None, bare, timed=False, step_wh=_WHOLE_KWH),
    },
    every_ms=4_000,
    period_ms=4_000,
    hold_ms=5 * MINUTE_MS,
    identifies="the meter's server id, which its operator knows",
    personal=("server id", "public key (0x8181c78205ff)"),
    traps=(
        "a bare number does not state its quantity: the topic ends in 0100100700ff for power in W",
        "the register's topic ends in 0100010800ff",
        "the register is in kWh, or in Wh with its option 'Wh in kWh: false': source.unit must match it",
        "many meters send power only after a PIN was entered; without it only a register in whole kWh",
        "a meter whose register has decimals has a finer step: source.dead_band states it, such as 0.0001",
        "a delta filter in its configuration is a dead band: source.dead_band must state it",
        "power is below 0 while more is fed in than drawn: window.range must reach below 0",
    ),
)

PROFILES = (SML2MQTT,)
