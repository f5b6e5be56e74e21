"""What is not a reading, between readings as programs send them, through a real broker."""

import asyncio
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.domain.counters import REFUSALS
from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.service import (
    ACKNOWLEDGED,
    TELL_ALL,
    Meters,
    Utility,
    count_in_log,
    meters,
    service,
    stream,
    subscribed,
    until,
    utility,
)
from tests.support.broker import Broker

CANARY = "canary-13371337"
START_MS = 1_790_000_000_000
"""A second of the past: time is the readings' own here."""

BAD: dict[str, list[bytes]] = {
    "refused_empty": [b"", b"  "],
    "refused_encoding": [b'{"power": 1, "note": "\xff%s"}' % CANARY.encode()],
    "refused_json": [
        f"{CANARY}".encode(),
        f'{{"power": 13371337, "t": {START_MS}'.encode(),
        b"[" * 60_000,
        b'{"a":' * 10_000,
    ],
    "refused_compressed": [gzip.compress(b'{"power": 13371337}')],
    "refused_encrypted": [b"\xdb\x08LGZ\x12\x34\x56\x78\x9a" + CANARY.encode() + b"\xff"],
    "refused_notation": [f"{{'power': 13371337, 'note': '{CANARY}', 't': {START_MS}}}".encode()],
    "refused_influx": [f"meter,note={CANARY} power=13371337 {START_MS}000000".encode()],
    "refused_comma": [f'{{"power": 13371337,5, "t": {START_MS}}}'.encode()],
    "refused_list": [f"13371337;{START_MS}".encode()],
    "refused_missing": [
        f'{{"watts": 13371337, "t": {START_MS}}}'.encode(),
        f'{{"power": null, "t": {START_MS}}}'.encode(),
        b'{"power": 13371337}',
        b'{"power": 13371337, "t": null}',
    ],
    "refused_type": [
        f'{{"power": "{CANARY}", "t": {START_MS}}}'.encode(),
        f'{{"power": "13371337", "t": {START_MS}}}'.encode(),
        f'{{"power": true, "t": {START_MS}}}'.encode(),
        f'{{"power": {{"{CANARY}": 13371337}}, "t": {START_MS}}}'.encode(),
        f'{{"power": [13371337], "t": {START_MS}}}'.encode(),
    ],
    "refused_not_finite": [
        f'{{"power": {value}, "t": {START_MS}}}'.encode() for value in ("NaN", "Infinity", "-Infinity")
    ],
    "refused_time": [
        f'{{"power": 13371337, "t": "{CANARY}"}}'.encode(),
        b'{"power": 13371337, "t": "2026-11-20T12:00:00"}',
        b'{"power": 13371337, "t": -1}',
        b'{"power": 13371337, "t": 1e400}',
        b'{"power": 13371337, "t": NaN}',
    ],
    "refused_ahead": [b'{"power": 13371337, "t": "2999-01-01T00:00:00Z"}'],
    "refused_size": [b'{"power": 13371337, "note": "' + b"x" * 1_000_000 + b'"}'],
    "late": [b'{"power": 13371337, "t": "2001-01-01T00:00:00Z"}', b'{"power": 13371337, "t": 0}'],
}
"""Payloads by the counter that must count them."""

CLAMPED = {"50000.5": 20_000, "1e400": 20_000, "1" + "0" * 3000: 20_000, "-5": 0, "-1e400": 0}
"""Finite values out of range, and what they are clamped to."""


class Run(NamedTuple):
    """What is known after the run."""

    inbox: Utility
    totals: Counter[str]
    log: str
    acknowledged: int


def expected() -> list[int]:
    """The values that must leave, one a second: of the good readings, then of those that are clamped."""
    good = [100 + k for k in range(sum(map(len, BAD.values())))]
    return [*good, *CLAMPED.values()]


async def send(line: Meters) -> None:
    """A good reading before every bad one, every third at QoS 0; then those to be clamped, and one to end.

    The good readings end and are wrapped as programs do that.
    """
    number = 0
    for payload in (payload for payloads in BAD.values() for payload in payloads):
        time_ms = START_MS + 1000 * number
        good = json.dumps({"power": 100 + number, "t": time_ms})
        forms = good, f"{good}\0", f"{good}\r\n\0", json.dumps(good), json.dumps(json.dumps(good))
        await line.raw(f"meters/{HOME}/power", forms[number % len(forms)], qos=int(number % 3 > 0))
        await line.raw(f"meters/{HOME}/power", payload)
        number += 1
    for text in CLAMPED:
        time = iso_time(START_MS + 1000 * number)
        await line.raw(f"meters/{HOME}/power", f'{{"power": {text}, "t": "{time}"}}')
        number += 1
    await line.send(HOME, 1, START_MS + 1000 * number)


