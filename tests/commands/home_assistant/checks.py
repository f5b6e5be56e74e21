"""What must be true in a real Home Assistant while the agent runs, is killed, and has run for days.

A meter with a constant load is read twice a second, as a power and as a register. The checks ask Home
Assistant over its own interfaces, and compare its answers with the records that another receiver got.
"""

import asyncio
import json
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from meteragent import __version__
from meteragent.domain.units import HOUR_MS
from tests.commands.home_assistant.past import energy_dashboard, past, statistics
from tests.commands.home_assistant.server import HomeAssistant, Socket
from tests.integration.service import Service, meters, now_ms, service, until
from tests.integration.wire import Receiver
from tests.support.broker import Broker, free_port

LOAD_W: Final = 1200
SLOT_MS: Final = 30_000
WAIT_S: Final = 120.0
STATISTICS_S: Final = 720.0
"""Home Assistant writes statistics every five minutes; the first may be of one slot, whose sum is 0."""
PAGE_URL: Final = "http://gateway.local:8321"

STREAMS: Final = """
[[stream]]
name = "power"
window = {{ length = "30s", catch_up = "500ms" }}
privacy = {{ level = 1000, radius = 10 }}
[stream.source]
url = "{url}"
topic = "meters/{{meter}}/power"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"
[stream.sink]
topic = "private/{{meter}}/power"
status = "agent/power"
home_assistant = "homeassistant"
total = true
retain = true

[[stream]]
name = "energy"
window = {{ length = "30s", catch_up = "500ms", lateness = "2s" }}
privacy = {{ level = 1000, radius = 1 }}
[stream.source]
url = "{url}"
topic = "meters/{{meter}}/register"
profile = "json"
value = "wh"
time = "t"
kind = "register"
unit = "Wh"
[stream.sink]
topic = "private/{{meter}}/energy"
status = "agent/energy"
home_assistant = "homeassistant"

[page]
listen = "127.0.0.1:{page}"
url = "{page_url}"
"""


async def until_state(
    socket: Socket, holds: Callable[[dict[str, dict[str, Any]]], object], reason: str, limit_s: float = WAIT_S
) -> dict[str, dict[str, Any]]:
    """Wait until the states of Home Assistant, by entity, have a property; return them."""
    give_up_s = time.monotonic() + limit_s
    while True:
        states = {state["entity_id"]: state for state in await socket.ask("get_states")}
        if holds(states):
            return states
        if time.monotonic() > give_up_s:
            raise AssertionError(f"not within {limit_s:.0f} s: {reason}; {_summary(states)}")
        await asyncio.sleep(0.1)


def _summary(states: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name}={state['state']}" for name, state in states.items() if "flat" in name)


POWER, ENERGY, TOTAL = "sensor.flat_private_power", "sensor.flat_private_energy", "sensor.flat_private_total"
MEASURED: Final = {
    POWER: ("W", "power", "measurement"),
    ENERGY: ("Wh", "energy", "total"),
    TOTAL: ("Wh", "energy", "total"),
}
"""Unit, device class and state class of the sensors of numbers."""


def number(state: Mapping[str, Any] | None) -> float:
    """Return a state as a number; NaN if it is none, or if there is no state yet."""
    try:
        return float(state["state"]) if state else math.nan
    except ValueError:
        return math.nan


def newest(receiver: Receiver, topic: str) -> float:
    """Return the value of the newest message on a topic."""
    return float(json.loads(receiver.messages[topic][-1])["value"])


