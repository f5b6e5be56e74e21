"""The commands: what they print and how they exit."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from meteragent import __version__
from meteragent.agent.service import Agent
from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_CONFIG, EXIT_CRASH
from tests.support.not_run import ROOT
from tests.support.stores import LENGTH_MS, open_store, opening, persist

CONFIG = """
[source]
topic = "meters/{meter}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
[window]
[privacy]
[sink]
topic = "private/{meter}/power"
"""
DAY = 86_400_000
FIRST = 20_000 * DAY // LENGTH_MS
"""The first window of a UTC day, 2024-10-04."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a configuration, some of its sections with keys of their own; returns its path."""

    def made(**sections: str) -> str:
        text = CONFIG
        for section, keys in sections.items():
            text = text.replace(f"[{section}]", f"[{section}]\n{keys}")
        path = tmp_path / "meteragent.toml"
        path.write_text(f'{text}\n[store]\npath = "{tmp_path / "db"}"\n')
        return str(path)

    return made


# The parser


def test_version() -> None:
    """`python -m meteragent --version` says which version it is."""
    command = [sys.executable, "-m", "meteragent", "--version"]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert told.stdout == f"meteragent {__version__}\n"


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` names every command and ends with 0, as does each command's own."""
    for arguments in (["--help"], ["run", "--help"], ["check", "--help"], ["ledger", "--help"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        told = capsys.readouterr().out
        assert all(command in told for command in ("run", "check", "ledger")) or len(arguments) > 1
        assert len(arguments) == 1 or "CONFIG" in told


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["run"], ["ledger", "x.toml", "--restored-at", "yesterday"]]
)
def test_a_command_that_is_not_one_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be parsed ends with 2 and says how it would be right."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: meteragent" in capsys.readouterr().err


# Configurations that are refused

REFUSED = {
    "privacy.radius": {"privacy": "radius = 220.5"},
    "window.step": {"window": 'length = "30min"\nstep = "7min"'},
    "privacy.quantum": {"privacy": "quantum = 0.000001\nradius = 36000000"},
    "sink.topic": {"sink": ""},
    "privacy.budget.level": {"privacy": 'budget = {level = 47, per = "24h"}'},
    "privacy.radios": {"privacy": "radios = 5"},
    "source.max_meters": {"source": "max_meters = 0"},
}


@pytest.mark.parametrize("command", ["run", "check", "ledger"])
@pytest.mark.parametrize("key", REFUSED)
def test_a_bad_configuration_is_refused_with_its_key(
    key: str, command: str, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """All commands end with 78 and name file, line, key, value and expected value; no store is made."""
    path = write(**REFUSED[key])
    if key == "sink.topic":
        text = Path(path).read_text().replace("private/{meter}/power", "meters/{meter}/power")
        Path(path).write_text(text)
    assert main([command, path]) == EXIT_CONFIG == 78
    out, told = capsys.readouterr()
    assert re.match(rf"{re.escape(path)}:\d+: {re.escape(key)}: found .*; (?:expected|did you mean) ", told)
    assert told.count("\n") == told.count(path) == 1
    assert out == ""
    assert not Path(path).with_name("db").exists()


def test_both_hide_and_radius_are_refused(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two keys that say the same thing are one too many."""
    assert main(["check", write(privacy='hide = "110Wh"\nradius = 220')]) == EXIT_CONFIG
    assert "privacy.radius: found 220; expected only one of" in capsys.readouterr().err


def test_a_configuration_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file, a folder and a file that is not TOML end with 78 too."""
    assert main(["run", str(tmp_path / "none.toml")]) == EXIT_CONFIG
    told = f"{tmp_path}/none.toml: no such file or directory\n"
    assert capsys.readouterr().err == told
    assert main(["check", str(tmp_path)]) == EXIT_CONFIG
    assert capsys.readouterr().err == f"{tmp_path}: expected a TOML file, found a directory\n"
    (tmp_path / "some.toml").write_text("= 3")
    assert main(["run", str(tmp_path / "some.toml")]) == EXIT_CONFIG
    assert "expected TOML" in capsys.readouterr().err


def test_a_secret_that_cannot_be_read_is_refused(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A password file that is missing, empty or not text is refused by `check` and `run`, and never shown."""
    path = write(source=f'username = "u"\npassword_file = "{tmp_path / "password"}"')
    assert main(["run", path]) == EXIT_CONFIG
    (tmp_path / "password").write_bytes(b"\n")
    assert main(["run", path]) == EXIT_CONFIG
    (tmp_path / "password").write_bytes(b"canary\xff")
    assert main(["run", path]) == main(["check", path]) == EXIT_CONFIG
    told = capsys.readouterr().err
    assert told.count("source.password_file: found ") == 4
    assert "canary" not in told
    assert not (tmp_path / "db").exists()


# check


def test_check_says_the_promise_and_what_it_costs(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The default in words: a kettle is hidden at 311 W a number; what is not hidden, and what to do next."""
    assert main(["check", write()]) == 0
    told = capsys.readouterr().out
    for part in ("epsilon = 1/220 per W", "110 Wh", "311 W", "9.84 W", "48 a day", "5.9 kWh"):
        assert part in told
    assert "\nDoes NOT hide:\n" in told
    assert told.rstrip().rpartition("\n\n")[2].startswith("Next: meteragent run ")


def test_check_says_the_same_as_json(write: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` holds the descriptor's facts under its names, exact numbers as text, and the errors."""
    assert main(["check", "--json", write()]) == 0
    (found,) = json.loads(capsys.readouterr().out)["streams"]
    exact = {"epsilon": "1/220", "level": "1", "radius": "220", "hides_wh": "110", "level_per_day": "48"}
    assert found | exact == found
    assert found["stream"] == "main"
    assert found["errors"]["number"] == 311.1
    assert found["errors"]["month_kwh"] == pytest.approx(5.90, abs=0.01)
    (unknown,) = found["warnings"]
    assert unknown.startswith(
        "how the readings follow the power is unknown: set source.every, or source.dead_band"
    )


