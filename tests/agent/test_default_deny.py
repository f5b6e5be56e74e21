"""Only the declared quantity leaves, under a keyed name: a whole agent between brokers that a test plays."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import meteragent.agent.service as module
from meteragent.agent import runner, unit
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.mqtt import Will
from meteragent.privacy import SeededBits
from meteragent.store import read_only
from tests.support.agent_world import START_MS, STEP_MS, STREAM, World
from tests.support.fake_session import LIMIT_S, Publication
from tests.support.world import BASE_MS, message, stream

HOME = 'status = "agent/status"\nhome_assistant = "homeassistant"\n'
Home = Callable[..., Awaitable[list[Publication]]]
METER = "ADCO-021861348497"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms, and does not wait for brokers at a stop."""
    made = World(tmp_path)
    monkeypatch.setattr(module, "DRAIN_S", 0.01)
    monkeypatch.setattr(unit, "keep_connected", made.keep_connected)
    for place in (module, runner):
        monkeypatch.setattr(place, "POLL_S", 0.002)
    monkeypatch.setattr("meteragent.agent.link.sink.POLL_S", 0.002)
    return made


def keyed(folder: Path, key: str) -> str:
    """Return the keys of a sink with pseudonyms."""
    path = folder / key
    path.write_text(key)
    path.chmod(0o600)
    return f'pseudonym_key_file = "{path}"\n'


def waiting(world: World, records_: int) -> bool:
    """Return whether any of so many records has not been written or confirmed."""
    with read_only(world.store) as connection:
        written = connection.execute("SELECT count(*) FROM outbox WHERE NOT retain").fetchone()[0]
        unconfirmed = connection.execute("SELECT count(*) FROM outbox WHERE delivered_ms IS NULL").fetchone()[
            0
        ]
    return int(written) < records_ or int(unconfirmed) > 0


async def sent(world: World, sides: tuple[str, ...] = ("sink",)) -> dict[str, list[Publication]]:
    """Return all that leaves, by connection, until every past slot is out and confirmed."""
    actual: dict[str, list[Publication]] = {side: [] for side in sides}
    passed = (world.now_ms - START_MS) // STEP_MS * len(sides)
    async with asyncio.timeout(LIMIT_S):
        while waiting(world, passed):
            for side in sides:
                actual[side] += take(world, side)
            await world.turn(1)
    return actual


def take(world: World, side: str) -> list[Publication]:
    """Return what has left so far, and confirm it."""
    session, actual = world.sides[side].session, []
    while not session.published.empty():
        actual.append(session.published.get_nowait())
        world.sides[side].confirm(actual[-1])
    return actual


async def slots(world: World, *watts: int | None) -> None:
    """Let slots pass, with or without a reading in each."""
    for watt in watts:
        if watt is not None:
            accepted = world.agent.counts["received"]
            world.sides["source"].send(watt, METER, time_ms=world.now_ms)
            await world.until(lambda so_far=accepted: world.agent.counts["received"] > so_far)  # type: ignore[misc]
        world.now_ms += STEP_MS
        await world.turn(2)


