"""What the log says when a stream begins: its first reading, its first number, and why either is missing."""

import logging
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from meteragent import config
from meteragent.agent.first_minutes import TIME_PROBLEMS, FirstMinutes
from meteragent.agent.link.outlets import Outlet, Outlets
from meteragent.agent.watch import StreamWatch
from meteragent.core.arrivals import CODES
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.problem import PROBLEMS, Problem, make_problem
from meteragent.domain.units import MINUTE_MS
from meteragent.store import outbox
from meteragent.store.outbox import WaitingRow
from tests.agent.sink_line import NOW_MS, Line
from tests.support.agent_world import START_MS, STREAM, World, quick
from tests.support.configurations import written
from tests.support.contexts import context_of
from tests.support.crowd import group_text, make_group
from tests.support.stores import open_store

SECOND_MS = 1000


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    """A world whose agent looks at its clock every 2 ms, with its log kept."""
    caplog.set_level(logging.INFO, "meteragent")
    return quick(tmp_path, monkeypatch)


class Beginning:
    """A stream's first minutes, with counters, problems and a clock of a test."""

    def __init__(self, **sections: str) -> None:
        self.counts = Counts()
        self.now_ms = START_MS
        self.problems: list[Problem] = []
        self.judgements = 0
        self.first = FirstMinutes(config.parse(written(**sections)).stream[0], self.counts)

    def seconds(self, count: int, *reasons: str) -> None:
        """Let seconds pass, in each of which one message is counted for each reason."""
        for _ in range(count):
            for reason in reasons:
                self.counts.add(reason)
            self.now_ms += SECOND_MS
            self.first.update(self.now_ms, self._judge)

    def _judge(self) -> list[Problem]:
        self.judgements += 1
        return self.problems


# Through the agent ------------------------------------------------------------------------------


async def test_the_first_reading_and_the_first_number_are_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The first number counts when the broker has confirmed it, not when it is due."""
    async with world.running():
        for _ in range(5):
            world.sides["source"].send(100, time_ms=world.now_ms)
            await world.settle()
            world.now_ms += SECOND_MS
            await world.settle()
        assert caplog.messages.count("stream main: the first reading has arrived") == 1
        assert not any("first number has left" in line for line in caplog.messages)
        await world.records(2)
        await world.settle()
    [line] = [line for line in caplog.messages if "first number has left" in line]
    assert line == "stream main: the first number has left, and the broker has confirmed it"


async def test_a_wrong_profile_is_logged_after_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says what is wrong with the messages, and quotes none of them."""
    async with world.running(STREAM.format("", "").replace('"1s"', '"30min"')):
        for _ in range(7):
            world.sides["source"].session.send(world.sides["source"], b'{"apower":31234}', "meters/m/power")
            await world.settle()
            world.now_ms += 10 * SECOND_MS
            await world.settle()
    [line] = [line for line in caplog.messages if "contains a reading" in line]
    assert line.startswith(
        "stream main: no message contains a reading: the payload lacks the value or the time"
        " (refused_missing). Compare source.profile"
    )
    assert "31234" not in caplog.text
    assert not re.search(r"meters/m\b", caplog.text)


async def test_a_stop_is_answered_at_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """After Ctrl-C, the log says what the agent waits for, and at most how long."""
    async with world.running():
        world.sides["source"].send(100)
        await world.settle()
    assert any(line.startswith("stopping: waiting at most") for line in caplog.messages)


# Alone ------------------------------------------------------------------------------------------


def test_each_problem_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """In the words of `health`, with what to do; when it comes again, `health` says so."""
    beginning = Beginning()
    late = make_problem("all_late", "main", off_ms=3_600_000, meters=2, of=3)
    for found in ([], [late], [], [late], [make_problem("no_message", "main", limit_ms=60_000), late]):
        beginning.problems = found
        beginning.seconds(60)
    assert [line.partition(". ")[0] for line in caplog.messages] == [
        "stream main: 2 of 3 meters: all readings arrive too late: their times are 1 h behind",
        "stream main: no message has arrived for 1 min",
    ]
    assert caplog.messages[0].endswith(PROBLEMS["all_late"].cure)


