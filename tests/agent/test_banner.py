"""meteragent.agent.banner: what `run` says at its start."""

import logging
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from meteragent import __version__, config
from meteragent.agent import banner, parts
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import MINUTE_MS
from meteragent.privacy import SeededBits
from tests.support.agent_world import World, quick
from tests.support.configurations import streams, written
from tests.support.crowd import group_text, make_group


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    return quick(tmp_path, monkeypatch)


NOW = parse_time("2026-11-23T05:43:10Z")


def shown(**sections: str) -> list[str]:
    """Return the lines for the flat configuration with some keys added."""
    return list(banner.startup_lines(config.parse(written(**sections))))


def next_number(text: str, *, reading_ms: int | None = None, now_ms: int = NOW, listen_s: float = 0.0) -> str:
    """Return the line about the next number; at `reading_ms`, the stream had its first reading."""
    stream = config.parse(text).stream[0]
    core = replace(parts.core_of(stream, Fraction(0), None, b"secret"), listens=listen_s > 0)
    pipeline = Pipeline(core, Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    if reading_ms is not None:
        pipeline.feed([Message("meters/m/power", b"100", False, reading_ms, None)], reading_ms, reading_ms)
    return banner.number_line(stream, core, pipeline, now_ms, listen_s)


def test_it_says_what_is_read_hidden_and_sent(tmp_path: Path) -> None:
    """Version, place of the store, and for each stream both addresses, the profile and the promise."""
    source = 'url = "mqtt://here:1884"\nprofile = "json"\nvalue = "power"'
    lines = shown(
        source=source,
        sink='url = "mqtts://there"',
        store=f'path = "{tmp_path}/x.db"',
        privacy="hide = '50Wh'",
    )
    assert lines[:4] == [
        f"meteragent {__version__}; store {tmp_path}/x.db",
        "stream main: reads power in W from mqtt://here:1884, topic meters/{meter}/power, profile json",
        "stream main: hides 50 Wh within any slot of 30min",
        "stream main: sends to mqtts://there, topic private/{meter}/power",
    ]


def test_a_stream_of_a_group_says_where_it_counts(tmp_path: Path) -> None:
    """It names the group that it counts in and both operators, and speaks of reports, not of numbers."""
    text = (
        '[source]\ntopic = "meters/{meter}/power"\nkind = "power"\nunit = "W"\n[sink.crowd]\n'
        f'group = "{tmp_path}/group.toml"\nid = "{make_group().id.hex()}"\n'
    )
    (tmp_path / "group.toml").write_text(group_text())
    hides, counts, sends = list(banner.startup_lines(config.parse(text)))[2:]
    assert hides == "stream main: hides 110 Wh within any slot of 30min"
    group = f"the group elm-street ({make_group().id.hex()})"
    operators = "The leader and The helper publish for 3 or more homes; no number of a home leaves"
    assert counts == f"stream main: counts in the total of {group}, which {operators}"
    assert sends.endswith(", topic crowd/elm-street/report/{meter}")
    assert "a new meter's first report leaves at 2026-11-23T06:30:00Z (in 47 min)" in next_number(text)


def test_a_store_without_a_folder_is_named_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path depends on where `run` was started, so the whole path is shown."""
    monkeypatch.chdir(tmp_path)
    assert shown()[0].endswith(f"; store {tmp_path}/meteragent.db")


@pytest.mark.parametrize(
    ("window", "first"),
    [
        ("", "2026-11-23T06:30:00Z (in 47 min)"),
        ('lateness = "5min"', "2026-11-23T06:35:00Z (in 52 min)"),
        ('length = "1h"\nstep = "10min"', "2026-11-23T06:10:00Z (in 27 min)"),
        ('length = "20s"', "2026-11-23T05:43:40Z (in 30 s)"),
    ],
)
def test_the_first_number_leaves_after_the_first_whole_slot(window: str, first: str) -> None:
    """A meter begins at a boundary of its windows; a slot and `lateness` later comes its first number."""
    assert next_number(written(window=window)) == (
        f"stream main: a new meter's first number leaves at {first} at the earliest,"
        " after the first whole slot that follows its first reading"
    )


def test_bands_of_a_day_end_when_the_first_of_them_does() -> None:
    """Of a mean day, the first number is that of the band that ends first in the window."""
    night = "length = '1mo'\ntimezone = 'UTC'\nbands = ['00-06', '06-24']"
    privacy = "space = 'profile'\nhide = '50Wh'"
    assert shown(window=night, privacy=privacy)[2].endswith("within any band of a day")
    # the last night of December is over at 06:00, its days at midnight
    assert "leaves at 2026-12-31T06:00:00Z (" in next_number(written(window=night, privacy=privacy))


@pytest.mark.parametrize(
    ("listen_s", "first"), [(9.0, "2026-11-23T05:43:40Z (in 30 s)"), (11.0, "2026-11-23T05:44:00Z (in 50 s)")]
)
def test_a_window_that_opens_while_the_agent_listens_is_not_promised(listen_s: float, first: str) -> None:
    """Until the agent has listened for another agent, no window of a new meter opens, so it starts later."""
    assert f"leaves at {first}" in next_number(written(window='length = "20s"'), listen_s=listen_s)


def test_a_stream_whose_meter_is_known_says_when_its_next_number_leaves() -> None:
    """After a restart, the meter is not new: its first window began before, or has been scheduled."""
    line = next_number(written(), reading_ms=NOW - 20 * MINUTE_MS)
    assert line == "stream main: the next number leaves at 2026-11-23T06:00:00Z (in 17 min) at the earliest"
    line = next_number(written(), reading_ms=NOW)
    assert line == "stream main: the next number leaves at 2026-11-23T06:30:00Z (in 47 min) at the earliest"


def test_a_slot_that_fell_due_during_the_stop_is_announced() -> None:
    """Overdue slots wait for the readings that the broker has kept; the other time is a gap."""
    line = next_number(written(), reading_ms=NOW - 60 * MINUTE_MS)
    assert line == (
        "stream main: a number has been due since 2026-11-23T05:30:00Z."
        " It leaves at 2026-11-23T05:44:10Z (in 60 s) at the earliest:"
        " 1 min after the source's broker has confirmed the subscription,"
        " so that readings that waited there count. Time without a reading counts as window.gap"
    )


def test_a_slot_that_falls_due_soon_after_a_start_waits_for_readings_as_well() -> None:
    """No slot closes until `catch_up` is over, so its number is not announced for an earlier time."""
    line = next_number(written(), reading_ms=NOW - 20 * MINUTE_MS, now_ms=NOW + 16 * MINUTE_MS)
    assert line.startswith(
        "stream main: a number is due at 2026-11-23T06:00:00Z."
        " It leaves at 2026-11-23T06:00:10Z (in 60 s) at the earliest: 1 min after the source's broker"
    )


def test_by_the_event_clock_no_time_is_promised() -> None:
    """By the event clock, time is that of the readings."""
    line = next_number(written(window='clock = "event"'))
    assert line.endswith("leaves when the readings' timestamps have passed the end of a slot")


def test_each_stream_has_its_lines() -> None:
    """Several streams are told apart by their names."""
    text = streams(("one", "in/{meter}", "'a/{meter}'"), ("two", "on/{meter}", "'b/{meter}'"))
    lines = list(banner.startup_lines(config.parse(text)))
    assert [line.split(":")[0] for line in lines[1:]] == ["stream one"] * 3 + ["stream two"] * 3


async def test_it_is_logged_once_before_anything_is_connected(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent logs it when it starts, with the names of its connections and the keys of their users."""
    with caplog.at_level(logging.INFO, "meteragent"):
        async with world.running():
            sides = {name: side.link for name, side in world.sides.items()}
    assert caplog.messages[0].startswith(f"meteragent {__version__}; store ")
    assert sum("hides" in line for line in caplog.messages) == 1
    assert sum("a new meter's first number leaves at" in line for line in caplog.messages) == 1
    assert sides["source"].role == "source"
    assert "sink.username and sink.password_file" in sides["sink"].advice("login_refused")
