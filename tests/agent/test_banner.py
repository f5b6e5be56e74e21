"""meteragent.agent.banner: what `run` says at its start."""

import logging
from pathlib import Path

import pytest

from meteragent import __version__, config
from meteragent.agent import banner
from meteragent.domain.grid import parse_time
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
    return list(banner.lines(config.parse(written(**sections)), NOW))


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
    hides, counts, sends, first = list(banner.lines(config.parse(text), NOW))[2:]
    assert hides == "stream main: hides 110 Wh within any slot of 30min"
    group = f"the group elm-street ({make_group().id.hex()})"
    operators = "The leader and The helper publish for 3 or more homes; no number of a home leaves"
    assert counts == f"stream main: counts in the total of {group}, which {operators}"
    assert sends.endswith(", topic crowd/elm-street/report/{meter}")
    assert "a new meter's first report leaves at 2026-11-23T06:30:00Z (in 47 min)" in first


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
    assert shown(window=window)[-1] == (
        f"stream main: a new meter's first number leaves at {first} at the earliest,"
        " after the first whole slot that follows its first reading"
    )


def test_bands_of_a_day_end_when_the_first_of_them_does() -> None:
    """Of a mean day, the first number is that of the band that ends first in the window."""
    night = "length = '1mo'\ntimezone = 'UTC'\nbands = ['00-06', '06-24']"
    lines = shown(window=night, privacy="space = 'profile'\nhide = '50Wh'")
    assert lines[2].endswith("within any band of a day")
    # the last night of December is over at 06:00, its days at midnight
    assert "leaves at 2026-12-31T06:00:00Z (" in lines[-1]


def test_by_the_event_clock_no_time_is_promised() -> None:
    """By the event clock, time is that of the readings."""
    line = shown(window='clock = "event"')[-1]
    assert line.endswith("leaves when the readings' timestamps have passed the end of a slot")


def test_each_stream_has_its_lines() -> None:
    """Several streams are told apart by their names."""
    text = streams(("one", "in/{meter}", "'a/{meter}'"), ("two", "on/{meter}", "'b/{meter}'"))
    lines = list(banner.lines(config.parse(text), NOW))
    assert [line.split(":")[0] for line in lines[1:]] == ["stream one"] * 4 + ["stream two"] * 4


async def test_it_is_logged_once_before_anything_is_connected(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent logs it when it starts, with the names of its connections and the keys of their users."""
    with caplog.at_level(logging.INFO, "meteragent"):
        async with world.running():
            sides = {name: side._options for name, side in world.sides.items()}
    assert caplog.messages[0].startswith(f"meteragent {__version__}; store ")
    assert sum("hides" in line for line in caplog.messages) == 1
    assert sides["source"]["role"] == "source"
    assert sides["sink"]["login_hint"] == "set sink.username and sink.password_file"
