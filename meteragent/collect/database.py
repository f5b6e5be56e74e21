"""The sink that stores records in PostgreSQL: tables, partitions, and one transaction for each batch.

A batch is copied into a temporary table and then inserted into `record`, whose primary key rejects keys that
already exist. If fewer rows were inserted than copied, the rows with an existing key and different content
are counted as refused. If a row is then missing, a trigger, a rule or row security has dropped it, and
nothing is committed. If slots of a meter could overlap (on a single grid, only slots with the same start do),
overlapping rows are removed and counted before they are inserted: first those that overlap a slot in the
table, then those that overlap an earlier remaining row of the batch. Another collector may have written terms
that the core does not know yet, so the table says whose slots could overlap. A batch with new terms, or with
rows that could overlap, is written while no other batch is.

The connection sets synchronous_commit, so a commit that the server has confirmed is on disk. The tables
(`tables.sql`) are created in one transaction, under a lock that is also held while partitions are created.

Without a time limit, a server that stops answering would block `collect` silently. The connection is
therefore shut down if a step takes longer than ANSWER_S seconds, and keepalives detect a broken network. The
batch is then tried again on a new connection; its messages are still unacknowledged.

`LinkError` means that the batch may be tried again, `UnstorableError` that the database refuses its data, and
`DatabaseError` that it refuses every batch. An error contains only the error code and the first line of the
server's message, so that it does not repeat values.
"""

import asyncio
import os
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import resources
from typing import Any, Final, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from meteragent import __version__
from meteragent.collect import core, partition
from meteragent.collect.core import Batch, Key, Link, Meter, Refusal, Row, Waiting, last_refusals, numbers_of
from meteragent.collect.outcome import (
    SLICE_MAX,
    Content,
    Outcome,
    UnstorableError,
    announced_terms,
    cache_terms,
    expiry_outcome,
    unparsed_digests,
    without_overlaps,
)
from meteragent.consume.message import Descriptor
from meteragent.domain.errors import DatabaseError, LinkError
from meteragent.domain.grid import iso_time

