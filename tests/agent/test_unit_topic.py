"""A unit that another program changes under way: readings are refused while it differs."""

import asyncio
import json
from pathlib import Path

import pytest

from meteragent import config
from meteragent.config.source import topic_of
from meteragent.domain.errors import ConfigError
from meteragent.service.health import ask_socket, socket_path
from tests.support.agent_world import STREAM, World, quick, reading
from tests.support.configurations import written
from tests.support.vitals import agent_vitals

CONFIGURED = STREAM.format("", "").replace("[source]", "[source]\nunit_topic = 'meters/{meter}/unit'")


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    return quick(tmp_path, monkeypatch)


async def sent(world: World, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """Send a message of a meter."""
    source = world.sides["source"]
    source.on_message(f"meters/{topic}", payload, 0, retain, None)
    await world.settle()
    world.now_ms += 1000
    await world.settle()


async def test_readings_are_refused_while_the_unit_is_another(world: World) -> None:
    """A user changes W to kW and back; the first unit is retained, and each meter is judged alone."""
    async with world.running(CONFIGURED):
        counts = world.agent.counts

        async def readings(meter: str) -> tuple[int, int]:
            await sent(world, f"{meter}/power", reading(1, world.now_ms))
            return counts["accepted"] + counts["early"], counts["refused_unit"]

        await sent(world, "m/unit", b'"W"', retain=True)
        assert await readings("m") == (1, 0)
        await sent(world, "m/unit", b'"kW"')
        assert await readings("m") == (1, 1)
        assert await readings("n") == (2, 1)
        await sent(world, "m/unit", b'"unavailable"')
        assert await readings("m") == (2, 2)
        await sent(world, "m/unit", b'{"unit_of_measurement": "W"}')
        assert await readings("m") == (3, 2)


def test_the_attribute_beside_a_state_is_its_unit() -> None:
    """Home Assistant's mqtt_statestream publishes it without being asked."""
    keys = "profile = 'homeassistant-statestream'\ntopic = 'homeassistant/sensor/plug/state'\nmeter = 'home'"
    unit = topic_of(config.parse(written(source=keys)).stream[0].source).unit
    assert unit is not None
    assert unit.filter == "homeassistant/sensor/plug/unit_of_measurement"


@pytest.mark.parametrize(
    ("keys", "units"),
    [
        ("unit = 'W'", ("W",)),
        ("unit = 'kW'", ("kW",)),
        ("unit = 'W'\nscale = 1000", ("kW",)),
        ("unit = 'kWh'\nscale = 1000\nkind = 'register'", ("MWh",)),
        ("unit = 'W'\nscale = 3", ()),
    ],
)
def test_the_unit_is_that_of_the_payload(keys: str, units: tuple[str, ...]) -> None:
    """`scale` says how many units are in a 1 of the payload, as of MWh read as kWh."""
    stream = config.parse(written(source=f"{keys}\nunit_topic = 'meters/{{meter}}/unit'")).stream[0]
    assert topic_of(stream.source).units[None] == units


def test_a_unit_topic_without_the_meter_is_refused() -> None:
    """It would state the unit of all meters; the key is named."""
    with pytest.raises(ConfigError) as caught:
        config.parse(written(source="unit_topic = 'meters/unit'"))
    assert "source.unit_topic" in str(caught.value)


async def test_a_discovery_message_states_the_unit(world: World) -> None:
    """It is retained and abbreviated; an update of the device states another unit, which is a problem."""
    topic = "homeassistant/sensor/em/power/config"
    configured = STREAM.format("", "").replace("{meter}/power", "m/power")
    configured = configured.replace("[source]", f"[source]\nmeter = 'm'\nunit_topic = '{topic}'")
    message = {"~": "meters/m", "name": "Power", "stat_t": "~/power", "dev_cla": "power", "unit_of_meas": "W"}
    async with world.running(configured):
        source = world.sides["source"]
        for unit in ("W", "kW"):
            payload = json.dumps(message | {"unit_of_meas": unit}).encode()
            source.on_message(topic, payload, 0, unit == "W", None)
            for _ in range(70):
                await sent(world, "m/power", reading(1, world.now_ms))
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
        assert answer is not None
        [found] = [item for item in agent_vitals(answer).problems if item.code != "messages_wait"]
        assert (found.code, found.fields["reasons"]) == ("wrong_profile", "refused_unit")
