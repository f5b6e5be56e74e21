"""Exports of what has left: as CSV, digit for digit, and nothing else."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_CONFIG
from meteragent.domain.commit import Commit, Outgoing
from meteragent.domain.grid import iso_time
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS
from meteragent.store import outbox
from meteragent.tools.export import COLUMNS
from meteragent.wire.descriptor import describe_terms
from tests.consume.test_consume_shapes import BANDS, JUNE, PROFILE, schedule, sent
from tests.support.configurations import written
from tests.support.messages import KILO, NOON_MS, recorded
from tests.support.not_run import ROOT
from tests.support.stores import TERMS, open_store, persist

LATER_MS = NOON_MS + DAY_MS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration whose store is `db` in the same folder."""
    configuration = tmp_path / "meteragent.toml"
    configuration.write_text(written(store=f"path = '{tmp_path / 'db'}'"))
    return configuration


def leave(
    path: Path,
    messages: Sequence[bytes],
    terms: Terms = TERMS,
    stream: str = "main",
    *,
    waiting: Sequence[bytes] = (),
) -> None:
    """Write messages to the store, some delivered and some waiting."""
    rows = [Outgoing(stream, "private/m", payload, 0, retain=False) for payload in (*messages, *waiting)]
    with open_store(path.with_name("db")) as store:
        persist(store, Commit(stream, 0, outgoing=rows, terms={terms.id: terms}))
        ids = [row.id for row in outbox.pending_rows(store.connection, stream, 1, 10_000)][: len(messages)]
        persist(store, Commit(stream, 0), delivered=ids, now_ms=LATER_MS)


Exported = Callable[..., list[list[str]]]


@pytest.fixture
def exported(path: Path, capsys: pytest.CaptureFixture[str]) -> Exported:
    """Return the rows that `export` prints."""

    def rows(*options: str) -> list[list[str]]:
        assert main(["export", str(path), *options]) == 0
        return list(csv.reader(io.StringIO(capsys.readouterr().out)))

    return rows


def test_what_left_is_exported_digit_for_digit(path: Path, exported: Exported) -> None:
    """A record's fields as they were written, its stream, and when the broker confirmed it."""
    leave(path, recorded(KILO, [-1_234_567, 10**20 + 1], 'Müller, "2"'), KILO)
    end = ("kW", "0.3111", describe_terms(KILO).id, "", "", "2026-11-21T12:00:00Z")
    assert exported() == [
        list(COLUMNS),
        ["main", 'Müller, "2"', "2026-11-20T12:00:00Z", "PT30M", "-1234.567", *end],
        ["main", 'Müller, "2"', "2026-11-20T12:30:00Z", "PT30M", "100000000000000000.001", *end],
    ]


def test_every_field_of_a_record_is_a_column(path: Path, exported: Exported) -> None:
    """A peak's number of draws is exported: its noise has the standard deviation so often."""
    [payload] = recorded(TERMS, [7])
    leave(path, [json.dumps(json.loads(payload) | {"band": "night", "draws": 3}).encode()])
    [names, row] = exported()
    assert {"value": "7", "band": "night", "draws": "3"}.items() <= dict(zip(names, row, strict=True)).items()


def test_no_name_is_a_formula(path: Path, exported: Exported) -> None:
    """A name that a spreadsheet would compute has a mark before it; a negative number has none."""
    leave(path, recorded(KILO, [-1000], "@SUM(A1)"), KILO)
    [_, row] = exported()
    assert (row[1], row[4]) == ("'@SUM(A1)", "-1")


def test_what_waits_and_what_is_no_record_is_not_exported(path: Path, exported: Exported) -> None:
    """Undelivered rows and descriptors are left out, whatever they look like."""
    descriptor = describe_terms(TERMS).encode_message("m1", NOON_MS)
    leave(path, [descriptor, *recorded(TERMS, [1])], waiting=recorded(TERMS, [2, 3], first=1))
    assert [row[4] for row in exported()] == ["value", "1"]


def test_each_row_names_its_band_and_stream(path: Path, exported: Exported) -> None:
    """A record of a mean day names its band; each row names its stream, in the order of the records."""
    calendar = schedule(PROFILE, BANDS)
    bands = sent(calendar, JUNE, [[10, 20, 40, 30]])
    leave(path, recorded(TERMS, [7], "m2"), stream="other")
    leave(path, bands, calendar.usual)
    rows = exported()[1:]
    assert [(row[0], row[1], row[8]) for row in rows] == [
        ("other", "m2", ""),
        *(("main", "m1", name) for name in ("00:00/06:00", "06:00/17:00", "17:00/21:00", "21:00/24:00")),
    ]
    assert {row[3] for row in rows[1:]} == {"PT720H"}


def test_an_export_works_while_the_agent_runs(path: Path, exported: Exported) -> None:
    """It reads the store of a running agent, including its latest commit, and changes nothing."""
    leave(path, recorded(TERMS, [1]))
    before = path.with_name("db").read_bytes()
    with open_store(path.with_name("db")) as store:
        rows = [Outgoing("main", "private/m", recorded(TERMS, [2], first=1)[0], 0, retain=False)]
        persist(store, Commit("main", 0, outgoing=rows), delivered=[2], now_ms=LATER_MS)
        assert [row[4] for row in exported()] == ["value", "1", "2"]
    assert before
    assert [row[4] for row in exported()] == ["value", "1", "2"]


def test_an_empty_store_exports_the_header(path: Path, exported: Exported) -> None:
    """If nothing has left, only the header is printed."""
    leave(path, [])
    assert exported() == [list(COLUMNS)]


def test_without_a_store_there_is_nothing_to_export(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store: 1, the reason, nothing on standard output, and no store is made."""
    assert main(["export", str(path)]) == 1
    output, error = capsys.readouterr()
    assert "there is no store" in error
    assert output == ""
    assert not path.with_name("db").exists()


def test_a_bad_configuration_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for all commands: 78, with the key."""
    path.write_text(path.read_text().replace("[window]", "[window]\nstep = '7min'"))
    assert main(["export", str(path)]) == EXIT_CONFIG
    assert "window.step: found" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_error(path: Path) -> None:
    """`export .. | head` ends with 0 and without a message."""
    leave(path, recorded(TERMS, list(range(2000))))
    command = [sys.executable, "-m", "meteragent", "export", str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith("stream,meter,t,")
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 0


# JSON ---------------------------------------------------------------------------------------------


def test_each_record_is_a_line_as_it_was_sent(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Digit for digit, with the stream and the time of delivery."""
    messages = recorded(TERMS, [10, -4], "m1")
    leave(path, messages, waiting=recorded(TERMS, [8], "m2"))
    assert main(["export", str(path), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition('","v"')[2] for line in lines] == [
        message.decode().removeprefix('{"v"') for message in messages
    ]
    assert [json.loads(line)["stream"] for line in lines] == ["main", "main"]
    assert {json.loads(line)["delivered"] for line in lines} == {iso_time(LATER_MS)}
