"""What README and the pages for users show is what the program says; the network is not used."""

import json
import re
import textwrap
import tomllib
from fractions import Fraction
from importlib import import_module
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import __main__ as program
from meteragent import cli, config
from meteragent.cli.usage import make_parser
from meteragent.domain import presets
from meteragent.domain.grid import parse_time
from meteragent.domain.shapes import Space
from meteragent.privacy.mechanism.dithered import DitheredLaplace
from meteragent.report.format import MEAN_W, duration
from meteragent.report.guarantee import MONTH_DAYS, REPETITIONS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators import __main__ as simulators
from tests.support.guarantees import facts_of
from tests.support.not_run import ROOT
from tests.support.readme import (
    BLOCKS,
    CHOOSING,
    COMMANDS,
    HOME,
    LIBRARY,
    LINES,
    PAGES,
    PREPARE,
    PROGRAM,
    README,
    SHARING,
    TARIFFS,
    blocks,
    facts,
    terms,
)

MOST_WORDS, MOST_LINES = 1000, 150
NORMAL_95 = 1.96
"""Sums of 48 numbers or more are normal, to the digits shown."""


# Blocks -------------------------------------------------------------------------------------------


def test_every_block_is_known() -> None:
    """The tests below run or compare every block and every command."""
    assert sum(page.count("\n```") for page in PAGES) == 2 * len(BLOCKS)
    assert {block.language for block in BLOCKS} == {"sh", "toml", "json", "python"}
    assert sorted(LINES) == sorted([*PREPARE, *(line for line in LINES if line.startswith(PROGRAM))])


def test_the_readme_is_short() -> None:
    """A newcomer reads all of it: at most 1,000 words and 150 lines."""
    assert len(README.split()) <= MOST_WORDS
    assert len(README.splitlines()) <= MOST_LINES


def test_make_has_the_targets() -> None:
    """The targets of `make` that the README names exist, and `.[page]` is an extra."""
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"`make (\w+)`", README + LIBRARY))
    assert named == {"demo", "test", "bench"}
    assert named <= set(targets)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"page", "analysis", "archive"} <= extras.keys()


def test_an_installation_has_the_command() -> None:
    """What pip installs from this folder is the command that the README runs, and it is one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"][Path(PROGRAM).name].partition(":")
    assert getattr(import_module(module), function) is program.main


@pytest.mark.parametrize("text", [text for text in blocks("python") if "import sys" not in text])
def test_an_example_in_python_runs(text: str) -> None:
    """It runs, and what it asserts is true; integration/test_library_receive.py runs whole programs."""
    exec(text, {})


def test_a_record_is_as_shown() -> None:
    """The record shown is what the configuration above it sends, byte for byte."""
    (shown,) = blocks("json")
    record = json.loads(shown)
    made = RecordFormat.of(describe_terms(terms())).encode(
        record["meter"], parse_time(record["t"]), 0, record["value"]
    )
    assert made.decode() == shown.strip()
    assert record["d"] == facts()["id"]


def option_names(command: str) -> set[str]:
    """Return the long options of a command and its actions."""
    (commands,) = (action.choices for action in make_parser("0")._actions if action.dest == "command")
    assert isinstance(commands, dict)
    parsers, names = [commands[command]], set[str]()
    while parsers:
        for action in parsers.pop()._actions:
            names |= {name for name in action.option_strings if name.startswith("--")}
            if isinstance(action.choices, dict):
                parsers += action.choices.values()
    return names


def test_the_table_of_commands_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command of docs/commands.md exists, with the options shown there and no others."""
    documented: dict[str, set[str]] = {}
    for command, does, *_ in AGENT[1:]:
        agent = command.split()[1].strip("`")
        documented.setdefault(agent, set()).update(re.findall(r"--[\w-]+", command + does))
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    commands = re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.MULTILINE)
    missing = documented.keys() ^ set(commands)
    assert not missing, f"docs/commands.md or `meteragent --help` lacks {missing}: run `make tables`"
    for name, options in documented.items():
        missing = option_names(name) ^ (options | {"--help"})
        assert not missing, f"docs/commands.md or the help of {name} lacks {missing}: run `make tables`"
    for name in simulators.COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            simulators.main([name, "--help"])


