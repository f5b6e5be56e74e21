"""A meter's history on the local page: days, bands and costs, from released records alone."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.types import ASGIApp

from meteragent import config
from meteragent.agent.page import app, serialise
from meteragent.agent.page import history as page_history
from meteragent.agent.page import view as page
from meteragent.agent.page.history import Costs
from meteragent.agent.store_thread import StoreThread
from meteragent.consume import band_energies, collect, compare_tariffs, tariff_cost
from meteragent.domain.commit import Commit, Descriptor, Outgoing, Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.tariff import Tariff
from meteragent.domain.units import DAY_MS
from meteragent.store import outbox
from meteragent.wire.descriptor import descriptor_topics
from tests.support.configurations import BUDGET, written
from tests.support.contexts import context_of
from tests.support.page_asker import ask
from tests.support.page_world import START_MS, PageWorld, tariff_world
from tests.support.stores import open_store, opening, persist

STEP_MS = 1_800_000
PER_DAY = 48
TODAY_MS = START_MS - START_MS % DAY_MS
NOW_MS = TODAY_MS + DAY_MS // 2


@pytest.fixture
def world() -> PageWorld:
    """A stream of half hours, with 40 days of records, the newest of today at noon."""
    made = PageWorld()
    starts_ms = range(TODAY_MS - 40 * DAY_MS, NOW_MS, STEP_MS)
    made.history = [made.record(start_ms, start_ms // STEP_MS % 700) for start_ms in starts_ms]
    return made


def history(world: PageWorld, **changes: Any) -> page_history.History:
    """Return the history that follows from a world's records and descriptors."""
    released: dict[str, Any] = {
        "records": world.history,
        "descriptors": [],
        "schedule": config.schedule(world.stream),
    }
    released |= {name: changes.pop(name) for name in [*changes] if name in released}
    return page_history.build_history(page_history.TopicRecords(**released), **{"now_ms": NOW_MS} | changes)


def test_complete_days_of_the_last_30_are_shown(world: PageWorld) -> None:
    """Each complete day of the last 30 has the energy and interval that a receiver computes."""
    past = history(world)
    days = [period.start_ms for period in past.periods]
    assert days == [*range(TODAY_MS - 30 * DAY_MS, TODAY_MS, DAY_MS)]
    [series] = collect([world.descriptor.encode_message("house", 0), *world.history]).values()
    for period in past.periods:
        energy = series.energy(period.start_ms, period.end_ms)
        assert period.energy == (energy.value, energy.low, energy.high)
    assert (past.zone, past.windows) == ("UTC", ())


def test_a_day_with_a_missing_record_is_left_out(world: PageWorld) -> None:
    """A day that lacks a record has no energy; the days around it do."""
    del world.history[-24 - 3 * PER_DAY]
    days = [period.start_ms for period in history(world).periods]
    assert days == [
        day for day in range(TODAY_MS - 30 * DAY_MS, TODAY_MS, DAY_MS) if day != TODAY_MS - 3 * DAY_MS
    ]


def test_records_without_their_descriptor_are_left_out(world: PageWorld) -> None:
    """A record of an earlier configuration needs its descriptor, which the schedule no longer gives."""
    changed = config.schedule(PageWorld(privacy="level = 2").stream)
    assert history(world, schedule=changed) == ("UTC", (), ())
    descriptors = [world.descriptor.encode_message("house", 0)]
    assert history(world, schedule=changed, descriptors=descriptors) == history(world)
    assert history(world, records=[]) == ("UTC", (), ())


def test_the_newest_kind_of_slots_counts(world: PageWorld) -> None:
    """After a change of the configuration, the records under the newest descriptor are shown."""
    daily = PageWorld(privacy="preset = 'day'", window="timezone = 'UTC'")
    start_ms = TODAY_MS - 2 * DAY_MS
    step_ms = config.terms(daily.stream).length_ms
    overlapping = [daily.record(at_ms, 100) for at_ms in range(start_ms, TODAY_MS + 3 * DAY_MS, step_ms)]
    descriptors = [made.descriptor.encode_message("house", 0) for made in (world, daily)]
    past = history(world, records=[*world.history, *overlapping], descriptors=descriptors)
    assert {period.start_ms for period in past.periods} == {start_ms + n * DAY_MS for n in range(5)}


def test_bands_are_those_that_a_receiver_works_out() -> None:
    """Each closed month has the energies of its bands, and its own total as a period."""
    world = tariff_world()
    past = history(world)
    [series] = collect([*world.window_descriptors, *world.history]).values()
    assert [window.start_ms for window in past.windows] == sorted({*series.time_ms.tolist()})
    for window in past.windows:
        energies = band_energies(series, window.start_ms)
        assert window.bands == {name: (e.value, e.low, e.high) for name, e in energies.items()}
        assert set(window.bands) == {"day", "evening", "night", "unknown"}
    [newest] = past.periods  # the other month ended more than 30 days ago
    assert (newest.start_ms, newest.end_ms) == (past.windows[-1].start_ms, past.windows[-1].end_ms)
    assert newest.energy[0] == pytest.approx(175.9)
    assert past.zone == "Europe/Amsterdam"
    assert len(history(world, records=world.history[:-1]).windows) == 1


