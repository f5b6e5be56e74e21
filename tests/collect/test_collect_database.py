"""The tables: each interval once, refusals counted, partitions; on a real PostgreSQL."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import psycopg
import pytest

from meteragent.collect import database as database_module
from meteragent.collect import partition
from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.outcome import Outcome
from meteragent.collect.topic import StreamTopic
from meteragent.domain.errors import DatabaseError, LinkError
from tests.support.collecting import (
    NOW_MS,
    TEMPLATE,
    TableRow,
    record_messages,
    refusals,
    rows,
    terms_message,
)
from tests.support.messages import HOURLY, NOON_MS
from tests.support.postgres import Postgres
from tests.support.stores import DAY_MS, LENGTH_MS, TERMS

DESCRIPTOR = terms_message(TERMS)
STREAMS = [StreamTopic.parse("main", TEMPLATE)]


async def written(url: str, *batches: Sequence[Message]) -> list[Outcome]:
    """Write batches as one life of `collect` does, and return the outcome of each."""
    outcomes = []
    async with Database.connect(url, None, "test", "month") as database:
        await database.create_tables()
        known = await database.begin_service(is_first=True)
        core = Core(STREAMS, Limits(), *known)
        for messages in batches:
            batch = core.take_messages(messages, NOW_MS)
            if batch.links:
                batch.add_batch(
                    core.take_messages(
                        await database.waiting_records([link.key for link in batch.links]), NOW_MS
                    )
                )
            outcomes.append(await database.write_batch(batch, len(messages), NOW_MS))
    return outcomes


async def test_the_same_again_changes_nothing(table_url: str) -> None:
    """A second delivery, in the same batch or a later one, writes no row and counts no refusal."""
    records = record_messages(TERMS, [5, -3])
    first, second = await written(table_url, [DESCRIPTOR, *records, *records], [DESCRIPTOR, *records])
    assert (first.written, first.repeated) == (2, 2)
    assert (second.written, second.repeated) == (0, 2)
    with psycopg.connect(table_url) as connection:
        assert rows(connection) == [
            TableRow("m1", NOON_MS + i * LENGTH_MS, "", z) for i, z in enumerate([5, -3])
        ]
        assert refusals(connection) == {}


async def test_another_value_of_an_interval_is_refused(table_url: str) -> None:
    """The first value stays, in the same batch and across lives; each other value is counted."""
    value, other = record_messages(TERMS, [5]), record_messages(TERMS, [6])
    await written(table_url, [DESCRIPTOR, *value, *other])
    await written(table_url, [*other, *value])
    with psycopg.connect(table_url) as connection:
        assert rows(connection) == [TableRow("m1", NOON_MS, "", 5)]
        assert refusals(connection) == {"twice": 2}


DROPS = {
    "a trigger": "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN IF NEW.quanta = 6 THEN RETURN NULL; END IF; RETURN NEW; END';"
    " CREATE TRIGGER drops BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION f()",
    "a rule": "CREATE RULE drops AS ON INSERT TO record WHERE NEW.quanta = 6 DO INSTEAD NOTHING",
    "a rule that puts rows elsewhere": "CREATE TABLE other (LIKE record); CREATE RULE moves AS ON INSERT"
    " TO record WHERE NEW.quanta = 6 DO INSTEAD INSERT INTO other VALUES (NEW.*)",
    "a trigger that deletes a row": "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN DELETE FROM record WHERE quanta = 6; RETURN NULL; END';"
    " CREATE TRIGGER deletes AFTER INSERT ON record FOR EACH ROW EXECUTE FUNCTION f()",
}
ROW_SECURITY = "ALTER TABLE record ENABLE ROW LEVEL SECURITY; ALTER TABLE record FORCE ROW LEVEL SECURITY;"
POLICIES = {
    "a row may not be written": "CREATE POLICY six ON record USING (quanta <> 6)",
    "a row may not be read": "CREATE POLICY six ON record FOR SELECT USING (quanta <> 6);"
    " CREATE POLICY every ON record FOR INSERT WITH CHECK (true)",
}


@pytest.mark.parametrize("what", DROPS)
async def test_a_row_that_the_table_drops_is_not_taken_for_a_repetition(table_url: str, what: str) -> None:
    """If a trigger or a rule drops a row, nothing of the batch is committed."""
    records = record_messages(TERMS, [5, 6, 7])
    await written(table_url, [DESCRIPTOR, records[0]])
    with psycopg.connect(table_url, autocommit=True) as connection:
        connection.execute(f"SET search_path = meteragent; {DROPS[what]}".encode())
    refusal = r"dropped 1 records of main: remove the trigger|cannot be used with table that has INSERT"
    with pytest.raises(DatabaseError, match=refusal):
        await written(table_url, records)
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [5]


@pytest.mark.parametrize("policy", POLICIES)
async def test_row_security_is_not_taken_for_a_repetition(table_url: str, policy: str) -> None:
    """If row security refuses a row, or hides it from `collect`, nothing of the batch is committed."""
    with psycopg.connect(table_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS keeper")
        connection.execute("CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper")
    try:
        url, records = table_url.replace("user=postgres", "user=keeper"), record_messages(TERMS, [5, 6, 7])
        await written(url, [DESCRIPTOR, records[0]])
        with psycopg.connect(table_url, autocommit=True) as connection:
            connection.execute(f"SET search_path = meteragent; {ROW_SECURITY} {POLICIES[policy]}".encode())
        with pytest.raises(DatabaseError, match=r"row-level security|dropped 1 records of main"):
            await written(url, records)
        with psycopg.connect(table_url) as connection:
            assert [row.quanta for row in rows(connection)] == [5]
    finally:
        with psycopg.connect(table_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA meteragent CASCADE; DROP OWNED BY keeper; DROP ROLE keeper")


@pytest.mark.parametrize("what", ["SCHEMA meteragent", "TABLE meteragent.record"])
async def test_tables_that_vanish_are_waited_for(table_url: str, what: str) -> None:
    """While it runs, a schema or table that was renamed is an outage: nothing is made anew."""
    kind, name = what.split()
    async with Database.connect(table_url, None, "test", "month") as database:
        await database.create_tables()
        core = Core(STREAMS, Limits(), *await database.begin_service(is_first=True))
        with psycopg.connect(table_url, autocommit=True) as connection:
            connection.execute(f"ALTER {kind} {name} RENAME TO gone".encode())
            batch = core.take_messages([DESCRIPTOR, *record_messages(TERMS, [5])], NOW_MS)
            with pytest.raises(LinkError, match="was removed or renamed: put it back"):
                await database.write_batch(batch, 2, NOW_MS)
            new_name = name.rpartition(".")[2]
            place = "" if kind == "SCHEMA" else "meteragent."
            connection.execute(f"ALTER {kind} {place}gone RENAME TO {new_name}".encode())
        await database.write_batch(batch, 2, NOW_MS)
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [5]


async def test_a_record_waits_across_a_restart(table_url: str) -> None:
    """A record without a descriptor is in the table `waiting`, and a row once the descriptor has arrived."""
    records = record_messages(TERMS, [5, 6])
    await written(table_url, records, records)
    with psycopg.connect(table_url) as connection:
        assert rows(connection) == []
        assert connection.execute("SELECT count(*) FROM meteragent.waiting").fetchone() == (2,)
    await written(table_url, [DESCRIPTOR])
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [5, 6]
        assert connection.execute("SELECT count(*) FROM meteragent.waiting").fetchone() == (0,)


async def test_terms_of_another_collector_are_respected(table_url: str) -> None:
    """A collector that does not know the terms under which another has written refuses what overlaps.

    It knows them neither when it begins nor when it writes.
    """
    async with (
        Database.connect(table_url, None, "one", "month") as one,
        Database.connect(table_url, None, "two", "month") as two,
    ):
        await one.create_tables()
        cores = [Core(STREAMS, Limits(), *await side.begin_service(is_first=True)) for side in (one, two)]
        for side, core, terms in zip(
            (one, two, one), (*cores, cores[0]), (TERMS, HOURLY, TERMS), strict=True
        ):
            messages = [terms_message(terms), *record_messages(terms, [1, 2], first=0 if side is one else 1)]
            await side.write_batch(core.take_messages(messages, NOW_MS), len(messages), NOW_MS)
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [1, 2]
        assert refusals(connection) == {"overlap": 2}


async def test_slots_that_overlap_are_refused(table_url: str) -> None:
    """After a change of grid, a slot that overlaps one of its meter is counted, and one beside it is a row.

    TERMS has slots of 30 minutes, HOURLY of 10. The slots 0 and 1 of TERMS end at 13:00.
    """
    short = terms_message(HOURLY)
    batches = [DESCRIPTOR, *record_messages(TERMS, [1, 2])], [short, *record_messages(HOURLY, [7, 8])]
    fitting = record_messages(HOURLY, [9], first=6)
    over = record_messages(TERMS, [3], first=2)
    await written(table_url, *batches, fitting, over)
    await written(table_url, [*record_messages(TERMS, [4], first=4), *record_messages(HOURLY, [5], first=13)])
    with psycopg.connect(table_url) as connection:
        assert [row.quanta for row in rows(connection)] == [1, 2, 9, 4]
        assert refusals(connection) == {"overlap": 4}


async def test_refusals_are_counted_once_a_delivery(table_url: str) -> None:
    """Each reason has its count, by stream; messages of no stream have none."""
    unreadable = Message(TEMPLATE.replace("{meter}", "m1"), b"?")
    await written(table_url, [unreadable, unreadable], [unreadable, Message("elsewhere", b"")])
    with psycopg.connect(table_url) as connection:
        query = "SELECT stream, reason, count FROM meteragent.refused ORDER BY reason"
        assert connection.execute(query).fetchall() == [("", "topic", 1), ("main", "unreadable", 3)]


async def test_each_collector_counts_what_it_does(table_url: str) -> None:
    """The row of a collector has its version, and the numbers since its start."""
    records = record_messages(TERMS, [5, 6])
    await written(table_url, [DESCRIPTOR, *records], records)
    with psycopg.connect(table_url) as connection:
        query = "SELECT messages, written, repeated, latest IS NOT NULL FROM meteragent.collector"
        assert connection.execute(query).fetchall() == [(5, 2, 2, True)]


async def test_partitions_are_made_ahead(table_url: str) -> None:
    """There is a partition for each month of the records, for this month and for the next two."""
    old = record_messages(TERMS, [1], first=-48 * 60)
    await written(table_url, [DESCRIPTOR, *old])
    with psycopg.connect(table_url) as connection:
        query = (
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'meteragent.record'::regclass"
            " ORDER BY 1"
        )
        names = [name for (name,) in connection.execute(query).fetchall()]
    assert names == [f"meteragent.record_{month}" for month in ("2026_09", "2026_11", "2026_12", "2027_01")]


@pytest.mark.parametrize(("time_ms", "name"), [(0, "record_1970_01"), (31 * DAY_MS, "record_1970_02")])
def test_months_meet(time_ms: int, name: str) -> None:
    """A month's partition ends where the next begins."""
    month = partition.partition_of(time_ms, "month")
    assert month.name == name
    next_month = partition.partition_of(int(month.end.timestamp() * 1000), "month")
    assert next_month.start == month.end