class House:
    """A home: its broker, its Home Assistant, its agent and its meter."""

    def __init__(self, broker: Broker, server: HomeAssistant, agent: Service, receiver: Receiver) -> None:
        self.broker, self.server, self.agent, self.receiver = broker, server, agent, receiver

    async def appears(self, socket: Socket) -> str:
        """Check devices, entities, states and units."""
        states = await until_state(
            socket,
            lambda states: all(math.isfinite(number(states.get(name))) for name in MEASURED),
            "numbers of all sensors",
        )
        for name, expected in MEASURED.items():
            attributes = states[name]["attributes"]
            keys = ("unit_of_measurement", "device_class", "state_class")
            assert tuple(attributes[key] for key in keys) == expected, (name, attributes)
            assert attributes["meter"] == "flat", attributes
            assert "epsilon" in attributes, attributes
        await until_state(
            socket,
            lambda states: (
                number(states[POWER]) == newest(self.receiver, "private/flat/power")
                and number(states[ENERGY]) == newest(self.receiver, "private/flat/energy")
            ),
            "the numbers of the newest records",
        )
        assert abs(number(states[POWER]) - LOAD_W) <= 5, states[POWER]
        assert abs(number(states[ENERGY]) - LOAD_W * SLOT_MS / HOUR_MS) <= 2, states[ENERGY]
        await self._registered(socket, states)
        return f"2 devices, {len(MEASURED)} sensors with units and classes, 8 diagnostic entities"

    async def _registered(self, socket: Socket, states: Mapping[str, Any]) -> None:
        """Check devices and the categories of entities."""
        devices = [d for d in await socket.ask("config/device_registry/list") if d["name"] == "flat"]
        assert {d["model"] for d in devices} == {
            "Private power: hides 0.0833 Wh in any 30 s",
            "Private energy: hides 1 Wh in any 30 s",
        }, devices
        for device in devices:
            facts = (device["manufacturer"], device["sw_version"], device["configuration_url"])
            assert facts == ("meteragent", __version__, PAGE_URL), device
        ids = {device["id"] for device in devices}
        entities = [e for e in await socket.ask("config/entity_registry/list") if e["device_id"] in ids]
        diagnostic = {e["entity_id"] for e in entities if e["entity_category"] == "diagnostic"}
        assert {e["entity_id"] for e in entities} - diagnostic == MEASURED.keys(), entities
        assert len(diagnostic) == 8, diagnostic
        by_name = {
            name: [s for e, s in states.items() if e in diagnostic and name in e] for name in _DIAGNOSTICS
        }
        for name, holds in _DIAGNOSTICS.items():
            assert len(by_name[name]) == 2, (name, diagnostic)
            assert all(holds(state) for state in by_name[name]), by_name[name]

    async def follows_the_agent(self, socket: Socket) -> str:
        """Check the availability through a kill -9 and a new start."""
        await self.agent.kill()
        began_s = time.monotonic()
        state = await until_state(
            socket,
            lambda states: {states[name]["state"] for name in MEASURED} == {"unavailable"},
            "unavailable",
        )
        took_s = time.monotonic() - began_s
        assert [state[name]["state"] for name in state if "agent" in name and "flat" in name] == [
            "off",
            "off",
        ]
        self.agent.start()
        await until_state(
            socket,
            lambda states: "unavailable" not in {states[name]["state"] for name in MEASURED},
            "available",
        )
        await until_state(
            socket, lambda states: math.isfinite(number(states[ENERGY])), "a number after the kill"
        )
        return f"unavailable {took_s:.1f} s after a kill -9, and back"

    async def keeps_a_retained_number(self) -> str:
        """Check what is shown after a kill -9 of Home Assistant, at the beginning of a slot."""
        count = len(self.receiver.messages["private/flat/energy"])
        await until(lambda: len(self.receiver.messages["private/flat/energy"]) > count, WAIT_S)
        self.server.kill()
        await asyncio.to_thread(self.server.start)
        async with self.server.socket() as socket:
            states = await until_state(
                socket,
                lambda states: (
                    math.isfinite(number(states.get(POWER)))
                    and states.get(ENERGY, {}).get("state") == "unknown"
                ),
                "the retained number, and no other",
            )
            slots = len(self.receiver.messages["private/flat/energy"]) - count
            assert slots == 1, "the start of Home Assistant took longer than a slot"
            assert number(states[POWER]) == newest(self.receiver, "private/flat/power")
        return "after its kill -9 the retained number is there at once, the other is unknown"

    async def has_statistics(self, socket: Socket) -> str:
        """Check the sums of the energy dashboard against the states, once statistics have been written."""
        give_up_s = time.monotonic() + STATISTICS_S
        while not has_sums(rows := await statistics(socket, "5minute", *MEASURED)):
            assert time.monotonic() < give_up_s, f"no statistics: {rows}"
            await asyncio.sleep(2)
        end_ms = rows[ENERGY][-1]["end"]
        energies = await history(socket, ENERGY, end_ms)
        totals = await history(socket, TOTAL, end_ms)
        assert math.isclose(rows[ENERGY][-1]["sum"], sum(energies[1:]), abs_tol=1e-6), (
            rows[ENERGY],
            energies,
        )
        assert math.isclose(rows[TOTAL][-1]["sum"], totals[-1] - totals[0], abs_tol=1e-6), (
            rows[TOTAL],
            totals,
        )
        assert abs(rows[POWER][-1]["mean"] - LOAD_W) <= 5, rows[POWER]
        await energy_dashboard(socket, ENERGY, TOTAL)
        return f"sums of {len(energies)} slots in the energy dashboard: {rows[ENERGY][-1]['sum']:g} Wh"