def test_check_needs_no_store_and_makes_none(write: Callable[..., str]) -> None:
    """`check` only looks: it leaves no file behind."""
    path = write()
    assert main(["check", path]) == 0
    assert [file.name for file in Path(path).parent.iterdir()] == ["meteragent.toml"]


# ledger


def spend(path: Path) -> None:
    """Two meters, two days: three windows of m1 and one of m2."""
    with open_store(path) as store:
        for k in (FIRST, FIRST + 1, FIRST + 48):
            persist(store, opening(k, "m1"))
        persist(store, opening(FIRST, "m2"))


def test_ledger_tells_what_was_spent(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows, exact epsilon and level by meter, UTC day and stream; then what a kWh costs."""
    spend(tmp_path / "db")
    assert main(["ledger", write()]) == 0
    *table, level, first, second = capsys.readouterr().out.splitlines()
    assert level == "LEVEL of stream main: the level of a change of 110 Wh in each window."
    assert first == "m1: a change costs a level of at most 9.09 per kWh."
    assert second == first.replace("m1", "m2")
    assert [line.split() for line in table] == [
        ["METER", "DAY", "(UTC)", "STREAM", "WINDOWS", "EPSILON", "(1/W)", "LEVEL"],
        ["m1", "2024-10-04", "main", "2", "1/110", "2"],
        ["m1", "2024-10-05", "main", "1", "1/220", "1"],
        ["m2", "2024-10-04", "main", "1", "1/220", "1"],
    ]


@pytest.mark.parametrize(("hide", "level"), [("55Wh", "0.5"), ("220Wh", "2")])
def test_ledger_s_level_is_that_of_the_energy_now_hidden(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], hide: str, level: str
) -> None:
    """Levels at different radii do not add: the column is epsilon at the radius of today (law 6)."""
    spend(tmp_path / "db")
    assert main(["ledger", write(privacy=f"hide = '{hide}'"), "--meter", "m2"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1].split()[-1] == level
    assert (
        table[2]
        == f"LEVEL of stream main: the level of a change of {hide.replace('Wh', ' Wh')} in each window."
    )


def test_ledger_tells_it_as_json_also_while_the_store_is_in_use(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--json` and `--meter` work on the store of an agent that runs, and show its latest commit."""
    spend(tmp_path / "db")
    with open_store(tmp_path / "db") as store:
        persist(store, opening(FIRST + 1, "m2"))
        assert main(["ledger", write(), "--json", "--meter", "m2"]) == 0
    told = json.loads(capsys.readouterr().out)
    row = {"meter": "m2", "day": "2024-10-04", "stream": "main", "windows": 2, "epsilon_per_w": "1/110"}
    expected = {"unknown_before": None, "opened_to": "2024-10-05T00:30:00Z", "spent": [row]}
    assert told == expected | {"level_per_kwh": {"m2": "100/11"}}


def test_ledger_adds_what_a_kwh_costs_over_streams(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Streams of a meter cover the same instant; one that the meter never had does not count."""
    with open_store(tmp_path / "db") as store:
        persist(store, opening(FIRST, "m1"))
        persist(store, replace(opening(FIRST, "m1"), stream="day"))
        persist(store, opening(FIRST, "m2"))
    assert main(["ledger", write(), "--json"]) == 0
    levels = json.loads(capsys.readouterr().out)["level_per_kwh"]
    assert levels == {"m1": "200/11", "m2": "100/11"}


def test_ledger_without_a_store(write: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store the command ends with 1, and makes none."""
    path = write()
    assert main(["ledger", path]) == EXIT_CRASH == 1
    assert "there is no store" in capsys.readouterr().err
    assert not Path(path).with_name("db").exists()


def test_restored_at_raises_the_marks_and_is_told(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--restored-at` makes a store usable again; from then on the ledger says what is not known."""
    spend(tmp_path / "db")
    path = write()
    assert main(["ledger", path, "--restored-at", "2024-10-06T00:00:00Z"]) == 0
    assert "nothing before 2024-10-06T00:00:00Z will be released again" in capsys.readouterr().out
    assert main(["ledger", path]) == 0
    assert capsys.readouterr().out.startswith("The privacy spent before 2024-10-06T00:00:00Z is unknown")
    with open_store(tmp_path / "db") as store:
        known = store.snapshot("main")
        assert set(known.marks.values()) == {20_002 * DAY}
        assert not known.states


def test_restored_at_cannot_be_before_what_the_store_knows(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time earlier than the store's own clock would let an interval be released twice: refused, 1."""
    spend(tmp_path / "db")
    assert main(["ledger", write(), "--restored-at", "2024-10-01T00:00:00Z"]) == EXIT_CRASH
    refusal = capsys.readouterr().err
    assert "before the newest time in the store" in refusal
    (time,) = re.findall(r"in the store; use (\S+) or later", refusal)
    assert main(["ledger", write(), "--restored-at", time]) == 0


def test_a_store_that_was_moved_is_accepted(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--moved` accepts a store and its generation file in a new place, once; not beside `--restored-at`."""
    spend(tmp_path / "old")
    for name in ("old", "old.gen"):
        (tmp_path / name.replace("old", "db")).write_bytes((tmp_path / name).read_bytes())
    path = write()
    for said in ("accepted where it is now", "has not moved"):
        assert main(["ledger", path, "--moved"]) == 0
        assert said in capsys.readouterr().out
    with open_store(tmp_path / "db") as store:
        assert store.snapshot("main").marks
    with pytest.raises(SystemExit):
        main(["ledger", path, "--moved", "--restored-at", "2024-10-06T00:00:00Z"])


# run


def test_a_store_that_cannot_be_used_ends_with_1(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run` on another agent's store, or one whose folder is missing, says why and ends with 1."""
    path = write()
    with open_store(tmp_path / "db"):
        assert main(["run", path]) == EXIT_CRASH
    assert "another agent has it open" in capsys.readouterr().err
    Path(path).write_text(Path(path).read_text().replace("/db", "/nowhere/db"))
    assert main(["run", path]) == EXIT_CRASH
    assert "its folder does not exist" in capsys.readouterr().err


def test_a_crash_is_told_by_type_and_place(
    write: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown exception ends with 1; its text, which might hold a payload, is not shown."""

    def parse(text: str) -> float:
        return float(text)

    async def run(_: Agent) -> None:
        async with asyncio.TaskGroup() as outer, asyncio.TaskGroup():
            outer.create_task(asyncio.to_thread(parse, "canary"))

    monkeypatch.setattr(Agent, "run", run)
    assert main(["run", write()]) == EXIT_CRASH
    told = capsys.readouterr().err
    assert told.endswith(" in parse\nmeteragent: crash: ValueError\n")
    assert "canary" not in told


def test_a_failure_of_the_device_is_told_in_full(
    write: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An OSError has no payload to hide, and its text is what the operator needs."""

    async def run(_: Agent) -> NoReturn:
        raise ExceptionGroup("", [OSError(28, "No space left on device")])

    monkeypatch.setattr(Agent, "run", run)
    assert main(["run", write()]) == EXIT_CRASH
    assert "No space left on device" in capsys.readouterr().err


def test_a_stop_by_signal_ends_with_0(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM and SIGINT cancel the agent, which does not count as a failure."""
    for number in (signal.SIGTERM, signal.SIGINT):

        async def run(_: Agent, number: int = number) -> None:
            signal.raise_signal(number)
            await asyncio.Event().wait()

        monkeypatch.setattr(Agent, "run", run)
        assert main(["run", write()]) == 0


def test_a_reader_who_has_had_enough_sees_no_traceback(tmp_path: Path) -> None:
    """`plan .. | head -1` prints a line and no traceback."""
    command = f"{sys.executable} -m meteragent plan --hide kettle --share half-hour | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Possible (hide a kettle; share half-hourly values)")
    assert done.stderr == ""
