"""Runs over archives: what is released, once; what is refused; the same bytes however the input is cut."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent.archive import job, run, source
from meteragent.archive.ledger import Intervals
from meteragent.archive.readings import Windows
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError
from tests.support.archives import (
    DAY_MS,
    ENERGY,
    LOCAL_DAY,
    LONG,
    SPRING_MS,
    TIME,
    WIDE,
    Place,
    long_rows,
    manifest_of,
    save,
    wide_rows,
)

SECRET = 31_415
HALF_HOURS = {"window": "length = '30min'"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, parts and jobs of a few rows."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 500)
    monkeypatch.setattr(run, "PART_BATCHES", 2)
    monkeypatch.setattr(run, "JOB_ROWS", 50)
    monkeypatch.setattr(run, "JOB_WINDOWS", 30)


def windows(rows: list[dict[str, Any]]) -> int:
    """How many windows the ledger's rows are."""
    return sum(row["windows"] for row in rows)


def test_each_window_leaves_with_noise_and_is_debited(place: Place) -> None:
    """Wide: a row for each window, exact values in the unit; the ledger has each once, in a row per month."""
    rows = wide_rows(3, 40)
    result = place.sanitise(save(place.folder / "in.parquet", rows))
    table = place.released()
    assert (result.admission.released_windows, result.admission.refused_windows, table.num_rows) == (
        120,
        0,
        120,
    )
    noise = np.array(table["values"].to_pylist()) - np.array([row["value"] for row in rows])
    assert 0.3 < np.std(noise) / result.policy.usual.sd < 3
    assert (noise != 0).mean() > 0.99
    ledger = place.ledger()
    assert (windows(ledger), len(ledger)) == (120, 9)  # March, April, May
    assert {row["epsilon"] for row in ledger} == {str(result.policy.usual.epsilon)}
    assert {row["d"] for row in ledger} == set(table["d"].to_pylist())
    assert {row["key"] for row in ledger} == set(table["key"].to_pylist())
    beside = pq.read_table(place.folder / "out.ledger.parquet").to_pylist()
    assert beside == ledger


def test_readings_leave_as_slots(place: Place) -> None:
    """Long: a row for each slot; numbers are decimals where the quantum is not whole."""
    path = save(place.folder / "in.parquet", long_rows(3, 2), LONG)
    result = place.sanitise(path, window="length = '1h'\nstep = '30min'", privacy="quantum = '0.25'")
    table = place.released()
    assert table.num_rows == 2 * result.admission.released_windows == 2 * windows(place.ledger()) > 280
    assert table.schema.field("value").type == pa.decimal128(18, 2)
    steps = {
        end - start for start, end in zip(*(table[c].to_pylist() for c in ("start", "end")), strict=True)
    }
    assert {step.total_seconds() for step in steps} == {1800}


def test_energies_and_bands_leave_in_both_forms(place: Place) -> None:
    """Interval energies in lists; a mean day's bands by name in the long form."""
    result = place.sanitise(save(place.folder / "in.parquet", wide_rows(2, 3)), "one.parquet", source=ENERGY)
    assert result.admission.released_windows == 6
    bands = "length = '1mo'\ntimezone = 'Europe/Amsterdam'\nbands = ['00-07', '07-24']"
    late = long_rows(2, 3, first_ms=SPRING_MS + 90 * DAY_MS)
    path = save(place.folder / "late.parquet", late, LONG)
    place.sanitise(path, "two.parquet", window=bands, privacy="space = 'profile'\nhide = '6kWh'\nquantum = 1")
    assert place.released("two.parquet")["band"].to_pylist() == ["00:00/07:00", "07:00/24:00"] * 2