_DIAGNOSTICS: Final[dict[str, Callable[[Mapping[str, Any]], bool]]] = {
    "agent": lambda state: state["state"] == "on" and state["attributes"]["device_class"] == "running",
    "noise": lambda state: 0 < number(state) < 1,
    "energy_hidden": lambda state: number(state) in {1, 0.0833333} and _unit(state) == "Wh",
    "slot_start": lambda state: parse_iso_ms(state["state"]) % SLOT_MS == 0,
}
"""What must be true of the diagnostic entities, by a part of their names."""


def _unit(state: Mapping[str, Any]) -> Any:
    return state["attributes"]["unit_of_measurement"]


def parse_iso_ms(text: str) -> int:
    """Return a time that Home Assistant states."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


async def history(socket: Socket, name: str, end_ms: int) -> list[float]:
    """Return the numbers of a sensor before a time, one for each record."""
    answer = await socket.ask(
        "history/history_during_period",
        start_time=(datetime.now(UTC) - timedelta(hours=1)).isoformat(),
        end_time=datetime.fromtimestamp(end_ms / 1000, UTC).isoformat(),
        entity_ids=[name],
        significant_changes_only=False,
        no_attributes=False,
    )
    slots: dict[str, float] = {}
    for state in answer[name]:
        if math.isfinite(value := number({"state": state["s"]})):
            slots[f"{state['a'].get('last_reset')} {value}"] = value
    return [*slots.values()]


@asynccontextmanager
async def metered(broker: Broker) -> AsyncIterator[None]:
    """Run a meter with a constant load, read twice a second."""

    async def report() -> None:
        """Send the power and the register."""
        async with meters(broker) as line:
            while True:
                at_ms = now_ms()
                register_wh = at_ms * LOAD_W / HOUR_MS % 1e6
                await line.send("flat", LOAD_W, at_ms)
                await line.raw("meters/flat/register", json.dumps({"wh": round(register_wh, 4), "t": at_ms}))
                await asyncio.sleep(0.5)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait({reporting})


async def run(broker: Broker, server: HomeAssistant, folder: Path, tell: Callable[[str], None]) -> None:
    """Run all checks; each calls `tell` with its result. Raises AssertionError at the first that fails."""
    await asyncio.to_thread(server.onboard)
    await asyncio.to_thread(server.add_broker, broker.port)
    streams = STREAMS.format(url=broker.url, page=free_port(), page_url=PAGE_URL)
    with service(folder / "agent", streams) as agent:
        agent.start()
        async with metered(broker), Receiver(broker) as receiver:
            house = House(broker, server, agent, receiver)
            steps: list[Callable[[Socket], Awaitable[str]]]
            steps = [house.appears, house.follows_the_agent]
            async with server.socket() as socket:
                for step in steps:
                    tell(await step(socket))
            tell(await house.keeps_a_retained_number())
            async with server.socket() as socket:
                tell(await past(broker, server, folder, socket))
                tell(await house.has_statistics(socket))
        agent.signal(signal.SIGTERM)
        assert await agent.code() == os.EX_OK, agent.log


def has_sums(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> bool:
    """Return whether statistics of all numbers have been written, and the sum of energies has begun."""
    return len(rows) == len(MEASURED) and rows[ENERGY][-1]["sum"] != 0
