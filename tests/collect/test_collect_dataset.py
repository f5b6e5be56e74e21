"""The Parquet dataset: each interval once, the verdicts of PostgreSQL, and a crash between any two steps."""

import itertools
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from meteragent.cli import main
from meteragent.collect import dataset_file
from meteragent.collect import staging as staging_module
from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.dataset_file import Length
from meteragent.collect.dataset_sink import ParquetSink
from meteragent.collect.sink import Sink
from meteragent.collect.staging import Staging
from meteragent.collect.topic import StreamTopic
from meteragent.consume import by_feeder, collect, read_slots, read_table
from meteragent.consume.slots import Slots
from meteragent.domain.errors import DatabaseError, LinkError
from meteragent.domain.terms import Terms
from meteragent.service import whole_file
from tests.support.collecting import (
    NOW_MS,
    TEMPLATE,
    TableRow,
    id_of,
    record_messages,
    refusals,
    terms_message,
)
from tests.support.collecting import rows as database_rows
from tests.support.messages import ENERGY, HALF_HOUR_MS, HALF_UP, HOURLY, KILO, NOON_MS
from tests.support.stores import DAY_MS, TERMS

DESCRIPTOR = terms_message(TERMS)
CRASHES = ("write", "sync", "replace")


class Crash(Exception):
    """The end of a process, at some step."""


@asynccontextmanager
async def opened(folder: Path, length: Length = "day") -> AsyncIterator[ParquetSink]:
    """Open a dataset as one life of `collect` does."""
    async with ParquetSink.connect(folder, "test", length, 3600) as sink:
        yield sink


async def feed(sink: Sink, *batches: Sequence[Message]) -> None:
    """Write batches as one life of `collect` does."""
    await sink.create_tables()
    core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *await sink.begin_service(is_first=True))
    for messages in batches:
        batch = core.take_messages(messages, NOW_MS)
        if batch.links:
            batch.add_batch(
                core.take_messages(await sink.waiting_records([link.key for link in batch.links]), NOW_MS)
            )
        await sink.write_batch(batch, len(messages), NOW_MS)


def rows(folder: Path) -> list[TableRow]:
    """Return the rows of the files, in order, in quanta of watts."""
    table = duckdb.connect().execute(
        "SELECT meter, epoch_ms(t), band, value::BIGINT FROM read_parquet(?) ORDER BY ALL",
        [f"{folder}/record/**/*.parquet"],
    )
    return [TableRow(*row) for row in table.fetchall()]


def files(folder: Path) -> list[Path]:
    """Return the files of records."""
    return sorted(folder.glob("record/**/*.parquet"))


def content(folder: Path) -> Any:
    """Return the table in the only file of records."""
    (path,) = files(folder)
    return pq.ParquetFile(path).read()


def counted(folder: Path) -> dict[str, int]:
    """Return the refusals by reason."""
    staging = Staging(folder, "reader", "day")
    try:
        staging.create_tables()
        return dict(staging._fetch("SELECT reason, sum(count) FROM refused GROUP BY reason"))
    finally:
        staging.close()


async def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    """A second delivery, in a batch, while staged, or after it is in a file, changes nothing."""
    records = record_messages(TERMS, [5, -3])
    async with opened(tmp_path) as sink:
        await feed(sink, [DESCRIPTOR, *records, *records], records)
        await sink.flush()
        before = content(tmp_path)
        await feed(sink, records)
    assert rows(tmp_path) == [
        TableRow("m1", NOON_MS + i * HALF_HOUR_MS, "", z) for i, z in enumerate([5, -3])
    ]
    assert content(tmp_path).equals(before)
    assert counted(tmp_path) == {}


async def test_another_value_of_an_interval_is_refused(tmp_path: Path) -> None:
    """The first value stays, whether it is staged or in a file; each other value is counted."""
    value, other = record_messages(TERMS, [5]), record_messages(TERMS, [6])
    async with opened(tmp_path) as sink:
        await feed(sink, [DESCRIPTOR, *value, *other])
    async with opened(tmp_path) as sink:
        await feed(sink, [*other, *value])
    assert rows(tmp_path) == [TableRow("m1", NOON_MS, "", 5)]
    assert counted(tmp_path) == {"twice": 2}