@pytest.mark.parametrize("form", ["wide", "long"])
@pytest.mark.parametrize("way", ["batches", "order", "groups", "files", "types"])
def test_the_same_bytes_however_the_input_is_cut(
    tmp_path: Path, form: str, way: str, request: pytest.FixtureRequest
) -> None:
    """Batch sizes, order of rows, row groups, one file or many, types of numbers: every window the same."""
    rows, schema = (wide_rows(5, 8), WIDE) if form == "wide" else (long_rows(4, 2), LONG)
    keys = {} if form == "wide" else HALF_HOURS
    plain, other = Place.make(tmp_path / "plain"), Place.make(tmp_path / "other")
    plain.sanitise(save(plain.folder / "in.parquet", rows, schema), **keys)
    path = other.folder / "in.parquet"
    if way == "batches":
        request.getfixturevalue("small")
    if way == "order":
        rows = [rows[at] for at in np.random.default_rng(1).permutation(len(rows))]
    if way == "types":
        schema = schema.set(
            2, pa.field("value", pa.list_(pa.float32()) if form == "wide" else pa.decimal128(9, 3))
        )
        schema = schema.set(0, pa.field("meter", pa.large_string()))
        schema = schema.set(1, pa.field("time", pa.timestamp("us", tz="Europe/Amsterdam")))
        rows = [row | {"time": row["time"] * 1000} for row in rows]
        if form == "long":
            rows = [
                row | {"value": None if row["value"] is None else Decimal(str(row["value"]))} for row in rows
            ]
    if way == "files":
        path.mkdir()
        for at in range(7):
            save(path / f"{at}.parquet", rows[at::7], schema, group=3)
        (path / "_SUCCESS.parquet").write_bytes(b"")
    else:
        save(path, rows, schema, group=7 if way in {"groups", "batches"} else 1000)
    other.sanitise(path, **keys)
    assert other.released().equals(plain.released())


