"""The `convert` command: from an archive's output to files, and from files to an archive's input."""

import json
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from meteragent.cli import main
from meteragent.consume.archive import read_archive
from meteragent.formats import green_button, table
from meteragent.formats.entry import Entry, entries_of
from tests.support.archives import WIDE, Place, save, wide_rows
from tests.support.messages import HALF_HOUR_MS, NOON_MS


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output of two meters, three days each."""
    place = Place.make(tmp_path / "place")
    return Path(place.sanitise(save(tmp_path / "in.parquet", wide_rows(2, 3), WIDE)).out)


def test_an_output_becomes_a_feed_a_table_and_an_input(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values of a release are the same in CSV, in Green Button, and in readings."""
    expected = list(entries_of(read_archive(out).values()))
    text, feed, homes = (tmp_path / name for name in ("out.csv", "out.xml", "homes.parquet"))
    assert main(["convert", str(out), str(text), "--to", "csv-semicolon"]) == 0
    assert list(table.read(text.read_bytes())) == expected
    assert main(["convert", str(text), str(feed), "--to", "green-button"]) == 0
    entries = list(green_button.read(feed.read_bytes()))
    assert sorted(entry.base_value for entry in entries) == sorted(entry.base_value for entry in expected)
    capsys.readouterr()
    assert main(["convert", str(feed), str(homes), "--to", "readings"]) == 0
    assert capsys.readouterr().out.startswith("[source]\nkind = ")
    rows = pq.read_table(homes)
    assert rows.column_names == ["meter", "time", "value"]
    assert rows.num_rows == len(expected)
    assert main(["convert", str(feed), str(tmp_path / "data"), "--to", "readings", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts.pop("source").startswith("kind = ")
    meters = len({entry.meter for entry in expected})
    assert facts == {
        "output": str(tmp_path / "data"),
        "values": len(expected),
        "meters": meters,
        "left_out": {},
    }


def test_a_file_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is overwritten, and a wrong file is named with what is wrong."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("a,b\n")
    target.write_text("kept")
    assert main(["convert", str(source), str(target), "--to", "csv"]) == 1
    assert f"{source}: line 1: no column meter" in capsys.readouterr().err
    source.write_text("meter,start,end,value,unit\n")
    assert main(["convert", str(source), str(target), "--to", "csv"]) == 1
    assert f"{target}: file exists: choose another name, or delete it" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "nowhere"), str(target), "--to", "csv"]) == 1
    assert target.read_text() == "kept"


FORMATS = ["csv", "csv-semicolon", "green-button", "meter-readings", "readings"]


def convert(folder: Path, values: list[Entry], form: str, *more: str) -> int:
    """Convert values as CSV; return the exit code."""
    (folder / "in.csv").write_bytes(table.write(values))
    return main(["convert", str(folder / "in.csv"), str(folder / "out"), "--to", form, *more])


@pytest.mark.parametrize("form", FORMATS)
def test_overlaps_are_judged_for_every_output(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies of a value count once; other intervals of a meter that overlap are refused, and named."""
    first = Entry("m1", NOON_MS, NOON_MS + HALF_HOUR_MS, Fraction(5), "Wh")
    assert convert(tmp_path, [first, first._replace(meter="m2"), first], form) == 0
    told = capsys.readouterr().err
    assert "2 values of 2 meters" in told
    assert "left out (1): a copy of a value" in told
    (tmp_path / "out").unlink()
    for other in (first._replace(value=Fraction(6)), first._replace(start_ms=NOON_MS + 1000)):
        assert convert(tmp_path, [first, other], form) == 1
        assert "two intervals of meter 'm1' overlap at 2026-11-20T12:00:0" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_name_is_for_files_without_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--meter` is refused where it would change nothing."""
    value = Entry("m1", NOON_MS, NOON_MS + HALF_HOUR_MS, Fraction(5), "Wh")
    assert convert(tmp_path, [value], "csv", "--meter", "house") == 1
    assert "--meter is for Green Button files only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04" + bytes(20), "an Excel workbook or a zip archive"),
        (b"\x1f\x8b\x08" + bytes(20), "packed with gzip"),
        ("meter,start\n".encode("utf-16"), "UTF-16, as Excel's 'Unicode text'"),
        ("meter,start\n".encode("utf-16-be"), "binary, or text in UTF-16"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"PAR1", "Parquet, not CSV"),
    ],
)
def test_a_file_that_is_not_csv_is_named(
    content: bytes, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workbook, a packed file and text in another encoding are refused as what they are."""
    (tmp_path / "in.csv").write_bytes(content)
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--to", "csv"]) == 1
    assert f"this is {kind}" in capsys.readouterr().err