def test_days_meet() -> None:
    """A day's partition ends where the next begins."""
    day = partition.partition_of(NOON_MS, "day")
    assert (day.name, day.end) == ("record_2026_11_20", partition.partition_of(NOON_MS + DAY_MS, "day").start)


async def test_tables_are_created_once(table_url: str) -> None:
    """The second start changes nothing; tables of another version are refused."""
    async with Database.connect(table_url, None, "test", "month") as database:
        assert [await database.create_tables(), await database.create_tables()] == [True, False]
        with psycopg.connect(table_url) as connection:
            connection.execute("UPDATE meteragent.setting SET value = '99' WHERE name = 'version'")
        with pytest.raises(DatabaseError, match="another version"):
            await database.create_tables()


async def test_the_length_of_partitions_cannot_change(table_url: str) -> None:
    """Tables that were made by months are refused with days; without partitions the table is plain."""
    async with Database.connect(table_url, None, "test", "none") as database:
        await database.create_tables()
    with psycopg.connect(table_url) as connection:
        kind = "SELECT relkind::text FROM pg_class WHERE oid = 'meteragent.record'::regclass"
        assert connection.execute(kind).fetchone() == ("r",)
    async with Database.connect(table_url, None, "test", "day") as database:
        with pytest.raises(DatabaseError, match=r"database\.partition = 'none'"):
            await database.create_tables()


