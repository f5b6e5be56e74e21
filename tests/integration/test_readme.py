"""What the README shows is executed, or compared with what the program says: every block and every table.

`make test` is what runs this; `make demo` is run by tests/integration/test_demo.py. The network is not used:
what pip would install is looked up in pyproject.toml.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from meteragent import cli, config
from meteragent.domain import presets
from meteragent.domain.grid import parse_time
from meteragent.domain.terms import Terms
from meteragent.report import event, guarantee
from meteragent.report.format import MEAN_W
from meteragent.report.guarantee import MONTH_DAYS, REPETITIONS
from meteragent.wire.descriptor import describe
from meteragent.wire.record import RecordFormat
from simulators import __main__ as simulators
from simulators import screen
from simulators.demo import SEED
from simulators.outcome import Outcome
from simulators.replay import connect
from simulators.street import Street
from tests.integration.service import LIMIT_S, until
from tests.integration.wire import Receiver
from tests.simulators.test_demo import messages
from tests.support.broker import Broker
from tests.support.guarantees import facts_of
from tests.support.not_run import ROOT

pytestmark = pytest.mark.integration

README = (ROOT / "README.md").read_text()
PROGRAM = ".venv/bin/meteragent"
INSTALL = ["python3 -m venv .venv", ".venv/bin/pip install .", ".venv/bin/pip install '.[analysis]'"]
SHORT = 'source.url = "{url}"\nwindow.length = "1s"\n'
"""What the README's configuration gets for a test: a broker of its own, and windows that end soon."""
NORMAL_95 = 1.96
"""Sums of 48 numbers or more are normal, to the digits shown."""


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]


def blocks(language: str) -> list[str]:
    """The blocks of a language, in order."""
    return [block.text for block in BLOCKS if block.language == language]


LINES = list(chain.from_iterable(text.splitlines() for text in blocks("sh")))
(FOUR_LINES,) = blocks("toml")


@cache
def facts(more: str = "") -> dict[str, Any]:
    """What `check` says of the README's configuration, with lines added."""
    return facts_of(config.parse(FOUR_LINES + more).stream[0])


def terms(more: str = "") -> Terms:
    """The terms of the README's configuration, with lines added."""
    return config.terms(config.parse(FOUR_LINES + more).stream[0])


# Blocks -------------------------------------------------------------------------------------------


def test_every_block_is_known() -> None:
    """There is no block and no command that the tests below do not run or compare."""
    assert README.count("\n```") == 2 * len(BLOCKS)
    assert {block.language for block in BLOCKS} == {"sh", "toml", "json", "python", "text"}
    known = [*INSTALL, *(line for line in LINES if line.startswith((PROGRAM, "make ")))]
    assert sorted(LINES) == sorted(known)


def test_make_has_the_targets() -> None:
    """What `make` is called with is a target."""
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [shlex.split(line)[1:] for line in LINES if line.startswith("make ")]
    assert named == [["demo"], ["test"]]
    assert {"demo", "test"} <= set(targets)


