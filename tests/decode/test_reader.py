"""What other fields of a message say of a number: conditions, absence, alternatives, and powers that wrapped.

The contract of `test_profiles` cannot cover absence: a damaged field is an absent one.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError

MINUTE = {"by_minute": [700.5, 701.5], "minute_ts": 1795176000}


def read(profile: str, name: str, message: Any) -> Decimal | str:
    """The only number of a quantity in a message, or the reason why there is none."""
    try:
        (number,) = PROFILES[profile].quantities[name].read(json.dumps(message).encode())
    except PayloadError as error:
        return error.reason
    return number.number


def test_a_message_with_a_teleinfo_frame_is_not_a_plugs() -> None:
    """ENERGY.Power of a French meter is in VA: nothing of such a message is read as a plug's."""
    message = {"Time": "2026-11-20T13:30:00", "TIC": {"BASE": "1"}, "ENERGY": {"Power": 170, "Total": 9098}}
    assert {read("tasmota", name, message) for name in PROFILES["tasmota"].quantities} == {"other"}
    assert read("tasmota-teleinfo", "total", message) == 1


def test_one_phase_of_three_is_not_the_power() -> None:
    """Where phases B and C are beside it, power is phase A, unless phase A is beside it too."""
    phases = {"power": 400, "power_phase_b": 30, "power_phase_c": 5}
    assert read("zigbee2mqtt", "power", phases) == "other"
    assert read("zigbee2mqtt", "power-all", phases) == 435
    everything = {"power": 435, "power_phase_a": 400, "power_phase_b": 30, "power_phase_c": 5}
    assert read("zigbee2mqtt", "power", everything) == 435
    assert read("zigbee2mqtt", "power-all", everything) == "other"


@pytest.mark.parametrize(
    ("power", "outcome"),
    [
        (2147483.647, Decimal("2147483.647")),
        (2147483.648, "refused_wrapped"),
        (-2147483.648, "refused_wrapped"),
        (429496420, "refused_wrapped"),
        (1e300, "refused_wrapped"),
        (6553, Decimal(6553)),
    ],
)
def test_a_power_that_wrapped_is_refused(power: float, outcome: Decimal | str) -> None:
    """From 2^31 mW on, a power is a negative number of 32 bits that is sent as a positive one."""
    assert read("zigbee2mqtt", "power", {"power": power}) == outcome


def test_the_limit_is_in_the_devices_unit() -> None:
    """A power in kW is refused from 2,147.483648 kW on."""
    meter = {"timestamp": "2026-11-20T12:00:08Z", "power": {"value": 2147.483648, "units": "kW"}}
    assert read("glow", "power", {"electricitymeter": meter}) == "refused_wrapped"
    meter["power"] = {"value": 2147.483647, "units": "kW"}
    assert read("glow", "power", {"electricitymeter": meter}) == Decimal("2147.483647")


def test_minutes_of_both_directions_belong_together() -> None:
    """Energies that end at different times, or are not as many, have no difference."""
    for other in ({**MINUTE, "minute_ts": 1795176060}, {**MINUTE, "by_minute": [700.5]}):
        message = {"aenergy": MINUTE, "ret_aenergy": other}
        assert read("shelly-gen2-pm1", "minutes", message) == "refused_time"


def test_what_has_no_method_is_no_notification() -> None:
    """An answer whose method is lost is neither a notification nor a component's status."""
    message = {"id": 1, "params": {"ts": 1795176000, "em:0": {"total_act_power": 5}}}
    assert read("shelly-gen2-em", "power", message) == "other"


@pytest.mark.parametrize("payload", [b"unknown", b" Unavailable\n", b"None"])
def test_the_words_for_no_value_are_no_numbers(payload: bytes) -> None:
    """A state that is not known is refused as such, not as a wrong type."""
    for name in ("homeassistant-statestream", "esphome", "shelly-gen1"):
        with pytest.raises(PayloadError, match="refused_unavailable"):
            PROFILES[name].quantities["power"].read(payload)
