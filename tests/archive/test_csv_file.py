"""CSV files in the archive's form: dialects, times, refusals with line and column, and blocks."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from meteragent.archive import csv_file
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError, ConfigError
from tests.support.archives import HALF_HOUR, policy

ENERGY = "kind = 'interval_energy'\nunit = 'kWh'\ninterval = '30min'"
HEADER = "meter,time,value\n"
ROW = "a,2026-11-20T12:00:00Z,1.5\n"
EUROPEAN = "layout = 'european'\nstamp = 'end'\ntimezone = 'Europe/Berlin'"
PARTS = "meter;time;value\n"


def opened(path: Path, content: str | bytes, csv: str = "stamp = 'end'", *, archive: str = "") -> Source:
    """Write a file, and return it as a source of energies."""
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    keys = f"{archive}\n[archive.csv]\n{csv}"
    return Source.open(
        Tree.at(path), policy(path.parent / "archive.key", source=ENERGY, window=HALF_HOUR, archive=keys)
    )


def rows(source: Source) -> list[tuple[str, str, Any]]:
    """Return the rows of a source, times as text in UTC."""
    columns = list(source.policy.columns)
    batches = [batch.to_pylist() for batch in source.read(source.groups, columns, 1000)]
    values = ([row[name] for name in columns] for batch in batches for row in batch)
    return [(meter, time.strftime("%m-%d %H:%M"), value) for meter, time, value in values]


@pytest.mark.parametrize(
    ("content", "csv"),
    [
        (HEADER + ROW, ""),
        ("\ufeff" + HEADER + ROW, ""),
        ("sep=;\r\n" + (HEADER + ROW).replace(",", ";").replace("1.5", "1,5").replace("\n", "\r\n"), ""),
        ((HEADER + ROW).replace(",", ";").replace("1.5", "1,5"), ""),
        ((HEADER + ROW).replace(",", ";"), "decimal = '.'"),
        ((HEADER + ROW).replace(",", "\t"), ""),
        ((HEADER + ROW).replace(",", "!"), "separator = '!'"),
        ('"meter","time","value"\n"a","2026-11-20T12:00:00Z","1.5"\n', ""),
        ("note, value , time,meter\nx,1.5,2026-11-20 13:00:00+01,a\n", ""),
        (HEADER + "\n" + ROW + "\n\n", ""),
        ((HEADER + ROW).removesuffix("\n"), ""),
        ("two lines\nbefore the header\n" + HEADER + ROW, "header = 3"),
        (HEADER + "a,1795176000,1.5\n", "format = 'unix s'"),
        (HEADER + "a,1795176000000,1.5\n", "format = 'unix ms'"),
        (HEADER + "a,20.11.2026 13:00,1.5\n", "format = '%d.%m.%Y %H:%M'\ntimezone = 'Europe/Berlin'"),
        (HEADER + "a,11/20/26 13:00:00.0 +0100,1.5\n", "format = '%m/%d/%y %H:%M:%S.%f %z'"),
        (HEADER + "a,2026-11-20 12:00:00.0000000,1.5\n", "timezone = 'UTC'"),
        (HEADER.replace("time", "day,hour") + "a,2026-11-20,12:00Z,1.5\n", "time = ['day', 'hour']"),
    ],
)
def test_one_reading_in_many_dialects(content: str, csv: str, tmp_path: Path) -> None:
    """What spreadsheets and portals write is one reading, whatever its separators, marks, order and times."""
    if "time = ['day'" in csv:
        csv += "\nformat = '%Y-%m-%d %H:%M%z'"
    assert rows(opened(tmp_path / "in.csv", content, f"stamp = 'end'\n{csv}")) == [("a", "11-20 12:00", 1.5)]


@pytest.mark.parametrize(("stamp", "time"), [("end", "12:00"), ("start", "12:30")])
def test_a_stamp_is_stated(stamp: str, time: str, tmp_path: Path) -> None:
    """An energy stamped with its start gets the time of its end; without a stamp it is refused."""
    source = opened(tmp_path / "in.csv", HEADER + ROW, f"stamp = '{stamp}'")
    assert rows(source) == [("a", f"11-20 {time}", 1.5)]
    with pytest.raises(ConfigError, match=r"archive\.csv\.stamp: found nothing; expected 'start' or 'end'"):
        opened(tmp_path / "in.csv", HEADER + ROW, "null = ['-']")


def test_a_power_stamped_with_its_end(tmp_path: Path) -> None:
    """A mean power stamped with its end gets the time of its start, `hold` earlier."""
    path = tmp_path / "in.csv"
    path.write_text(HEADER + ROW)
    keys = "[archive.csv]\nstamp = 'end'"
    source = Source.open(Tree.at(path), policy(source="hold = '30min'", window=HALF_HOUR, archive=keys))
    assert rows(source) == [("a", "11-20 11:30", 1.5)]


def test_texts_for_missing_values_are_gaps(tmp_path: Path) -> None:
    """Null, NA, nothing and stated texts are missing; a meter of such a name is a meter."""
    values = ["", "Null", "NULL", "NaN", "#N/A", "-999"]
    content = HEADER + "".join(ROW.replace("1.5", value).replace("a,", "NA,", 1) for value in values)
    source = opened(tmp_path / "in.csv", content, "stamp = 'end'\nnull = ['-999']")
    assert {(meter, None if value != value else value) for meter, _, value in rows(source)} == {("NA", None)}  # noqa: PLR0124 -- NaN


@pytest.mark.parametrize(
    ("content", "csv", "why"),
    [
        (HEADER + ROW + ROW.replace("Z", ""), "", r"line 3: column 'time': .* offset, .* write timezone = "),
        (HEADER + ROW, "timezone = 'UTC'", "line 2: column 'time': .* in UTC, without an offset"),
        (HEADER + ROW + ROW.replace("1.5", "1,5"), "", "line 3: expected 3 cells"),
        (HEADER + ROW + ROW.replace("1.5", '"1,500.5"'), "", "line 3: column 'value': expected a number"),
        (PARTS + "a;20.11.2026 13:00;1.311,5\n", EUROPEAN, "line 2: column 'value': .* such as 311,5"),
        (PARTS + "a;20.11.2026 13:00;1.311\n", EUROPEAN, "line 2: column 'value': .* such as 311,5"),
        (PARTS + "a;31.02.2026 13:00;1\n", EUROPEAN, r"line 2: column 'time': .* such as 20\.11\.2026 12:30"),
        (PARTS + "a;20.11.2026 25:00;1\n", EUROPEAN, "line 2: column 'time'"),
        (PARTS + "a;29.03.2026 02:30;1\n", EUROPEAN, "line 2: column 'time': expected a time that exists"),
        (HEADER + ROW + "\n\n" + ROW.replace("a,", ",", 1), "", "line 5: column 'meter'"),
        (HEADER + ROW.replace("a,", "5.41449E+17,", 1), "", r"line 2: column 'meter': .* not rounded"),
        (HEADER + "Total,,3\n", "", "line 2: column 'time'"),
        (HEADER + 'a,"2026-11-20T12:00:00Z,1\n' + ROW, "", "line 2: .* marks that are closed"),
        (HEADER + "a,1795176000000,1\n", "format = 'unix s'", "line 2: column 'time': expected seconds"),
        (HEADER + "a,1795176000,1\n", "format = 'unix ms'", "line 2: column 'time': expected milliseconds"),
        (HEADER + "a,,1\n", "format = 'unix s'", "line 2: column 'time': expected seconds"),
        (HEADER + ROW.replace("2026", "1969"), "", "line 2: column 'time'"),
        ("meter,time,value,value\na,2026-11-20T12:00:00Z,1,2\n", "", "column 'value': more than one has"),
        ("meter,time,val\n", "", "column 'value': no such column; there are: meter, time, val$"),
        ("a,2026-11-20T12:00:00Z,311.5\n", "", "no such column; header = 0 if there is no header$"),
        ("a,noon,-311.5\n", "", "no such column; header = 0 if there is no header$"),
        ("meter time value\n", "", r"state archive\.csv\.separator"),
        ((HEADER + ROW).replace("\n", "\r"), "", "the header is no line"),
        ((HEADER + ROW).encode("utf-16"), "", "UTF-16.*'CSV UTF-8'"),
        ((HEADER + ROW).encode("utf-16-le"), "", "text in UTF-16"),
        (("Z\u00e4hler" + HEADER).encode("cp1252"), "", "not UTF-8"),
        (HEADER.encode() + ROW.replace("a,", "Z\u00e4hler,", 1).encode("cp1252"), "", "line 2: .* in UTF-8"),
        (gzip.compress((HEADER + ROW).encode(), mtime=0), "", "packed with gzip"),
        (b"PK\x03\x04" + bytes(200), "", "an Excel workbook or a zip archive"),
        (b"SQLite format 3\x00", "", "this is binary"),
        (b"\x89HDF\r\n", "", "HDF5, as NILMTK's"),
        (b"\n<!DOCTYPE html><html>", "", "HTML .*login"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_at_its_place(
    content: str | bytes, csv: str, why: str, tmp_path: Path
) -> None:
    """A cell is refused with its line, its column and what would be right; a file with what it is."""
    csv = csv if "stamp" in csv else f"stamp = 'end'\n{csv}"
    with pytest.raises(ArchiveError, match=why) as refusal:
        opened(tmp_path / "in.csv", content, csv)
    assert not {"1.311", "1,500.5", "311.5\n", "Total"} & set(str(refusal.value).split())
    assert refusal.value.__context__ is None or "311" not in str(refusal.value.__context__)


@pytest.mark.parametrize(
    ("csv", "why"),
    [
        ("layout = 'lcl'", r"archive\.csv\.layout: .* low-carbon-london, cer"),
        ("format = '%d.%m.%Y'", r"archive\.csv\.format: "),
        ("format = '%d.%m.%Y %H:%M'", r"archive\.csv\.timezone: found nothing"),
        ("format = '%d.%m.%Y %H:%M%z'\ntimezone = 'UTC'", r"archive\.csv\.timezone: .* expected no zone"),
        ("format = 'unix s'\ntimezone = 'UTC'", r"archive\.csv\.timezone: .* expected no zone"),
        ("timezone = 'Berlin'", r"archive\.csv\.timezone: "),
        ("seperator = ';'", r"archive\.csv\.seperator: .* did you mean 'separator'\?"),
        ("null = '-'", r"archive\.csv\.null: .* a list of texts"),
        ("layout = 'pecan-street'", r"source\.kind: .*'power', which pecan-street holds"),
        ("decimal = 'x'\nheader = -1", r"archive\.csv\.decimal: (.|\n)*archive\.csv\.header: "),
    ],
)
def test_a_mapping_that_cannot_be_meant(csv: str, why: str, tmp_path: Path) -> None:
    """Every wrong key of a mapping is named, all at once, with what would be right."""
    with pytest.raises(ConfigError, match=why):
        opened(tmp_path / "in.csv", HEADER + ROW, f"stamp = 'end'\n{csv}")


HOURS = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
UTC = ["10-24 23:30", "10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]


def of_one(hours: list[str]) -> str:
    """Return rows of one meter in the night in which clocks are set back."""
    return autumn(*(("a", hour) for hour in hours))


def autumn(*meters_and_hours: tuple[str, str]) -> str:
    """Return rows of the night in which clocks are set back."""
    return PARTS + "".join(
        f"{meter};25.10.2026 {hour};{i}\n" for i, (meter, hour) in enumerate(meters_and_hours)
    )


@pytest.mark.parametrize("block_bytes", [1 << 20, 40])
@pytest.mark.parametrize("meters", [["a"], ["a", "b"]])
@pytest.mark.parametrize("by_time", [False, True])
def test_a_repeated_hour_is_told_apart_by_order(
    block_bytes: int, meters: list[str], by_time: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two equal local times of a meter the first row is the earlier, wherever blocks end, and counts."""
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", block_bytes)
    pairs = [(m, h) for h in HOURS for m in meters] if by_time else [(m, h) for m in meters for h in HOURS]
    source = opened(tmp_path / "in.csv", autumn(*pairs), EUROPEAN)
    assert (len(source.groups) > 1) == (block_bytes == 40)
    for meter in meters:
        assert [time for name, time, _ in rows(source) if name == meter] == UTC
    assert source.ambiguous_readings == 4 * len(meters)