def test_an_installation_has_the_command() -> None:
    """What pip installs from this folder is the command that the README runs, and it is one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"][Path(PROGRAM).name].partition(":")
    assert getattr(import_module(module), function) is cli.main


@pytest.mark.parametrize("text", blocks("python"))
def test_an_example_in_python_runs(text: str) -> None:
    """It runs, and what it asserts is true."""
    exec(text, {})


def test_a_record_is_as_shown() -> None:
    """The record shown is what the configuration above it sends, byte for byte."""
    (shown,) = blocks("json")
    record = json.loads(shown)
    made = RecordFormat.of(describe(terms())).record(
        record["meter"], parse_time(record["t"]), 0, record["value"]
    )
    assert made.decode() == shown.strip()
    assert record["d"] == facts()["id"]


# Commands -----------------------------------------------------------------------------------------


def started(line: str, folder: Path) -> "subprocess.Popen[str]":
    """A command of the README in a folder, with the package that is tested."""
    words = shlex.split(line)
    assert words[0] == PROGRAM
    return subprocess.Popen(
        [sys.executable, "-m", "meteragent", *words[1:]],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(line: str, folder: Path) -> str:
    """What a command prints, which must end with 0."""
    process = started(line, folder)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return out


@contextmanager
def running(line: str, folder: Path) -> Iterator[None]:
    """A command that runs until it is told to stop, and then ends with 0."""
    process = started(line, folder)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.wait(LIMIT_S)


async def test_the_commands_work_in_their_order(broker: Broker, tmp_path: Path) -> None:
    """With the four lines in home.toml, every command does what is said of it, as a new user types them."""
    commands = [line for line in LINES if line.startswith(PROGRAM)]
    names = ["check", "check", "run", "ledger", "export", "plan", "audit"]
    assert [shlex.split(line)[1] for line in commands] == names
    plain, own, run, ledger, export, plan, audit = commands
    (tmp_path / "home.toml").write_text(FOUR_LINES)
    assert "factor of at most e^1 = 2.72" in printed(plain, tmp_path)
    assert event.parse(shlex.split(own)[-1]).name in printed(own, tmp_path)
    assert "To hide a TV evening" in printed(plan, tmp_path)
    assert "nothing found speaks against the promise" in printed(audit, tmp_path)
    (tmp_path / "home.toml").write_text(FOUR_LINES + SHORT.format(url=broker.url))
    with running(run, tmp_path):
        record = await first_record(broker)
    assert_as_documented(record, await retained(broker, record["d"]))
    assert re.search(r"^m1 +\d{4}-\d\d-\d\d +main +[1-9]", printed(ledger, tmp_path), re.MULTILINE)
    rows = printed(export, tmp_path).splitlines()
    assert rows[1].split(",")[:2] == ["main", "m1"]
    assert record["t"] in rows[1]


async def first_record(broker: Broker) -> dict[str, Any]:
    """What comes of one reading, sent as the configuration expects it."""
    async with Receiver(broker) as receiver:
        await until(lambda: "meters/+/power" in (broker.folder / "log").read_text())
        async with connect(broker.url) as client:
            await client.publish("meters/m1/power", "512.3", qos=1)
        await receiver.more_than(0)
    return dict(json.loads(receiver.messages["private/m1/power"][0]))


async def retained(broker: Broker, id_: str) -> dict[str, Any]:
    """The descriptor that anyone finds who comes later, on both of its topics."""
    found = []
    for topic in ("private/m1/power/privacy", f"private/m1/power/privacy/{id_}"):
        async with asyncio.timeout(LIMIT_S), connect(broker.url) as client:
            await client.subscribe(topic, qos=1)
            message = await anext(aiter(client.messages))
            assert message.retain
            found.append(json.loads(bytes(message.payload)))
    assert found[0] == found[1]
    return dict(found[0])


def assert_as_documented(record: dict[str, Any], descriptor: dict[str, Any]) -> None:
    """The record has the fields shown, in that order, and names the descriptor, which agrees with `check`."""
    (shown,) = (json.loads(text) for text in blocks("json"))
    assert [(name, type(value)) for name, value in record.items()] == [
        (name, type(value)) for name, value in shown.items()
    ]
    assert (record["meter"], record["for"], record["unit"]) == ("m1", "PT1S", "W")
    promised = describe(terms(SHORT.format(url="mqtt://127.0.0.1")))
    assert record["d"] == descriptor["id"] == promised.id
    assert promised.facts.items() <= descriptor.items()
    assert "retained on `private/m1/power/privacy`" in README


def test_the_table_of_commands_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command of the table exists, with the options shown there and no others."""
    documented: dict[str, set[str]] = {}
    simulated: list[str] = []
    for command, does, *_ in COMMANDS[1:]:
        if agent := re.match(r"`meteragent (\w+)", command):
            documented.setdefault(agent[1], set()).update(re.findall(r"--[\w-]+", command + does))
        else:
            simulated.append(command.split()[3])
    for name, options in documented.items():
        with pytest.raises(SystemExit, match="0"):
            cli.main([name, "--help"])
        assert set(re.findall(r"--[\w-]+", capsys.readouterr().out)) == options | {"--help"}
    some = ["replay", "generate", "compare", "attack", "frontier", "utility", "simtest", "world", "pictures"]
    assert simulated == [*some, "paper"]
    for name in simulated:
        with pytest.raises(SystemExit, match="0"):
            simulators.main([name, "--help"])
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    commands = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(commands) == sorted(documented)


# Figures ------------------------------------------------------------------------------------------


