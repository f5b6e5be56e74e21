"""The page in the agent: what it gets and when, and that it costs nothing while nobody looks."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

import meteragent.agent.service as module
from meteragent import config
from meteragent.agent import page, runner, unit
from meteragent.agent.link.outlets import presence_of
from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.link.sink import Sink
from meteragent.agent.page import serialise, view
from meteragent.agent.page.history import NO_HISTORY
from meteragent.agent.store_thread import OutboxReader, StoreThread
from meteragent.agent.viewers import Viewer, Viewers
from meteragent.core.deadlines import Upcoming
from meteragent.domain import identity
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.store import outbox
from tests.support.agent_world import START_MS, STEP_MS, STREAM, World
from tests.support.broker import free_port
from tests.support.configurations import written
from tests.support.contexts import context_of
from tests.support.crowd import make_group
from tests.support.page_world import crowd_world
from tests.support.stores import LENGTH_MS, TERMS, closing, open_store, opening, persist, sending

ENERGY = "kind = 'interval_energy'\nunit = 'kWh'\ninterval = '15min'"
REGISTER = "kind = 'register'\nunit = 'kWh'"
SCHEDULE = config.schedule(config.parse(STREAM.format("", "")).stream[0])
NEXT = Upcoming(START_MS, START_MS + STEP_MS, START_MS + STEP_MS)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    made = World(tmp_path)
    monkeypatch.setattr(module, "DRAIN_S", 0.01)
    monkeypatch.setattr(unit, "keep_connected", made.keep_connected)
    for place in (module, runner):
        monkeypatch.setattr(place, "POLL_S", 0.002)
    return made


def with_page() -> str:
    """A stream, and a page that is served."""
    return STREAM.format("", "") + f'[page]\nlisten = "127.0.0.1:{free_port()}"\n'


async def feed(world: World, readings: int) -> None:
    """Send readings, one in each slot, all of which count."""
    source = world.sides["source"]
    before = world.agent.counts["accepted"]
    for done in range(1, readings + 1):
        source.send(100 * done, time_ms=world.now_ms)
        await world.until(lambda done=done: world.agent.counts["accepted"] == before + done)  # type: ignore[misc]
        world.now_ms += STEP_MS
    await world.turn()


async def test_a_closed_page_costs_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody looks, no reading or record is passed on; the only cost is one question per batch."""
    called: Counter[str] = Counter()
    for name in ("queue_records", "add_viewer"):
        monkeypatch.setattr(Viewers, name, lambda *_, name=name: called.update([name]))
    monkeypatch.setattr(Viewer, "queue_reading", lambda *_: called.update(["queue_reading"]))
    async with world.running(with_page()):
        await feed(world, 20)
        assert world.agent.counts["released"] > 10
    assert not called


async def test_without_the_table_there_is_no_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `[page]` nothing is served, and with it exactly once."""
    served: list[object] = []

    async def serve(*arguments: Any) -> None:
        served.append(arguments)

    monkeypatch.setattr(page, "serve", serve)
    async with world.running():
        await feed(world, 1)
    assert served == []
    async with world.running(with_page()):
        await world.turn()
    assert len(served) == 1


async def test_who_looks_sees_what_counts(world: World) -> None:
    """Viewers get the readings that count, as they came, and what is committed."""
    async with world.running(with_page()):
        await feed(world, 1)
        viewers = world.agent._viewers
        viewer = viewers.add_viewer("main", "m", "private/m", SCHEDULE)
        source, start_ms = world.sides["source"], world.now_ms
        source.send(250)  # of long ago
        await feed(world, 3)
        news = viewer.take_news()
        assert news.readings == [(start_ms + i * STEP_MS, 100_000_000 * (i + 1)) for i in range(3)]
        assert [b'"value":' in payload for payload in news.records].count(True) == len(news.records) > 0
        viewers.remove_viewer(viewer)
        await feed(world, 2)
        assert viewer.take_news()[:3] == ([], [], 0)


async def test_a_flush_does_not_keep_who_looks_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `store.flush` readings are collected, but taken in at once while somebody looks."""

    def parse(text: str) -> config.Config:
        return config.parse(f'{text}\n[store]\npath = "{world.store}"\nflush = "30min"\n')

    monkeypatch.setattr(world, "parse", parse)
    async with world.running(STREAM.format("", "").replace('"1s"', '"1h"')):
        source, counts = world.sides["source"], world.agent.counts
        source.send(100, time_ms=world.now_ms)
        await world.turn(20)
        assert counts["accepted"] == 0
        viewer = world.agent._viewers.add_viewer("main", "m", "private/m", SCHEDULE)
        await world.until(lambda: counts["accepted"] == 1)
        world.agent._viewers.remove_viewer(viewer)