@pytest.mark.parametrize(
    "hours",
    [
        ["01:30", "02:00", "02:30", "03:00"],
        ["01:30", "02:00", "02:30", "02:00", "03:00"],
        [*reversed(HOURS)],
        ["02:00", "02:00"],
        ["01:30", "02:00", "02:00", "02:30", "02:30", "03:00"],
        ["03:00", "02:00", "02:30", "02:00", "02:30", "01:30"],
        ["01:30", "02:00", "02:00", "02:00", "03:00"],
        ["01:30", "01:30", "02:00", "02:00", "02:30", "02:30", "03:00", "03:00"],
        ["01:30", "02:30", "02:00", "02:30", "02:00", "03:00"],
    ],
)
def test_an_order_that_does_not_tell_is_refused(hours: list[str], tmp_path: Path) -> None:
    """A repeated time that is there once or thrice, or among rows out of order, is refused."""
    with pytest.raises(
        ArchiveError, match=r"line \d+: column 'time': this time occurs twice in Europe/Berlin"
    ):
        opened(tmp_path / "in.csv", of_one(hours), EUROPEAN)


def test_hourly_values_are_told_apart(tmp_path: Path) -> None:
    """An hour may have one time, if its neighbours are there."""
    hours = rows(opened(tmp_path / "in.csv", of_one(["01:00", "02:00", "02:00", "03:00"]), EUROPEAN))
    assert [time for _, time, _ in hours] == ["10-24 23:00", "10-25 00:00", "10-25 01:00", "10-25 02:00"]


