"""PostgreSQL's tables in memory, behind the part of psycopg that `collect.database` uses, and their troubles.

Each statement of `collect.database` has a method here with the same meaning. Transactions run one after the
other; a statement outside a transaction is a transaction by itself. A committed transaction is durable.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import psycopg

from meteragent.collect import database

_HANG_S = 60.0
"""How long a statement hangs: longer than `collect` waits for it."""


class Arrived(NamedTuple):
    """A row of the temporary table `arrived`."""

    stream: str
    meter: str
    t: str
    band: str
    until: str
    quanta: int
    digest: str
    draws: int
    place: int
    is_mixed: bool

    @property
    def key(self) -> tuple[str, ...]:
        """The key of a row in `record`."""
        return self[:4]


@dataclass
class Content:
    """The content of the tables: rows by their keys."""

    descriptor: dict[str, str] = field(default_factory=dict)
    terms: dict[tuple[str, str, str], None] = field(default_factory=dict)
    waiting: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    record: dict[tuple[str, ...], Arrived] = field(default_factory=dict)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def copy(self) -> "Content":
        """Return a copy, whose rows are shared."""
        return Content(*(copy(getattr(self, table.name)) for table in fields(self)))


class Tables:
    """A server: the committed content, its troubles, and whom it tells about each commit.

    `on_commit` is called before (False) and after (True) a commit, with the name of the connection.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_commit: Callable[[str, bool], None]) -> None:
        self.content, self.loop, self.on_commit = Content(), loop, on_commit
        self.troubles: list[str] = []
        """The troubles that the next statement, or the next commit, meets."""
        self.is_closed = self.drops = False
        self.takes_s = 0.0
        self.poison: int | None = None
        self.lock = asyncio.Lock()
        self.connections: list[Connection] = []
        self.places = iter(range(1, 1 << 40))

    def is_due(self, trouble: str) -> bool:
        """Return whether a trouble is due, which is then over."""
        with suppress(ValueError):
            self.troubles.remove(trouble)
            return True
        return False

    async def connect(self, url: str, *, application_name: str, **_: Any) -> "Connection":
        """Open a connection, as `psycopg.AsyncConnection.connect` does."""
        await asyncio.sleep(0.001)
        if self.is_closed:
            raise psycopg.OperationalError(f"{url}: connection refused")
        self.connections.append(connection := Connection(self, application_name.rpartition(" ")[2]))
        return connection

    def cut(self, name: str = "") -> None:
        """Lose all connections, or those of a client."""
        for connection in self.connections:
            connection.is_lost |= name in ("", connection.name)


class Result:
    """The result of a statement."""

    def __init__(self, rows: Iterable[Sequence[Any]], rowcount: int = 0) -> None:
        self._rows, self.rowcount = list(rows), rowcount

    async def fetchall(self) -> list[Sequence[Any]]:
        """Return all rows."""
        return self._rows


