"""What the log says when a stream begins: its first reading, its first number, and why either is missing."""

import logging
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from meteragent import config
from meteragent.agent.clock import SteadyClock
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.intake_health import IntakeHealth
from meteragent.agent.watch import StreamWatch
from meteragent.domain.counters import Counts
from meteragent.domain.units import MINUTE_MS
from meteragent.store import outbox
from meteragent.store.outbox import WaitingRow
from tests.agent.sink_line import NOW_MS, Line
from tests.support.agent_world import START_MS, STREAM, World, quick
from tests.support.configurations import written
from tests.support.crowd import group_text, make_group
from tests.support.stores import open_store

SECOND_MS = 1000


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    """A world whose agent looks at its clock every 2 ms, with its log kept."""
    caplog.set_level(logging.INFO, "meteragent")
    return quick(tmp_path, monkeypatch)


class Beginning:
    """A stream's first minutes, with counters and a clock of a test."""

    def __init__(self, **sections: str) -> None:
        self.counts = Counts()
        self.now_ms = START_MS
        self.first = FirstMinutes(config.parse(written(**sections)).stream[0], self.counts, START_MS)

    def seconds(self, count: int, *reasons: str, connected: bool = True) -> None:
        """Let seconds pass, in each of which one message is counted for each reason."""
        for _ in range(count):
            for reason in reasons:
                self.counts.add(reason)
            self.now_ms += SECOND_MS
            self.first.update(self.now_ms, connected=connected)


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
    [line] = [line for line in caplog.messages if "was a reading" in line]
    assert line.startswith(
        "stream main: messages arrive on meters/{meter}/power, but none in 1 min was a reading:"
        " the payload lacks the value or the time (refused_missing). Compare source.profile"
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


def test_silence_is_logged_with_doubling_pauses(caplog: pytest.LogCaptureFixture) -> None:
    """After 1 minute, then 2, 4, 8 and so on minutes later, at most an hour apart."""
    beginning, after = Beginning(source='url = "mqtt://here:1884"'), []
    for minute in range(1, 251):
        caplog.clear()
        beginning.seconds(60)
        after += [minute] * len(caplog.messages)
    assert after == [1, 3, 7, 15, 31, 63, 123, 183, 243]
    caplog.clear()
    Beginning(source='url = "mqtt://here:1884"').seconds(60)
    [line] = caplog.messages
    assert line == (
        "stream main: no message arrived on meters/{meter}/power in 1 min. Check that the meter is on,"
        " that source.topic is right, and that this user may read it: `meteragent discover --url"
        " mqtt://here:1884` lists what the broker sends."
    )


@pytest.mark.parametrize(
    ("reasons", "named", "cure"),
    [
        (("other",), "messages of the device that do not contain the quantity (other)", "tap"),
        (("retained",), "(retained)", "check that it is on and connected"),
        (("refused_ahead",), "(refused_ahead)", "timedatectl"),
        (("late",), "(late)", "timedatectl"),
    ],
)
def test_each_reason_has_a_cure(
    reasons: tuple[str, ...], named: str, cure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What must be changed depends on why the messages do not count."""
    Beginning().seconds(60, *reasons)
    [line] = caplog.messages
    assert named in line
    assert cure in line


def test_the_most_frequent_reason_comes_first_without_counts(caplog: pytest.LogCaptureFixture) -> None:
    """How many messages arrived reveals when a home is busy, so only the order is logged (law 4)."""
    beginning = Beginning()
    beginning.seconds(7, "refused_json")
    beginning.seconds(53, "refused_empty")
    [line] = caplog.messages
    assert line.index("(refused_empty)") < line.index("(refused_json)")
    assert not re.search(r"\b(7|53|60)\b", line)


def test_a_reading_ends_the_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """From then on `health` reports a silence; a reading before the first window counts as well."""
    caplog.set_level(logging.INFO, "meteragent")
    for counter in ("accepted", "early"):
        beginning = Beginning()
        caplog.clear()
        beginning.seconds(70, "refused_json")
        beginning.seconds(1, counter)
        beginning.seconds(3600, "refused_json")
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_readings_that_are_all_clamped_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Watts read as kilowatts count as the range's limit; the line has no count and no value (law 4)."""
    beginning = Beginning()
    beginning.seconds(10, "early")
    beginning.seconds(4, "accepted", "clamped")
    assert caplog.messages == []
    beginning.seconds(600, "accepted", "clamped")
    [line] = caplog.messages
    assert line.startswith(
        "stream main: all readings so far are outside window.range, and are clamped to it."
        " Check source.unit and source.scale:"
    )
    assert not re.search(r"\b(4|5|10|14)\b", line)


def test_a_reading_within_the_range_ends_the_check(caplog: pytest.LogCaptureFixture) -> None:
    """If one reading of a meter is within the range, its unit is correct."""
    beginning = Beginning()
    beginning.seconds(4, "accepted", "clamped")
    beginning.seconds(1, "accepted")
    beginning.seconds(600, "accepted", "clamped")
    assert caplog.messages == []


def test_time_without_a_connection_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    """The connection has log lines of its own; a large step of the clock is not a wait."""
    beginning = Beginning()
    beginning.seconds(600, connected=False)
    beginning.seconds(59)
    assert caplog.messages == []
    beginning.seconds(1)
    assert len(caplog.messages) == 1
    beginning.now_ms += 100 * MINUTE_MS
    beginning.seconds(1)
    assert len(caplog.messages) == 1


def test_a_shard_without_meters_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Small fleets may leave an agent without meters, and messages of the other agents' meters are normal."""
    beginning = Beginning(source='shard = "0/2"')
    beginning.seconds(600, "other_shard")
    assert caplog.messages == []


def test_a_descriptor_is_not_the_first_number(caplog: pytest.LogCaptureFixture) -> None:
    """Descriptors are retained, and leave before the record."""
    caplog.set_level(logging.INFO, "meteragent")
    beginning = Beginning()
    beginning.first.on_commit([WaitingRow(1, 0, "x/privacy", b"", retain=True)])
    beginning.first.note_answers({1}, set())
    assert caplog.messages == []
    beginning.first.on_commit([WaitingRow(2, 0, "x", b"", retain=False)])
    beginning.first.on_commit([WaitingRow(3, 0, "x", b"", retain=False)])
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
    first = FirstMinutes(stream, counts, NOW_MS)
    with open_store(tmp_path / "db") as store:
        line, clock = Line(store), SteadyClock(lambda: NOW_MS, counts)
        watch = StreamWatch(stream, pipeline, line.sink, IntakeHealth(counts, None, NOW_MS), clock, first)
        line.commit(b"late", until_ms=NOW_MS)
        line.commit(b"in time", until_ms=NOW_MS + 1)
        first.on_commit(outbox.pending(store.connection, "main", NOW_MS, 10))
        async with line.connected() as session:
            sent = await session.next()
            assert line.counts["report_late"] == 1
            watch.heartbeat()
            assert caplog.messages == []
            line.mark()
            line.answer(session, sent)
            watch.heartbeat()
    assert caplog.messages == ["stream main: the first report has left, and the broker has confirmed it"]
