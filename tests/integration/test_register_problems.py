"""Registers whose readings stay doubted, through a real broker: `health` names each by its cause."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.clocked import set_clock
from tests.integration.service import (
    LIMIT_S,
    TELL_ALL,
    Service,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    utility,
)

WH = "dead_band = 0.001\nevery = '1s'"
PHASES = f"{WH}\nphases = ['a', 'b']"
TURN = 10
"""The message at which registers go wrong."""
COUNT = 40


def right(at: int) -> float:
    """What a counter says that rises 1 Wh a second, in kWh."""
    return 5000 + at / 1000


STREAMS: dict[str, tuple[str, Callable[[int], list[float]], str | None]] = {
    "fine": (WH, lambda at: [right(at)], None),
    "unit": (WH, lambda at: [1000 * right(at) if at >= TURN else right(at)], "all_clamped"),
    "larger": (WH, lambda at: [right(at) / 1000 if at >= TURN else right(at)], "register_jump"),
    "falls": (WH, lambda at: [4999.5 if at >= TURN else right(at)], "register_doubted"),
    "tariffs": (WH, lambda at: [3000 + at // 9 / 1000 if at % 2 else right(at)], "register_doubted"),
    "steps": ("every = '1s'", lambda at: [5000 + at // 10 * 0.05], "register_steps"),
    "phased": (PHASES, lambda at: [right(at), 1e6 + at if at >= TURN else right(at)], "all_clamped"),
}
"""Each stream's source, what its meter or phases say, and the problem, if any."""


def configuration(url: str) -> str:
    """Return the streams, whose slots of 5 s follow the times of the readings."""
    made = ""
    for name, (source, says, _) in STREAMS.items():
        text = stream(
            url,
            name=name,
            source=source,
            window='length = "5s"\nclock = "event"\nlateness = "2s"\nahead = "30d"',
            privacy="level = 1000\nradius = 0.01\nquantum = 0.001\naccept = ['coarse_register']",
        ).replace('kind = "power"\nunit = "W"', 'kind = "register"\nunit = "kWh"')
        phase = "/{phase}" if len(says(0)) > 1 else ""
        made += text.replace('topic = "meters/{meter}/power"', f'topic = "{name}/{{meter}}/power{phase}"')
    return made


async def test_doubted_registers_are_told(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Each by its cause within a minute, the good one not; no slot has more than was used."""
    with mosquitto(settings=TELL_ALL) as broker:
        program = ("tests.integration.clocked",)
        with service(tmp_path / "a", configuration(broker.url), program=program) as agent:
            set_clock(tmp_path / "a", 0)
            agent.start()
            await subscribed(broker, len(STREAMS))
            start_ms = (now_ms() // 5000 + 1) * 5000
            async with utility(broker) as inbox, meters(broker) as line:
                for at in range(COUNT):
                    for name, (_, says, _) in STREAMS.items():
                        for phase, kwh in zip("ab", says(at), strict=False):
                            topic = f"{name}/m/power" + (f"/{phase}" if len(says(at)) > 1 else "")
                            time = iso_time(start_ms + at * 1000)
                            await line.raw(topic, f'{{"power": {kwh:.6f}, "t": "{time}"}}')
                    if at == COUNT - 5:
                        await until(lambda: len(inbox.records("fine")) >= 5)
                        set_clock(tmp_path / "a", 61_000)
                        await asyncio.sleep(0.5)
                expected = {(name, code) for name, (_, _, code) in STREAMS.items() if code}
                found = await asyncio.to_thread(_problems, agent)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LIMIT_S):
                        while found != expected:
                            found = await asyncio.to_thread(_problems, agent)
                assert found == expected
                words = await asyncio.to_thread(agent.command, "health")
                assert "5000." not in words.stdout + agent.log
            await agent.stop()
        used = {name: max(item.value for item in inbox.records(name)) for name in STREAMS}
        for name in ("fine", "unit", "falls", "phased"):
            assert used[name] <= 0.0065 * (2 if name == "phased" else 1), name


def _problems(agent: Service) -> set[tuple[str, str]]:
    answer = json.loads(agent.command("health", "--json").stdout)
    return {(detail["stream"], detail["code"]) for detail in answer["problem_details"]}
