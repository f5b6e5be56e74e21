"""`meteragent health` of a running agent whose readings do not count: each cause by its code."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.conftest import MakeBroker
from tests.integration.clocked import set_clock
from tests.integration.service import (
    LIMIT_S,
    SUBSCRIBED,
    TELL_ALL,
    Service,
    count_in_log,
    meters,
    now_ms,
    service,
    stream,
    until,
)

HOUR_MS = 3_600_000
SHELLY = b'{"id":0,"voltage":230.1,"apower":312.5,"total":9}'
"""As a meter of another make than the configuration says."""
WINDOW = 'length = "30min"'
HOLD = 'hold = "1h"'
"""A reading stands into the first window, however far away that is: only then it counts."""
STREAMS = {
    "wrong": "wrong_profile",
    "garbage": "wrong_profile",
    "slow": "clock_behind",
    "kilo": "all_clamped",
}


def configuration(url: str) -> str:
    """A stream for each cause, and one whose readings count."""
    kilo = f'unit = "kW"\n{HOLD}'
    made = {name: stream(url, name=name, window=WINDOW).replace("meters/", f"{name}/") for name in STREAMS}
    made["wrong"] = made["wrong"].replace('time = "t"', "")
    made["garbage"] = made["garbage"].replace('time = "t"', "")
    made["kilo"] = made["kilo"].replace('unit = "W"', kilo).replace('time = "t"', "")
    right = stream(url, name="right", window=WINDOW).replace("meters/", "right/")
    made["right"] = right.replace('time = "t"', "")
    return "".join(made.values())


async def asked(agent: Service) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of `meteragent health --json`."""
    done = await asyncio.to_thread(agent.command, "health", "--json")
    return done.returncode, json.loads(done.stdout)


def codes(answer: dict[str, Any]) -> dict[str, str]:
    """The code of each stream's problem."""
    return {one["stream"]: one["code"] for one in answer["problem_details"]}


async def told(agent: Service, expected: dict[str, str]) -> None:
    """Wait until `meteragent health` tells exactly these problems; what it tells instead is the error."""
    answer: tuple[int, dict[str, Any]] = 0, {"problem_details": []}
    with suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S):
            while codes(answer[1]) != expected:
                answer = await asked(agent)
    assert (answer[0], codes(answer[1])) == (1, expected)


async def test_what_does_not_count_is_told_by_its_cause(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Another device's payload, garbage, a clock two hours slow and W for kW: each is told, and ends with 1.

    The stream whose readings count has no problem; one good reading ends what its stream was told.
    """
    with mosquitto(settings=TELL_ALL) as broker:
        made = service(tmp_path / "a", configuration(broker.url), program=("tests.integration.clocked",))
        with made as agent:
            set_clock(tmp_path / "a", -2 * HOUR_MS)
            agent.start()
            await until(lambda: count_in_log(broker, SUBSCRIBED) >= len(STREAMS) + 1)
            async with meters(broker) as sending:
                for number in range(6):
                    late = json.dumps({"power": 312, "t": now_ms()})
                    await sending.raw("wrong/m/power", SHELLY)
                    await sending.raw("garbage/m/power", b"\x00\xff" + bytes([number]))
                    await sending.raw("slow/m/power", late)
                    await sending.raw("kilo/m/power", b'{"power":312}')
                    await sending.raw("right/m/power", b'{"power":312}')
                    await asyncio.sleep(0.05)
                await until(lambda: '"received": 30' in agent.command("health", "--json").stdout)
                await told(agent, dict.fromkeys(STREAMS, "none_accepted") | {"kilo": "all_clamped"})
                set_clock(tmp_path / "a", -2 * HOUR_MS + 61_000)
                await told(agent, STREAMS)
                words = await asyncio.to_thread(agent.command, "health")
                assert words.stdout.count("What to do:") == len(STREAMS)
                assert "312" not in words.stdout + agent.log
                await sending.raw("wrong/m/power", b'{"power":312}')
                await told(agent, {name: found for name, found in STREAMS.items() if name != "wrong"})
            await agent.stop()
