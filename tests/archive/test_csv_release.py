"""Archives in CSV are released as those in Parquet: the same rows, equal bytes if resumed, a preview."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

from meteragent.archive import csv_file, run
from meteragent.archive.files import write_file
from meteragent.archive.preview import preview
from meteragent.cli import main
from meteragent.domain.errors import ArchiveError
from tests.support.archives import LONG, Place, long_rows, save, silent, text

MAPPING = "[archive.csv]\nstamp = 'start'\ntimezone = 'Europe/Amsterdam'\nformat = '%d.%m.%Y %H:%M:%S.%f'"
KEYS = {"window": "length = '1h'\nstep = '30min'", "archive": MAPPING}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with a key, and jobs and blocks of few rows."""
    monkeypatch.setattr(run, "JOB_ROWS", 50)
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 1000)
    return Place.make(tmp_path / "place")


def as_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a spreadsheet in Amsterdam's time would."""
    zone = ZoneInfo("Europe/Amsterdam")
    lines = ["meter;time;value"]
    for row in rows:
        local = datetime.fromtimestamp(row["time"] / 1000, zone)
        value = "Null" if row["value"] is None else str(row["value"]).replace(".", ",")
        lines.append(f"{row['meter']};{local:%d.%m.%Y %H:%M:%S.}{row['time'] % 1000:03};{value}")
    path.write_text("\r\n".join(lines))
    return path


@pytest.mark.parametrize("order", ["meter", "time"])
def test_the_release_is_that_of_the_same_rows_in_parquet(order: str, place: Place, tmp_path: Path) -> None:
    """Local times, decimal commas and nulls in CSV release what the same rows in Parquet do."""
    rows = sorted(long_rows(3, 2), key=lambda row: row[order])
    other = Place.make(tmp_path / "other")
    place.sanitise(as_csv(tmp_path / "in.csv", rows), **KEYS)
    other.sanitise(save(tmp_path / "in.parquet", rows, LONG), **KEYS)
    assert place.released().num_rows > 100
    assert place.released() == other.released()
    assert sum(row["windows"] for row in place.ledger()) == sum(row["windows"] for row in other.ledger())


def test_a_stopped_run_ends_with_the_same_bytes(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that stops after a part is resumed, and its files are those of an undisturbed run."""
    path = as_csv(tmp_path / "in.csv", long_rows(2, 2))
    other = Place.make(tmp_path / "other")
    other.sanitise(path, **KEYS)

    def stopping(target: Path, fill: Any) -> None:
        """Write a file, and stop after the second part."""
        write_file(target, fill)
        if target.name.endswith("00001.parquet"):
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "write_file", stopping)
    with pytest.raises(KeyboardInterrupt):
        place.sanitise(path, **KEYS)
    monkeypatch.setattr(run, "write_file", write_file)
    result = place.sanitise(path, **KEYS)
    assert result.existing_parts == 2
    assert place.files() == other.files()


def test_another_mapping_is_another_run(place: Place, tmp_path: Path) -> None:
    """The mapping is part of the run, so an output is not continued under another one."""
    path = as_csv(tmp_path / "in.csv", long_rows(1, 1))
    place.sanitise(path, **KEYS)
    with pytest.raises(ArchiveError, match="belongs to another run"):
        place.sanitise(path, **KEYS | {"archive": MAPPING.replace("Amsterdam", "Berlin")})


def test_a_file_that_changes_is_noticed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are no longer those that were checked end the run before anything is charged."""
    path = as_csv(tmp_path / "in.csv", long_rows(1, 1))
    identify = run.run_of

    def changing(*arguments: Any) -> Any:
        """Shorten the file after it was opened."""
        path.write_bytes(path.read_bytes()[:3000])
        return identify(*arguments)

    monkeypatch.setattr(run, "run_of", changing)
    with pytest.raises(ArchiveError, match="changed while it was being read"):
        place.sanitise(path, **KEYS)
    assert not place.ledger()


def test_a_preview_shows_ten_readings_as_understood(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first readings are shown with the spans that they cover on a terminal, elsewhere one line."""
    path = tmp_path / "in.csv"
    path.write_text(
        "meter;time;value\n" + "".join(f"m;25.10.2026 0{i}:00:00.0;1,5\n" for i in (1, 2, 2, 3, 4))
    )
    shown = preview(place.policy(**KEYS), path, place.folder / "out.parquet", silent)
    assert shown.rows is not None
    assert shown.rows.column("value").to_pylist() == [1.5] * 5
    (place.folder / "archive.toml").write_text(text(place.folder / "archive.key", **KEYS))
    arguments = [
        "sanitise",
        str(path),
        str(place.folder / "out"),
        "--config",
        str(place.folder / "archive.toml"),
    ]
    for on_terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda on=on_terminal: on)
        assert main([*arguments, "--dry-run"]) == 0
        said = capsys.readouterr().out
        assert said.count("(shown on a terminal)") == (not on_terminal)
        assert ("first rows     m: 2026-10-24 23:00:00+0000 to 23:15:00: 1.5 W" in said) == on_terminal
        assert ("\n                 m: 2026-10-25 02:00:00+0000 to 02:15:00: 1.5 W" in said) == on_terminal
        assert said.count(": 1.5 W") == 5 * on_terminal
        assert "Warning:       2 readings at local times that occur twice are told apart by order" in said
    assert main([*arguments, "--accept-checks"]) == 0
    assert "Warning:       2 readings at local times that occur twice" in capsys.readouterr().out


def test_long_previews_end_after_ten_rows(place: Place, tmp_path: Path) -> None:
    """A preview of many readings shows ten, also those of Parquet."""
    keys = {"window": KEYS["window"]}
    table, parquet = (
        as_csv(tmp_path / "in.csv", long_rows(1, 1)),
        save(tmp_path / "in.parquet", long_rows(1, 1), LONG),
    )
    for path, more in ((table, KEYS), (parquet, keys)):
        shown = preview(place.policy(**more), path, place.folder / "out", silent)
        assert shown.rows is not None
        assert len(shown.rows) == 10


def test_convert_writes_the_parquet_that_gives_the_same_release(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`convert --config` maps CSV to readings, which the same configuration releases."""
    rows = long_rows(2, 1)
    path, config = as_csv(tmp_path / "in.csv", rows), tmp_path / "archive.toml"
    config.write_text(text(place.folder / "archive.key", **KEYS))
    arguments = [
        "convert",
        str(path),
        str(tmp_path / "out.parquet"),
        "--to",
        "readings",
        "--config",
        str(config),
    ]
    assert main(arguments) == 0
    assert f"{len(rows)} values" in capsys.readouterr().err
    expected = pq.read_table(save(tmp_path / "in.parquet", rows, LONG))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == expected.to_pylist()
    assert main(arguments) == 1
    assert "file exists" in capsys.readouterr().err
    place.sanitise(path, **KEYS)
    place.sanitise(tmp_path / "out.parquet", "again.parquet", **KEYS)
    assert place.released("again.parquet").num_rows == 0


def test_convert_needs_a_mapping(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--config` is refused without [archive.csv], and for other formats."""
    path, config = as_csv(tmp_path / "in.csv", long_rows(1, 1)), tmp_path / "archive.toml"
    for form, more in (("csv", KEYS), ("readings", {})):
        config.write_text(text(place.folder / "archive.key", **more))
        assert main(["convert", str(path), str(tmp_path / "out"), "--to", form, "--config", str(config)]) == 1
        assert "--config is for --to readings, and needs an [archive.csv] table" in capsys.readouterr().err