HOME = "casa-verde"
ELSEWHERE = {
    "meters//power": "refused_topic",
    f"meters/{'x' * 200}/power": "refused_topic",
    "meters/one-too-many/power": "refused_meters",
    f"meters/{HOME}/{HOME}/power": None,
    f"meters/{HOME}": None,
    f"meters/{HOME}/power/more": None,
}
"""Topics of a good reading, and its counter; None: the broker has no reason to send it."""


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One agent by the event clock that gets everything."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("bad")))


async def _run(broker: Broker, folder: Path) -> Run:
    streams = stream(broker.url, window='clock = "event"', source="max_meters = 1")
    async with utility(broker) as inbox, meters(broker) as line:
        await line.send(HOME, 5, START_MS - 1000, retain=True)
        await line.send("retained-only", 5, START_MS - 1000, retain=True)
        with service(folder, streams) as agent:
            agent.start()
            await subscribed(broker)
            await until(lambda: count_in_log(broker, ACKNOWLEDGED) == 2)
            await send(line)
            for topic in ELSEWHERE:
                await line.raw(topic, f'{{"power": 5, "t": {START_MS}}}')
            await until(lambda: len(inbox.records()) >= len(expected()))
            await asyncio.sleep(0.3)
            await agent.stop()
            return Run(inbox, agent.totals, agent.log, count_in_log(broker, ACKNOWLEDGED))


def test_each_is_refused_by_its_named_counter(run: Run) -> None:
    """Every bad payload is counted once, by the counter of its reason, visible in the totals at the stop."""
    counted = {name: run.totals[name] for name in BAD}
    assert counted == {name: len(payloads) for name, payloads in BAD.items()}


def test_topics_that_name_no_meter_are_refused(run: Run) -> None:
    """An empty or endless name is counted, as is a surplus meter; topics of other depths are not received."""
    for reason in ("refused_topic", "refused_meters"):
        assert run.totals[reason] == list(ELSEWHERE.values()).count(reason)
    counters = [name for name in run.totals if name in REFUSALS]
    total = sum(run.totals[name] for name in (*counters, "accepted", "late", "retained"))
    assert run.totals["received"] == total


def test_nothing_stops_the_good_readings_between_them(run: Run) -> None:
    """Every good reading, at QoS 0 and 1 alike, is released right, in order, and exactly once."""
    assert [record.value for record in run.inbox.records()] == expected()
    assert [r.start_ms for r in run.inbox.records()] == [START_MS + 1000 * k for k in range(len(expected()))]
    assert {record.meter for record in run.inbox.records()} == {HOME}


def test_finite_values_out_of_range_are_clamped_and_counted(run: Run) -> None:
    """However large or small a finite number is, it counts as the range's nearest end."""
    assert run.totals["clamped"] == len(CLAMPED)
    assert [r.value for r in run.inbox.records()][-len(CLAMPED) :] == list(CLAMPED.values())


def test_retained_messages_are_not_readings(run: Run) -> None:
    """What the broker had retained is acknowledged and counted, and no meter begins with it."""
    assert run.totals["retained"] == 2
    assert min(record.start_ms for record in run.inbox.records()) == START_MS


def test_what_is_refused_is_acknowledged(run: Run) -> None:
    """All is acknowledged but what was sent at QoS 0, and the newest reading, which still stands."""
    at_qos_0 = -(-sum(map(len, BAD.values())) // 3)
    assert run.acknowledged == run.totals["received"] - at_qos_0 - 1


def test_only_totals_are_logged(run: Run) -> None:
    """The log holds settings, connections, beginnings, totals: no payload, no meter, no time of anything."""
    begun = r"INFO meteragent [^\n]+\n(INFO stream main: [^\n]+\n){4}"
    connected = r"(INFO (source|sink) 127\.0\.0\.1:\d+: connected with MQTT 5\n){2}"
    first = r"INFO stream main: the first reading has arrived\n"
    first += r"INFO stream main: the first number has left, [^\n]+\n"
    ended = r"INFO totals: (\w+=\d+ ?)+\n"  # nothing is due, so it ends at once
    assert re.fullmatch(begun + connected + first + ended, run.log), run.log
    for trace in (CANARY, "13371337", HOME, str(START_MS)[:6]):
        assert trace not in run.log