VERSION: Final = "1"
"""The version of the tables."""
VERSION_MIN: Final = 15_00_00
_LOCK_KEY: Final = 0x6D657465
"""The key of the advisory lock under which tables and partitions are created; the next one is of batches."""
_SCHEMA: Final = "meteragent"
_CONNECT_S: Final = 10
ANSWER_S: Final = 45.0
"""The longest duration of a step, such as a batch's transaction, before the connection is dropped."""
_KEEPALIVES: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""The libpq parameters that detect a broken network; a parameter in `database.url` takes precedence."""
_REFUSED_LOGIN: Final = re.compile(r"authentication failed|does not exist|no password supplied|pg_hba")
_LOGIN_HINT: Final = "check database.url and database.password_file"
_FORBIDDEN: Final = "42501"
_OWNER_HINT: Final = (
    "the role of database.url must own the schema meteragent and its tables, or be allowed to create"
    " the schema in its database"
)
_GONE = ("3F000", "42P01")
_GONE_HINT: Final = (
    "the schema meteragent, or a table in it, was removed or renamed: put it back; a restart would make a new"
    " schema"
)
_DROPS_HINT: Final = "remove the trigger, the rule or the row security of the table record"
_RETRYABLE = ("08", "25", "40", "53", "55", "57", "58", *_GONE)
"""The SQLSTATE classes of errors after which the same transaction may succeed later: connection, transaction
state, rollback, resources, locks, operator intervention and system errors; and codes of missing tables."""
_UNSTORABLE = ("22", "23", "54")
"""The SQLSTATE classes of errors of the data: their values, their constraints, and limits of the server."""

_SESSION = (
    "SET search_path = meteragent; SET timezone = 'UTC'; SET synchronous_commit = on; SET jit = off;"
    " SET client_min_messages = warning;"
    " CREATE TEMPORARY TABLE IF NOT EXISTS arrived (stream text, meter text, t timestamptz, band text,"
    " until timestamptz, quanta bigint, digest text, draws integer, place integer, is_mixed boolean)"
    " ON COMMIT DELETE ROWS"
)
_COPY = "COPY arrived FROM STDIN"
_INSERT = """
INSERT INTO record (stream, meter, t, band, until, quanta, d, draws)
SELECT stream, meter, t, band, until, quanta, (SELECT d.d FROM descriptor d WHERE d.digest = a.digest), draws
FROM arrived a ORDER BY stream, meter, t, band, place
ON CONFLICT DO NOTHING
"""
_DIFFERENT = """
SELECT a.stream, count(*), max(a.meter), r.quanta IS NULL FROM arrived a LEFT JOIN LATERAL (
    SELECT r.until, r.quanta, d.digest, r.draws FROM record r JOIN descriptor d USING (d)
    WHERE r.stream = a.stream AND r.meter = a.meter AND r.t = a.t AND r.band = a.band OFFSET 0
) r ON true
WHERE (r.until, r.quanta, r.digest, r.draws) IS DISTINCT FROM (a.until, a.quanta, a.digest, a.draws)
GROUP BY a.stream, r.quanta IS NULL
"""
_INTERFERES = """
SELECT bool_or(relhastriggers OR relrowsecurity) FROM pg_class
WHERE relnamespace = 'meteragent'::regnamespace AND (relname = 'record' OR relispartition)
"""
_UNKNOWN_TERMS = """
SELECT stream, meter FROM unnest(%s::text[], %s::text[], %s::integer[]) AS known (stream, meter, count)
JOIN terms USING (stream, meter) GROUP BY stream, meter, known.count HAVING count(*) > known.count
"""
# No slot is longer than 400 days (`wire.number`), so the search for the previous slot goes back no further.
_OVERLAPPING = """
DELETE FROM arrived a WHERE a.is_mixed AND (
    EXISTS (
        SELECT FROM record r WHERE r.stream = a.stream AND r.meter = a.meter AND r.t = a.t
        AND (r.until <> a.until OR (r.band = '') <> (a.band = ''))
    )
    OR EXISTS (
        SELECT FROM record r WHERE r.stream = a.stream AND r.meter = a.meter
        AND r.t > a.t AND r.t < a.until
    )
    OR a.t < (
        SELECT r.until FROM record r WHERE r.stream = a.stream AND r.meter = a.meter
        AND r.t < a.t AND r.t > a.t - interval '400 days' ORDER BY r.t DESC LIMIT 1
    )
) RETURNING a.place
"""
_DELETE = "DELETE FROM arrived WHERE place = ANY(%s)"
_FACTS = ("digest", "id", "facts", *core.Numbers._fields)
_DESCRIBE = f"""
INSERT INTO descriptor ({", ".join(_FACTS)}) VALUES ({", ".join(["%s"] * len(_FACTS))}) ON CONFLICT DO NOTHING
"""  # noqa: S608 -- constants
_LINK = """
INSERT INTO terms (stream, meter, d) SELECT %s, %s, d FROM descriptor WHERE digest = %s ON CONFLICT DO NOTHING
"""
_WAITING = """
SELECT d, stream, meter, topic, payload, place FROM waiting
WHERE (stream, meter, d) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))
ORDER BY place LIMIT %s
"""
_EXPIRE = """
WITH expired AS (
    DELETE FROM waiting WHERE received < now() - make_interval(secs => %s) RETURNING stream, topic
) SELECT stream, count(*), max(topic) FROM expired GROUP BY stream
"""
_WAIT = """
INSERT INTO waiting (d, stream, meter, topic, payload) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_REFUSE = """
INSERT INTO refused AS r (stream, reason, count, origin, detail) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (stream, reason) DO UPDATE SET count = r.count + excluded.count, latest = now(),
    origin = excluded.origin, detail = excluded.detail
"""
_BEGIN = """
INSERT INTO collector (name, version) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, started = now(), latest = NULL,
    messages = 0, written = 0, repeated = 0
"""
_COUNT = """
UPDATE collector SET latest = now(), messages = messages + %s, written = written + %s,
    repeated = repeated + %s
WHERE name = %s
"""


