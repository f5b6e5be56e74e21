"""The import of released windows into the statistics of a real Home Assistant, at their own times.

An agent follows the event clock through readings of past days. The script of `deploy/homeassistant` is
killed, run, run again and continued with later records. The statistics are compared with the agent's export.
"""

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from csv import DictReader
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from deploy.homeassistant.energy_statistics import statistic_id
from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS, HOUR_MS
from tests.commands.home_assistant.server import HomeAssistant, Socket
from tests.integration.service import SUBSCRIBED, Service, count_in_log, now_ms, service, subscribed
from tests.integration.wire import Publication, feed
from tests.support.broker import Broker
from tests.support.not_run import ROOT

SCRIPT: Final = ROOT / "deploy" / "homeassistant" / "energy_statistics.py"
KILLS: Final = 8
WAIT_S: Final = 120.0

PAST: Final = """
[[stream]]
name = "past"
window = {{ length = "30min", clock = "event" }}
privacy = {{ level = 1000, radius = 10 }}
sink = {{ topic = "private/past/{{meter}}" }}
[stream.source]
url = "{url}"
topic = "past/{{meter}}"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"
hold = "15min"
"""

Rows = list[dict[str, Any]]


async def past(broker: Broker, server: HomeAssistant, folder: Path, socket: Socket) -> str:
    """Check the import of released windows at their own times: repeated, interrupted and continued."""
    token = folder / "token"
    token.write_text(await socket.ask("auth/long_lived_access_token", client_name="statistics", lifespan=1))
    rng = random.Random(24)
    first_ms = now_ms() // HOUR_MS * HOUR_MS - 4 * DAY_MS + 20 * 60_000
    homes = ("a", "b_c")
    command = [sys.executable, str(SCRIPT), str(folder / "past" / "meteragent.toml")]
    command += ["--url", server.address, "--token-file", str(token)]
    with service(folder / "past", PAST.format(url=broker.url)) as agent:
        subscriptions = count_in_log(broker, SUBSCRIBED)
        agent.start()
        await subscribed(broker, subscriptions + 1)
        await feed(broker.url, _readings(homes, first_ms, first_ms + 3 * DAY_MS, rng))
        names = await _exported(agent, homes, first_ms + 3 * DAY_MS)
        for _ in range(KILLS):
            killed = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
            await asyncio.sleep(rng.uniform(0.2, 1.5))
            if killed.returncode is None:
                killed.kill()
            await killed.wait()
        for _ in range(2):  # the second changes nothing
            await _imports(command)
            await _agrees(socket, agent, names)
        await feed(broker.url, _readings(homes, first_ms + 3 * DAY_MS, first_ms + 4 * DAY_MS, rng))
        await _exported(agent, homes, first_ms + 4 * DAY_MS)
        await _imports(command)
        hours = await _agrees(socket, agent, names)
        await agent.stop()
    await energy_dashboard(socket, *names.values())
    return f"{hours} hours at their own times, after {KILLS} kills of the script, repeated and continued"


def _readings(homes: Sequence[str], start_ms: int, end_ms: int, rng: random.Random) -> list[Publication]:
    """Return readings every ten minutes."""
    return [
        Publication(f"past/{home}", json.dumps({"power": rng.randrange(6000), "t": time_ms}).encode())
        for time_ms in range(start_ms, end_ms, 600_000)
        for home in homes
    ]


async def _exported(agent: Service, homes: Sequence[str], end_ms: int) -> dict[str, str]:
    """Wait until the records up to a time have left; return the statistics by meter."""

    def is_complete() -> bool:
        """Return whether the export reaches the last full hour of every home."""
        rows = [*DictReader(agent.command("export").stdout.splitlines())]
        last_ms = {row["meter"]: parse_time(row["t"]) for row in rows}
        return all(last_ms.get(home, 0) >= end_ms - HOUR_MS for home in homes)

    give_up_s = time.monotonic() + WAIT_S
    while not await asyncio.to_thread(is_complete):
        assert time.monotonic() < give_up_s, agent.log
    return {home: statistic_id("past", home) for home in homes}


async def _imports(command: Sequence[str]) -> None:
    result = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


async def _agrees(socket: Socket, agent: Service, names: Mapping[str, str]) -> int:
    """Compare the statistics with the export, hour by hour; return the number of hours."""
    rows = await statistics(socket, "hour", *names.values())
    hours: dict[tuple[str, int], Fraction] = {}
    ends_ms: dict[str, int] = {}
    for row in DictReader(agent.command("export").stdout.splitlines()):
        start_ms = parse_time(row["t"])
        assert row["for"] == "PT30M"
        key = row["meter"], start_ms // HOUR_MS * HOUR_MS
        hours[key] = hours.get(key, Fraction(0)) + Fraction(row["value"]) / 2000
        ends_ms[row["meter"]] = max(ends_ms.get(row["meter"], 0), start_ms + HOUR_MS // 2)
    for meter, name in names.items():
        expected = [
            (hour_ms, kwh)
            for (name, hour_ms), kwh in sorted(hours.items())
            if name == meter and hour_ms + HOUR_MS <= ends_ms[meter]
        ]
        assert [row["start"] for row in rows[name]] == [hour_ms for hour_ms, _ in expected], name
        total = Fraction(0)
        for row, (_, kwh) in zip(rows[name], expected, strict=True):
            total += kwh
            assert math.isclose(row["state"], kwh, abs_tol=1e-6), row
            assert math.isclose(row["sum"], total, abs_tol=1e-4), row
    return sum(map(len, rows.values()))


async def statistics(socket: Socket, period: str, *names: str) -> dict[str, Rows]:
    """Return all rows of statistics, by id, in their own units."""
    answer: dict[str, Rows] = await socket.ask(
        "recorder/statistics_during_period",
        start_time="2020-01-01T00:00:00+00:00",
        statistic_ids=[*names],
        period=period,
        types=["mean", "state", "sum"],
        units={"energy": "kWh"} if period == "hour" else {},
    )
    return answer


async def energy_dashboard(socket: Socket, *names: str) -> None:
    """Choose statistics for the energy dashboard; it must have no remark on them."""
    for name in names:
        grid: dict[str, Any] = {"type": "grid", "cost_adjustment_day": 0.0}
        flow = {
            "stat_energy_from": name,
            "stat_cost": None,
            "entity_energy_price": None,
            "number_energy_price": None,
        }
        try:
            sources = [grid | {"flow_from": [flow], "flow_to": []}]
            await socket.ask("energy/save_prefs", energy_sources=sources)
        except AssertionError:  # newer versions have one flow in a source
            await socket.ask("energy/save_prefs", energy_sources=[grid | flow])
        remarks = (await socket.ask("energy/validate"))["energy_sources"]
        assert remarks == [[]], (name, remarks)
