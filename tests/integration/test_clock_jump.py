"""A real process whose wall clock is set forward, as the host of a virtual machine does after a snapshot."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.domain.grid import parse_time
from meteragent.domain.units import MINUTE_MS
from tests.conftest import MakeBroker
from tests.integration.clocked import set_clock
from tests.integration.service import (
    TELL_ALL,
    Arrival,
    Scenarios,
    between,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    until_ms,
    utility,
)
from tests.support.broker import Broker

AHEAD_MS = 10 * MINUTE_MS
LOOK_MS = 3000
"""How long the agent may take to see the jump on a busy machine, and to be back."""


class Seen(NamedTuple):
    """What came, when the clock was set (by the new time), the log, the counters and the ledger."""

    records: list[Arrival]
    jumped_ms: int
    same: bool
    log: str
    totals: dict[str, int]
    ledger: dict[str, Any]


async def _jump(folder: Path, broker: Broker, *, synchronised: bool) -> Seen:
    set_clock(folder, 0)
    if synchronised:
        (folder / "synchronised").touch()
    text = stream(broker.url, window='length = "1s"\ncatch_up = "500ms"')
    with service(folder, text, program=("tests.integration.clocked",)) as agent:
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            await line.send("home", 400)
            await until(lambda: len(inbox.records()) >= 3)
            pid = agent.pid
            set_clock(folder, AHEAD_MS)
            jumped_ms = now_ms() + AHEAD_MS
            await until_ms(now_ms() + LOOK_MS)
            await line.send("home", 700, now_ms() + AHEAD_MS)
            await until(lambda: inbox.records()[-1].value == 700 and inbox.records()[-1].start_ms > jumped_ms)
            same = agent.pid == pid and agent.runs
            await agent.stop()
            told = json.loads(agent.command("ledger", "--json").stdout)
            return Seen(inbox.records(), jumped_ms, same, agent.log, agent.totals, told)


async def resumed(folder: Path, broker: Broker) -> Seen:
    """The clock was synchronised before it is set forward."""
    return await _jump(folder, broker, synchronised=True)


async def first_set(folder: Path, broker: Broker) -> Seen:
    """The clock is set forward before it was ever synchronised."""
    return await _jump(folder, broker, synchronised=False)


@pytest.fixture(scope="module")
def runs(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Both, side by side."""
    told = {"settings": TELL_ALL}
    scenarios = Scenarios(
        tmp_path_factory.mktemp("jump"),
        between(mosquitto, resumed, told),
        between(mosquitto, first_set, told),
    )
    asyncio.run(scenarios.run())
    return scenarios


def test_nothing_from_before_the_jump_leaves_after_it(runs: Scenarios) -> None:
    """No interval between the last record before the jump and the jump itself leaves, then all do again."""
    seen: Seen = runs["resumed"]
    starts_ms = sorted({one.start_ms for one in seen.records})
    before = [one for one in starts_ms if one < seen.jumped_ms - AHEAD_MS + LOOK_MS]
    after = [one for one in starts_ms if one not in before]
    assert len(before) >= 3
    assert min(after) >= seen.jumped_ms - 1000
    assert after == list(range(min(after), max(after) + 1, 1000))


def test_the_process_goes_on_and_says_so(runs: Scenarios) -> None:
    """It is the same process; log, counters and ledger say what happened."""
    seen: Seen = runs["resumed"]
    assert seen.same
    assert "the clock jumped 10 min" in seen.log
    assert seen.totals["clock_jumped"] == 1
    unknown_ms = parse_time(seen.ledger["unknown_before"])
    assert seen.jumped_ms - 1000 <= unknown_ms <= seen.jumped_ms + LOOK_MS


def test_no_window_has_two_values(runs: Scenarios) -> None:
    """What came twice is the same byte for byte, in either case."""
    for name in ("resumed", "first_set"):
        payloads: dict[int, bytes] = {}
        for one in runs[name].records:
            assert payloads.setdefault(one.start_ms, one.payload) == one.payload


def test_a_clock_that_is_set_for_the_first_time_loses_nothing(runs: Scenarios) -> None:
    """Before the first synchronisation a step is the passing of time: every interval leaves, none is lost."""
    seen: Seen = runs["first_set"]
    starts_ms = sorted({one.start_ms for one in seen.records})
    assert starts_ms == list(range(starts_ms[0], starts_ms[-1] + 1, 1000))
    assert seen.totals["clock_jumped"] == 0
    assert seen.ledger["unknown_before"] is None