def tables() -> list[list[list[str]]]:
    """The tables: rows of cells, the head first."""
    found = re.findall(r"(?:^\|.*\|\n)+", README, re.MULTILINE)
    rows = [[[cell.strip() for cell in line.strip("|").split("|")] for line in t.splitlines()] for t in found]
    return [[head, *body] for head, _, *body in rows]


SHARED, HIDDEN, PRESETS, COMMANDS = tables()
"""All there are."""


def assert_shows(text: str, number: float, unit: str) -> None:
    """A text that begins with a number and its unit is right to its last digit."""
    match = re.match(rf"(?:± )?(\d[\d,]*)(\.\d+)? {unit}(?![\w/])", text)
    assert match, f"{text} does not begin with a number and {unit}"
    shown, digits = float((match[1] + (match[2] or "")).replace(",", "")), len((match[2] or ".")[1:])
    assert abs(shown - number) <= 0.5001 * 10**-digits, f"{text}: {number}"


def test_the_errors_are_those_of_check() -> None:
    """The table of errors has what `check` gives for the four lines, 95 times of 100."""
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
    right = {f"{int(row['wh']):,} Wh": row["right_of_100"] for row in facts()["hidden"]}
    for _, moves, *guesses in HIDDEN[1:]:
        assert guesses == [str(right[moves].get(str(times), "–")) for times in REPETITIONS]
    assert f"it hides {facts()['hides_wh']} Wh, a kettle, in every half hour" in README
    assert f"at level {facts()['level']} epsilon is {facts()['epsilon']} per watt" in README
    ratio = facts()["sd"] / 2 / float(facts()["hides_wh"])
    assert f"about {ratio:.1f} times the energy it hides" in README


def test_the_presets_are_those_of_check() -> None:
    """The table of presets has them all, with what `check` gives for each; the default is the default."""
    names = [re.findall(r"`(.+)`", row[0])[0] for row in PRESETS[1:]]
    assert names == list(presets.PRESETS)
    assert 'privacy.preset = "street"' in README
    for name, (label, _, hides, number, month, thousand) in zip(names, PRESETS[1:], strict=True):
        zone = (
            'window.timezone = "Europe/Amsterdam"\n' if isinstance(presets.PRESETS[name].length, str) else ""
        )
        found = facts(f'privacy.preset = "{name}"\n{zone}')
        unit, per = ("kWh", 1000) if zone else ("Wh", 1)
        assert_shows(hides, float(Fraction(found["hides_wh"])) / per, unit)
        assert_shows(number, found["errors"]["number"], "W")
        assert_shows(month, found["errors"]["month_kwh"], "kWh")
        assert_shows(thousand, found["errors"]["mean_of_1000"], "W")
        assert (found["id"] == facts()["id"]) == label.endswith("(default)")


def test_the_run_shown_promises_what_check_does() -> None:
    """In the run shown, promised figures are those of `check`, and measured ones agree with them."""
    (shown,) = blocks("text")
    rows = re.findall(r"  ([\d.]+ (?:W|%)) +(-?[\d.]+) ± ([\d.]+) (?:W|%)$", shown, re.MULTILINE)
    errors = facts()["errors"]
    promised = [(errors["number"], "W"), (errors["mean_of_100"], "W"), (0, "W"), (95, "%")]
    for (said, measured, error), (number, unit) in zip(rows, promised, strict=True):
        assert_shows(said, number, unit)
        assert abs(float(measured) - number) <= 4 * float(error)


def test_the_run_shown_is_the_demo_s(tmp_path: Path) -> None:
    """But for its figures, every line of the run shown is one that the demo prints."""
    street = Street.simulated(SEED, 10, 1)
    noise_w = np.round(np.random.default_rng(1).laplace(0, 220, (10, 48)))
    promised = guarantee.of(config.parse(FOUR_LINES).stream[0])
    printed = screen.text(Outcome.of(street, messages(street, tmp_path, noise_w)), promised, 20)
    (shown,) = blocks("text")
    assert set(without_figures(shown)) <= set(without_figures(printed))


def without_figures(text: str) -> list[str]:
    """The lines of a text, with its numbers and spaces made alike."""
    return [" ".join(re.sub(r"-?\d[\d,.]*", "0", line).split()) for line in text.splitlines()]


# Links --------------------------------------------------------------------------------------------


PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md", "docs/debugging.md"]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """What a text of ours links to in the project exists, and so do the files that its tables name."""
    page = ROOT / name
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [link for link in linked if not (page.parent / link).exists()]
    assert not missing
