"""`sanitise --engine spark`: the same run as the local engine's, whatever happens in between."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from meteragent.archive import run as local
from meteragent.archive.policy import Policy
from meteragent.archive.preview import preview
from meteragent.archive.run import RunResult
from meteragent.cli import sanitise as command
from meteragent.consume import read_archive
from meteragent.domain.errors import ArchiveError, ChecksRefused, KeyForgotten, RecordError
from meteragent.spark import by_feeder, read_outputs, run, sanitise_archive
from tests.spark import homes
from tests.spark.homes import Place
from tests.support import archives
from tests.support.archives import DAY_MS, SPRING_MS, make_incomplete

Engine = Callable[..., RunResult]
ENGINES: dict[str, Engine] = {"local": local.sanitise_archive, "spark": sanitise_archive}


def given(place: Place, rows: pa.Table) -> Path:
    """An input in three files."""
    path = place.folder / "in"
    path.mkdir()
    for part in range(3):
        size = -(-rows.num_rows // 3)
        pq.write_table(rows.slice(part * size, size), path / f"{part}.parquet")
    return path


def table(path: Path) -> pa.Table:
    """The rows of an output or a ledger, in order."""
    actual = pq.read_table(path)
    return actual.sort_by([("meter", "ascending"), ("start", "ascending")]).combine_chunks()


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_engines_agree(spark: SparkSession, tmp_path: Path, rows: Callable[[Policy], pa.Table]) -> None:
    """Both engines make the same files, ledger and admission."""
    result = {}
    for name, engine in ENGINES.items():
        place = Place.make(tmp_path / name)
        path = given(place, rows(place.policy))
        result[name] = engine(place.policy, path, place.folder / "out.parquet", homes.quiet)
    item, other = result["local"], result["spark"]
    assert item.admission == other.admission
    assert files(Path(item.out)) == files(Path(other.out))
    assert table(other.run_ledger).equals(table(item.run_ledger))
    assert other.admission.released_windows == homes.METERS * homes.DAYS
    assert "90 windows of 48 numbers released" in command.result_summary(other)


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_engines_ask_to_check_the_same(
    spark: SparkSession, tmp_path: Path, rows: Callable[[Policy], pa.Table]
) -> None:
    """Spellings of a name, readings of equal times, gaps: counted alike, and in the preview, too."""
    place = Place.make(tmp_path / "preview")
    table = rows(place.policy)
    meters = [name.replace("m2", "M1") for name in table.column("meter").to_pylist()]
    table = table.set_column(0, "meter", pa.array(meters))
    if rows is homes.long:
        again = table.slice(100, 20).set_column(2, "value", pa.array([*range(10), *[10**6] * 10]))
        table = pa.concat_tables([table, again, table.slice(500, 7)])
    path = given(place, table)
    expected = preview(place.policy, path, place.folder / "out.parquet", homes.quiet)
    checks = [line for line in command.preview_summary(expected).splitlines() if "Check:" in line]
    assert len(checks) == (2 if rows is homes.long else 1)
    for name, engine in ENGINES.items():
        other = Place.make(tmp_path / name)
        with pytest.raises(ChecksRefused) as refusal:
            engine(other.policy, path, other.folder / "out.parquet", homes.quiet)
        assert [line for line in str(refusal.value).splitlines() if "Check:" in line] == [
            line.replace("Check:         ", "Check: ") for line in checks
        ]
        for _ in range(2):  # resumed without its output, too
            out = other.folder / "out.parquet"
            result = engine(other.policy, path, out, homes.quiet, accepts_checks=True)
            assert result.counts == expected.counts
            assert [
                line for line in command.result_summary(result).splitlines() if "Check:" in line
            ] == checks
            shutil.rmtree(result.out)


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_either_engine_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Policy], pa.Table]
) -> None:
    """What one engine has begun, the other ends: the files of an output are the same, byte for byte."""
    monkeypatch.setattr("meteragent.archive.run.ROW_GROUP_VALUES", 480)
    monkeypatch.setattr("meteragent.archive.run.PART_BATCHES", 3)
    monkeypatch.setattr("meteragent.archive.run.JOB_ROWS", 1000)
    outputs = list[dict[str, bytes]]()
    for engine, other in (
        (sanitise_archive, local.sanitise_archive),
        (local.sanitise_archive, sanitise_archive),
    ):
        place = Place.make(tmp_path / str(len(outputs)))
        path, out = given(place, rows(place.policy)), place.folder / "out"
        engine(place.policy, path, out, homes.quiet)
        before = files(out)
        make_incomplete(out)
        parts = sorted(out.glob("part-*.parquet"))
        assert len(parts) > 2
        parts[1].rename(out / f".{parts[1].name}.7.part")
        result = other(place.policy, path, out, homes.quiet)
        assert (result.new_parts, result.existing_parts) == (1, len(parts) - 1)
        assert files(out) == before
        outputs.append(before)
    assert outputs[0] == outputs[1]


def files(out: Path) -> dict[str, bytes]:
    """The files of an output."""
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_outputs_are_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Releases and descriptors of two outputs are in one frame, or the part that is missing is named."""
    place = Place.make(tmp_path)
    path = given(place, homes.wide(place.policy))
    outs = [tmp_path / name for name in ("a.parquet", "b.parquet")]
    for out, number in zip(outs, (0, 1), strict=True):
        sanitise_archive(place.policy, path / f"{number}.parquet", out, homes.quiet)
    releases, descriptors = read_outputs(spark, *outs)
    expected = pa.concat_tables(pq.read_table(out) for out in outs)
    assert releases.count() == expected.num_rows
    assert {descriptor.id for descriptor in descriptors} == set(expected.column("d").to_pylist())
    cells = by_feeder(releases, descriptors).toArrow()
    assert sum(cells.column("homes").to_pylist()) == sum(map(len, expected.column("values").to_pylist()))
    part = next(outs[1].glob("part-*.parquet"))
    part.unlink()
    with pytest.raises(RecordError, match=f"'{part.name}' is missing"):
        read_outputs(spark, *outs)


