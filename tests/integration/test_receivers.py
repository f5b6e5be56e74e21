"""Receivers that share a stream, and are revoked: between real brokers, through kill -9 at random moments."""

import asyncio
import json
import random
import re
from pathlib import Path

import pytest
from aiomqtt import Client

from meteragent.domain.grid import iso_time, parse_time
from tests.conftest import MakeBroker
from tests.integration.hurried import make_clock
from tests.integration.receiver_kills import NAMES, Barrier, Rounds, Side, kill_beside_receivers
from tests.integration.service import TELL_ALL, Service, service, subscribed, until
from tests.integration.wire import Receiver
from tests.support.broker import Broker, mosquitto_program

START_MS = parse_time("2027-03-01T00:00:00Z")
SLOT_MS = 1_800_000
HURRIED = ("tests.integration.hurried",)
UTILITY, APP = "private/utility/m1", "private/app/m1"
KEPT = {"autosave_interval": 1}


def text(home: Broker, outside: Broker, app: str = "") -> str:
    """A configuration with two receivers of one preset at two brokers; `app` is more about the second."""
    return f"""
source.url = "{home.url}"
source.topic = "meters/{{meter}}/power"
source.kind = "power"
source.unit = "W"
source.every = "10s"
[[receiver]]
name = "utility"
topic = "private/utility/{{meter}}"
[[receiver]]
name = "app"
url = "{outside.url}"
topic = "private/app/{{meter}}"
{app}
"""


def rewrite(agent: Service, content: str) -> None:
    """Change the configuration of an agent that does not run."""
    agent.path.write_text(f'{content}\n[store]\npath = "{agent.store}"\n')


async def sending(broker: Broker) -> None:
    """A meter's readings, 20 a second."""
    async with Client("127.0.0.1", broker.port) as client:
        while True:
            await client.publish("meters/m1/power", "250", qos=1)
            await asyncio.sleep(0.05)


def receipt(folder: Path) -> str:
    """The only receipt of a store."""
    [path] = folder.glob("db.receipt-app-*.txt")
    return path.read_text()


def slots(receiver: Receiver, topic: str) -> dict[str, bytes]:
    """The records of a topic by slot; a slot that came again must be the same, byte for byte."""
    first: dict[str, bytes] = {}
    for payload in receiver.messages[topic]:
        assert first.setdefault(json.loads(payload)["t"], payload) == payload
    return first


async def retained(broker: Broker, topic: str) -> dict[str, bytes]:
    """What a new subscriber gets at once, below a topic."""
    inbox: dict[str, bytes] = {}
    async with Client("127.0.0.1", broker.port) as client:
        await client.subscribe(f"{topic}/#", qos=1)
        await client.subscribe("private/last", qos=1)
        await client.publish("private/last", b"x", qos=1)
        async for message in client.messages:
            if str(message.topic) == "private/last":
                return inbox
            if message.retain:
                inbox[str(message.topic)] = bytes(message.payload)
    raise AssertionError


def is_without_gap(starts: dict[str, bytes]) -> bool:
    """Whether slots follow each other."""
    times_ms = sorted(map(parse_time, starts))
    return times_ms == list(range(times_ms[0], times_ms[-1] + 1, SLOT_MS))


async def kill_often(agent: Service, rng: random.Random, times: int) -> None:
    """Kill it at random moments, start it again, and leave it running."""
    for _ in range(times):
        await asyncio.sleep(rng.uniform(0.3, 1.5))
        await agent.kill()
        agent.start()


def assert_receipt(said: str, before: dict[str, bytes]) -> None:
    """The receipt counts what arrived; a confirmation that a kill -9 forgot is among the deleted messages."""
    [sent], [deleted] = (re.findall(line, said) for line in (r"records: +(\d+)", r"deleted: +(\d+)"))
    assert int(sent) <= len(before) <= int(sent) + int(deleted)
    assert f"{APP}: {sent} of {min(before)} to " in said
    assert "(paused)" in said


def assert_kept(before: dict[str, bytes], shared: dict[str, bytes], everything: dict[str, bytes]) -> None:
    """No slot is missing, each is the same for both, and none of the pause came later."""
    later = {start: payload for start, payload in shared.items() if start not in before}
    assert all(map(is_without_gap, (everything, before, later)))
    assert shared.items() <= everything.items()
    assert min(later) > max(before)


