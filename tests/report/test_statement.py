"""The page for the records: complete, the same each time, and in agreement with what leaves."""

import hashlib
import json
import platform
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from meteragent import __version__, config
from meteragent.cli import main
from meteragent.domain.commit import Commit
from meteragent.report import markdown
from meteragent.report.event import parse_event
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import energy, streams, written
from tests.support.stores import open_store, persist

BUDGET = "budget = { level = 96, per = '1d' }"


def page(**sections: str) -> str:
    """Return the page of a flat configuration."""
    return markdown.statement_text(config.parse(written(**sections)))


def section(text: str, title: str) -> str:
    """Return what is under a title."""
    return text.split(f"### {title}\n\n")[1].split("\n### ", maxsplit=1)[0]


def test_the_page_has_all_that_is_asked_for() -> None:
    """Each part has its title, in one order for each stream; versions are at the top; lines are short."""
    text = page()
    titles = re.findall(r"^###? .*$", text, re.MULTILINE)
    assert titles == [
        "## Stream main",
        "### What leaves",
        "### The guarantee",
        "### What is hidden, and what is not",
        "### What repeats and adds up",
        "### Invariants",
        "### What it costs (one standard deviation)",
        "### Changes",
        "### Warnings",
        "### Descriptors",
    ]
    assert f"meteragent {__version__}, Python {platform.python_version()}, format v1" in text
    assert "A copy of the disk shows, for each open slot" in text
    assert all(len(line) <= 110 for line in text.split("### Descriptors")[0].splitlines())


def test_the_page_says_the_default_exactly() -> None:
    """A kettle's default in figures: radius, odds, epsilon, level a day, errors, the id of the contract."""
    text = page()
    guarantee = " ".join(section(text, "The guarantee").split())
    for part in (
        "differ by at most 220 W, what leaves in one window changes the odds between them by a factor of",
        "That holds against anyone who sees it, whatever else they know and",
        "whatever computing power they have.",
        "at most e^1 = 2.72.",
        "changes the energy used within any slot of 30 min by at most 110 Wh",
        "P(output of x is in S) <= exp(epsilon d(x, y)) P(output of y is in S)",
        "epsilon = 1/220 per W",
        "the largest difference of slot means, after gaps",
        "rounded up to multiples of 1 W",
    ):
        assert part in guarantee
    assert "level 1 in each window; on average 48 per day, 1,440 in 30 days" in section(
        text, "What repeats and adds up"
    )
    assert section(text, "Invariants").strip() == "Released exactly, without noise: nothing."
    assert "one number: 311 W (95% within ± 659 W)" in text
    assert "| a kettle | 110 Wh | 70 | 95 | 100 |" in text


def test_the_page_names_the_fields_that_leave() -> None:
    """The table has the fields of the record as it is encoded, and one of them is private."""
    for sections in ({}, {"window": "timezone = 'UTC'", "privacy": "preset = 'typical-day'"}):
        (stream,) = config.parse(written(**sections)).stream
        record = RecordFormat.of(describe_terms(config.terms(stream))).encode("m1", 0, 0, 5)
        table = section(page(**sections), "What leaves")
        assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(json.loads(record))
        assert re.findall(r"^\| `(\w+)` \| \*\*Private\.\*\*", table, re.MULTILINE) == ["value"]


def test_a_peak_states_how_often_noise_was_drawn() -> None:
    """The records of a peak have one field more."""
    zone = "timezone = 'UTC'"
    text = page(source="every = '1s'", window=zone, privacy="preset = 'peak'")
    words = " ".join(text.split())
    assert "| `draws` | Public. The number of draws of noise" in words
    assert "the clock, restarts of the agent, and the time of a meter's first reading" in words
    adds = " ".join(section(text, "What repeats and adds up").split())
    assert "each restart of the agent within a window draws new noise" in adds


def test_the_page_names_every_other_message() -> None:
    """The running total, the status and Home Assistant's descriptions are listed if they are configured."""
    sink = "total = true\nstatus = 'gateways/g1'\nhome_assistant = 'homeassistant'"
    told = " ".join(section(page(sink=sink), "What leaves").split())
    assert "- the running total of each meter's numbers, on `private/{meter}/power/total`" in told
    assert "- whether the agent is online, retained on `gateways/g1`" in told
    assert "- for Home Assistant, the names and units of what leaves, retained below `homeassistant/`" in told
    assert "running total" not in section(page(), "What leaves")


def test_the_page_says_which_distance_is_meant() -> None:
    """For bands it is the sum over the slots; a name in the configuration is not one of a topic."""
    bands = "length = '1mo'\ntimezone = 'UTC'\nbands = ['22-06', '06-22']"
    privacy = "space = 'profile'\nmetric = 'l1'\nhide = '1.5kWh'"
    text = page(source="topic = 'x'\nmeter = 'house'", window=bands, privacy=privacy)
    assert "d(x, y) the sum of the differences of" in " ".join(text.split())
    assert "a meter is identified by its name in source.meter" in " ".join(text.split())


