"""Which streams may run: a promise that readings break is refused, but where accepted or running before."""

import io
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.cli.admission import load_admitted
from meteragent.cli.exit_codes import EXIT_CONFIG, EXIT_CRASH
from meteragent.domain.commit import Commit
from meteragent.domain.grid import format_duration, parse_duration
from tests.support.configurations import refused, written
from tests.support.stores import open_store, opening, persist

AMSREADER = (
    "[[stream]]\nname = 'main'\nsource = { topic = 'ams', meter = 'home', profile = 'amsreader',"
    " kind = 'register', unit = 'kWh', dead_band = 0.001 }\n"
    "sink.topic = 'o/{meter}'\nwindow.lateness = '10s'\n"
)
SPARSE = "source.kind = 'power'\nsource.unit = 'W'\nsource.every = '5min'\n"
COARSE = "source.kind = 'register'\nsource.unit = 'kWh'\nsource.every = '1h'\nsource.dead_band = 1\n"
LATE = COARSE.replace("dead_band = 1", "dead_band = 0.001").replace("1h", "10s")
BOTH = "".join(
    f"[[stream]]\nname = '{name}'\n{keys}"
    f"source.topic = 'm/{{meter}}/{name}'\nsink.topic = 'o/{{meter}}/{name}'\n"
    for name, keys in (("one", SPARSE), ("two", COARSE))
)


def write(folder: Path, keys: str) -> Path:
    """A configuration in a folder, with its store there."""
    path = folder / "meteragent.toml"
    flat = "" if "[[stream]]" in keys else "source.topic = 'm/{meter}/p'\nsink.topic = 'o/{meter}'\n"
    path.write_text(f"{flat}{keys}\n[store]\npath = '{folder / 'store.db'}'\n")
    return path


def run_before(folder: Path, stream: str = "main") -> None:
    """A store in which a stream has opened a window."""
    with open_store(folder / "store.db") as store:
        persist(store, opening(1, "m", stream=stream))


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (
            SPARSE,
            (
                "privacy.hide: found 110 Wh within a slot",
                "at least 1.67 kWh",
                "readings at most 19s apart (source.every)",
                "a window.range of at most 1,320 W from end to end",
                "privacy.accept = ['sparse_readings']",
            ),
        ),
        (
            COARSE,
            (
                "energy is counted in steps of 1 kWh: a change of 110 Wh can count as 1 kWh, at level 9.09",
                "at least 500 Wh",
                "a count in steps of at most 0.22 kWh (source.dead_band)",
                "privacy.accept = ['coarse_register']",
            ),
        ),
        (
            SPARSE + "privacy.radius = 220\n",
            (
                "privacy.radius: found 220 W within a slot; ",
                "of 220 W can count as 3,553 W,",
                "at least 3,334 W",
            ),
        ),
        (SPARSE + "source.dead_band = 800\n", ("at least 2.47 kWh; or the device's energy",)),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_promise_that_readings_break_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, keys: str, texts: tuple[str, ...]
) -> None:
    """Beyond twice the level `check` and `run` end with 78: the key, what it is and what would be right."""
    assert main([command, str(write(tmp_path, keys))]) == 78
    told = capsys.readouterr().err
    line = ":6" if "privacy.radius" in keys else ""
    assert told.startswith(f"{tmp_path}/meteragent.toml{line}: privacy.")
    for text in texts:
        assert text in told
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("keys", "right"),
    [
        *((SPARSE, f"privacy.{key}") for key in ("hide = '1667Wh'", "accept = ['sparse_readings']")),
        *((COARSE, f"privacy.{key}") for key in ("hide = '0.5kWh'", "accept = ['coarse_register']")),
        (SPARSE, "window.range = [0, 1320]"),
        (SPARSE.replace("5min", "19s"), ""),
        (COARSE.replace("= 1\n", "= 0.22\n"), ""),
    ],
)
def test_what_is_said_to_be_right_is(tmp_path: Path, keys: str, right: str) -> None:
    """Each way out that a refusal names lets the stream run."""
    assert main(["check", str(write(tmp_path, f"{keys}{right}\n"))]) == 0


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (SPARSE, "privacy.hide = '1666Wh'"),
        (SPARSE, "privacy.accept = ['coarse_register']"),
        (SPARSE, "window.range = [0, 1330]"),
        (SPARSE.replace("5min", "20s"), ""),
        (COARSE, "privacy.accept = ['sparse_readings']"),
        (COARSE, "privacy.hide = '499Wh'"),
        (COARSE.replace("= 1\n", "= 0.221\n"), ""),
    ],
)
def test_just_beside_it_is_refused(tmp_path: Path, keys: str, wrong: str) -> None:
    """A little less than what would be right is refused, and so is the other word."""
    assert main(["check", str(write(tmp_path, f"{keys}{wrong}\n"))]) == 78