async def test_each_receiver_gets_each_slot_once_and_nothing_after_its_revocation(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Through kill -9, both get the same bytes for each slot; the one that is paused gets nothing more.

    Its broker is away when it is paused, with records waiting: they are deleted, its descriptors are
    withdrawn when the broker is back, and the receipt counts what was confirmed. Admitted again, it gets
    newer slots only.
    """
    rng = random.Random(25)
    with mosquitto() as home, mosquitto(is_persistent=True, settings=KEPT) as outside:
        make_clock(tmp_path, START_MS, hour_s=1)
        content = text(home, outside)
        async with Receiver(home, "utility") as utility, Receiver(outside, "app") as app:
            with service(tmp_path, content, program=HURRIED) as agent:
                rewrite(agent, content)
                feeding = asyncio.create_task(sending(home))
                agent.start()
                await until(lambda: slots(app, APP))
                await kill_often(agent, rng, 4)
                await until(lambda: len(slots(app, APP)) >= 5)
                assert len(await retained(outside, APP)) == 2
                outside.stop()
                newest = len(slots(utility, UTILITY))
                await until(lambda: len(slots(utility, UTILITY)) >= newest + 2)  # as many wait for the app
                await agent.kill()
                before = slots(app, APP)
                rewrite(agent, text(home, outside, "paused = true"))
                agent.start()
                await kill_often(agent, rng, 3)
                outside.start()
                await until(lambda: app.messages[f"{APP}/privacy"][-1:] == [b""])
                newest = len(slots(utility, UTILITY))
                await until(lambda: len(slots(utility, UTILITY)) >= newest + 2)
                assert await retained(outside, APP) == {}
                assert slots(app, APP) == before
                assert_receipt(receipt(tmp_path), before)
                await agent.stop()
                rewrite(agent, content)
                agent.start()
                await until(lambda: len(slots(app, APP)) >= len(before) + 2)
                await agent.stop()
                await app.flush(outside.url)
                await utility.flush(home.url)
                feeding.cancel()
            assert_kept(before, slots(app, APP), slots(utility, UTILITY))
            [spent] = {row["stream"] for row in json.loads(agent.command("ledger", "--json").stdout)["spent"]}
            assert spent == "main-appliance"


async def test_no_window_is_charged_that_no_receiver_gets(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Neither after the last end, until the receiver is revoked, nor before the first start; through kill -9.

    The `catch_up` keeps the receiver for an hour after its end: these would be three windows.
    """
    rng = random.Random(26)
    with mosquitto() as home:
        clock = make_clock(tmp_path, START_MS, hour_s=2)
        only = f'window.catch_up = "1h"\n{text(home, home)}'.replace(
            'name = "utility"', 'name = "utility"\npaused = true'
        )
        async with Receiver(home, "utility") as utility, Receiver(home, "app") as app:
            with service(tmp_path, only, program=HURRIED) as agent:
                rewrite(agent, only)
                feeding = asyncio.create_task(sending(home))
                agent.start()
                await until(lambda: slots(app, APP))
                await agent.kill()
                end_ms = clock() // SLOT_MS * SLOT_MS + 3 * SLOT_MS
                start_ms = end_ms + 3 * SLOT_MS + 300_000
                later = f"{only}end = {iso_time(end_ms)}\n"
                rewrite(agent, later.replace("paused = true", f"start = {iso_time(start_ms)}"))
                agent.start()
                await kill_often(agent, rng, 4)
                await until(lambda: len(slots(utility, UTILITY)) >= 2)
                await agent.stop()
                feeding.cancel()
            await app.flush(home.url)
            await utility.flush(home.url)
            assert min(slots(utility, UTILITY)) > iso_time(start_ms)
            assert max(slots(app, APP)) < iso_time(end_ms)
            [charged] = json.loads(agent.command("ledger", "--json").stdout)["spent"]
            before_the_end = (end_ms - parse_time(min(slots(app, APP)))) // SLOT_MS
            assert len(slots(app, APP)) <= before_the_end
            at_most = before_the_end + len(slots(utility, UTILITY)) + 1  # one is open
            assert len(slots(app, APP)) + len(slots(utility, UTILITY)) <= charged["windows"] <= at_most


async def test_a_receiver_with_an_end_gets_its_last_slot_and_is_revoked(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """It gets the slots between its start and its end, and is revoked; the other receiver goes on.

    The agent looks once a second, every 12 minutes of its clock, so `start` follows a slot closely.
    """
    start, end = "2027-03-01T00:31:00Z", "2027-03-01T02:00:00Z"
    with mosquitto(settings=TELL_ALL) as home, mosquitto() as outside:
        clock = make_clock(tmp_path, START_MS, hour_s=5, stands=True)
        content = "window.catch_up = '15min'\n" + text(home, outside, f"start = {start}\nend = {end}")
        async with Receiver(home, "utility") as utility, Receiver(outside, "app") as app:
            with service(tmp_path, content, program=HURRIED) as agent:
                rewrite(agent, content)
                agent.start()
                await subscribed(home)
                clock.start()
                feeding = asyncio.create_task(sending(home))
                await until(lambda: slots(utility, UTILITY).keys() >= {"2027-03-01T02:30:00Z"})
                await agent.stop()
                feeding.cancel()
            await app.flush(outside.url)
            assert list(slots(app, APP)) == ["2027-03-01T01:00:00Z", "2027-03-01T01:30:00Z"]
            assert slots(app, APP).items() <= slots(utility, UTILITY).items()
            assert await retained(outside, APP) == {}
            said = receipt(tmp_path)
            assert f"2 of 2027-03-01T01:00:00Z to {end}" in said
            assert "deleted" not in said


async def test_what_strikes_one_receiver_strikes_no_other(tmp_path: Path) -> None:
    """One broker is killed, stands still, refuses, belongs to another store; a receiver is paused.

    Each is a round, with a kill of the agent. `kill_rounds --receivers` does the same 100 times.
    """
    program = mosquitto_program()
    assert program is not None
    kept = await kill_beside_receivers(program, tmp_path, 5, 3)
    assert not kept.mistakes
    assert kept.slots >= 5 * 4


@pytest.mark.parametrize(
    ("first", "second", "mistake"),
    [
        ({0: b"1", 1: b"2"}, {0: b"1", 1: b"2"}, None),
        ({0: b"1", 1: b"2"}, {0: b"1", 1: b"3"}, "two draws"),
        ({0: b"1", 2: b"2"}, {0: b"1", 2: b"2"}, "nobody got"),
        ({0: b"1", 1: b"2", 2: b"3"}, {0: b"1", 2: b"3"}, "lacks"),
        ({k: b"%d" % k for k in range(9)}, {k: b"%d" % k for k in (0, 1, 7, 8)}, None),
        ({k: b"%d" % k for k in range(9)}, {k: b"%d" % k for k in (0, 1, 4, 7, 8)}, "not its own"),
        ({k: b"%d" % k for k in range(9)}, {k: b"%d" % k for k in (0, 7, 8)}, "lacks"),
    ],
)
def test_the_judge_of_two_receivers(
    tmp_path: Path,
    mosquitto: MakeBroker,
    first: dict[int, bytes],
    second: dict[int, bytes],
    mistake: str | None,
) -> None:
    """A second draw, a lost slot and a slot of another's time are each found; the rest is right.

    If there are nine slots, the second receiver is paused during slots 3 to 6.
    """
    broker = mosquitto()
    sides = {name: Side(name, broker, Receiver(broker)) for name in NAMES}
    for side, table in zip(sides.values(), (first, second), strict=True):
        for k, value in table.items():
            record = b'{"t":"%s","value":%s}' % (iso_time(START_MS + k * SLOT_MS).encode(), value)
            side.inbox.messages[side.topic("m")].append(record)
    with service(tmp_path, "") as agent:
        rounds = Rounds(agent, broker, sides, make_clock(tmp_path, START_MS))
    if len(first) == 9:
        begin_ms, end_ms = (START_MS + k * SLOT_MS for k in (3, 7))
        before = frozenset(START_MS + k * SLOT_MS for k in (0, 1))
        rounds.barriers.append(Barrier(NAMES[1], "m", begin_ms, end_ms, before))
    mistakes = rounds.mistakes()
    assert [mistake in text for text in mistakes] == [True] if mistake else not mistakes