@pytest.mark.parametrize("order", ["by meter", "by time", "in no order"])
def test_jobs_have_each_window_once(place: Place, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the input is sorted each row has its job; sorted, row groups are read about once."""
    rows = long_rows(6, 2)
    if order == "by time":
        rows.sort(key=lambda row: row["time"])
    if order == "in no order":
        rows = [rows[at] for at in np.random.default_rng(1).permutation(len(rows))]
    path = save(place.folder / "in.parquet", rows, LONG, group=48)
    monkeypatch.setattr(run, "JOB_ROWS", 600)
    source = Source.open(Tree.at(path), place.policy(**HALF_HOURS))
    actual = job.cut_jobs(source, 600)
    read = sum(source.groups[at].rows for item in actual for at in item.groups)
    assert len(actual) >= 3
    assert read == len(rows) * len(actual) if order == "in no order" else read < 1.5 * len(rows)
    result = place.sanitise(path, **HALF_HOURS)
    starts = {(row["meter"], row["time"] // 1_800_000) for row in rows}
    table = place.released()
    assert table.num_rows == len(starts) == result.admission.released_windows == windows(place.ledger())
    assert len(set(zip(table["meter"].to_pylist(), table["start"].to_pylist(), strict=True))) == len(starts)


OTHERS = {
    "epsilon": ({"privacy": "level = 0.5"}, {}),
    "length": ({"window": "length = '2d'\nstep = '1h'"}, {"days": 2, "n": 48}),
    "step": ({"window": "length = '1d'\nstep = '1h'"}, {"n": 24}),
    "corrected data": ({}, {"seed": 1}),
    "pseudonyms": ({"sink": "pseudonym_key_file = '{folder}/archive.key'"}, {}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_an_interval_that_was_released_is_refused(place: Place, what: str) -> None:
    """Under any epsilon, length, data, name and path: refused and counted, and nothing of it leaves."""
    place.sanitise(save(place.folder / "in.parquet", wide_rows(2, 4)))
    before = place.ledger()
    keys, data = OTHERS[what]
    rows = wide_rows(2, 2 if what == "length" else 4, seed=data.get("seed", 0), n=data.get("n", 96))
    if what == "length":
        rows = [row | {"time": row["time"] + (row["time"] - SPRING_MS // DAY_MS * DAY_MS)} for row in rows]
        shift = -(SPRING_MS // DAY_MS) % 2 * DAY_MS
        rows = [row | {"time": row["time"] + shift} for row in rows]
    keys = {name: text.format(folder=place.folder) for name, text in keys.items()}
    result = place.sanitise(save(place.folder / "other.parquet", rows), "other.out", **keys)
    assert (result.admission.released_windows, result.admission.refused_windows) == (0, len(rows))
    assert place.released("other.out").num_rows == 0
    assert place.ledger() == before


def test_only_what_is_new_is_released(place: Place) -> None:
    """Everything again, corrected, with days that are new: these leave, the rest is refused and counted."""
    for shape, schema in (("wide", WIDE), ("long", LONG)):
        item = Place.make(place.folder / shape)
        make = wide_rows if shape == "wide" else long_rows
        keys = {} if shape == "wide" else {"window": "length = '1d'\nstep = '1h'"}
        first_ms = SPRING_MS // DAY_MS * DAY_MS
        item.sanitise(save(item.folder / "in.parquet", make(3, 4, first_ms=first_ms), schema), **keys)
        second = make(3, 6, seed=1, first_ms=first_ms)
        result = item.sanitise(save(item.folder / "again.parquet", second, schema), "again.out", **keys)
        assert (result.admission.released_windows, result.admission.refused_windows) == (6, 12)
        starts = {
            start.timestamp() * 1000 // DAY_MS for start in item.released("again.out")["start"].to_pylist()
        }
        assert starts == {first_ms // DAY_MS + day for day in (4, 5)}
        assert windows(item.ledger()) == 18


def test_again_is_the_same(place: Place) -> None:
    """The same input, here and to another output: the same bytes; the ledger counts each window once."""
    path = save(place.folder / "in.parquet", wide_rows(2, 4))
    place.sanitise(path)
    before = place.files()
    second = place.sanitise(path)
    assert (second.new_parts, second.existing_parts, second.admission.released_windows) == (0, 1, 8)
    assert place.files() == before
    place.sanitise(path, "copy.parquet")
    outputs = [
        {name.split("/")[1]: content for name, content in place.files().items() if name.startswith(out)}
        for out in ("out.parquet/", "copy.parquet/")
    ]
    assert len(outputs[0]) == 3
    assert outputs[0] == outputs[1]
    assert windows(place.ledger()) == 8


def test_what_is_refused_stays_refused_when_made_again(place: Place) -> None:
    """A run that refused some windows, made again from the start: those it released, and no other."""
    place.sanitise(save(place.folder / "in.parquet", wide_rows(2, 2)))
    path = save(place.folder / "more.parquet", wide_rows(2, 5, seed=1))
    place.sanitise(path, "more.out")
    before = place.files()
    for part in (place.folder / "more.out").iterdir():
        part.unlink()
    place.sanitise(path, "more.out")
    assert place.files() == before


def test_nothing_beside_the_noise_tells_of_readings(tmp_path: Path) -> None:
    """Two inputs that differ in one value: manifest and rows of the ledger differ in a run's id alone."""
    actual = []
    for value in (1, SECRET):
        place = Place.make(tmp_path / str(value))
        rows = wide_rows(1, 3)
        rows[1]["value"][5] = value
        result = place.sanitise(save(place.folder / "in.parquet", rows))
        facts = manifest_of(place.folder / "out.parquet")
        assert facts.pop("run") == result.admission.run
        assert [part["rows"] for part in facts.pop("parts")] == [3]
        assert str(SECRET) not in json.dumps(facts)
        actual.append((facts, place.ledger()))
    assert actual[0] == actual[1]


def test_the_ledger_is_private_and_so_is_what_it_says(place: Place) -> None:
    """Its folder is its owner's; the input's digests are there, and not in the output."""
    path = save(place.folder / "in.parquet", wide_rows(1, 3))
    done = place.sanitise(path)
    assert done.ledger.stat().st_mode & 0o077 == 0
    kept = json.loads((done.ledger / f"run={done.admission.run}" / "_run.json").read_text())
    assert kept["input"][0]["sha256"] not in str(manifest_of(place.folder / "out.parquet"))


def test_times_of_96_bits_are_utc(tmp_path: Path) -> None:
    """Spark's default for timestamps is read as what it means."""
    actual = []
    for old in (False, True):
        place = Place.make(tmp_path / str(old))
        path, rows = place.folder / "in.parquet", wide_rows(2, 3)
        columns = {name: [row[name] for row in rows] for name in WIDE.names}
        pq.write_table(
            pa.table(columns, schema=WIDE), path, use_deprecated_int96_timestamps=old, store_schema=False
        )
        place.sanitise(path)
        actual.append(place.released())
    assert actual[0].equals(actual[1])


@pytest.mark.parametrize("wide", [True, False])
def test_noise_is_packed_and_all_else_compressed(place: Place, *, wide: bool) -> None:
    """Numbers are differences in as few bits as they need, without statistics; other columns are zstd's."""
    rows, schema = (wide_rows(3, 2), WIDE) if wide else (long_rows(3, 2), LONG)
    place.sanitise(save(place.folder / "in.parquet", rows, schema))
    (part,) = place.folder.glob("out.parquet/part-*")
    group = pq.read_metadata(part).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    for item in columns:
        number = item.path_in_schema.startswith("value")
        assert item.compression == ("UNCOMPRESSED" if number else "ZSTD")
        assert item.is_stats_set != number
        assert ("DELTA_BINARY_PACKED" in item.encodings) == number


def test_statistics_that_python_cannot_tell_are_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas, times in nanoseconds are read without statistics and give the same rows."""

    class Statistics:
        has_min_max = True

        @property
        def min(self) -> object:
            raise ValueError("Nanosecond resolution")

    class Column:
        is_stats_set, statistics = True, Statistics()

    assert source._column_extremes(Column(), str) is None
    monkeypatch.setattr(source, "_column_extremes", lambda *_: None)
    monkeypatch.setattr(run, "JOB_ROWS", 300)
    path = save(place.folder / "in.parquet", long_rows(4, 1), LONG, group=100)
    result = place.sanitise(path, **HALF_HOURS)
    assert place.released().num_rows == result.admission.released_windows == windows(place.ledger()) == 4 * 48


def test_integers_name_meters_too(place: Place) -> None:
    """A column of integers is a column of names."""
    rows = [row | {"meter": int(row["meter"][1:])} for row in wide_rows(2, 2)]
    place.sanitise(save(place.folder / "in.parquet", rows, WIDE.set(0, pa.field("meter", pa.int64()))))
    assert set(place.released()["meter"].to_pylist()) == {"0", "1"}
    assert {row["meter"] for row in place.ledger()} == {"0", "1"}


def test_meters_leave_under_pseudonyms(place: Place) -> None:
    """The output has keyed names, the ledger the meters' own."""
    sink = f"pseudonym_key_file = '{place.folder}/archive.key'"
    place.sanitise(save(place.folder / "in.parquet", wide_rows(2, 2)), sink=sink)
    names = set(place.released()["meter"].to_pylist())
    assert len(names) == 2
    assert not names & {"m0", "m1"}
    assert {row["meter"] for row in place.ledger()} == {"m0", "m1"}


def test_missing_and_clamped_numbers_are_counted(place: Place) -> None:
    """In what is told to whoever runs it: numbers, gaps, clamped."""
    rows = wide_rows(1, 2)
    rows[0]["value"][:3] = [None, -5, 10**6]
    result = place.sanitise(save(place.folder / "in.parquet", rows))
    assert result.counts is not None
    assert (result.counts.numbers, result.counts.gap, result.counts.clamped) == (192, 1, 2)
    path = save(place.folder / "long.parquet", long_rows(1, 1, first_ms=SPRING_MS + 90 * DAY_MS), LONG)
    result = place.sanitise(path, "long.out", window="length = '1h'\nrange = [0, 1700]")
    assert result.counts is not None
    assert result.counts.numbers == 144
    assert 5 < result.counts.gap < 30
    assert 40 < result.counts.clamped < 90


def test_progress_is_shown(place: Place) -> None:
    """What is done, out of how much; all of it when it is done."""
    seen: dict[str, list[int]] = {}

    @contextmanager
    def bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
        steps = seen.setdefault(f"{what} {unit}", [])
        yield steps.append
        assert sum(steps) == total

    path = save(place.folder / "in.parquet", wide_rows(2, 4))
    run.sanitise_archive(place.policy(), path, place.folder / "out.parquet", bar)
    assert list(seen) == ["read B", "admit row", "release row", "write row"]


def test_an_input_beside_time(place: Place) -> None:
    """A column that is called otherwise is found by its name."""
    schema = pa.schema([("id", pa.string()), ("day", TIME), ("kwh", pa.list_(pa.int32()))])
    rows = [dict(zip(("id", "day", "kwh"), row.values(), strict=True)) for row in wide_rows(1, 2)]
    result = place.sanitise(
        save(place.folder / "in.parquet", rows, schema), archive="meter = 'id'\ntime = 'day'\nvalue = 'kwh'"
    )
    assert result.admission.released_windows == 2


def test_what_was_not_there_is_not_debited(place: Place) -> None:
    """A day that was missing is released when it comes, between days that were."""
    rows = wide_rows(2, 5, first_ms=SPRING_MS - 10 * DAY_MS)
    holes = [row for at, row in enumerate(rows) if at % 5 != 2]
    place.sanitise(save(place.folder / "in.parquet", holes))
    assert [row["windows"] for row in place.ledger()] == [2, 2, 2, 2]
    result = place.sanitise(save(place.folder / "all.parquet", rows), "all.out")
    assert (result.admission.released_windows, result.admission.refused_windows) == (2, 8)
    assert {int(start.timestamp()) * 1000 for start in place.released("all.out")["start"].to_pylist()} == {
        rows[2]["time"]
    }


def test_a_run_releases_what_the_ledger_has_and_no_other() -> None:
    """Windows of its stretches, whole and in their places; what only shares time with them is none."""
    hour, day = DAY_MS // 24, DAY_MS
    columns = [1, 1, 3], [0, 5 * day, 0], [3 * day, 6 * day, day]
    own = Intervals(*(np.array(column, np.int64) for column in columns))
    mine = [(1, 0, day), (1, 2 * day, 3 * day), (1, 5 * day, 6 * day), (3, 0, day)]
    others = [(0, 0, day), (2, 0, day), (1, -day, 0), (1, 3 * day, 4 * day)]
    others += [(1, hour, day + hour), (1, 2 * day, 3 * day + hour), (1, 2 * day + hour, 3 * day)]
    meter, start, end = (np.array(column, np.int64) for column in zip(*mine, *others, strict=True))
    assert own.contains(Windows(meter, start), end).tolist() == [True] * len(mine) + [False] * len(others)


def test_windows_that_differ_make_another_run(place: Place) -> None:
    """Two configurations that agree on ordinary days, and not on those of 23 hours, are two runs."""
    path = save(place.folder / "in.parquet", long_rows(1, 2), LONG)
    blocks, steps = f"{LOCAL_DAY}\nblocks = 24", f"{LOCAL_DAY}\nstep = '1h'"
    usual = [place.policy(window=window).usual for window in (blocks, steps)]
    assert usual[0] == usual[1]
    place.sanitise(path, window=blocks)
    with pytest.raises(ArchiveError, match="another run"):
        place.sanitise(path, window=steps)
    assert place.sanitise(path, "other.out", window=steps).admission.released_windows == 0