# Figures ------------------------------------------------------------------------------------------


def tables(page: str) -> list[list[list[str]]]:
    """Return the tables of a page: rows of cells, the head first."""
    blocks_ = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    rows = [[re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in text.splitlines()] for text in blocks_]
    return [[head, *body] for head, _, *body in rows]


SHARED, HIDDEN = tables(README)
PRESETS, _METERS = tables(CHOOSING)
(AGENT,) = tables(COMMANDS)


def assert_shows(text: str, number: float, unit: str) -> None:
    """A text that begins with a number and its unit is right to its last digit."""
    space = "" if unit == "%" else " "
    match = re.match(rf"(?:± )?(\d[\d,]*)(\.\d+)?{space}{unit}(?![\w/])", text)
    assert match, f"{text} does not begin with a number and {unit}"
    shown, digits = float((match[1] + (match[2] or "")).replace(",", "")), len((match[2] or ".")[1:])
    assert abs(shown - number) <= 0.5001 * 10**-digits, f"{text}: {number}"


def test_the_errors_are_those_of_check() -> None:
    """The table of errors has what `check` gives for the configuration: 95% of numbers are within."""
    errors = facts()["errors"]
    bands = {name: NORMAL_95 * error for name, error in errors.items()} | {"number": errors["ci95"]}
    day_kwh = MEAN_W * 24 / 1000
    rows = {
        "one half hour of one home": (bands["number"], "W", MEAN_W),
        "one day of one home": (bands["day_kwh"], "kWh", day_kwh),
        "a month of one home": (bands["month_kwh"], "kWh", day_kwh * MONTH_DAYS),
        "the mean of 100 homes, one half hour": (bands["mean_of_100"], "W", MEAN_W),
        "the mean of 1,000 homes, one half hour": (bands["mean_of_1000"], "W", MEAN_W),
    }
    assert [row[0] for row in SHARED[1:]] == list(rows)
    for what, error, part in SHARED[1:]:
        band, unit, use = rows[what]
        assert_shows(error, band, unit)
        assert_shows(part, 100 * band / use, "%")


def test_what_is_hidden_is_that_of_check() -> None:
    """The table of events has the figures of `check`; its text says the same of what is hidden."""
    played = tomllib.loads((ROOT / "deploy" / "try.toml").read_text())["source"]
    shelly = "".join(f"source.{key} = {json.dumps(value)}\n" for key, value in played.items())
    meter = config.parse(f'{shelly}sink.topic = "private/{{meter}}"\nstore.path = "x.db"\n').stream[0]
    *rows, sampled = HIDDEN[1:]
    assert sampled[0] == f"kettle, read every {duration(terms().readings.every_ms or 0)}"
    for hidden, shown in ((facts_of(meter)["hidden"], rows), (facts()["hidden"], [sampled])):
        right = {f"{int(row['wh']):,} Wh": row["right_of_100"] for row in hidden}
        for _, moves, *guesses in shown:
            assert [guess.removesuffix("%") for guess in guesses] == [
                str(right[moves].get(str(times), "–")) for times in REPETITIONS
            ]
    assert f"hides {facts()['hides_wh']} Wh (one boil of a kettle) in every half hour" in README
    assert f"epsilon is {facts()['epsilon']} per watt at level {facts()['level']}" in README
    ratio = facts()["sd"] / 2 / float(facts()["hides_wh"])
    assert f"about {ratio:.1f} times the hidden energy" in README


@given(st.integers(1, 6), st.fractions(0, 500, max_denominator=1000))
def test_the_exact_promise_is_the_loss_of_the_mechanism(n: int, distance: Fraction) -> None:
    """The sentence holds at every distance, and below whole quanta would not hold without its rounding."""
    assert "P(Z | x) <= exp(epsilon * d) * P(Z | x')" in README
    assert "where d is the largest |x_i - x'_i| in whole quanta (1 W here), rounded up" in README
    epsilon, quantum = terms().epsilon, terms().quantum
    loss = DitheredLaplace(epsilon, quantum, n, quantum / 1000).loss(distance)
    assert quantum == 1
    assert epsilon * distance <= loss <= epsilon * ceil(distance)
    assert n == 1 or loss == epsilon * ceil(distance)


