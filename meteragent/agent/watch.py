"""The state of the running agent, for `health`, the page and systemd.

A socket beside the store (`<store>.health`) answers each connection with the vitals as JSON. Its mode is
0600, so only the agent's user and root can connect. systemd's watchdog receives messages only while all
runners make progress: an agent with a runner that hangs does not count as alive, even if its event loop
responds.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from meteragent import __version__
from meteragent import config as settings
from meteragent.agent import metrics
from meteragent.agent.clock import SteadyClock
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.intake_health import IntakeHealth
from meteragent.agent.metrics import StreamVitals, Vitals
from meteragent.agent.notify import Notify
from meteragent.agent.outlets import SharedSink
from meteragent.agent.runner import UNERASED_MAX_S, StoreThread
from meteragent.agent.sink import Sink
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import floor
from meteragent.domain.problem import Alarms, Problem
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import Session
from meteragent.store import ledger, outbox

if TYPE_CHECKING:
    from meteragent.agent.crowd import Keys

STATUS_S = 10.0
"""The longest time between two status messages to systemd."""
_DESCRIPTORS = Path("/proc/self/fd")
_ASK_S = 5.0
"""The longest time for which the agent prepares and sends an answer, or for which `ask` waits for data."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def socket_path(store: Path) -> Path:
    """Return the path of the socket on which the agent that uses `store` answers."""
    return store.with_name(store.name + ".health")


class StreamWatch:
    """The state of one stream: its rounds, connections and readings."""

    def __init__(
        self,
        stream: settings.Stream,
        pipeline: Pipeline,
        sink: Sink | SharedSink,
        intake_health: IntakeHealth,
        clock: SteadyClock,
        first_minutes: FirstMinutes,
        *,
        queues: Collection[str] | None = None,
    ) -> None:
        """Watch a stream; `queues` holds its connections' queues, by default one with the stream's name."""
        self.name = stream.name
        self.group = None if stream.group is None else stream.group.name
        self.crowd: Keys | None = None
        self.shard = None if stream.source.shard is None else str(stream.source.shard)
        self.heartbeat_s = _now_s()
        self._queues = (stream.name,) if queues is None else tuple(queues)
        self._down = {"source": {stream.name}, "sink": set(self._queues)}
        self.up = {side: not links for side, links in self._down.items()}
        self._pipeline = pipeline
        self._sink = sink
        self._intake_health = intake_health
        self._clock = clock
        self._first_minutes = first_minutes

    def heartbeat(self) -> None:
        """Record progress of the runner, and update the intake's health and the log of the first minutes."""
        self.heartbeat_s = _now_s()
        now_ms, connected = self._clock.newest_ms, self.up["source"]
        self._intake_health.update(now_ms, connected=connected)
        self._first_minutes.note_answers(self._sink.unmarked_ids, self._sink.late_ids)
        self._first_minutes.update(now_ms, connected=connected)

    def problems(self) -> Iterator[Problem]:
        """Yield the intake's problems; none if the source is disconnected, or for a shard without meters."""
        if self.up["source"] and not (self.shard is not None and not self._pipeline.meters()):
            yield from self._intake_health.problems(self.name)

    def note_lost(self, side: str, queue: str) -> None:
        """Record that a connection is lost; a side is up only while all of its queues are connected."""
        self._down[side].add(queue)
        self.up[side] = False

    def wrap_serve(
        self, side: str, queue: str, serve: Callable[[Session], Awaitable[None]]
    ) -> Callable[[Session], Awaitable[None]]:
        """Return a `serve` that also records the new connection."""

        async def serve_and_note(session: Session) -> None:
            """Record the connection, then serve it."""
            self._down[side].discard(queue)
            self.up[side] = not self._down[side]
            await serve(session)

        return serve_and_note

    async def vitals(self, thread: StoreThread, now_ms: int | None) -> StreamVitals:
        """Return the stream's vitals at `now_ms`, which is None while the clock shows no time."""
        public_ids = self._pipeline.public_ids()
        unmarked_ids = self._sink.unmarked_ids
        waiting_count, first_ms = await thread.call(_waiting, thread, self._queues, unmarked_ids)
        lag_s = max(now_ms - first_ms, 0) / 1000 if now_ms is not None and first_ms is not None else 0.0
        epsilons: dict[str, Fraction] = {}
        if len(public_ids) <= metrics.METERS_MAX and now_ms is not None:
            epsilons = await thread.call(_spent, thread, public_ids, floor(now_ms, DAY_MS))
        ups = self.up["source"], self.up["sink"]
        refused_topics = len(self._sink.refusals.held_topics)
        meters = len(public_ids)
        has_keys = self.crowd is None or now_ms is None or self.crowd.has_slot(now_ms)
        return StreamVitals(
            self.name,
            *ups,
            waiting_count,
            lag_s,
            meters,
            epsilons,
            self.shard,
            refused_topics,
            self.group,
            has_keys,
        )