@pytest.mark.parametrize("option", [[], ["--json"], ["--statement"]])
def test_the_promise_of_a_refused_configuration_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    """`check` prints the refusal and nothing that could be read as a promise."""
    assert main(["check", str(write(tmp_path, SPARSE)), *option]) == 78
    out, told = capsys.readouterr()
    assert out == ""
    assert "privacy.hide: found 110 Wh" in told


def test_all_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two streams are two lines, each with its own key."""
    assert main(["check", str(write(tmp_path, BOTH))]) == 78
    found = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in found] == ["stream[0].privacy.hide", "stream[1].privacy.hide"]


def test_a_refusal_of_an_only_stream_names_its_key_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with one `[[stream]]` has its keys there, whoever refuses them."""
    keys = f"source.username = 'u'\nsource.password_file = '{tmp_path}/none'\nprivacy.hide = '110Wh'\n"
    stream = "[[stream]]\nsource.topic = 'm/{meter}/p'\nsink.topic = 'o/{meter}'\n"
    path = write(tmp_path, stream + SPARSE + keys)
    assert main(["check", str(path)]) == 78
    found = [line.split(": ")[:2] for line in capsys.readouterr().err.splitlines()]
    places = {(f"{path}:8", "stream[0].source.password_file"), (f"{path}:9", "stream[0].privacy.hide")}
    assert {tuple(place) for place in found} == places


def test_only_known_words_are_accepted() -> None:
    """Another word of `privacy.accept` is refused, with those that there are."""
    text = f"source.topic = 'm/{{meter}}'\nsink.topic = 'o/{{meter}}'\n{SPARSE}privacy.accept = ['anything']"
    error = refused(lambda: config.parse(text))
    assert (error.key, error.found) == ("privacy.accept[0]", "'anything'")
    assert "'coarse_register', 'sparse_readings' or 'lost_energy'" in error.expected


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (
            LATE.replace("source.every = '10s'\n", ""),
            ("source.every: found nothing", "the longest time between readings, such as '10s'"),
        ),
        (
            LATE.replace("10s", "1min") + "window.lateness = '0s'\n",
            ("window.lateness: found '0s', up to 333 Wh of each slot (3.33%) are lost", "at least '1min'"),
        ),
        (
            AMSREADER,
            ("found '10s', up to 10 kWh of each slot (100%) are lost", "at least '1h'"),
        ),
    ],
)
def test_what_loses_energy_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: str, texts: tuple[str, ...]
) -> None:
    """A slot that closes before its last reading comes is refused with what it loses, and a way out."""
    path = write(tmp_path, keys)
    assert main(["check", str(path)]) == 78
    error = capsys.readouterr().err
    assert all(text in error for text in texts)
    accepted = "source.every = '10s'\n" if "source.every" in error else "privacy.accept = ['lost_energy']\n"
    assert main(["check", str(write(tmp_path, keys + accepted))]) == 0
    assert ("Warning: up to" in capsys.readouterr().out) is ("lost_energy" in accepted)


@pytest.mark.parametrize("every", ["1min", "20min"])
def test_a_fiftieth_of_a_slot_may_be_lost(tmp_path: Path, every: str) -> None:
    """Up to 2% of a half hour, 36 s, may be lost."""
    keys = LATE.replace("10s", every)
    period_ms = parse_duration(every) or 0
    at_most = format_duration(period_ms - 36_000)
    assert main(["check", str(write(tmp_path, f"{keys}window.lateness = '{at_most}'\n"))]) == 0
    below = format_duration(period_ms - 37_000)
    assert main(["check", str(write(tmp_path, f"{keys}window.lateness = '{below}'\n"))]) == 78