def records(publications: list[Publication]) -> list[tuple[str, int]]:
    """Return the label and the start (s after START_MS) of each record."""
    actual = [(p.topic, json.loads(p.payload)) for p in publications if not p.retain]
    return [(topic, (parse_time(record["t"]) - START_MS) // STEP_MS) for topic, record in actual]


def charged(world: World) -> dict[str, int]:
    """Return the windows in the ledger, by meter."""
    with read_only(world.store) as connection:
        return dict(connection.execute("SELECT meter, sum(windows) FROM charge GROUP BY meter"))


async def test_a_new_key_releases_no_interval_twice(world: World, tmp_path: Path) -> None:
    """Marks, charges and states belong to the meter itself: under a new key, it continues where it was.

    The window that is open finishes under the name it opened with; the next has the new one, and its
    descriptor before it.
    """
    actual: list[Publication] = []
    for key in ("first", "second"):
        async with world.running(STREAM.format("", "") + keyed(tmp_path, key)):
            await slots(world, 100, 100, 100, *[None] * 5)  # catch_up
            actual += (await sent(world))["sink"]
    starts = sorted({start for _, start in records(actual)})
    labels = list(dict.fromkeys(topic for topic, _ in records(actual)))
    assert len(labels) == 2
    by_slot = {start: {topic for topic, at in records(actual) if at == start} for start in starts}
    assert all(len(topics) == 1 for topics in by_slot.values())
    assert starts == list(range(len(starts)))
    assert charged(world) == {METER: len(starts) + 1}
    first_new = next(i for i, p in enumerate(actual) if p.topic.startswith(labels[1]))
    assert actual[first_new].topic == f"{labels[1]}/privacy"
    assert actual[first_new].retain


@pytest.mark.parametrize("key", [None, b"one", b"another"])
def test_a_mark_is_the_meters_own(key: bytes | None) -> None:
    """A forgotten meter that returns under a new key opens nothing before its mark (law 1)."""
    known = stream(pseudonym_key=key)
    mark_ms = known.schedule.first_start_ms(BASE_MS + 1) + 5 * known.terms.length_ms
    pipeline = Pipeline(known, Snapshot({"m1": mark_ms}, {}, {}), Spending(), SeededBits(1), Counts())
    opened: dict[str, int] = {}
    for at in range(1, 8 * known.terms.length_ms, known.terms.length_ms):
        opened |= pipeline.feed([message(at, 100)], BASE_MS + at, BASE_MS + at).commit.marks
        assert not opened or BASE_MS + at >= mark_ms
    assert opened.keys() == {"m1"}


async def test_two_receivers_cannot_tell_that_a_meter_is_the_same(world: World, tmp_path: Path) -> None:
    """Streams with separate keys share no label and nothing else that names a meter."""
    text = "".join(
        f'[[stream]]\nname = "{name}"\n' + STREAM.format("stream.", name) + keyed(tmp_path, name)
        for name in ("one", "two")
    )
    async with world.running(text):
        await world.until(lambda: len(world.sides) == 4)
        for name in ("one", "two"):
            world.sides[f"source-{name}"].send(100, METER)
        await world.until(lambda: world.agent.counts["opened"] == 2)
        world.now_ms += STEP_MS
        of_one, of_two = (await sent(world, ("sink-one", "sink-two"))).values()
    labels = [{json.loads(p.payload)["meter"] for p in actual} for actual in (of_one, of_two)]
    assert [len(names) for names in labels] == [1, 1]
    assert labels[0] != labels[1]
    for actual, (other,) in ((of_one, labels[1]), (of_two, labels[0])):
        text = "".join(p.topic + p.payload.decode() for p in actual)
        assert METER not in text
        assert other not in text


def outside(publications: list[Publication]) -> list[tuple[str, bytes, bool]]:
    """Return what left besides records."""
    return [p[1:] for p in publications if p.retain]


def form(publications: list[Publication]) -> list[tuple[str, bool, list[str], int | None]]:
    """Return what of each message does not depend on data: topic, retain flag, fields, and slot."""
    actual = []
    for p in publications:
        facts = json.loads(p.payload)
        actual.append((p.topic, p.retain, list(facts), parse_time(facts["t"]) if "for" in facts else None))
    return actual


@pytest.fixture
def home(world: World, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a maker of all that leaves of a home with these readings, in a separate world."""
    monkeypatch.setattr("meteragent.domain.identity.release_delay_ms", lambda *_: -1000)
    monkeypatch.setattr("meteragent.store.Store.claim_key", bytes(32))  # all homes are one store's

    async def made(*watts: int | None) -> list[Publication]:
        own = World(tmp_path_factory.mktemp("home"))
        monkeypatch.setattr(unit, "keep_connected", own.keep_connected)
        async with own.running(STREAM.format("", "") + HOME):
            await slots(own, *watts)
            actual = (await sent(own))["sink"]
            side = own.sides["sink"]
            side.session.send(side, b"online", "homeassistant/status")
            await own.until(lambda: not side.session.published.empty())
            return actual + take(own, "sink")

    return made


async def test_topic_and_retain_flag_do_not_depend_on_data(home: Home) -> None:
    """A flat load, a busy one and one that falls silent: the same messages except for their values."""
    flat = form(await home(*[100] * 6))
    assert flat == form(await home(0, 20_000, 3, 100_000, 17, 9))
    assert flat == form(await home(13371, *[None] * 5))
    assert len([slot for *_, slot in flat if slot is not None]) == 6


async def test_a_silent_meter_changes_nothing_beside_its_records(home: Home) -> None:
    """Status, devices and descriptors equal those of a meter that keeps sending, byte for byte."""
    silent = outside(await home(13371, *[None] * 5))
    assert silent == outside(await home(*[13371] * 6))
    topics = [topic for topic, *_ in silent]
    assert topics[0] == "agent/status"
    assert len([topic for topic in topics if topic.endswith("/config")]) == 2
    assert not any(b"13371" in payload for _, payload, _ in silent)


async def test_the_sink_is_told_no_name(world: World) -> None:
    """The client id contains a pseudonym, and the will that is left with the broker names no meter."""
    async with world.running(STREAM.format("", "") + HOME):
        world.sides["source"].send(100, METER)
        await world.until(lambda: world.agent.counts["opened"] == 1)
        side = world.sides["sink"]
        assert re.fullmatch(r"meteragent-[0-9a-f]+-sink", side.client_id)
        assert side.link.will == Will("agent/status", b'{"v":1,"status":"offline"}')
        assert world.sides["source"].link.will is None