def test_each_file_of_a_folder_may_be_a_meter(tmp_path: Path) -> None:
    """Files of one name in two folders are two meters; a file by itself has no name, and is refused."""
    csv = "stamp = 'end'\nmeters = 'path'\nfiles = 'channel_*.dat'"
    for house in ("house_1", "house_2"):
        with pytest.raises(ArchiveError, match="needs a folder"):
            opened(tmp_path / "in" / house / "channel_1.dat", HEADER + ROW, csv)
    (tmp_path / "in" / "house_1" / "labels.dat").write_text("1 mains\n")
    found = policy(source=ENERGY, window=HALF_HOUR, archive=f"[archive.csv]\n{csv}")
    source = Source.open(Tree.at(tmp_path / "in"), found)
    assert [name for name, _, _ in rows(source)] == ["house_1/channel_1", "house_2/channel_1"]


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a file are the same in one block and in many, and a wrong cell has the same line."""
    content = HEADER + "".join(ROW.replace("a,", f"m{i},", 1).replace("1.5", str(i)) for i in range(500))
    whole = rows(opened(tmp_path / "in.csv", content))
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 100)
    source = opened(tmp_path / "in.csv", content)
    assert len(source.groups) > 100
    assert rows(source) == whole
    with pytest.raises(ArchiveError, match="line 502: column 'value'"):
        opened(tmp_path / "in.csv", content + ROW.replace("1.5", "x"))
    with pytest.raises(ArchiveError, match="line 502: longer than 100 bytes"):
        opened(tmp_path / "in.csv", content + "x" * 200)


def test_csv_without_a_mapping_is_named(tmp_path: Path) -> None:
    """A CSV file without [archive.csv] is refused with the table that it needs."""
    path = tmp_path / "in.csv"
    path.write_text(HEADER + ROW)
    with pytest.raises(ArchiveError, match=r"CSV needs an \[archive\.csv\] table"):
        Source.open(Tree.at(path), policy())


def test_a_start_is_not_ignored() -> None:
    """An archive's source that states `stamp` is refused, because archives do not use it."""
    with pytest.raises(ConfigError, match=r"source\.stamp: found 'start'; expected no stamp"):
        policy(
            source=ENERGY + "\nprofile = 'json'\nvalue = 'v'\ntime = 'time'\nstamp = 'start'",
            window=HALF_HOUR,
        )
