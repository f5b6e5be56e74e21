"""A sink over a store's outbox, its clock, and the connections that a test drives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.link.sink import Presence, Sink
from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.domain.counters import Counts
from meteragent.store import Store, outbox
from tests.support.fake_session import LIMIT_S, FakeSession, Publication
from tests.support.mqtt_peer import turns
from tests.support.stores import persist

NOW_MS = 1_800_000_000_000


class Line:
    """A sink over a store's outbox, its clock, and the connection of the moment."""

    def __init__(self, store: Store, presence: Presence | None = None) -> None:
        self.store = store
        self.counts = Counts()
        self.now_ms: int | None = NOW_MS
        self.reads = asyncio.Semaphore(0)
        self.running: set[str] = set()
        self.unseen: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        reader: Any = self
        refusals = Refusals("private/power/{meter}")
        self.sink = Sink(reader, lambda: self.now_ms, self.counts, refusals, presence or Presence())

    async def due_rows(self, now_ms: int, limit: int, after: tuple[float, float]) -> list[outbox.WaitingRow]:
        """Read the outbox once the gate is open; rows in `unseen` are left out once."""
        await self.gate.wait()
        rows = outbox.pending_rows(self.store.connection, "main", now_ms, limit, after)
        rows = [row for row in rows if row.id not in self.unseen]
        self.unseen.clear()
        self.reads.release()
        return rows

    async def latest_descriptors(self) -> list[Descriptor]:
        """Return the latest descriptors."""
        return outbox.latest_descriptors(self.store.connection, "main")

    async def open_topics(self) -> set[str]:
        """Return the topics that a test has set."""
        return self.running

    def commit(
        self,
        *payloads: bytes,
        due_ms: int = NOW_MS,
        topic: str = "private/m",
        retain: bool = False,
        until_ms: int | None = None,
    ) -> None:
        """Append rows, and wake the sink."""
        rows = [
            Outgoing("main", topic, payload, due_ms, retain=retain, until_ms=until_ms) for payload in payloads
        ]
        persist(self.store, Commit("main", NOW_MS, outgoing=rows))
        self.sink.reread_outbox()

    def describe(self, topic: str, id_: str, payload: bytes | None = None) -> None:
        """Store a descriptor."""
        item = Descriptor("main", topic, id_, id_.encode() if payload is None else payload)
        persist(self.store, Commit("main", NOW_MS, descriptors=[item]))

    def answer(self, session: FakeSession, *publications: Publication) -> None:
        """Confirm publications as the broker does."""
        for publication in publications:
            self.sink.on_delivered(session.answered(publication), 0)

    def mark(self) -> list[int]:
        """Mark what was delivered, as the runner does; return the rows."""
        rows = sorted(self.sink.unmarked_ids)
        persist(self.store, Commit("main", NOW_MS), delivered=rows)
        self.sink.note_marked(rows)
        return rows

    @asynccontextmanager
    async def connected(self, inflight: int = 100, *, retains: bool = True) -> AsyncIterator[FakeSession]:
        """Connect until the block ends."""
        session = FakeSession(inflight=inflight)
        session.retains = retains
        serving = asyncio.create_task(self.sink.serve(session))
        try:
            yield session
        finally:
            session.over = True
            serving.cancel()
            await asyncio.wait({serving})
        assert serving.cancelled()

    async def looked(self) -> None:
        """The sink has read its outbox from now on, and done what it does about that."""
        while not self.reads.locked():
            await self.reads.acquire()
        self.sink.reread_outbox()
        async with asyncio.timeout(LIMIT_S):
            await self.reads.acquire()
        await turns(1)
