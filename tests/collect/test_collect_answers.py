"""Answers of the views: exactly those of `consume`, on a real PostgreSQL."""

import asyncio
import math
import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest

from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.topic import StreamTopic
from meteragent.consume import Rules, Series, by_feeder, collect, read_slots, read_table
from meteragent.domain.terms import Terms
from meteragent.formats import table
from meteragent.formats.entry import entries_of
from tests.support.collecting import NOW_MS, TEMPLATE, record_messages, terms_message
from tests.support.messages import ENERGY, HALF_UP, HOURLY, KILO, KILO_ENERGY, NOON_MS, SPLIT
from tests.support.not_run import ROOT
from tests.support.stores import DAY_MS, TERMS

HOUR_MS = 3_600_000


async def fill(url: str, messages: list[Message]) -> None:
    """Write messages into new tables."""
    async with Database.connect(url, None, "test", "month") as database:
        await database.create_tables()
        core = Core(
            [StreamTopic.parse("main", TEMPLATE)], Limits(), *await database.begin_service(is_first=True)
        )
        outcome = await database.write_batch(core.take_messages(messages, NOW_MS), len(messages), NOW_MS)
    assert not outcome.refusal_counts


def homes(rng: random.Random, terms: tuple[Terms, ...], count: int = 12, slots: int = 6) -> list[Message]:
    """Return what homes under some terms send: descriptors and records, some slots missing, in any order."""
    messages = []
    for home in range(count):
        home_terms, meter = rng.choice(terms), f"m{home}"
        quanta = [rng.randrange(-(10**6), 10**9) for _ in range(slots)]
        records = record_messages(home_terms, quanta, meter)
        messages += [terms_message(home_terms, meter), *rng.sample(records, rng.randrange(1, slots + 1))]
    descriptors = [message for message in messages if message.topic.endswith("privacy")]
    records = [message for message in messages if message not in descriptors]
    rng.shuffle(records)
    return descriptors + records


def feeders(
    connection: psycopg.Connection[Any], rng: random.Random, messages: list[Message]
) -> dict[str, str]:
    """Put each meter on one of three feeders, and return which."""
    meters = sorted({message.topic.split("/")[1] for message in messages})
    feeder_of = {meter: rng.choice("abc") for meter in meters}
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO meteragent.feeder (meter, feeder) VALUES (%s, %s)", feeder_of.items())
    connection.commit()
    return feeder_of


def exact_cells(
    meters: Mapping[str, Series], feeder_of: Mapping[str, str]
) -> dict[tuple[str, int, int], tuple[int, Fraction, Fraction]]:
    """Add up count, values and variances of each feeder's slots, as fractions."""
    cells: dict[tuple[str, int, int], tuple[int, Fraction, Fraction]] = {}
    for meter, series in meters.items():
        for record in series.records:
            key = feeder_of[meter], record.time_ms, record.time_ms + record.step_ms
            count, total, variance = cells.get(key, (0, Fraction(0), Fraction(0)))
            cells[key] = count + 1, total + record.value, variance + series.descriptor_of(record).variance
    return cells


