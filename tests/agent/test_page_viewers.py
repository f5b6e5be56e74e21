"""The page's viewers, and what waits for them: meteragent.agent.viewers."""

import asyncio
import gc
from collections import Counter
from itertools import chain

import pytest

from meteragent import config
from meteragent.agent import viewers as module
from meteragent.agent.viewers import (
    METERS_MAX,
    SLOTS_MAX,
    VIEWERS_MAX,
    WAITING_MAX,
    News,
    TooManyViewers,
    Viewer,
    Viewers,
)
from meteragent.core.noiseless import SlotMean
from meteragent.core.window import Window
from meteragent.domain.commit import Outgoing
from meteragent.domain.units import HOUR_MS, MICRO
from tests.support.configurations import written

NOTHING = News([], [], 0, [])
SCHEDULE = config.schedule(config.parse(written(window="range = [0, 100000000]")).stream[0])
STEP_MS = SCHEDULE.usual.step_ms
START_MS = 1_795_200_000_000 // HOUR_MS * HOUR_MS
WATCHED: Counter[str] = Counter()
"""How many slots of each meter have been used; see `fresh`."""


CANARY_W = 47_110_815
"""A power that is in memory for no other reason, once it is a mean in W and an energy in millionths."""


def enter(viewers: Viewers, meter: str = "m") -> Viewer:
    """Open a page on a meter."""
    return viewers.add_viewer("main", meter, f"private/{meter}", SCHEDULE)


def use(viewers: Viewers, watts: int, slots: int = 1, meter: str = "m") -> None:
    """Use a power for whole slots, as the core notes it."""
    observer = viewers.observer_of("main")
    assert observer is not None
    first_ms = START_MS + WATCHED[meter] * STEP_MS
    for start_ms in range(first_ms, first_ms + slots * STEP_MS, STEP_MS):
        observer.note_span(meter, start_ms, start_ms + STEP_MS, watts * MICRO)
    WATCHED[meter] += slots


def powers(means: list[SlotMean]) -> list[float]:
    """Return the powers of means of whole slots."""
    return [mean.power for mean in means if mean.part == 1]


def outgoing(topic: str, payload: bytes, *, retain: bool = False) -> Outgoing:
    """A row of the outbox."""
    return Outgoing("main", topic, payload, 0, retain)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """No slot has been used."""
    WATCHED.clear()


async def test_a_closed_page_takes_nothing() -> None:
    """Before a page was opened nothing is passed on; after it was closed, only spans to its means."""
    viewers = Viewers()
    assert not viewers
    assert viewers.observer_of("main") is None
    viewer = enter(viewers)
    assert viewers
    viewers.remove_viewer(viewer)
    assert not viewers
    observer = viewers.observer_of("main")
    assert observer is not None
    observer.note_reading("m", 1000, 5_000_000)
    viewers.queue_records("main", [outgoing("private/m", b"1")])
    assert viewer.take_news() == NOTHING


async def test_a_viewer_gets_its_own_meter() -> None:
    """A viewer gets the readings and records of its meter, and nothing of others, and no report."""
    viewers = Viewers()
    viewer = enter(viewers)
    assert viewers.observer_of("two") is None
    observer = viewers.observer_of("main")
    assert observer is not None
    observer.note_reading("m", 1000, 5_000_000)
    observer.note_reading("other", 1000, 6_000_000)
    observer.note_reading("m", 2000, 7_000_000)
    viewers.queue_records("two", [outgoing("private/m", b"two")])
    rows = [outgoing("private/m", b"one"), outgoing("private/other", b"other")]
    rows.append(outgoing("private/m", b"descriptor", retain=True))
    rows.append(outgoing("private/m", b"report")._replace(until_ms=9))
    viewers.queue_records("main", rows)
    assert viewer.take_news() == News([(1000, 5_000_000), (2000, 7_000_000)], [b"one"], 0, [])
    assert viewer.take_news() == NOTHING


async def test_two_viewers_do_not_share() -> None:
    """What one viewer has taken is still there for the other."""
    viewers = Viewers()
    both = [enter(viewers) for _ in range(2)]
    observer = viewers.observer_of("main")
    assert observer is not None
    observer.note_reading("m", 1, 1)
    assert [viewer.take_news() for viewer in both] == [News([(1, 1)], [], 0, [])] * 2