def test_a_stream_that_has_run_keeps_its_lateness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another default changes no stream that runs; a stated lateness does, and is not warned of."""
    path = write(tmp_path, LATE)
    rules = config.terms(config.load(path).stream[0])
    assert rules.lateness_ms == 20_000
    with open_store(tmp_path / "store.db") as store:
        persist(store, opening(1, "m"))
        earlier = replace(rules, lateness_ms=0)
        persist(store, Commit("main", 1, terms={earlier.id: earlier}))
    kept = load_admitted(path, sys.stderr)
    assert config.terms(kept.stream[0]).lateness_ms == 0
    assert "stream 'main' keeps window.lateness = '0s', with which it has run" in capsys.readouterr().err
    stated = write(tmp_path, LATE + "window.lateness = '20s'\n")
    kept = load_admitted(stated, sys.stderr)
    assert config.terms(kept.stream[0]).lateness_ms == 20_000
    assert capsys.readouterr().err == ""


def test_of_two_latenesses_neither_is_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stream that has run with two states one; the order of rows in the store decides nothing."""
    path = write(tmp_path, LATE)
    rules = config.terms(config.load(path).stream[0])
    with open_store(tmp_path / "store.db") as store:
        persist(store, opening(1, "m"))
        for lateness_ms in (0, 30_000):
            earlier = replace(rules, lateness_ms=lateness_ms)
            persist(store, Commit("main", 1, terms={earlier.id: earlier}))
    assert main(["check", str(path)]) == 78
    told = "window.lateness: not stated, and the stream has run with '0s' and '30s': state one of them"
    assert f": {told}" in capsys.readouterr().err
    assert main(["check", str(write(tmp_path, LATE + "window.lateness = '30s'\n"))]) == 0


def test_what_has_run_goes_on_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that has marks of the stream, such as one of the last version: no update ends it."""
    path = write(tmp_path, SPARSE)
    run_before(tmp_path)
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith(
        f"{path}: warning (not refused, because the stream has run before): privacy.hide: found 110 Wh"
    )


def test_only_the_stream_that_has_run_goes_on(tmp_path: Path) -> None:
    """Of two streams the one that the store knows is warned of, and the new one is refused."""
    path, out = write(tmp_path, BOTH), io.StringIO()
    run_before(tmp_path, "two")
    assert refused(lambda: load_admitted(path, out)).key == "stream[0].privacy.hide"
    assert out.getvalue().count("has run before): stream[1].privacy.hide: ") == 1
    assert "stream[0]" not in out.getvalue()


def test_a_damaged_store_ends_nothing(tmp_path: Path) -> None:
    """Where the store cannot say what has run, that is for `run` to mend: all is warned of."""
    path, out = write(tmp_path, SPARSE), io.StringIO()
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    assert load_admitted(path, out).stream
    assert len(out.getvalue().splitlines()) == 1


def test_run_starts_a_stream_that_has_run_before(tmp_path: Path) -> None:
    """`run` says the warning and goes on; without marks the same configuration ends with 78 at once."""
    path = write(tmp_path, SPARSE + "source.url = 'mqtt://127.0.0.1:1'\n")
    command = [sys.executable, "-m", "meteragent", "run", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 78
    run_before(tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert (
            "warning (not refused, because the stream has run before): privacy.hide"
            in running.stderr.readline()
        )
        running.terminate()
        assert running.wait(60) in (0, -15)
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert connection.execute("SELECT count(*) FROM mark").fetchone() == (1,)


def test_a_password_file_that_is_missing_is_found_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `check` accepts, `run` can start: a missing file is refused with its line, key and path."""
    keys = "source.kind = 'power'\nsource.unit = 'W'\nsource.username = 'u'\n"
    keys += f"source.password_file = '{tmp_path / 'p'}'"
    path = write(tmp_path, keys)
    assert main(["check", str(path)]) == 78
    error = capsys.readouterr().err
    assert f"{path}:6: source.password_file: found {tmp_path}/p: no such file or directory" in error
    (tmp_path / "p").write_text("hush")
    assert main(["check", str(path)]) == 0


def test_check_refuses_a_store_without_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal has the key; `run` waits for a folder, which may be on a disk that is mounted later."""
    path = tmp_path / "home.toml"
    path.write_text(written(store=f"path = '{tmp_path}/none/db'"))
    assert main(["check", str(path)]) == EXIT_CONFIG
    assert f"store.path: found {tmp_path}/none: no such folder" in capsys.readouterr().err
    assert main(["run", str(path)]) == EXIT_CRASH