def told(text: str, store: StoreThread | None = None, key: bytes | None = None) -> view.View:
    """Return what the page gets of a configuration's first stream."""
    parsed, missing = config.parse(text), cast("Any", None)
    stream = parsed.stream[0]
    connected = {"source": True, "sink": False}.__getitem__
    receiver, upcoming = Receiver("main", stream.sink.topic), {"m": NEXT}.get
    watched = [view.StreamView(stream, Fraction(0), key, lambda: ["m"], connected, upcoming, receiver)]
    context = context_of(parsed, store or Mock(), Counts(), START_MS + STEP_MS)
    return view.View(watched, context, missing)


@pytest.mark.parametrize("source", ["", ENERGY, REGISTER])
def test_every_preset_can_be_looked_at(source: str) -> None:
    """For a stream of any kind, the page gets the success limits of every other preset."""
    [stream] = told(written(source=source)).streams
    promises = stream.promises()
    assert set(promises.presets) == {"television", "street", "day", "bill", "typical-day", "peak"}
    for preset in promises.presets.values():
        assert preset.terms.readings.unit == stream.terms.readings.unit
        assert preset.exposures
        head, *rows = serialise._promise_sentences(preset)["table"]
        assert {len(row) for row in rows} == {len(head)}
        assert len(rows) == len(preset.exposures)


def test_presets_that_check_refuses_are_not_offered() -> None:
    """A device that reports only changes of 500 W is too coarse for half an hour, but not for a month."""
    source, zone = 'profile = "json"\nvalue = "power"\ndead_band = 500\nhold = "30min"', "timezone = 'UTC'"
    [stream] = told(written(source=source, privacy='preset = "bill"', window=zone)).streams
    presets = set(stream.promises().presets)
    for name in ("appliance", "television", "street", "day", "typical-day"):
        window = zone if name in ("day", "typical-day") else ""
        text = written(source=source, privacy=f'preset = "{name}"', window=window)
        is_refused = config.reading_refusals(config.parse(text)) != []
        assert (name in presets) != is_refused
    assert presets < {"appliance", "television", "street", "day", "typical-day"}


def test_records_are_looked_for_where_they_leave() -> None:
    """A meter's records are found under the name under which they leave: its pseudonym."""
    [stream] = told(written()).streams
    assert stream.topic_of("m") == "private/m/power"
    [stream] = told(written(), key=b"key").streams
    assert stream.topic_of("m") == f"private/{identity.pseudonym(b'key', 'm')}/power"


async def test_a_glance_is_what_the_store_says(tmp_path: Path) -> None:
    """Charges, waiting messages and their delay, the last message and those before come from the store."""
    store = open_store(tmp_path / "db")
    thread = StoreThread(store, 10**12, 10**9, {"main"}, Counts())
    look = told(written(), thread)
    glance = await look.meter_state("main", "m")
    assert glance.spent == dict.fromkeys(SPENT, 0)
    assert (glance.last_message, glance.waiting_count, glance.lag_ms) == (None, 0, None)
    assert (glance.source_is_connected, glance.sink_is_connected, glance.now_ms) == (
        True,
        False,
        START_MS + STEP_MS,
    )
    assert glance.upcoming == NEXT
    now = START_MS // LENGTH_MS
    for k in (now - 48 * 40, now - 48 * 8, now - 1, now):
        persist(store, opening(k, "m", "other"))
    persist(store, closing(now - 2, "m"))
    glance = await look.meter_state("main", "m")
    assert glance.spent == {name: n * TERMS.epsilon_per_w for name, n in SPENT.items()}
    assert (glance.waiting_count, glance.lag_ms) == (1, LENGTH_MS + STEP_MS)
    assert await look.latest_payloads("main", "private/m", 10) == [b"record %d" % (now - 2)]
    [row] = outbox.pending_rows(store.connection, "main", START_MS, 10)
    with store.transaction() as tx:
        outbox.mark_delivered(tx, [row.id], START_MS)
    glance = await look.meter_state("main", "m")
    assert glance.last_message == outbox.last_delivered(store.connection, "main")
    assert (glance.waiting_count, glance.lag_ms) == (0, None)
    assert (await look.meter_state("main", "m")).last_message == glance.last_message
    await thread.close()


def test_the_latest_records_are_in_order(tmp_path: Path) -> None:
    """The newest records of a topic are found, up to a limit, in the order of their commits."""
    with open_store(tmp_path / "db") as store:
        for k in range(5):
            persist(store, closing(k, "m", "other"))
            persist(store, closing(100 + k, "m", stream="two"))
        descriptor = sending(0, payload=b"descriptor")
        descriptor.outgoing = [row._replace(retain=True) for row in descriptor.outgoing]
        persist(store, descriptor)
        actual = outbox.latest_records(store.connection, "main", "private/m", 3)
        assert actual == [b"record 2", b"record 3", b"record 4"]
        assert outbox.latest_records(store.connection, "main", "private/none", 3) == []
        assert outbox.last_delivered(store.connection, "main") is None