def ms(time: datetime) -> int:
    """Return a time of the table in ms."""
    return round(time.timestamp() * 1000)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness of one test, the same in every run."""
    return random.Random(request.node.name)


GROUPS = [
    pytest.param((TERMS, HALF_UP, replace(TERMS, level=Fraction(3))), id="power"),
    pytest.param((ENERGY,), id="energy"),
    pytest.param((KILO,), id="kilowatts"),
    pytest.param((KILO_ENERGY,), id="kilowatt-hours"),
    pytest.param((HOURLY,), id="several slots in a window"),
]


@pytest.mark.parametrize("terms", GROUPS)
async def test_sums_and_variances_are_those_of_consume(
    terms: tuple[Terms, ...], table_url: str, rng: random.Random
) -> None:
    """For homes of any terms, count, sum and variance of each cell in SQL equal consume's, exactly.

    Consume's own columns are the nearest floats to these numbers, and its deviation is the variance's root.
    """
    messages = homes(rng, terms)
    await fill(table_url, messages)
    with psycopg.connect(table_url) as connection:
        feeder_of = feeders(connection, rng, messages)
        query = "SELECT feeder, t, until, homes, total, variance, sd FROM meteragent.feeder_total"
        rows = connection.execute(query).fetchall()
    meters = collect(message.payload for message in messages)
    in_sql = {
        (feeder, ms(t), ms(until)): (homes, Fraction(total), Fraction(variance))
        for feeder, t, until, homes, total, variance, _ in rows
    }
    assert in_sql == exact_cells(meters, feeder_of)
    with psycopg.connect(table_url) as connection:
        cells = by_feeder(read_slots(connection, "main", 0, NOW_MS), feeder_of)
    deviations = {(feeder, ms(t), ms(until)): float(sd) for feeder, t, until, *_, sd in rows}
    for i, feeder in enumerate(cells.feeder):
        key = str(feeder), int(cells.start_ms[i]), int(cells.end_ms[i])
        homes_count, total, _ = in_sql[key]
        assert (homes_count, float(total)) == (cells.homes[i], cells.total[i])
        assert math.isclose(deviations[key], cells.sd[i], rel_tol=1e-12)


@pytest.mark.parametrize("terms", GROUPS)
async def test_the_table_gives_back_what_was_sent(
    terms: tuple[Terms, ...], table_url: str, rng: random.Random
) -> None:
    """The series from the table are those that consume collects from the messages themselves."""
    messages = homes(rng, terms)
    await fill(table_url, messages)
    meters = collect(message.payload for message in messages)
    with psycopg.connect(table_url) as connection:
        series = read_table(connection, "main", 0, NOW_MS)
        assert {meter: one.records for meter, one in series.items()} == {
            meter: one.records for meter, one in meters.items()
        }
        assert set(read_table(connection, "main", 0, NOW_MS, ["m3"])) == {"m3"}
        assert read_table(connection, "main", 0, NOON_MS) == {}


@pytest.mark.parametrize("terms", GROUPS)
async def test_energy_and_mean_power_are_exact(
    terms: tuple[Terms, ...], table_url: str, rng: random.Random
) -> None:
    """Joules are the exact energy of each record, and its standard deviation is that of consume."""
    messages = homes(rng, terms, count=3)
    await fill(table_url, messages)
    with psycopg.connect(table_url) as connection:
        query = (
            "SELECT meter, e.t, joules, kwh, sd_kwh, watts FROM meteragent.energy e"
            " JOIN meteragent.mean_power USING (stream, meter, t, band)"
        )
        rows = connection.execute(query).fetchall()
    meters = collect(message.payload for message in messages)
    assert len(rows) == sum(len(series.records) for series in meters.values())
    for meter, t, joules, kwh, sd_kwh, watts in rows:
        [record] = meters[meter].slot(ms(t)).records
        kwh_of = meters[meter].descriptor_of(record).kwh_per_unit()
        estimate = meters[meter].energy(ms(t), ms(t) + record.step_ms)
        assert Fraction(joules) == record.value * kwh_of * 3_600_000
        assert math.isclose(float(kwh), estimate.value, rel_tol=1e-12)
        assert math.isclose(float(sd_kwh), estimate.sd, rel_tol=1e-12)
        mean_w = record.value * kwh_of * 1000 * HOUR_MS / record.step_ms
        assert abs(Fraction(watts) - mean_w) < Fraction(1, 10**6)


async def test_the_interval_is_the_normal_approximation(table_url: str) -> None:
    """With many homes the interval in SQL is close to the exact one of consume, with one it is shorter."""
    messages = [
        message
        for home in range(100)
        for message in (terms_message(TERMS, f"m{home}"), *record_messages(TERMS, [300], f"m{home}"))
    ]
    await fill(table_url, messages)
    with psycopg.connect(table_url) as connection:
        connection.execute("INSERT INTO meteragent.feeder SELECT 'm' || i, 'a' FROM generate_series(0, 98) i")
        connection.execute("INSERT INTO meteragent.feeder VALUES ('m99', 'b')")
        query = "SELECT feeder, high - low FROM meteragent.feeder_total ORDER BY feeder"
        widths = {feeder: float(width) for feeder, width in connection.execute(query).fetchall()}
        slots = read_slots(connection, "main", 0, NOW_MS)
    cells = by_feeder(slots, lambda meter: "b" if meter == "m99" else "a")
    exact = dict(zip(cells.feeder.tolist(), (cells.high - cells.low).tolist(), strict=True))
    assert math.isclose(widths["a"], exact["a"], rel_tol=0.01)
    assert 0.9 < widths["b"] / exact["b"] < 0.97


def shown_in_sql(connection: psycopg.Connection[Any], **rules: Any) -> dict[tuple[str, int], bool]:
    """Return whether each cell is shown, from `shown_total`."""
    arguments = "".join(f", {name} => {value}" for name, value in rules.items())
    query = f"SELECT feeder, t, shown, mean FROM meteragent.shown_total('main', %s, %s{arguments})"
    times = datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(NOW_MS / 1000, UTC)
    rows = connection.execute(query, times).fetchall()
    assert all((mean is not None) == shown for *_, shown, mean in rows)
    return {(feeder, ms(t)): shown for feeder, t, shown, _ in rows}


def shown_by_consume(cells: Any) -> dict[tuple[str, int], bool]:
    """Return whether each cell is shown, from `by_feeder`."""
    keys = zip(cells.feeder.tolist(), cells.start_ms.tolist(), strict=True)
    return dict(zip(keys, cells.shown.tolist(), strict=True))


def even_homes(count: int, watts: int = 100_000) -> Iterator[Message]:
    """Return what homes send whose use is far above the noise; the first of them uses 30 times as much."""
    for home in range(count):
        yield terms_message(TERMS, f"m{home}")
        yield from record_messages(TERMS, [watts * (30 if home == 0 else 1)] * 3, f"m{home}")


async def test_rules_are_those_of_consume(table_url: str, rng: random.Random) -> None:
    """Cells of few homes, and of feeders that one home may dominate, are withheld as by `by_feeder`."""
    messages = list(even_homes(40))
    await fill(table_url, messages)
    with psycopg.connect(table_url) as connection:
        feeder_of = {f"m{home}": "few" if home < 4 else "many" if home < 22 else "even" for home in range(40)}
        feeder_of["m0"] = "many"
        capacity = {meter: rng.randrange(5, 15) for meter in feeder_of}
        with connection.cursor() as cursor:
            rows = [(meter, feeder, capacity[meter]) for meter, feeder in feeder_of.items()]
            cursor.executemany(
                "INSERT INTO meteragent.feeder (meter, feeder, capacity) VALUES (%s, %s, %s)", rows
            )
        slots = read_slots(connection, "main", 0, NOW_MS)
        for rules, arguments in (
            (Rules(at_least=4), {"at_least": 4}),
            (Rules(at_least=15), {"at_least": 15}),
            (Rules(at_least=15, share=0.15), {"at_least": 15, "share": "0.15"}),
            (
                Rules(at_least=1, share=0.1, capacity=capacity),
                {"at_least": 1, "share": "0.1", "by_capacity": "true"},
            ),
        ):
            exact = shown_by_consume(by_feeder(slots, feeder_of, rules))
            assert shown_in_sql(connection, **arguments) == exact
            if rules.share is None or rules.capacity is None:
                assert set(exact.values()) == {True, False} or rules.at_least == 4


async def test_a_meter_changes_its_feeder(table_url: str) -> None:
    """Each slot counts for the feeder of its time, and a meter is on one feeder at a time."""
    await fill(table_url, [terms_message(TERMS), *record_messages(TERMS, [1, 2])])
    change = datetime.fromtimestamp(NOON_MS / 1000 + 1800, UTC)
    insert = "INSERT INTO meteragent.feeder (meter, feeder, valid) VALUES ('m1', %s, tstzrange(%s, %s))"
    with psycopg.connect(table_url) as connection:
        connection.execute(insert, ("a", None, change))
        connection.execute(insert, ("b", change, None))
        query = "SELECT feeder, total FROM meteragent.feeder_total ORDER BY t"
        assert connection.execute(query).fetchall() == [("a", Decimal(1)), ("b", Decimal(2))]
        with pytest.raises(psycopg.errors.ExclusionViolation):
            connection.execute(insert, ("c", None, None))


async def test_columns_are_a_data_frame(table_url: str) -> None:
    """Cells and series from the table are polars' columns, without conversion by hand."""
    await fill(table_url, [terms_message(TERMS), *record_messages(TERMS, [1, 2])])
    with psycopg.connect(table_url) as connection:
        cells = by_feeder(read_slots(connection, "main", NOON_MS, NOON_MS + DAY_MS))
        [home] = read_table(connection, "main", NOON_MS, NOON_MS + DAY_MS).values()
    assert pl.DataFrame(cells.columns())["total"].to_list() == [1.0, 2.0]
    assert pl.DataFrame(home.columns())["time"].dt.epoch("ms").to_list()[0] == NOON_MS


async def test_the_table_becomes_csv(table_url: str, tmp_path: Path) -> None:
    """The command of docs/formats.md writes CSV that has each value, interval, sd and band exactly."""
    page = (ROOT / "docs" / "formats.md").read_text()
    [command] = re.findall(r"^```sh\n(psql .*?)^```", page, re.MULTILINE | re.DOTALL)
    command = command.replace(" utility >", f" '{table_url}' >")
    messages = [terms_message(KILO), *record_messages(KILO, [-1, 7, -123_456])]
    messages += [terms_message(SPLIT, "m2"), *record_messages(SPLIT, [3], "m2")]
    await fill(table_url, messages)
    await asyncio.to_thread(subprocess.run, ["bash", "-c", command], cwd=tmp_path, check=True)
    entries = list(table.read((tmp_path / "private.csv").read_bytes()))
    with psycopg.connect(table_url) as connection:
        expected = list(entries_of(read_table(connection, "main", 0, NOW_MS).values()))
    assert entries == sorted(expected, key=lambda entry: (entry.meter, entry.start_ms, entry.band))
    assert len(entries) == len(messages) - 2