async def test_what_waits_is_bounded() -> None:
    """Beyond the limit, the oldest are dropped, and the viewer learns how many."""
    viewers = Viewers()
    viewer = enter(viewers)
    observer = viewers.observer_of("main")
    assert observer is not None
    for time_ms in range(WAITING_MAX + 3):
        observer.note_reading("m", time_ms, 0)
    viewers.queue_records("main", [outgoing("private/m", b"%d" % n) for n in range(WAITING_MAX + 2)])
    news = viewer.take_news()
    assert (news.readings[0], len(news.readings)) == ((3, 0), WAITING_MAX)
    assert (news.records[0], len(news.records)) == (b"2", WAITING_MAX)
    assert news.missed_count == 5
    assert viewer.take_news() == NOTHING


async def test_viewers_are_bounded() -> None:
    """A page beyond the limit is refused until one is closed."""
    viewers = Viewers()
    first, *_ = [enter(viewers) for _ in range(VIEWERS_MAX)]
    with pytest.raises(TooManyViewers):
        enter(viewers)
    viewers.remove_viewer(first)
    enter(viewers)


async def test_a_viewer_waits_for_news() -> None:
    """A viewer is woken by a reading, a record or the end, and otherwise only after its time limit."""
    viewers = Viewers()
    viewer = enter(viewers)
    await viewer.wait(0.001)
    observer = viewers.observer_of("main")
    assert observer is not None
    observer.note_reading("m", 1, 1)
    await viewer.wait(60)
    viewer.take_news()
    viewers.queue_records("main", [outgoing("private/m", b"1")])
    await viewer.wait(60)
    viewer.take_news()
    viewers.end_viewers()
    await viewer.wait(60)
    assert viewer.is_over


async def test_a_reload_shows_the_means_from_before() -> None:
    """Means since the first visit are there again, also of slots in which no page was open."""
    viewers = Viewers()
    viewer = enter(viewers)
    use(viewers, 100)
    assert powers(viewer.take_news().means) == [100]
    assert viewer.take_news() == NOTHING
    viewers.remove_viewer(viewer)
    use(viewers, 200)
    again = enter(viewers)
    assert powers(again.new_means()) == [100, 200]
    use(viewers, 300)
    assert powers(again.take_news().means) == [300]


async def test_kept_means_are_bounded() -> None:
    """At most 50 slots of 8 meters are kept: the newest slots, and the meters that were visited last."""
    viewers = Viewers()
    for meter in map(str, range(METERS_MAX)):
        viewers.remove_viewer(enter(viewers, meter))
    use(viewers, 1, SLOTS_MAX + 9, meter="0")
    use(viewers, 2, SLOTS_MAX, meter="0")
    viewer = enter(viewers, "0")
    assert powers(viewer.new_means())[-SLOTS_MAX:] == [2] * len(powers(viewer._known_means))
    assert len(viewer._known_means) == SLOTS_MAX
    assert len(viewers._means["main", "0"].list_means()) <= SLOTS_MAX + SCHEDULE.usual.n
    viewers.remove_viewer(viewer)
    enter(viewers, "another")
    observer = viewers.observer_of("main")
    assert observer is not None
    assert set(observer.meters) == {"0", "another", *map(str, range(2, METERS_MAX))}
    assert len(viewers._timers) == METERS_MAX - 1


def known_powers() -> set[float]:
    """Return the powers of all means of slots in memory, and of all noiseless windows with an open slot."""
    gc.collect()
    found = [item for item in gc.get_objects() if isinstance(item, SlotMean | Window)]
    means = {item.power for item in found if isinstance(item, SlotMean)}
    sums = [item.slots.values() for item in found if isinstance(item, Window)]
    return means | {total / MICRO / STEP_MS for total in chain(*sums)}


async def test_a_day_after_the_last_visit_no_mean_is_in_a_copy_of_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Means are in memory until `KEEP_S` after the last page was closed, and neither before nor after."""
    monkeypatch.setattr(module, "KEEP_S", 0.05)
    viewers = Viewers()
    first, second = enter(viewers), enter(viewers)
    use(viewers, CANARY_W)
    observer = viewers.observer_of("main")  # as a timeline keeps it until the next feed
    assert CANARY_W in known_powers()
    viewers.remove_viewer(first)
    assert not viewers._timers  # the other page is open
    viewers.remove_viewer(second)
    assert CANARY_W in known_powers()
    del first, second
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * module.KEEP_S, later.set)
    await later.wait()
    assert CANARY_W not in known_powers()
    assert viewers.observer_of("main") is None
    assert not viewers._timers
    assert observer is not None
    observer.note_span("m", START_MS + STEP_MS, START_MS + 2 * STEP_MS, CANARY_W * MICRO)
    assert CANARY_W not in known_powers()