async def test_reports_to_a_crowd_are_counted_and_not_shown(tmp_path: Path) -> None:
    """A stream of a group has no records, no history and no presets: only what became of its reports."""
    stream = crowd_world(tmp_path).stream
    store = open_store(tmp_path / "db")
    thread = StoreThread(store, 10**12, 10**9, {"main"}, Counts())
    missing: Any = None
    context = context_of(missing, thread, Counts(), START_MS + STEP_MS)
    known = {START_MS + STEP_MS: True}
    counts, refusals = Counts(delivered=5, report_late=2), Refusals("a/{meter}")
    sink = Sink(OutboxReader(thread, "main"), context.clock.now_ms, counts, refusals)
    sink.delivered_ms = START_MS
    keys = SimpleNamespace(has_slot=lambda time_ms: known.get(time_ms, False))
    outlet: Any = SimpleNamespace(sink=sink, crowd=keys)
    upcoming, receiver = {"m": NEXT}.get, Receiver("main", stream.sink.topic)
    watched = view.StreamView(
        stream, Fraction(0), None, lambda: ["m"], lambda _: True, upcoming, receiver, outlet=outlet
    )
    look = view.View([watched], context, missing)
    persist(store, sending(0))
    assert await look.latest_payloads("main", "private/m", 10) == []
    assert await look.compute_history("main", "m") == NO_HISTORY
    glance = await look.meter_state("main", "m")
    assert glance.reports == view.Reports(5, 1, 2, START_MS, has_keys=True)
    known.clear()
    sink._unmarked_ids.add(1)  # confirmed, but not marked yet
    assert (await look.meter_state("main", "m")).reports == view.Reports(5, 0, 2, START_MS, has_keys=False)
    promises = watched.promises()
    assert promises.presets == {}
    facts = json.loads(serialise.encode_facts([watched], [promises], Counts(), []))
    assert facts["streams"][0]["group"] == {
        "name": "elm-street",
        "id": make_group().id.hex(),
        "operators": {"leader": "The leader", "helper": "The helper"},
        "hide_wh": 110,
        "level": 1,
        "smallest": 3,
    }
    await thread.close()


HOME_ASSISTANT = "status = 'agent/status'\nhome_assistant = 'homeassistant'"
SPENT = {"today": 2, "month": 3, "start": 4}


def test_settings_come_from_the_configuration(tmp_path: Path) -> None:
    """The table `[page]` states where the page is served; its token is read, and refused if it is weak."""
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")

    def settings(text: str) -> view.Settings:
        table = config.parse(f"{written()}\n[page]\n{text}").page
        assert table is not None
        return view.Settings.of(table)

    assert settings("") == view.Settings("127.0.0.1", 8321)
    far = settings(f'listen = "[::]:80"\nhosts = ["Gateway.local"]\ntoken_file = "{path}"')
    assert far == view.Settings("::", 80, frozenset({"gateway.local"}), b"0123456789abcdef")
    near = f'token_file = "{path}"\n'
    has_actions = [
        settings(text).has_actions
        for text in ("", near, f"{near}actions = false", f'{near}hosts = ["gateway.local"]')
    ]
    assert has_actions == [False, True, False, False]
    assert settings(f'{near}listen = "[::]:80"\nactions = true').has_actions
    with pytest.raises(ConfigError, match=r"page\.token_file: .*page\.actions needs a login"):
        settings("actions = true")
    path.write_text("short")
    with pytest.raises(ConfigError, match=r"page\.token_file: found a token of 5 characters"):
        settings(f'token_file = "{path}"')
    with pytest.raises(ConfigError, match=r"page\.token_file"):
        settings(f'token_file = "{tmp_path / "none"}"')


@pytest.mark.parametrize("url", ["http://gateway.local:8321", "https://home.example/meter/"])
def test_the_address_of_the_page_is_the_link_of_the_devices(url: str) -> None:
    """Home Assistant shows it on each device of the configuration."""
    parsed = config.parse(f"{written(sink=HOME_ASSISTANT)}\n[page]\nurl = '{url}'")
    discovery = presence_of(parsed.stream[0], b"secret", parsed.page).discovery
    assert discovery is not None
    assert discovery.page_url == url
    without = presence_of(parsed.stream[0], b"secret", None).discovery
    assert without is not None
    assert without.page_url is None


@pytest.mark.parametrize(
    "url", ["gateway.local", "ftp://gateway.local", "http://user:secret@gateway.local", "http://"]
)
def test_an_address_that_is_no_link_is_refused(url: str) -> None:
    """A login has no place in an address that is published."""
    with pytest.raises(ConfigError, match=r"page\.url.*an address without a login") as refused:
        config.parse(f"{written()}\n[page]\nurl = '{url}'")
    assert "secret" not in str(refused.value)