def test_the_cheapest_tariff_is_as_sure_as_a_receiver_finds() -> None:
    """Costs, cheapest tariff and sureness are those of `consume`; a single tariff has only a cost."""
    world = tariff_world()
    [series] = collect([*world.window_descriptors, *world.history]).values()
    for window in history(world, tariffs=world.tariffs).windows:
        choice = compare_tariffs(series, world.tariffs, window.start_ms)
        costs = {name: (cost.value, cost.low, cost.high) for name, cost in choice.costs.items()}
        assert window.costs == Costs("EUR", costs, choice.cheapest, choice.sureness)
    [flat, _] = world.tariffs
    costs_of_one = history(world, tariffs=[flat]).windows[0].costs
    cost = tariff_cost(series, flat, min(series.time_ms.tolist()))
    assert costs_of_one == ("EUR", {"flat": (cost.value, cost.low, cost.high)}, "flat", None)
    assert history(world).windows[0].costs is None


def test_a_tariff_without_a_price_compares_nothing() -> None:
    """Windows of bands that a tariff does not price have energies but no costs."""
    world = tariff_world()
    tariffs = [*world.tariffs, Tariff("other", {"peak": 0.3})]
    assert [window.costs for window in history(world, tariffs=tariffs).windows] == [None, None]


async def test_the_server_tells_what_left() -> None:
    """`/history.json` has the periods, windows and costs of a meter, and none of an unknown meter."""
    world = tariff_world()
    at: ASGIApp = app.build_application(page.Settings(), world.view, world.viewers, ())
    answer = json.loads((await ask(at, "/history.json")).body)
    past = history(world, tariffs=world.tariffs, now_ms=world.now_ms)
    assert answer == json.loads(serialise.encode_history(past))
    window = past.windows[-1]
    assert window.costs is not None
    assert answer["windows"][-1]["bands"]["day"] == [*window.bands["day"]]
    assert answer["windows"][-1]["costs"]["sureness"] == window.costs.sureness
    world.meters = []
    assert (await ask(at, "/history.json")).status == 404


def page_data(text: str, path: Path) -> tuple[page.View, StoreThread]:
    """The page's data over a store, with one stream."""
    thread = StoreThread(open_store(path), 10**12, 10**9, {"main"}, Counts())
    parsed, missing = config.parse(text), cast("Any", None)
    stream = parsed.stream[0]
    receiver = Receiver("main", stream.sink.topic)
    watched = page.StreamView(
        stream, Fraction(0), None, lambda: ["house"], lambda _: True, lambda _: None, receiver
    )
    return page.View([watched], context_of(parsed, thread, Counts(), NOW_MS), missing), thread


async def test_history_comes_from_the_outbox(world: PageWorld, tmp_path: Path) -> None:
    """Records and descriptors of the meter's own topic are read, and of no other topic."""
    look, thread = page_data(written(), tmp_path / "db")
    store, topic = thread.store, "private/house/power"
    descriptor = world.descriptor
    message = descriptor.encode_message("house", 0)
    commit = Commit("main", 0)
    commit.descriptors = [Descriptor("main", name, descriptor.id, message) for name in (topic, f"{topic}2")]
    names = descriptor_topics(topic, descriptor.id)
    commit.outgoing = [Outgoing("main", name, message, 0, True) for name in names]
    commit.outgoing += [Outgoing("main", topic, record, NOW_MS, False) for record in world.history]
    persist(store, commit)
    actual = outbox.descriptors_of(store.connection, "main", topic, names[0])
    assert actual == [message, message]
    assert await look.compute_history("main", "house") == history(world)
    await thread.close()


async def test_a_glance_has_what_remains_of_the_budget(tmp_path: Path) -> None:
    """The remaining budget is that of the present period; without a budget there is none."""
    look, thread = page_data(written(privacy=BUDGET % (1000, "10d")), tmp_path / "db")
    epsilon = config.terms(config.parse(written()).stream[0]).epsilon_per_w
    glance = await look.meter_state("main", "house")
    start_ms = NOW_MS - NOW_MS % (10 * DAY_MS)
    period = {"start_ms": start_ms, "end_ms": start_ms + 10 * DAY_MS}
    assert glance.allowance == page.Allowance(1000 * epsilon, Fraction(0), **period)
    for index in (start_ms // STEP_MS - 1, start_ms // STEP_MS, start_ms // STEP_MS + 1):
        persist(thread.store, opening(index, "house"))
    glance = await look.meter_state("main", "house")
    assert glance.allowance is not None
    assert glance.allowance.spent == 2 * epsilon
    told = serialise._allowance_fields(glance.allowance, look.streams[0].terms)
    assert told == {"limit": 1000.0, "left": 998.0, "windows": 998, **period}
    overspent = glance.allowance._replace(spent=1001 * epsilon)
    assert serialise._allowance_fields(overspent, look.streams[0].terms) == {
        **told,
        "left": 0.0,
        "windows": 0,
    }
    await thread.close()
    look, thread = page_data(written(), tmp_path / "db2")
    assert (await look.meter_state("main", "house")).allowance is None
    await thread.close()