@pytest.mark.parametrize("code", sorted(set(CODES) - TIME_PROBLEMS))
def test_once_readings_count_no_line_reveals_values(code: str, caplog: pytest.LogCaptureFixture) -> None:
    """The time at which a load is clamped, or a meter rests, would be in the log (law 4); before, it may."""
    found = Problem(code, "cause", "cure", "main")
    for has_reading in (True, False):
        beginning = Beginning()
        beginning.seconds(1, *["accepted"] * has_reading)
        caplog.clear()
        beginning.problems = [found]
        beginning.seconds(60)
        assert len(caplog.messages) == (not has_reading)


@pytest.mark.parametrize("sections", [{"source": "every = '30min'"}, {"window": "clock = 'event'"}])
def test_gaps_are_logged_if_their_times_reveal_no_load(
    sections: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A device with a period sends by its own clock; by the event clock, arrivals are no secret."""
    beginning = Beginning(**sections)
    beginning.problems = [make_problem("reading_gaps", "main", apart_ms=30 * MINUTE_MS)]
    beginning.seconds(60, "accepted")
    [line] = [line for line in caplog.messages if "30 min apart" in line]
    assert line.endswith(PROBLEMS["reading_gaps"].cure)


def test_a_wrong_unit_is_logged_until_a_reading_is_within_the_range(caplog: pytest.LogCaptureFixture) -> None:
    """All readings so far were clamped, so the line says nothing of a load."""
    beginning = Beginning()
    beginning.problems = [make_problem("all_clamped", "main")]
    beginning.seconds(60, "accepted", "clamped")
    assert len(caplog.messages) == 1


def test_all_meters_are_judged_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """Rounds are many a second, and a stream may have 10,000 meters; a clock set back is no pause."""
    beginning = Beginning()
    beginning.seconds(60)
    assert beginning.judgements == 6
    beginning.now_ms -= 100 * MINUTE_MS
    beginning.seconds(1)
    assert beginning.judgements == 7


def test_the_first_reading_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A reading before the first window counts as well."""
    caplog.set_level(logging.INFO, "meteragent")
    for counter in ("accepted", "early"):
        beginning = Beginning()
        caplog.clear()
        beginning.seconds(70, "refused_json")
        beginning.seconds(100, counter)
        assert caplog.messages == ["stream main: the first reading has arrived"]


def test_a_descriptor_is_not_the_first_number(caplog: pytest.LogCaptureFixture) -> None:
    """Descriptors are retained, and leave before the record."""
    caplog.set_level(logging.INFO, "meteragent")
    beginning = Beginning()
    beginning.first.on_commit([WaitingRow(1, 0, "main", "x/privacy", b"", retain=True)])
    beginning.first.note_answers({1}, set())
    assert caplog.messages == []
    beginning.first.on_commit([WaitingRow(2, 0, "main", "x", b"", retain=False)])
    beginning.first.on_commit([WaitingRow(3, 0, "main", "x", b"", retain=False)])
    beginning.first.note_answers({1, 3}, set())
    assert caplog.messages == []
    for _ in range(2):
        beginning.first.note_answers({2}, set())
    assert len(caplog.messages) == 1


async def test_a_report_that_is_too_late_is_not_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It never leaves, so the line waits until the broker has confirmed a report, even of the same commit."""
    caplog.set_level(logging.INFO, "meteragent")
    (tmp_path / "group.toml").write_text(group_text())
    crowd = f'[sink.crowd]\ngroup = "{tmp_path}/group.toml"\nid = "{make_group().id.hex()}"\n'
    source = '[source]\ntopic = "meters/{meter}/power"\nkind = "power"\nunit = "W"\n'
    stream, counts, pipeline = config.parse(source + crowd).stream[0], Counts(), Mock()
    first = FirstMinutes(stream, counts)
    with open_store(tmp_path / "db") as store:
        line, context = Line(store), context_of(Mock(), Mock(), counts, NOW_MS)
        watch = StreamWatch(
            stream,
            pipeline,
            Outlets([Outlet(Receiver("main", ""), line.sink, Mock(), Mock())]),
            context,
            first,
        )
        line.commit(b"late", until_ms=NOW_MS)
        line.commit(b"in time", until_ms=NOW_MS + 1)
        first.on_commit(outbox.pending_rows(store.connection, "main", NOW_MS, 10))
        async with line.connected() as session:
            sent = await session.next()
            assert line.counts["report_late"] == 1
            watch.heartbeat()
            assert caplog.messages == []
            line.mark()
            line.answer(session, sent)
            watch.heartbeat()
    assert caplog.messages == ["stream main: the first report has left, and the broker has confirmed it"]
