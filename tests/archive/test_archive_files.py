"""Files of archives as others write them: statistics, types that differ from file to file, odd texts."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent.archive import job, number, run, source
from meteragent.archive.policy import FIRST_MS
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError
from tests.support.archives import LONG, TIME, WIDE, Place, long_rows, save, wide_rows


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def in_order_of_time() -> list[dict[str, Any]]:
    """Windows of some homes, as a head-end writes them."""
    return sorted(wide_rows(4, 12), key=lambda row: (row["time"], row["meter"]))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_statistics_say_when_rows_are_to_the_millisecond(place: Place, unit: str) -> None:
    """A row group's first and last time are those of its rows, rounded down."""
    times = [1_774_738_800_000, 1_774_738_800_001, 1_774_738_801_999]
    column = pa.array(times, TIME).cast(pa.timestamp(unit, tz="UTC"))
    path = place.folder / "in.parquet"
    pq.write_table(pa.table({"meter": ["a"] * 3, "time": column, "value": [1, 2, 3]}), path)
    (group,) = Source.open(Tree.at(path), place.policy()).groups
    assert group.times_ms == (times[0], times[-1])


def test_times_that_python_does_not_have_are_left(place: Place) -> None:
    """Statistics of the year 10,000 are none; the rows are refused."""
    path = place.folder / "in.parquet"
    column = pa.array([1 << 62], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"meter": ["a"], "time": column, "value": [1]}), path)
    assert Source.open(Tree.at(path), place.policy()).groups[0].times_ms is None
    expected = "rows with a time outside the years 1990 to 2100: 1; check the unit"
    with pytest.raises(ArchiveError, match=expected):
        place.sanitise(path)