def test_the_page_says_where_and_when_it_leaves() -> None:
    """The broker, TLS, topics, pseudonyms, delays, gaps, silence and the clock, as they are configured."""
    plain = section(page(), "What leaves")
    assert "To the broker 127.0.0.1:1883, without TLS:" in plain
    assert "`private/{meter}/power/privacy/<id>`" in plain
    assert "by its name in the source's topic" in " ".join(plain.split())
    assert "after 1 day of silence" in plain
    sink = "url = 'mqtts://utility.example'\npseudonym_key_file = 'k'\nspread = '10s'"
    window = "lateness = '5min'\ngap = 12.5\nforget = '2d'\nrange = [-5000, 5000]"
    found = " ".join(section(page(sink=sink, window=window), "What leaves").split())
    for part in (
        "To the broker utility.example:8883, with TLS:",
        "by a keyed pseudonym",
        "up to 10 s",
        "closes 5 min after its end",
        "counts as 12.5 W",
        "clamped to the range from -5,000 W to 5,000 W",
        "after 2 days of silence",
    ):
        assert part in found
    assert "counts as 0 kWh per interval" in section(page(source=energy("kWh")), "What leaves")
    event = section(page(window="clock = 'event'"), "What leaves")
    assert "the time at which a record leaves shows when a reading arrived" in " ".join(event.split())
    assert "silence" not in event


def test_an_id_is_the_hash_of_its_line() -> None:
    """Each window's shape is a line of canonical JSON whose SHA-256 begins with its id."""
    text = page(window="timezone = 'Europe/Amsterdam'", privacy="preset = 'typical-day'")
    ids = re.findall(r"^\| `(\w{8})` \|", section(text, "Changes"), re.MULTILINE)
    lines = text.split("```\n")[-2].splitlines()
    assert [hashlib.sha256(line.encode()).hexdigest()[:8] for line in lines] == ids
    assert len(set(ids)) == len(ids) == 6
    (stream,) = config.parse(
        written(window="timezone = 'Europe/Amsterdam'", privacy="preset = 'typical-day'")
    ).stream
    assert set(ids) == {describe_terms(terms).id for terms in config.distinct_terms(stream)}
    usual = json.loads(text.split("```json\n")[1].split("```")[0])
    assert usual.pop("id") == ids[0]
    assert usual == describe_terms(config.terms(stream)).facts


def test_streams_add_and_budgets_are_told() -> None:
    """Two streams on one meter: what both charge together, in each part; a budget in its own part."""
    kinds = ("main", "meters/{meter}/power", "'a/{meter}'"), ("fine", "meters/{meter}/power", "'b/{meter}'")
    settings = config.parse(streams(*kinds))
    text = markdown.statement_text(settings)
    assert " ".join(text.split()).count("is charged epsilon 0.436 per W a day") == 2
    assert text.count("## Stream ") == 2
    shared = [
        describe_terms(config.terms(one, config.other_charges_per_day(settings, one))).id
        for one in settings.stream
    ]
    assert re.findall(r"^\| `(\w{8})` \|", text, re.MULTILINE) == shared
    alone = page(privacy=BUDGET)
    assert "a budget of level 96 for each period of 1 day, shared by all streams of a meter" in " ".join(
        alone.split()
    )
    assert "per W a day" not in alone


def test_a_page_repeats_and_changes_with_what_is_promised() -> None:
    """The same configuration makes the same page; a change of any term changes it, and the id in it."""
    assert page() == page()
    seen = {section(page(), "Changes")}
    for change in ("level = 0.5", "hide = '300Wh'", "quantum = 2"):
        seen.add(section(page(privacy=change), "Changes"))
    seen.add(section(page(window="length = '1h'"), "Changes"))
    assert len(seen) == 5
    assert not re.search(r"20\d\d-\d\d-\d\d", page())


def test_exact_numbers_are_decimals_where_they_have_one() -> None:
    """A half is 0.5, a third stays a third; a store that knows no terms names none."""
    settings = config.parse(written(privacy="level = '1/3'\nradius = 12.5\nquantum = 0.5"))
    text = " ".join(markdown.statement_text(settings, stored_terms={}).split())
    assert "level 1/3 in each window; on average 16 per day" in text
    assert "by at most 12.5 W, what leaves in one window" in text
    assert "multiples of 0.5 W" in text
    assert "Other terms in the store: none." in text


def test_earlier_terms_of_the_store_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ids of other terms under which records may have left are on the page, for this stream's name."""
    path = tmp_path / "meteragent.toml"
    path.write_text(written(store=f"path = '{tmp_path / 'db'}'"))
    assert main(["check", str(path), "--statement"]) == 0
    assert "No store can be read here" in capsys.readouterr().out
    (stream,) = config.load(path).stream
    usual = config.terms(stream)
    before = replace(usual, radius=Fraction(100))
    with open_store(tmp_path / "db") as store:
        persist(store, Commit("main", 0, terms={one.id: one for one in (usual, before)}))
        foreign = replace(usual, radius=Fraction(77))
        persist(store, Commit("other", 0, terms={foreign.id: foreign}))
    assert main(["check", str(path), "--statement"]) == 0
    told = capsys.readouterr().out
    assert f"Other terms in the store: `{describe_terms(before).id}`." in told
    assert describe_terms(foreign).id not in told


def test_own_events_are_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--event` adds a row; `--json` and `--statement` are two forms, of which one is asked for."""
    path = tmp_path / "meteragent.toml"
    path.write_text(written())
    assert main(["check", str(path), "--statement", "--event", "2000W 30min"]) == 0
    assert f"| {parse_event('2000W 30min').name} | 1,000 Wh |" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        main(["check", str(path), "--statement", "--json"])
    assert left.value.code == 2


def test_the_page_shows_no_secret() -> None:
    """User names, files of keys and passwords are not on it."""
    text = page(sink="username = 'canary'\npassword_file = 'canary-file'\npseudonym_key_file = 'canary-key'")
    assert "canary" not in text