async def test_a_record_waits_across_a_restart(tmp_path: Path) -> None:
    """A record without a descriptor waits, once, and is a row when the descriptor has arrived."""
    records = record_messages(TERMS, [5, 6])
    async with opened(tmp_path) as sink:
        await feed(sink, records, records)
    assert files(tmp_path) == []
    async with opened(tmp_path) as sink:
        await feed(sink, [DESCRIPTOR])
        assert await sink.waiting_records([("main", "m1", id_of(TERMS))]) == []
    assert [row.quanta for row in rows(tmp_path)] == [5, 6]


def burst(rng: random.Random) -> list[Message]:
    """Return a batch of records under several grids: some again, with other values, or overlapping."""
    messages: list[Message] = []
    for _ in range(30):
        terms, meter = rng.choice([TERMS, HOURLY, HALF_UP]), f"m{rng.randrange(3)}"
        first = rng.randrange(-100, 100) * (1 if terms.step_ms == HALF_HOUR_MS else 3) - rng.randrange(2)
        messages += record_messages(terms, [rng.randrange(2)], meter, first)
    return messages


@pytest.mark.parametrize(("length", "most"), [("month", 7), ("day", 40), ("hour", 50_000)])
async def test_verdicts_are_those_of_postgresql(
    length: Length, most: int, table_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With flushes in slices of any size, and restarts in between, rows and refusals equal PostgreSQL's."""
    monkeypatch.setattr(staging_module, "MOVED_MAX", most)
    rng = random.Random(length)
    terms = [terms_message(terms, f"m{i}") for terms in (TERMS, HOURLY, HALF_UP) for i in range(3)]
    batches = [terms, *(burst(rng) for _ in range(11))]
    async with Database.connect(table_url, None, "test", "month") as database:
        await feed(database, *batches)
    for start in range(0, 12, 4):
        async with opened(tmp_path, length) as sink:
            for batch in batches[start : start + 4]:
                await feed(sink, batch)
                if rng.random() < 0.5:
                    await sink.flush()
    with psycopg.connect(table_url) as connection:
        assert rows(tmp_path) == database_rows(connection)
        expected = refusals(connection)
    staging = Staging(tmp_path, "reader", length)
    staging.create_tables()
    assert dict(staging._fetch("SELECT reason, sum(count) FROM refused GROUP BY reason")) == expected
    staging.close()
    assert {"twice", "overlap"} <= set(expected)


async def test_a_refusal_names_its_origin(table_url: str, tmp_path: Path) -> None:
    """Both sinks keep the topic or the meter of the latest refusal, and the field, but no value."""
    value, other = record_messages(TERMS, [5]), record_messages(TERMS, [6])
    wrong = Message("private/m1/power", value[0].payload.replace(b'"unit":"W"', b'"unit":"kW"'))
    batch = [DESCRIPTOR, *value, *other, wrong, Message("private/m7/power", b"{}"), Message("x\0", b"")]
    expected = {
        "twice": ("m1", ""),
        "terms": ("private/m1/power", "a record whose unit or duration does not match its descriptor"),
        "unreadable": ("private/m7/power", "a record whose 'v' is missing or not a number"),
        "topic": ("x?", ""),
    }
    query = "SELECT reason, origin, detail FROM {}refused"
    async with Database.connect(table_url, None, "test", "month") as database:
        await feed(database, batch)
    with psycopg.connect(table_url) as connection:
        stored = connection.execute(query.format("meteragent.").encode()).fetchall()
    assert {reason: rest for reason, *rest in stored} == {key: [*item] for key, item in expected.items()}
    async with opened(tmp_path) as sink:
        await feed(sink, batch)
        await sink.flush()
        in_files = sink._staging._fetch(query.format(""))
    assert {reason: tuple(rest) for reason, *rest in in_files} == expected


async def test_a_dataset_of_another_version_is_refused(tmp_path: Path) -> None:
    """The tables of another version are neither used nor changed."""
    async with opened(tmp_path) as sink:
        assert [await sink.create_tables(), await sink.create_tables()] == [True, False]
    with sqlite3.connect(tmp_path / "collect.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    async with opened(tmp_path) as sink:
        with pytest.raises(DatabaseError, match="another version"):
            await sink.create_tables()


async def test_rows_are_moved_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long outage, no more rows than a slice are in memory as objects, with one grid or several."""
    monkeypatch.setattr(staging_module, "MOVED_MAX", 16)
    sizes, table_of = [], dataset_file.table_of

    def noted(rows: Sequence[Any], terms: Any) -> Any:
        sizes.append(len(rows))
        return table_of(rows, terms)

    monkeypatch.setattr(dataset_file, "table_of", noted)
    records = record_messages(TERMS, range(-45, 0), first=-45)
    for batch in ([], [terms_message(HOURLY), *record_messages(HOURLY, [1])]):
        async with opened(tmp_path / str(len(batch))) as sink:
            await feed(sink, [DESCRIPTOR, *batch, *records])
    assert [row.quanta for row in rows(tmp_path / "0")] == list(range(-45, 0))
    assert len(rows(tmp_path / "2")) == 46
    assert max(sizes) <= 16


@pytest.mark.parametrize("step", ["write", "sync", "delete"])
@pytest.mark.parametrize("place", range(3))
async def test_a_crash_between_any_two_steps_costs_nothing(
    step: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends while it writes, renames or deletes leaves all rows, and none is there twice."""
    days = [record_messages(TERMS, [5, 6], first=48 * day) for day in range(-2, 1)]
    staging = Staging(tmp_path, "test", "day")
    staging.create_tables()
    core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *staging.begin_service(is_first=True))
    staging.write_batch(
        core.take_messages([DESCRIPTOR, *(message for day in days for message in day)], NOW_MS), 7, NOW_MS
    )
    left = iter(range(place + (step == "sync")))  # descriptors are written first

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise Crash
            return function(*arguments, **options)

        return call

    target: Any = {
        "write": (pq, "write_table"),
        "sync": (whole_file, "sync_folder"),
        "delete": (staging, "_count"),
    }[step]
    with monkeypatch.context() as patch:
        owner, name = target
        patch.setattr(owner, name, failing(getattr(owner, name)))
        with pytest.raises(Crash):
            staging.flush()
    staging.close()
    async with opened(tmp_path) as sink:
        await feed(sink, [message for day in days for message in day])
    assert [row.quanta for row in rows(tmp_path)] == [5, 6] * 3
    assert counted(tmp_path) == {}


READERS: dict[str, Callable[[Path], int]] = {
    "pyarrow": lambda folder: int(ds.dataset(folder, partitioning="hive").to_table().num_rows),
    "pandas": lambda folder: len(pd.read_parquet(folder)),
    "polars": lambda folder: pl.read_parquet(folder, hive_partitioning=True).height,
    "a lazy frame of polars": lambda folder: pl.scan_parquet(f"{folder}/").collect().height,
    "DuckDB": lambda folder: int(
        duckdb.connect()
        .execute("SELECT count(*) FROM read_parquet(?, hive_partitioning = true)", [f"{folder}/**/*.parquet"])
        .fetchall()[0][0]
    ),
}


@pytest.fixture
async def homes(tmp_path: Path) -> tuple[Path, list[Message]]:
    """A dataset of twelve homes under several terms, over three days, and what they sent."""
    rng = random.Random(1)
    messages: list[Message] = []
    for home in range(12):
        terms = rng.choice([TERMS, HALF_UP, replace(TERMS, level=Fraction(3))])
        quanta = [rng.randrange(-(10**6), 10**9) for _ in range(100)]
        messages += [terms_message(terms, f"m{home}"), *record_messages(terms, quanta, f"m{home}", -60)]
    async with opened(tmp_path) as sink:
        await feed(sink, messages)
    return tmp_path, messages


@pytest.mark.parametrize("reader", READERS)
async def test_every_reader_sees_one_table(reader: str, homes: tuple[Path, list[Message]]) -> None:
    """The folder of records is one table of all rows, with nothing beside it."""
    folder, _ = homes
    assert READERS[reader](folder / "record") == 1200
    assert {path.name for path in (folder / "record").rglob("*") if path.is_file()} == {"records.parquet"}


async def test_sums_and_variances_are_those_of_consume(homes: tuple[Path, list[Message]]) -> None:
    """Count, sum and variance of each slot in SQL equal consume's as fractions; so do the series."""
    folder, messages = homes
    query = "SELECT epoch_ms(t), count(*), sum(value), list(d ORDER BY d) FROM read_parquet(?) GROUP BY t"
    in_sql = duckdb.connect().execute(query, [f"{folder}/record/**/*.parquet"]).fetchall()
    meters = collect(message.payload for message in messages)
    expected: dict[int, tuple[int, Fraction, list[str]]] = {}
    for series in meters.values():
        for record in series.records:
            count, total, ids = expected.get(record.time_ms, (0, Fraction(0), []))
            expected[record.time_ms] = (
                count + 1,
                total + record.value,
                sorted([*ids, series.descriptor_of(record).digest]),
            )
    assert {t: (count, Fraction(total), ids) for t, count, total, ids in in_sql} == expected
    variances = duckdb.connect().execute(
        "SELECT DISTINCT d, variance FROM read_parquet(?)", [f"{folder}/record/**/*.parquet"]
    )
    descriptors = {terms.digest: terms for series in meters.values() for terms in series.descriptors.values()}
    assert {d: Fraction(variance) for d, variance in variances.fetchall()} == {
        d: Fraction(float(terms.variance)) for d, terms in descriptors.items()
    }
    stored = read_table(folder, "main", 0, NOW_MS)
    assert {meter: home.records for meter, home in stored.items()} == {
        meter: home.records for meter, home in meters.items()
    }
    cells, own_cells = by_feeder(read_slots(folder, "main", 0, NOW_MS)), by_feeder(Slots.of(meters.values()))
    assert {name: column.tolist() for name, column in cells.columns().items()} == {
        name: column.tolist() for name, column in own_cells.columns().items()
    }
    assert set(read_table(folder, "main", 0, NOW_MS, ["m3"])) == {"m3"}
    assert read_table(folder, "main", 0, NOON_MS - 60 * HALF_HOUR_MS) == {}
    assert read_table(folder, "other", 0, NOW_MS) == {}


@pytest.mark.parametrize("terms", [KILO, ENERGY, HOURLY])
async def test_each_unit_and_grid_is_given_back(terms: Terms, tmp_path: Path) -> None:
    """Values in any unit, also below one and negative, come back exactly."""
    messages = [terms_message(terms), *record_messages(terms, [-1, 7, -123_456])]
    async with opened(tmp_path) as sink:
        await feed(sink, messages)
    expected = collect(message.payload for message in messages)["m1"].records
    assert read_table(tmp_path, "main", 0, NOW_MS)["m1"].records == expected


def test_parts_meet() -> None:
    """A part begins where the one before it ends, across the end of a year."""
    for length in ("month", "day", "hour"):
        parts = list(dataset_file.parts_between("s", NOON_MS, NOON_MS + 60 * DAY_MS, length))
        assert all(part.end_ms == follower.start_ms for part, follower in itertools.pairwise(parts))
        assert parts[0].start_ms <= NOON_MS
        assert parts[-1].end_ms >= NOON_MS + 60 * DAY_MS
    assert dataset_file.part_of("a/b", NOON_MS, "hour").path == Path(
        "stream=a%2Fb/hour=2026-11-20T12/records.parquet"
    )


async def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Another process, another length, a later version, or a file of something else is named."""
    async with opened(tmp_path) as sink:
        await feed(sink, [DESCRIPTOR, *record_messages(TERMS, [1])])
        with pytest.raises(DatabaseError, match="another `meteragent collect`"):
            Staging(tmp_path, "test", "day")
    with pytest.raises(DatabaseError, match=r"dataset\.partition = 'day'"):
        async with opened(tmp_path, "month") as sink:
            await sink.create_tables()
    files(tmp_path)[0].write_bytes(b"?")
    async with opened(tmp_path) as sink:
        await feed(sink, record_messages(TERMS, [2], first=1))
        with pytest.raises(DatabaseError, match="not a file of records"):
            await sink.flush()
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="file exists"):
        async with opened(tmp_path / "file"):
            pass


async def test_a_full_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a flush fails for want of space, rows stay staged, and a later flush has them."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with opened(tmp_path) as sink:
        with monkeypatch.context() as patch:
            patch.setattr(dataset_file, "write_table", full)
            await feed(sink, [DESCRIPTOR, *record_messages(TERMS, [1, 2])])
            with pytest.raises(LinkError, match=f"the dataset: {tmp_path}: no space left"):
                await sink.flush()
    assert [row.quanta for row in rows(tmp_path)] == [1, 2]


def test_the_command_prepares_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` names the folder, and `--create` makes the tables, once."""
    path = tmp_path / "collect.toml"
    path.write_text(f'[[stream]]\ntopic = "{TEMPLATE}"\n[dataset]\nfolder = "{tmp_path}/data"\n')
    assert main(["collect", str(path), "--check"]) == 0
    assert f"folder: {tmp_path}/data" in capsys.readouterr().out
    assert main(["collect", str(path), "--create"]) == 0
    assert main(["collect", str(path), "--create"]) == 0
    assert capsys.readouterr().out.splitlines() == ["the tables are created", "the tables exist already"]
