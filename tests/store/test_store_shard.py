"""A fleet that is cut otherwise: no interval is released by two of its stores (law 1; rule 5)."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.cli import main
from meteragent.cli.health import as_text
from meteragent.config.source import fleet_share
from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError, StoreLost, StoreMoved
from meteragent.domain.identity import ALL_METERS, Shard, SourceTopic
from meteragent.service.health import ask_socket, socket_path
from meteragent.store import Store, commands, ledger, meta_value, restore_at
from tests.core.test_pipeline import EVENT, core, feed
from tests.support.agent_world import STREAM, World, quick
from tests.support.configurations import written
from tests.support.fake_session import LIMIT_S
from tests.support.stores import LENGTH_MS, altering, open_store, opening, persist
from tests.support.world import BASE_MS, message

HALVES = ("0/2 by name", "1/2 by name")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be."""
    return tmp_path / "db"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A whole agent over this folder."""
    return quick(tmp_path, monkeypatch)


def claims(path: Path, meters: str, *, wall: bool = True) -> None:
    """An agent starts with these meters, opens a window of one and stops."""
    with open_store(path) as store:
        store.claim_shard("main", meters, follows_wall_clock=wall)
        mark_ms = store.snapshot("main").marks.get("m", 0)
        persist(store, opening(-(-max(mark_ms, store.floor_ms) // LENGTH_MS), "m"))


@pytest.mark.parametrize(
    ("keys", "meters"),
    [
        ("", ALL_METERS),
        ('shard = "0/1"', ALL_METERS),
        ('shard = "2/8"', "2/8 by name"),
        ('shard = "2/8"\ntopic = "meters/{shard}/{meter}"', "2/8 by topic"),
    ],
)
def test_what_a_source_has_of_a_fleet(keys: str, meters: str) -> None:
    """A fleet of one has all meters; a branch of topics is a different part from that of a hash."""
    assert fleet_share(config.parse(written(source=keys)).stream[0].source) == meters


@pytest.mark.parametrize("meters", [ALL_METERS, "2/8 by name", "2/8 by topic"])
def test_the_same_meters_again_are_no_question(path: Path, meters: str) -> None:
    """An agent that has the meters it had starts, however often."""
    for _ in range(3):
        claims(path, meters)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2/8 by name", "2/9 by name"),
        ("2/8 by name", "3/8 by name"),
        ("2/8 by name", "2/8 by topic"),
        ("2/8 by name", ALL_METERS),
        (ALL_METERS, "0/2 by name"),
    ],
)
def test_other_meters_are_refused_until_told_from_when_on(path: Path, before: str, after: str) -> None:
    """Meters would come whose marks are elsewhere: `restore_at` raises all to a time, then it goes on."""
    claims(path, before)
    for _ in range(2):
        with pytest.raises(StoreMoved, match=f"had shard {before}, not {after}: .*--restored-at"):
            claims(path, after)
    claims(path, before)  # nothing has happened
    restore_at(path, at_ms=10 * LENGTH_MS, now_ms=0)
    claims(path, after)
    with open_store(path) as store:
        assert min(store.snapshot("main").marks.values()) == 11 * LENGTH_MS
        assert store.floor_ms == 10 * LENGTH_MS
    with pytest.raises(StoreMoved):
        claims(path, before)


def test_each_stream_has_its_part(path: Path) -> None:
    """Streams are told apart; a new one takes what it is given."""
    claims(path, HALVES[0])
    with open_store(path) as store:
        store.claim_shard("other", HALVES[1], follows_wall_clock=True)
        store.claim_shard("main", HALVES[0], follows_wall_clock=True)
        with pytest.raises(StoreMoved):
            store.claim_shard("other", HALVES[0], follows_wall_clock=True)


def test_a_new_store_by_the_meters_clocks_must_be_told(path: Path) -> None:
    """It may be asked for times that another store of the fleet has released: not by the wall clock."""
    with pytest.raises(StoreLost, match="part of a fleet"):
        claims(path, HALVES[0], wall=False)
    with pytest.raises(StoreLost):
        claims(path, HALVES[0], wall=False)
    restore_at(path, at_ms=0, now_ms=0)
    claims(path, HALVES[0], wall=False)
    claims(path, HALVES[0], wall=False)


def test_a_home_by_its_meters_clock_is_told_nothing(path: Path) -> None:
    """Without a fleet no other store can have released anything."""
    claims(path, ALL_METERS, wall=False)


def test_what_is_kept_of_a_shard_is_examined(path: Path) -> None:
    """If it is not a text, the store is damaged."""
    claims(path, HALVES[0])
    with altering(path) as connection:
        connection.execute("UPDATE meta SET value = x'00' WHERE key = 'shard/main'")
    with pytest.raises(StoreLost):
        open_store(path, floor_ms=None)


# --- the whole agent ----------------------------------------------------------------------------------


async def test_an_agent_with_other_meters_does_not_start(world: World) -> None:
    """It ends before it connects, and its store is as it was."""
    text = STREAM.format("", "")
    half = text.replace('profile = "json"', 'profile = "json"\nshard = "1/2"')
    async with world.running(half):
        world.sides["source"].send(1, "m1")
        await world.until(lambda: world.agent.counts["opened"] > 0)
    with pytest.raises(StoreMoved):
        await _start(world, text)
    restore_at(world.store, at_ms=world.now_ms + 10_000, now_ms=world.now_ms)
    async with world.running(text):
        pass


async def _start(world: World, text: str) -> None:
    agent = world.agent
    agent._config = world.parse(text)
    async with asyncio.timeout(LIMIT_S):
        await agent.run()


async def test_an_agent_tells_its_shard(world: World) -> None:
    """Whoever asks for its health sees it."""
    text = STREAM.format("", "").replace('profile = "json"', 'profile = "json"\nshard = "1/2"')
    async with world.running(text):
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
    document = json.loads(answer or "")
    assert [stream["shard"] for stream in document["streams"]] == ["1/2"]
    assert "Stream main, shard 1/2: 0 meters" in as_text(document)


def test_the_ledger_tells_until_when_windows_are_open(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`opened_to` is the latest end of a window that any meter has opened; none in a new store."""
    claims(path, HALVES[0])
    with open_store(path) as store:
        assert commands.opened_to_ms(store.connection) == LENGTH_MS
        persist(store, opening(4, "n"))
        assert commands.opened_to_ms(store.connection) == 5 * LENGTH_MS
    (tmp_path / "c.toml").write_text(written(store=f'path = "{path}"'))
    assert main(["ledger", str(tmp_path / "c.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["opened_to"] == "1970-01-01T02:30:00Z"
    with open_store(tmp_path / "new") as store:
        assert commands.opened_to_ms(store.connection) is None


# --- the fleet ----------------------------------------------------------------------------------------


class Fleet:
    """The agents of a fleet with their stores, in virtual time; it is cut again at will."""

    def __init__(self, folder: Path) -> None:
        self.opened: Counter[tuple[str, int]] = Counter()
        self._folder = folder
        self._known: set[Path] = set()

    @contextmanager
    def cut(self, count: int, told_ms: int | None) -> Iterator[Sequence[Store]]:
        """All stores of a cut open; each is told `told_ms` first, as an operator does for every one."""
        paths = [self._folder / str(number) for number in range(count)]
        if told_ms is not None:
            for path in paths:
                restore_at(path, at_ms=told_ms, now_ms=0)
        with ExitStack() as stack:
            stores = [stack.enter_context(open_store(path)) for path in paths]
            for number, store in enumerate(stores):
                store.claim_shard("main", f"{number}/{count} by name", follows_wall_clock=False)
            yield stores

    def run(self, stores: Sequence[Store], readings: Sequence[tuple[str, int]]) -> None:
        """Each agent takes in all readings (meter, time) and stops."""
        for number, store in enumerate(stores):
            source = SourceTopic.parse("meters/{meter}/power", shard=Shard(number, len(stores)))
            pipeline = core(EVENT, store.snapshot("main"), source=source, ahead_ms=10**9)
            for meter, time_ms in readings:
                self.keep(store, feed(pipeline, message(time_ms, 1, meter=meter)).commit)

    def keep(self, store: Store, commit: Commit) -> None:
        """Write a commit, and note which windows it opened."""
        with store.transaction() as tx:
            ledger.debit_windows(tx, commit, None)
            before = dict(tx.execute("SELECT meter, end_ms FROM mark"))
            store.write(tx, commit)
        for meter, mark_ms in commit.marks.items():
            opens = sum(windows[meter] for windows in commit.charges.values())
            first_ms = max(before.get(meter, 0), mark_ms - opens * EVENT.length_ms)
            self.opened.update((meter, at) for at in range(first_ms, mark_ms, EVENT.length_ms))


cuts = st.integers(1, 4)
sent = st.lists(st.tuples(st.sampled_from(["m1", "m2", "a", "b"]), st.integers(0, 60)), max_size=12)


@pytest.mark.slow("thirty fleets of several stores, on the disk")
@settings(max_examples=30)
@given(first=cuts, second=cuts, before=sent, after=sent)
def test_no_interval_is_opened_in_two_stores(
    first: int, second: int, before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """However a fleet is cut again, told the latest `opened_to`: each interval opens at most once in all.

    By the meters' own clocks, where every reading may be told again: the hardest case.
    """
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as folder:
        fleet = Fleet(Path(folder))
        with fleet.cut(first, told_ms=0) as stores:
            fleet.run(stores, before)
            ends_ms = [commands.opened_to_ms(store.connection) or 0 for store in stores]
            clocks_ms = [int(meta_value(store.connection, "clock_ms")) for store in stores]
        with fleet.cut(second, told_ms=max(ends_ms + clocks_ms)) as stores:
            fleet.run(stores, [*before, *after])
        assert set(fleet.opened.values()) <= {1}


def test_without_being_told_a_meter_that_moves_would_open_twice(tmp_path: Path) -> None:
    """The control: two new stores by name, after one that had all, open an interval again."""
    fleet = Fleet(tmp_path)
    readings = [("m1", 0), ("m1", 20)]
    with fleet.cut(1, told_ms=0) as stores:
        fleet.run(stores, readings)
    with ExitStack() as stack:
        stores = [stack.enter_context(open_store(tmp_path / f"new{number}")) for number in range(2)]
        fleet.run(stores, readings)
    assert max(fleet.opened.values()) == 2
    assert BASE_MS in {time_ms for _, time_ms in fleet.opened}


def test_a_part_cannot_be_left_out(tmp_path: Path) -> None:
    """Of stores that were there, one that was not told refuses to start."""
    fleet = Fleet(tmp_path)
    with fleet.cut(2, told_ms=0) as stores:
        fleet.run(stores, [("m1", 0), ("m2", 0), ("m1", 9), ("m2", 9)])
    restore_at(tmp_path / "0", at_ms=BASE_MS + 100, now_ms=0)
    with pytest.raises(StoreError), fleet.cut(3, told_ms=None):
        pass