@pytest.mark.parametrize("limit", [4, 6, 9, 30])
def test_what_leaves_is_in_the_ledger(place: Place, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """In order of time too, where a job's first windows are the last of a row group."""
    monkeypatch.setattr(run, "JOB_WINDOWS", limit)
    result = place.sanitise(save(place.folder / "in.parquet", in_order_of_time(), group=6))
    assert result.admission.released_windows == sum(row["windows"] for row in place.ledger()) == 48
    assert place.released().num_rows == 48


def test_statistics_that_are_not_of_the_rows_are_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is not accounted for does not leave: nothing does."""
    honest = source._column_extremes

    def ends(column: Any, kind: type[Any]) -> Any:
        """The last is said to be the first."""
        actual = honest(column, kind)
        return None if actual is None else (actual[0], actual[0])

    monkeypatch.setattr(source, "_column_extremes", ends)
    monkeypatch.setattr(run, "JOB_WINDOWS", 6)
    path = save(place.folder / "in.parquet", in_order_of_time(), group=6)
    with pytest.raises(ArchiveError, match="statistics"):
        place.sanitise(path)
    assert place.ledger() == []
    assert not (place.folder / "out.parquet").exists()


OTHERS = {
    "value": [
        pa.list_(pa.float64()),
        pa.large_list(pa.uint16()),
        pa.list_(pa.decimal128(12, 2)),
        pa.list_(pa.int32(), 96),
    ],
    "time": [pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="Europe/Amsterdam")],
    "meter": [pa.large_string(), pa.dictionary(pa.int16(), pa.string())],
}


def test_a_folder_is_read_whole_or_not_at_all(place: Place) -> None:
    """Files in subfolders and with a suffix in capitals count; a folder by a link is refused."""
    rows, folder = in_order_of_time(), place.folder / "in"
    (folder / "year=2026").mkdir(parents=True)
    save(folder / "1.PARQUET", rows[:4])
    save(folder / "year=2026" / "2.parquet", rows[4:])
    assert place.sanitise(folder).admission.released_windows == len(rows)
    (place.folder / "elsewhere").mkdir()
    (folder / "more").symlink_to(place.folder / "elsewhere")
    with pytest.raises(ArchiveError, match="more: a link to a folder is not followed"):
        place.sanitise(folder, "other.parquet")


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in OTHERS.items() for kind in kinds])
def test_types_may_differ_from_file_to_file(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    """A folder that several hands wrote is released as if one had."""
    actual: list[pa.Table] = []
    for other in (WIDE.field(name).type, kind):
        place = Place.make(tmp_path / str(len(actual)))
        (place.folder / "in").mkdir()
        rows = wide_rows(3, 4)
        save(place.folder / "in" / "1.parquet", rows[:5])
        at = WIDE.get_field_index(name)
        columns = pa.table({each.name: [row[each.name] for row in rows[5:]] for each in WIDE}, schema=WIDE)
        columns = columns.set_column(at, name, columns.column(name).cast(other))
        pq.write_table(columns, place.folder / "in" / "2.parquet")
        place.sanitise(place.folder / "in")
        actual.append(place.released())
    assert actual[0].num_rows == 12
    assert actual[0].equals(actual[1])


@pytest.mark.parametrize("schema", [WIDE, LONG])
def test_names_that_are_no_text_are_refused(place: Place, schema: pa.Schema) -> None:
    """Bytes in a text column that are not UTF-8 are reported without repeating them."""
    offsets, data = np.array([0, 2, 4], np.int32), b"\xff\xfeab"
    names = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    value = schema.field("value").type
    values = pa.array([[1] * 96] * 2 if schema is WIDE else [1, 2], value)
    path = place.folder / "in.parquet"
    pq.write_table(
        pa.table({"meter": names, "time": pa.array([FIRST_MS, FIRST_MS], TIME), "value": values}), path
    )
    with pytest.raises(ArchiveError, match=r"column 'meter': some names are not valid UTF-8$"):
        place.sanitise(path)


def test_a_footer_is_read_once_for_all_its_row_groups(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many row groups a footer is long: once for each, it would take the square of their number."""
    read, honest = list[pa.NativeFile](), pq.read_metadata

    def told(file: pa.NativeFile) -> pq.FileMetaData:
        read.append(file)
        return honest(file)

    monkeypatch.setattr(pq, "read_metadata", told)
    path = save(place.folder / "in.parquet", wide_rows(4, 12), group=1)
    place.sanitise(path)
    assert sum(isinstance(file, pa.NativeFile) for file in read) == 1  # parts of the output have paths


def test_an_input_that_is_another_one_has_its_own_footer(place: Place) -> None:
    """A file that was rewritten under the same name is read with its new contents."""
    for seed in range(2):
        path = save(place.folder / "in.parquet", wide_rows(2 + seed, 2, seed=seed), group=1)
        place.sanitise(path, f"{seed}.parquet")
    assert place.released("1.parquet")["meter"].to_pylist() == ["m2", "m2"]


def test_windows_without_numbers_do_not_move_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many lists are missing is not told by where row groups end."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 96 * 6)
    actual = []
    for missing in (0, 10, 30, 48):
        place = Place.make(tmp_path / str(missing))
        rows = wide_rows(4, 12)
        for row in rows[:missing]:
            row["value"] = None
        place.sanitise(save(place.folder / "in.parquet", rows))
        (part,) = (place.folder / "out.parquet").glob("part-*.parquet")
        footer = pq.read_metadata(part)
        actual.append([footer.row_group(at).num_rows for at in range(footer.num_row_groups)])
    assert actual == [[8, 4] * 4] * 4


def test_names_do_not_order_pseudonyms(place: Place) -> None:
    """Readings of meters leave in the order of pseudonyms: their names' would tell which is whose."""
    sink = f"pseudonym_key_file = '{place.folder}/archive.key'"
    path = save(place.folder / "in.parquet", long_rows(20, 1), LONG)
    place.sanitise(path, sink=sink)
    (part,) = (place.folder / "out.parquet").glob("part-*.parquet")
    names = pq.ParquetFile(part).read()["meter"].to_pylist()
    assert len(set(names)) == 20
    assert names == sorted(names)


def test_parts_do_not_tell_of_names(place: Place) -> None:
    """Under pseudonyms no range or hash of meters' own names says in which part of the output they are."""
    path = save(place.folder / "in.parquet", long_rows(12, 1), LONG, group=48)
    plain = job.cut_jobs(Source.open(Tree.at(path), place.policy()), 200)
    assert any(item.names != ("", None) for item in plain)
    policy = place.policy(sink=f"pseudonym_key_file = '{place.folder}/archive.key'")
    hidden = job.cut_jobs(Source.open(Tree.at(path), policy), 200)
    assert {item.names for item in hidden} == {("", None)}
    assert max(item.parts for item in hidden) > 1
    for name in (f"m{meter}" for meter in range(12)):
        parts = [item.part for item in hidden if item.has(name, policy)]
        assert parts == [zlib.crc32(policy.public_id(name).encode()) % hidden[0].parts]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_integers_of_any_width_are_exact(place: Place, kind: str, width: int) -> None:
    """They are counted in 64 bits with a sign, whatever the column had."""
    actual = number.to_millionths(pa.array([0, 100], f"{kind}{width}"), place.policy())
    assert actual.values_u.dtype == np.int64
    assert actual.values_u.tolist() == [0, 100_000_000]