BANDS = """window.rest = "night"
window.band = [{ name = "day", days = "mon-fri", hours = ["07:00/23:00"] }]
"""


def test_the_presets_are_those_of_check() -> None:
    """The table of presets has them all, with what `check` gives for each; the default is the default."""
    names = [re.findall(r"`(.+)`", row[0])[0] for row in PRESETS[1:]]
    assert names == list(presets.PRESETS)
    assert 'privacy.preset = "street"' in CHOOSING
    for name, (label, _, hides, number, month, thousand) in zip(names, PRESETS[1:], strict=True):
        zone = 'window.timezone = "Europe/Amsterdam"\n' if presets.PRESETS[name].has_calendar else ""
        bands = BANDS if presets.PRESETS[name].space is Space.BANDS else ""
        found = facts(f'privacy.preset = "{name}"\n{zone}{bands}')
        unit, per = ("kWh", 1000) if zone else ("Wh", 1)
        is_peak = presets.PRESETS[name].space is Space.PEAK
        unit, per = ("Wh", 1) if is_peak else (unit, per)
        assert_shows(hides, float(Fraction(found["hides_wh"])) / per, unit)
        value_unit, scale = ("kWh", 1000) if bands else ("W", 1)
        assert_shows(number, found["errors"]["number"] / scale, value_unit)
        if day := number.partition(", ")[2]:
            assert_shows(day, found["errors"]["day_kwh"], "kWh")
        if is_peak:
            assert (month, "month_kwh" in found["errors"]) == ("–", False)
        else:
            assert_shows(month, found["errors"]["month_kwh"], "kWh")
        assert_shows(thousand, found["errors"]["mean_of_1000"] / scale, value_unit)
        assert (found["id"] == facts()["id"]) == label.endswith("(default)")


def indented(page: str) -> list[str]:
    """Return the configurations that a page shows, without their indent."""
    shown = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)
    return [text for text in map(textwrap.dedent, shown) if not text.lstrip().startswith("{")]


def test_the_errors_of_tariffs_are_those_of_check() -> None:
    """Each configuration of docs/tariffs.md is accepted, and hides and costs what the first table says."""
    threshold, tariff, weights, shares = map(facts, indented(TARIFFS))
    peak = facts('privacy.preset = "peak"\nwindow.timezone = "Europe/Amsterdam"\n')
    errors, _cases, _shares = tables(TARIFFS)
    shown = zip(errors[1:5], (peak, threshold, tariff, weights), (1, 1000, 1000, 1), strict=True)
    for (*_, error), found, scale in shown:
        assert_shows(error, found["errors"]["number"] / scale, error.split()[1])
    for row, hides in zip(errors[1:5], ("110 W ", "110 Wh ", "1 kWh ", "110 Wh "), strict=True):
        assert row[2].startswith(hides)
    assert [found["hides_wh"] for found in (threshold, tariff, weights, shares)] == [
        "110",
        "1000",
        "110",
        "110",
    ]
    assert Fraction(peak["hides_wh"]) == Fraction(110, 4)


def test_receivers_are_accepted() -> None:
    """The receivers of docs/sharing.md get one stream, under a source like that of the file that it names."""
    (receivers,) = indented(SHARING)
    source = HOME.partition("sink.topic")[0]
    assert [stream.name for stream in config.parse(source + receivers).stream] == ["main-appliance"]


# Links --------------------------------------------------------------------------------------------


LINKING = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/fleet/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("name", LINKING)
def test_links_lead_somewhere(name: str) -> None:
    """What a text of ours links to in the project exists, and so do the files that its tables name."""
    page = ROOT / name
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [link for link in linked if not (page.parent / link).exists()]
    assert not missing
