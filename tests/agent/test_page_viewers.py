"""The page's viewers, and what waits for them: meteragent.agent.viewers."""

import pytest

from meteragent import config
from meteragent.agent.viewers import VIEWERS_MAX, WAITING_MAX, News, TooManyViewers, Viewer, Viewers
from meteragent.domain.commit import Outgoing
from tests.support.configurations import written

NOTHING = News([], [], 0, [])
SCHEDULE = config.schedule(config.parse(written()).stream[0])


def enter(viewers: Viewers) -> Viewer:
    """Open a page on a meter."""
    return viewers.add_viewer("main", "m", "private/m", SCHEDULE)


def outgoing(topic: str, payload: bytes, *, retain: bool = False) -> Outgoing:
    """A row of the outbox."""
    return Outgoing("main", topic, payload, 0, retain)


def test_a_closed_page_takes_nothing() -> None:
    """While nobody looks, there is nobody to pass anything on to."""
    viewers = Viewers()
    assert not viewers
    assert viewers.observer_of("main") is None
    viewer = enter(viewers)
    assert viewers
    viewers.remove_viewer(viewer)
    assert not viewers
    assert viewers.observer_of("main") is None
    viewers.queue_records("main", [outgoing("private/m", b"1")])
    assert viewer.take_news() == NOTHING


def test_a_viewer_gets_its_own_meter() -> None:
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


def test_two_viewers_do_not_share() -> None:
    """What one viewer has taken is still there for the other."""
    viewers = Viewers()
    both = [enter(viewers) for _ in range(2)]
    observer = viewers.observer_of("main")
    assert observer is not None
    observer.note_reading("m", 1, 1)
    assert [viewer.take_news() for viewer in both] == [News([(1, 1)], [], 0, [])] * 2


def test_what_waits_is_bounded() -> None:
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


def test_viewers_are_bounded() -> None:
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