class Database:
    """A connection to the tables, opened by `connect`."""

    def __init__(
        self, connection: "psycopg.AsyncConnection[Any]", name: str, length: partition.Length
    ) -> None:
        self._connection, self._name, self._length = connection, name, length
        self._partitions: set[partition.Partition] = set()

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, password: str | None, name: str, length: partition.Length
    ) -> AsyncIterator[Self]:
        """Connect, check the server, and disconnect at the end. Raises LinkError or DatabaseError."""
        with _translate_errors():
            application = f"meteragent collect {name}"
            chosen = conninfo_to_dict(url)
            options: dict[str, Any] = {key: n for key, n in _KEEPALIVES.items() if key not in chosen}
            if password is not None:
                options["password"] = password
            connection = await psycopg.AsyncConnection.connect(
                url, autocommit=True, connect_timeout=_CONNECT_S, application_name=application, **options
            )
        try:
            database = cls(connection, name, length)
            await database._check_server()
            yield database
        finally:
            await connection.close()

    async def _check_server(self) -> None:
        info = self._connection.info
        if info.server_version < VERSION_MIN:
            raise DatabaseError(f"PostgreSQL {info.server_version // 10_000}: 15 or later is needed")
        encoding = info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise DatabaseError(f"the database is in {encoding}: create one with ENCODING 'UTF8'")

    async def create_tables(self) -> bool:
        """Create the tables unless they exist, and return whether they were created."""
        with self._translate():
            async with self._connection.transaction():
                await self._execute("SELECT pg_advisory_xact_lock(%s)", _LOCK_KEY)
                [(is_new,)] = await self._fetch("SELECT to_regclass('meteragent.setting') IS NULL")
                if is_new:
                    await self._execute("CREATE SCHEMA IF NOT EXISTS meteragent")
                await self._execute("SET LOCAL search_path = meteragent")
                if is_new:
                    await self._execute(_tables(self._length))
                    query = "INSERT INTO setting VALUES ('version', %s), ('partition', %s)"
                    await self._execute(query, VERSION, self._length)
                settings = dict(await self._fetch("SELECT name, value FROM setting"))
        if settings["version"] != VERSION:
            raise DatabaseError("the tables belong to another version of meteragent: install that version")
        if settings["partition"] != self._length:
            raise DatabaseError(
                f"the tables were created with database.partition = '{settings['partition']}': set this value"
                " again"
            )
        return bool(is_new)

    async def begin_service(self, *, is_first: bool) -> Content:
        """Prepare the connection, and return the content of the tables."""
        with self._translate():
            await self._execute(_SESSION)
            if is_first:
                await self._execute(_BEGIN, self._name, __version__)
            digests = [digest for (digest,) in await self._fetch("SELECT digest FROM descriptor")]
        for unread_digests in unparsed_digests(digests):
            with self._translate():
                cache_terms(
                    await self._fetch(
                        "SELECT digest, facts FROM descriptor WHERE digest = ANY(%s)", unread_digests
                    )
                )
        with self._translate():
            links = await self._fetch("SELECT stream, meter, digest FROM terms JOIN descriptor USING (d)")
            waiting = await self._fetch("SELECT stream, meter, count(*) FROM waiting GROUP BY stream, meter")
        counts = {(stream, meter): count for stream, meter, count in waiting}
        return Content(announced_terms(digests), [Link(*link) for link in links], counts)

    async def expire_waiting(self, wait_ms: int) -> Outcome:
        """Refuse the records that have waited for longer than `wait_ms`."""
        with self._translate():
            async with self._connection.transaction():
                outcome = expiry_outcome(await self._fetch(_EXPIRE, wait_ms / 1000))
                await self._count_refusals(outcome)
        return outcome

    async def waiting_records(self, keys: Collection[Key]) -> list[Waiting]:
        """Return at most SLICE_MAX records that wait for one of these descriptors, in order of arrival."""
        if not keys:
            return []
        columns = map(list, zip(*keys, strict=True))
        with self._translate():
            return [Waiting(*row) for row in await self._fetch(_WAITING, *columns, SLICE_MAX)]

    async def write_batch(self, batch: Batch, messages: int, now_ms: int) -> Outcome:
        """Commit a batch."""
        with self._translate():
            await self._make_partitions([row.time_ms for row in batch.rows], now_ms)
            async with self._connection.transaction():
                await self._lock_batches(is_alone=bool(batch.links or batch.mixed))
                await self._write_facts(batch)
                outcome = await self._write_rows(batch.rows, batch.mixed | await self._mixed_by_others(batch))
                refusals = [*outcome.refusals, *batch.refusals]
                counts = outcome.refusal_counts + batch.refusal_counts
                outcome = outcome._replace(refusal_counts=counts, refusals=refusals)
                await self._count_refusals(outcome)
                await self._execute(_COUNT, messages, outcome.written, outcome.repeated, self._name)
        return outcome

    @contextmanager
    def _translate(self) -> Iterator[None]:
        """Translate psycopg's errors, and drop the connection if the server does not answer in time."""
        timer = asyncio.get_running_loop().call_later(ANSWER_S, _shut_down, self._connection.fileno())
        try:
            with _translate_errors():
                yield
        except LinkError:
            if timer.when() > asyncio.get_running_loop().time():
                raise
            text = f"the database: no answer for {ANSWER_S:g} s, so the connection is dropped"
            raise LinkError(text) from None
        finally:
            timer.cancel()

    async def _lock_batches(self, *, is_alone: bool) -> None:
        """Wait until the transaction may write next to others or, if `is_alone`, while no other writes."""
        suffix = "" if is_alone else "_shared"
        await self._execute(f"SELECT pg_advisory_xact_lock{suffix}(%s)", _LOCK_KEY + 1)

    async def _mixed_by_others(self, batch: Batch) -> set[Meter]:
        """Return the meters of rows that have terms in the table which the core does not know."""
        if not batch.known_terms:
            return set()
        columns = zip(*((*meter, count) for meter, count in batch.known_terms.items()), strict=True)
        meters = {(stream, meter) for stream, meter in await self._fetch(_UNKNOWN_TERMS, *map(list, columns))}
        if meters - batch.mixed:
            await self._lock_batches(is_alone=True)
        return meters

    async def _count_refusals(self, outcome: Outcome) -> None:
        origins = last_refusals(outcome.refusals)
        counts = [(*key, count, *origins[key][2:]) for key, count in sorted(outcome.refusal_counts.items())]
        await self._execute_many(_REFUSE, counts)

    async def _write_facts(self, batch: Batch) -> None:
        """Write everything in a batch except its rows and refusals."""
        await self._execute_many(_DESCRIBE, list(map(_descriptor_row, batch.descriptors.values())))
        await self._execute_many(_LINK, sorted(batch.links))
        await self._execute_many(_WAIT, [record[:5] for record in batch.waiting])
        if batch.released_places:
            await self._execute("DELETE FROM waiting WHERE place = ANY(%s)", batch.released_places)

    async def _write_rows(self, rows: Sequence[Row], mixed: set[Meter]) -> Outcome:
        """Remove overlapping rows, insert rows with new keys, and compare the others with existing rows."""
        refusal_counts = Counter[tuple[str, str]]()
        if not rows:
            return Outcome(0, 0, refusal_counts)
        await self._copy_rows(rows, mixed)
        refusals: list[Refusal] = []
        if mixed:
            refusals += await self._remove_overlapping(rows, mixed)
            refusal_counts.update(refusal.key for refusal in refusals)
        arrived_count = len(rows) - refusal_counts.total()
        written_count = (await self._execute(_INSERT)).rowcount
        different_count = 0
        if written_count < arrived_count or (await self._fetch(_INTERFERES))[0][0]:
            for stream, count, meter, is_missing in await self._fetch(_DIFFERENT):
                if is_missing:
                    raise DatabaseError(f"PostgreSQL dropped {count} records of {stream}: {_DROPS_HINT}")
                refusals.append(Refusal(stream, "twice", meter))
                refusal_counts[stream, "twice"] += count
                different_count += count
        repeated_count = arrived_count - written_count - different_count
        return Outcome(written_count, repeated_count, refusal_counts, refusals)

    async def _remove_overlapping(self, rows: Sequence[Row], mixed: set[Meter]) -> list[Refusal]:
        """Remove and refuse rows of `mixed` that overlap a slot in the table or an earlier remaining row."""
        table_overlaps = {place for (place,) in await self._fetch(_OVERLAPPING)}
        candidates = {place: row for place, row in enumerate(rows) if place not in table_overlaps}
        separate_rows = without_overlaps(candidates.items(), mixed)
        batch_overlaps = set(candidates) - {place for place, _ in separate_rows}
        await self._execute(_DELETE, list(batch_overlaps))
        refused_rows = [rows[place] for place in sorted(table_overlaps | batch_overlaps)]
        return [Refusal(row.stream, "overlap", row.meter) for row in refused_rows]

    async def _copy_rows(self, rows: Sequence[Row], mixed: set[Meter]) -> None:
        async with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for place, row in enumerate(rows):
                stream, meter, time_ms, band, until_ms, *numbers = row
                slot = iso_time(time_ms), band, iso_time(until_ms)
                await copy.write_row((stream, meter, *slot, *numbers, place, (stream, meter) in mixed))

    async def _make_partitions(self, times_ms: Sequence[int], now_ms: int) -> None:
        """Create the partitions that are needed now or soon, except those that are known to exist."""
        new = partition.partitions_covering(times_ms, now_ms, self._length) - self._partitions
        if not new:
            return
        async with self._connection.transaction():
            await self._execute("SELECT pg_advisory_xact_lock(%s)", _LOCK_KEY)
            for name, start, end in sorted(new):
                await self._connection.execute(
                    sql.SQL(
                        "CREATE TABLE IF NOT EXISTS {} PARTITION OF record FOR VALUES FROM ({}) TO ({})"
                    ).format(sql.Identifier(_SCHEMA, name), start.isoformat(), end.isoformat())
                )
        self._partitions |= new

    async def _execute(self, query: Any, *parameters: object) -> "psycopg.AsyncCursor[Any]":
        return await self._connection.execute(query, parameters or None)

    async def _execute_many(self, query: Any, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            async with self._connection.cursor() as cursor:
                await cursor.executemany(query, rows)

    async def _fetch(self, query: Any, *parameters: object) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await (await self._execute(query, *parameters)).fetchall()
        return rows


def _tables(length: partition.Length) -> str:
    text = (resources.files("meteragent.collect") / "tables.sql").read_text("utf-8")
    return text.replace(" PARTITION BY RANGE (t)", "") if length == "none" else text


def _descriptor_row(descriptor: Descriptor) -> tuple[object, ...]:
    """Return the row of a descriptor for the table `descriptor`, with the numbers that the views need."""
    numbers = numbers_of(descriptor)
    values = numbers._asdict() | {"variance": repr(numbers.variance)}  # as text, with all its digits
    return descriptor.digest, descriptor.id, descriptor.hashed_text, *values.values()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        text, state = _text(error), error.sqlstate
        is_unavailable = state is None and isinstance(
            error, psycopg.OperationalError | psycopg.InterfaceError
        )
        if is_unavailable or (state or "").startswith(_RETRYABLE):
            hint = f": {_LOGIN_HINT}" if is_unavailable and _REFUSED_LOGIN.search(text) else ""
            hint = f": {_GONE_HINT}" if state in _GONE else hint
            raise LinkError(f"the database: {text}{hint}") from None
        hint = f": {_OWNER_HINT}" if state == _FORBIDDEN else ""
        is_of_data = state is None and isinstance(error, psycopg.DataError)
        kind = UnstorableError if is_of_data or (state or "").startswith(_UNSTORABLE) else DatabaseError
        raise kind(f"PostgreSQL refused: {text} ({state or type(error).__name__}){hint}") from None


def _shut_down(number: int) -> None:
    """Shut down the socket `number`, so that a pending operation fails; the file descriptor stays open."""
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _text(error: psycopg.Error) -> str:
    """Return the first line of an error's message, without details, which may contain values."""
    lines = (error.diag.message_primary or str(error) or type(error).__name__).splitlines()
    return lines[0]