class Connection:
    """A connection, and the cursor of each of its statements."""

    def __init__(self, tables: Tables, name: str) -> None:
        self.name, self.is_lost = name, False
        self.info = SimpleNamespace(server_version=15_00_00, parameter_status=lambda _: "UTF8")
        self._tables, self._in_transaction = tables, False
        self._content, self._arrived = tables.content, dict[int, Arrived]()

    def fileno(self) -> int:
        """Return -1, which is no socket: a connection that is to be shut down is lost by itself later."""
        return -1

    async def close(self) -> None:
        """Close the connection."""
        self.is_lost = True

    def _check(self) -> None:
        if self.is_lost:
            raise psycopg.OperationalError("the connection is lost")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what the block does, unless it raises or the connection is lost."""
        async with self._tables.lock:
            self._check()
            self._content, self._in_transaction = self._tables.content.copy(), True
            try:
                yield
                await self._pause("fail")
                self._tables.on_commit(self.name, False)
                self._check()
                self._tables.content = self._content
                self._tables.on_commit(self.name, True)
                self.is_lost |= self._tables.is_due("lose")
                self._check()
            finally:
                self._in_transaction = False
                self._arrived.clear()

    async def _pause(self, trouble: str) -> None:
        """Take the time of a statement, and lose the connection if a trouble is due."""
        hangs = self._tables.is_due("hang")
        await asyncio.sleep(_HANG_S if hangs else self._tables.takes_s)
        self.is_lost |= hangs or self._tables.is_due(trouble)
        self._check()

    async def execute(self, query: Any, parameters: Sequence[Any] | None = None) -> Result:
        """Run a statement."""
        await self._pause("fail")
        if not self._in_transaction:
            self._content = self._tables.content
        text = str(query)
        name = _METHODS.get(text) or _METHODS.get(text.strip()[:25]) or ""
        run: Callable[..., Result] = getattr(self, name, lambda *_: Result(()))
        return run(*(parameters or ()))

    @asynccontextmanager
    async def cursor(self) -> AsyncIterator[Self]:
        """Return a cursor: this connection."""
        yield self

    async def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        for row in rows:
            await self.execute(query, row)

    @asynccontextmanager
    async def copy(self, _: str) -> AsyncIterator[Self]:
        """Copy rows into `arrived`."""
        await self._pause("fail")
        yield self

    async def write_row(self, row: Sequence[Any]) -> None:
        """Copy a row. Raises DataError for a value that the tables refuse."""
        arrived = Arrived(*row)
        if arrived.quanta == self._tables.poison:
            raise psycopg.DataError("a value that cannot be stored")
        self._arrived[arrived.place] = arrived

    # --- statements ----------------------------------------------------------------------------

    def _digests(self) -> Result:
        return Result((digest,) for digest in self._content.descriptor)

    def _facts(self, digests: list[str]) -> Result:
        return Result((digest, self._content.descriptor[digest]) for digest in digests)

    def _links(self) -> Result:
        return Result(self._content.terms)

    def _waiting_counts(self) -> Result:
        counts = Counter((row[1], row[2]) for row in self._content.waiting.values())
        return Result((*meter, count) for meter, count in counts.items())

    def _settings(self) -> Result:
        return Result([("version", database.VERSION), ("partition", "month")])

    def _is_new(self) -> Result:
        return Result([(False,)])

    def _expire(self, wait_s: float) -> Result:
        limit_s = self._tables.loop.time() - wait_s
        places = [place for place, row in self._content.waiting.items() if row[-1] < limit_s]
        topics = defaultdict(list)
        for row in map(self._content.waiting.pop, places):
            topics[row[1]].append(row[3])
        if not self._in_transaction:
            self._tables.content = self._content
        return Result((stream, len(names), max(names)) for stream, names in topics.items())

    def _waiting(self, streams: list[str], meters: list[str], ids: list[str], limit: int) -> Result:
        keys = set(zip(ids, streams, meters, strict=True))
        rows = [(*row[:5], place) for place, row in sorted(self._content.waiting.items()) if row[:3] in keys]
        return Result(rows[:limit])

    def _delete(self, places: list[int]) -> Result:
        for place in places:
            self._arrived.pop(place, None)
        return Result(())

    def _overlapping(self) -> Result:
        places = [place for place, row in self._arrived.items() if row.is_mixed and self._overlaps(row)]
        self._delete(places)
        return Result((place,) for place in places)

    def _overlaps(self, row: Arrived) -> bool:
        stored = [other for other in self._content.record.values() if other[:2] == row[:2]]
        return any(
            other.until != row.until if other.t == row.t else _time(other.t) < _time(row.until)
            and _time(row.t) < _time(other.until)
            for other in stored
        )  # fmt: skip

    def _unknown_terms(self, streams: list[str], meters: list[str], counts: list[int]) -> Result:
        stored = Counter(link[:2] for link in self._content.terms)
        rows = zip(streams, meters, counts, strict=True)
        return Result((stream, meter) for stream, meter, count in rows if stored[stream, meter] > count)

    def _insert(self) -> Result:
        count = len(self._content.record)
        for row in self._arrived.values():
            if not self._tables.drops:
                self._content.record.setdefault(row.key, row)
        return Result((), len(self._content.record) - count)

    def _interferes(self) -> Result:
        return Result([(self._tables.drops,)])

    def _different(self) -> Result:
        groups = defaultdict(list)
        for row in self._arrived.values():
            other = self._content.record.get(row.key)
            if other is None or other[4:8] != row[4:8]:
                groups[row.stream, other is None].append(row.meter)
        return Result((stream, len(meters), max(meters), lacks) for (stream, lacks), meters in groups.items())

    def _describe(self, digest: str, _: str, facts: str, *__: Any) -> Result:
        self._content.descriptor.setdefault(digest, facts)
        return Result(())

    def _link(self, stream: str, meter: str, digest: str) -> Result:
        if digest in self._content.descriptor:
            self._content.terms.setdefault((stream, meter, digest))
        return Result(())

    def _wait(self, *row: Any) -> Result:
        if all((other[0], *other[3:5]) != (row[0], *row[3:5]) for other in self._content.waiting.values()):
            self._content.waiting[next(self._tables.places)] = (*row, self._tables.loop.time())
        return Result(())

    def _end_waiting(self, places: list[int]) -> Result:
        for place in places:
            self._content.waiting.pop(place, None)
        return Result(())

    def _refuse(self, stream: str, reason: str, count: int, *_: str) -> Result:
        self._content.refused[stream, reason] += count
        return Result(())


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


_METHODS: dict[str, str] = {
    "SELECT digest FROM descri": "_digests",
    "SELECT digest, facts FROM": "_facts",
    "SELECT stream, meter, dig": "_links",
    "SELECT stream, meter, cou": "_waiting_counts",
    "SELECT name, value FROM s": "_settings",
    "SELECT to_regclass('meter": "_is_new",
    "DELETE FROM waiting WHERE": "_end_waiting",
} | {
    getattr(database, f"_{name}".upper()): f"_{name}"
    for name in (
        *("expire", "waiting", "delete", "overlapping", "unknown_terms", "insert", "interferes"),
        *("different", "describe", "link", "wait", "refuse"),
    )
}
"""The method of each statement, or of its beginning; all other statements have no effect here."""