def test_a_damaged_output_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """If a part of a complete output is cut off, the run is not complete, and writes the same rows again."""
    place = Place.make(tmp_path)
    path, out = given(place, homes.wide(place.policy)), place.folder / "out.parquet"
    sanitise_archive(place.policy, path, out, homes.quiet)
    before = table(out)
    part = next(out.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    assert sanitise_archive(place.policy, path, out, homes.quiet).new_parts > 0
    assert table(out).equals(before)
    assert read_archive(out)


def test_a_name_is_no_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """Brackets in a name are letters of it: the file beside, which they would match, is not released."""
    place = Place.make(tmp_path)
    rows = homes.wide(place.policy)
    meters = rows.column("meter").to_pylist()
    named, other = (rows.filter(pc.equal(rows.column("meter"), meter)) for meter in (meters[0], meters[-1]))
    path = place.folder / "readings[1].parquet"
    pq.write_table(named, path)
    pq.write_table(other, place.folder / "readings1.parquet")
    result = sanitise_archive(place.policy, path, place.folder / "out.parquet", homes.quiet)
    assert result.admission.released_windows == named.num_rows
    assert set(table(result.run_ledger).column("meter").to_pylist()) == {meters[0]}


def test_refused(spark: SparkSession, tmp_path: Path) -> None:
    """What any other run released, in part or under other terms, is refused and counted."""
    place = Place.make(tmp_path)
    path = given(place, homes.long(place.policy))
    _, begin, end = (datetime.fromtimestamp(start / 1000, UTC) for start in homes.starts(place.policy))
    middle = (pc.field("time") >= begin) & (pc.field("time") < end)
    pq.write_table(pq.read_table(path / "0.parquet").filter(middle), place.folder / "day.parquet")
    first = local.sanitise_archive(
        place.policy, place.folder / "day.parquet", place.folder / "a.parquet", homes.quiet
    )
    hours = archives.policy(place.policy.key_file, source="hold = '30min'", window="length = '1h'")
    second = sanitise_archive(hours, path, place.folder / "b.parquet", homes.quiet)
    released = table(first.out).column("start")
    assert second.admission.refused_windows == len(released) // 2
    assert second.admission.released_windows + second.admission.refused_windows == homes.METERS * (
        24 * homes.DAYS - 1
    )
    assert not set(zip(*columns(second.out), strict=True)) & set(zip(*columns(first.out), strict=True))


def columns(out: Path) -> list[list[Any]]:
    """Meters and starts, as hours, of an output."""
    actual = table(out)
    hours = actual.column("start").cast(pa.int64()).to_numpy() // 3_600_000
    return [actual.column("meter").to_pylist(), hours.tolist()]


def test_not_released(spark: SparkSession, tmp_path: Path) -> None:
    """A window that is there twice, numbers that do not fit, a forgotten key: nothing is debited."""
    place = Place.make(tmp_path)
    rows = homes.wide(place.policy)
    twice = pa.concat_tables([rows, rows.slice(0, 2)])
    short = rows.set_column(2, "value", pa.array([[1, 2, 3]] * rows.num_rows))
    for name, wrong, said in (
        ("a", twice, "windows that appear twice: 2,"),
        ("b", short, f"rows that are not on the grid .*: {rows.num_rows} of {rows.num_rows} "),
    ):
        pq.write_table(wrong, tmp_path / f"{name}.parquet")
        with pytest.raises(ArchiveError, match=said):
            sanitise_archive(
                place.policy, tmp_path / f"{name}.parquet", tmp_path / "out.parquet", homes.quiet
            )
    homes.write(place.policy.key_file, homes.KEY.without(SPRING_MS + 30 * DAY_MS))
    with pytest.raises(KeyForgotten):
        sanitise_archive(place.policy, given(place, rows), tmp_path / "out.parquet", homes.quiet)
    assert not list(place.policy.ledger.glob("run=*"))


def test_parts_that_are_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the driver does not see what workers wrote, the run fails, and says that it can be resumed."""
    place = Place.make(tmp_path)
    path, out = given(place, homes.wide(place.policy)), place.folder / "out.parquet"
    each = run._SparkEngine.each

    def look_elsewhere(*of: Any) -> Any:
        """Look where a worker with a disk of its own has written nothing."""
        results = list(each(*of))
        for part in out.glob("part-*.parquet"):
            part.unlink()
        return results

    with monkeypatch.context() as patch:
        patch.setattr(run._SparkEngine, "each", look_elsewhere)
        said = "what workers wrote is not here: driver and workers.*the same command resumes it"
        with pytest.raises(ArchiveError, match=said):
            sanitise_archive(place.policy, path, out, homes.quiet)
    assert sanitise_archive(place.policy, path, out, homes.quiet).admission.released_windows == 90
    assert table(out).num_rows == 90
