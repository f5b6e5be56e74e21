"""What a sink cannot hold: one message is refused, all others are stored, and no start is stopped."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from meteragent.collect.core import Message, Row
from meteragent.consume import read_table
from meteragent.domain.errors import DatabaseError
from tests.support.collect_life import database_table, dataset_table, life
from tests.support.collecting import NOW_MS, record_messages, refusals, rows, terms_message, topic
from tests.support.messages import HOURLY, changed, described
from tests.support.stores import TERMS

HONEST = [terms_message(TERMS), *record_messages(TERMS, range(40))]
BIG = {"quantum": f"1{'0' * 40}", "radius": f"22{'0' * 40}", "hides_wh": f"11{'0' * 40}"}
POISONS: dict[str, dict[str, object]] = {
    "Infinity in an unknown field": {"x": float("inf")},
    "an unknown field of 1e308": {"x": 1e308},
    "a quantum of 10^40": {**BIG, "epsilon": f"1/22{'0' * 40}", "sd": 311.1e40, "ci95": 659.5e40},
    "an integer of 4,000 digits": {"x": 10**4000},
    "a slot of 7,990 years": {"length": "PT70000000H", "step": "PT70000000H", "timezone": "UTC"},
}


def poison(**fields: object) -> Message:
    """Return a descriptor of m9 that has the id of its facts, as anybody can make one."""
    return Message(f"{topic('m9')}/privacy", changed(described(TERMS, "m9"), is_sealed=True, **fields))


@pytest.mark.parametrize("sink", ["PostgreSQL", "Parquet"])
@pytest.mark.parametrize("name", POISONS)
async def test_one_descriptor_stops_no_other_meter(
    name: str, sink: str, table_url: str, tmp_path: Path
) -> None:
    """Whatever a meter says of its terms, the records of others are stored, in this life and the next."""
    table = database_table(table_url) if sink == "PostgreSQL" else dataset_table(tmp_path)
    played = await life(table, [*HONEST[:20], poison(**POISONS[name]), *HONEST[20:]])
    assert len(played.acknowledged) == len(HONEST) + 1
    await life(table, record_messages(TERMS, [40], first=40))
    if sink == "PostgreSQL":
        with psycopg.connect(table_url) as connection:
            homes = read_table(connection, "main", 0, NOW_MS)
    else:
        homes = read_table(tmp_path, "main", 0, NOW_MS)
    assert [int(record.value) for record in homes["m1"].records] == list(range(41))


FAULTS: dict[str, str] = {
    "a constraint": "ALTER TABLE meteragent.record ADD CHECK (quanta <> 666)",
    "a value": "ALTER TABLE meteragent.record ADD CHECK (1 / (quanta - 666) < 9)",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_message_that_the_database_refuses_is_found(fault: str, table_url: str) -> None:
    """Of a batch that the database refuses for its data, one message is refused, and each other is a row."""
    table = database_table(table_url)
    await life(table, [])
    with psycopg.connect(table_url) as connection:
        connection.execute(FAULTS[fault])
    sent = [*HONEST, *record_messages(TERMS, [666], "m2", 3), terms_message(TERMS, "m2")]
    played = await life(table, [*sent, *record_messages(TERMS, [5], "m2", 4)])
    assert len(played.acknowledged) == len(sent) + 1
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [*range(40), 5]
        assert refusals(connection) == {"unstorable": 1}


async def test_a_waiting_record_that_cannot_be_stored_keeps_no_descriptor_out(table_url: str) -> None:
    """A record that waited and is refused by the database is counted, and waits no longer."""
    table = database_table(table_url)
    await life(table, record_messages(HOURLY, [1, 666, 2]))
    with psycopg.connect(table_url) as connection:
        connection.execute(FAULTS["a constraint"])
    await life(table, [terms_message(HOURLY)])
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [1, 2]
        assert refusals(connection) == {"unstorable": 1}
        assert connection.execute("SELECT count(*) FROM meteragent.waiting").fetchone() == (0,)


async def test_a_database_that_refuses_everything_loses_nothing(table_url: str) -> None:
    """If not even a refusal can be written, the fault is not of the message: `collect` ends."""
    table = database_table(table_url)
    await life(table, [])
    with psycopg.connect(table_url) as connection:
        connection.execute("ALTER TABLE meteragent.collector ADD CHECK (messages = 0)")
    with pytest.RaisesGroup(DatabaseError):
        await life(table, HONEST)
    with psycopg.connect(table_url) as connection:
        assert rows(connection) == []


async def test_a_stored_poison_stops_no_start(table_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A descriptor in the table that this version cannot read is left out, and said."""
    table = database_table(table_url)
    await life(table, HONEST)
    with psycopg.connect(table_url) as connection:
        columns = "is_summable, unit, quantum_u, variance, joules, is_energy, bands"
        query = f"INSERT INTO meteragent.descriptor (digest, id, facts, {columns})"
        query += f" SELECT 'f', 'f', %s, {columns} FROM meteragent.descriptor"
        connection.execute(query.encode(), ('{"n":1e308}',))
        connection.execute(
            "INSERT INTO meteragent.terms SELECT 'main', 'm9', max(d) FROM meteragent.descriptor"
        )
    await life(table, record_messages(TERMS, [40], first=40))
    with psycopg.connect(table_url) as connection:
        assert len(rows(connection)) == 41
    assert "a stored descriptor is left out" in caplog.text


STAGED: dict[str, Callable[[list[object]], None]] = {
    "more draws than a file holds": lambda row: row.__setitem__(7, 3 * 10**9),
    "a value beyond 64 bits": lambda row: row.__setitem__(5, 2**63 - 1),
    "a time beyond the calendar": lambda row: row.__setitem__(2, 2**62),
    "a descriptor that is not there": lambda row: row.__setitem__(6, "00000000"),
}


@pytest.mark.parametrize("fault", STAGED)
async def test_a_row_that_no_file_holds_is_set_aside(fault: str, tmp_path: Path) -> None:
    """A staged row that cannot be moved is kept in a table of its own and counted; the others are moved."""
    table = dataset_table(tmp_path)
    await life(table, HONEST)
    with sqlite3.connect(tmp_path / "collect.db") as database:
        row: list[object] = [*Row("main", "m9", NOW_MS, "", NOW_MS + 1, 7, "?", 1)]
        [row[6]] = database.execute("SELECT d FROM descriptor").fetchone()
        STAGED[fault](row)
        database.execute(
            f"INSERT INTO staged ({', '.join(Row._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )
    database.close()
    await life(table, record_messages(TERMS, [40], first=40))
    with sqlite3.connect(tmp_path / "collect.db") as database:
        assert database.execute("SELECT meter FROM quarantine").fetchall() == [("m9",)]
        assert database.execute("SELECT reason, count FROM refused").fetchall() == [("unstorable", 1)]
    database.close()
    home = read_table(tmp_path, "main", 0, NOW_MS)["m1"]
    assert [int(record.value) for record in home.records] == list(range(41))