async def test_faults_are_sorted(postgres: Postgres, table_url: str) -> None:
    """A server that is not there is away, and so are tables that are not there: neither is an end."""
    with pytest.raises(LinkError, match="the database"):
        async with Database.connect("postgresql:///x?host=/nowhere", None, "test", "month"):
            pass
    async with Database.connect(table_url, None, "test", "month") as database:
        with pytest.raises(LinkError, match=r"relation .* put it back"):
            await database.begin_service(is_first=True)


async def test_a_server_that_stops_answering_is_dropped(
    table_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its process is stopped, the batch fails in time, and a later connection writes it once."""
    messages = [DESCRIPTOR, *record_messages(TERMS, range(90))]
    async with Database.connect(table_url, None, "test", "month") as database:
        await database.create_tables()
        core = Core(STREAMS, Limits(), *await database.begin_service(is_first=True))
        pid = database._connection.info.backend_pid
        monkeypatch.setattr(database_module, "ANSWER_S", 0.5)
        os.kill(pid, signal.SIGSTOP)
        begun_s = time.monotonic()
        try:
            with pytest.raises(LinkError, match=r"no answer for 0\.5 s"):
                await database.write_batch(core.take_messages(messages, NOW_MS), len(messages), NOW_MS)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - begun_s < 10
    monkeypatch.undo()
    [outcome] = await written(table_url, messages)
    assert (outcome.written, outcome.repeated) == (90, 0)


async def test_a_dead_network_is_noticed(table_url: str) -> None:
    """Keepalives and a limit for unanswered bytes are set, unless the address has others."""
    async with Database.connect(f"{table_url}&keepalives_idle=7", None, "test", "month") as database:
        parameters = database._connection.info.get_parameters()
    chosen = {key: parameters[key] for key in database_module._KEEPALIVES}
    assert chosen == {
        "keepalives_idle": "7",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "60000",
    }


@pytest.mark.parametrize("change", [("user=postgres", "user=nobody2"), ("/postgres?", "/nowhere?")])
async def test_a_wrong_role_or_name_has_a_hint(table_url: str, change: tuple[str, str]) -> None:
    """The database is tried again, because it may be made later; the log says which keys to check."""
    hint = r"does not exist: check database\.url and database\.password_file$"
    with pytest.raises(LinkError, match=hint):
        async with Database.connect(table_url.replace(*change), None, "test", "month"):
            pass


async def test_a_role_that_may_not_has_a_hint(table_url: str) -> None:
    """A role that does not own the schema is told what it needs."""
    await written(table_url, [DESCRIPTOR])
    with psycopg.connect(table_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN")
    async with Database.connect(
        table_url.replace("user=postgres", "user=stranger"), None, "test", "month"
    ) as database:
        with pytest.raises(DatabaseError, match=r"permission denied.* must own the schema meteragent"):
            await database.create_tables()


async def test_a_fine_quantum_is_exact_in_the_view(table_url: str) -> None:
    """The view has the exact decimal of a value whose quantum is a thousandth."""
    fine = replace(TERMS, quantum_u=1000, radius=Fraction(220))
    await written(table_url, [terms_message(fine), *record_messages(fine, [-123_456_789])])
    with psycopg.connect(table_url) as connection:
        [(value,)] = connection.execute("SELECT value FROM meteragent.value").fetchall()
    assert Fraction(value) == Fraction(-123_456_789, 1000)