def _waiting(
    thread: StoreThread, queues: Collection[str], unmarked_ids: frozenset[int]
) -> tuple[int, int | None]:
    """Return the number of unconfirmed messages, and when the first is due (None if there is none)."""
    connection, firsts_ms = thread.store.connection, list[int]()
    for queue in queues:
        rows = outbox.pending(connection, queue, 2**62, len(unmarked_ids) + 1)
        firsts_ms += [row.due_ms for row in rows if row.id not in unmarked_ids][:1]
    waiting_count = sum(outbox.depth(connection, queue) for queue in queues)
    return max(waiting_count - len(unmarked_ids), 0), min(firsts_ms, default=None)


def _spent(thread: StoreThread, public_ids: dict[str, str], day_ms: int) -> dict[str, Fraction]:
    connection = thread.store.connection
    return {
        public_id: ledger.sum_charges(connection, meter, day_ms, DAY_MS)
        for meter, public_id in public_ids.items()
    }


class Watch:
    """The state of the whole agent: its streams and its store."""

    def __init__(
        self, counts: Counts, clock: SteadyClock, thread: StoreThread, notify: Notify, alarms: Alarms
    ) -> None:
        self.streams: list[StreamWatch] = []
        self._counts = counts
        self._clock = clock
        self._thread = thread
        self._notify = notify
        self._alarms = alarms
        self._start_s = _now_s()

    async def vitals(self) -> Vitals:
        """Return the vitals of the agent."""
        now_ms = self._clock.now_ms()
        has_space = await self._thread.has_space()
        unerased_s = self._thread.unerased_s
        pause_reason = "no usable clock" if now_ms is None else None if has_space else "no room in the store"
        if pause_reason is None and unerased_s >= UNERASED_MAX_S:
            pause_reason = "the log is not erased"
        problems = (problem for stream in self.streams for problem in stream.problems())
        return Vitals(
            version=__version__,
            running_s=_now_s() - self._start_s,
            store_bytes=self._thread.store.path.stat().st_size,
            stands=pause_reason,
            counts=dict(self._counts),
            streams=tuple([await stream.vitals(self._thread, now_ms) for stream in self.streams]),
            raised=self._alarms.active + tuple(problems if pause_reason is None else ()),
            unerased_s=unerased_s,
        )

    async def problems(self) -> tuple[Problem, ...]:
        """Return the problems that require human attention."""
        return (await self.vitals()).problems

    async def answer(self) -> None:
        """Answer connections to the socket, until cancelled."""
        path = socket_path(self._thread.store.path)
        path.unlink(missing_ok=True)  # left by a crashed run, as this agent holds the store's lock
        with bind_socket(path) as server_socket:
            path.chmod(0o600)
            server = await asyncio.start_unix_server(self._answer, sock=server_socket)
            try:
                await server.serve_forever()
            finally:
                path.unlink(missing_ok=True)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ASK_S):
                writer.write(metrics.as_json(await self.vitals()).encode())
                await writer.drain()
        writer.close()

    async def tell(self) -> None:
        """Report readiness and the status to systemd and, while all runners make progress, liveness."""
        self._notify.send("READY=1")
        watchdog_s = self._notify.watchdog_s
        pause_s = STATUS_S if watchdog_s is None else min(STATUS_S, watchdog_s / 4)
        while self._notify.address is not None:
            texts = [problem.text for problem in await self.problems()]
            lines = [f"STATUS={'; '.join(texts) or 'all is well'}"]
            if watchdog_s is not None and self._silent_s() < watchdog_s / 2:
                lines.append("WATCHDOG=1")
            self._notify.send(*lines)
            await asyncio.sleep(pause_s)

    def _silent_s(self) -> float:
        """Return how long ago the runner that has been silent the longest last reported progress."""
        return _now_s() - min((stream.heartbeat_s for stream in self.streams), default=_now_s())


def bind_socket(path: Path) -> socket.socket:
    """Return a socket bound to a path; the path of its folder may have any length.

    A socket's address has at most 108 bytes, so it refers to the folder by file descriptor. Raises StoreError
    if /proc is not mounted, and OSError if the socket cannot be bound.
    """
    if not _DESCRIPTORS.exists():
        raise StoreError(f"{path}: the agent cannot listen there, because /proc is not mounted; mount it")
    server_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        server_socket.bind(f"{_DESCRIPTORS}/{folder}/{path.name}")
    finally:
        os.close(folder)
    return server_socket


def ask(store: Path) -> str | None:
    """Ask the agent that uses `store` for its vitals; return JSON, or None if no agent answers."""
    path = socket_path(store)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        client.settimeout(_ASK_S)
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            client.connect(f"{_DESCRIPTORS}/{folder}/{path.name}")
            answer = b"".join(iter(lambda: client.recv(65_536), b""))
        except OSError:
            return None
    return answer.decode() or None
