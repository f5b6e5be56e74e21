"""The `convert` command: from an archive's output to files, and from files to an archive's input."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from meteragent.cli import main
from meteragent.consume.archive import read
from meteragent.formats import green_button, table
from meteragent.formats.entry import released
from tests.support.archives import WIDE, Place, save, wide_rows


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output of two meters, three days each."""
    place = Place.make(tmp_path / "place")
    return place.sanitise(save(tmp_path / "in.parquet", wide_rows(2, 3), WIDE)).out


def test_an_output_becomes_a_feed_a_table_and_an_input(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values of a release are the same in CSV, in Green Button, and in readings."""
    expected = list(released(read(out).values()))
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
