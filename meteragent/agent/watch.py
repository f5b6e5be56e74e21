"""Watching over the agent: what its tasks say of themselves, told to those who ask and to systemd.

Whoever may use the store may ask: a socket beside it (`<store>.health`, mode 0600) answers each
connection with the vitals as JSON. systemd's watchdog is fed while the runners go round: a loop that
answers while no record can leave is not alive.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from pathlib import Path

from meteragent import __version__
from meteragent.agent import metrics
from meteragent.agent.clock import SteadyClock
from meteragent.agent.hearing import Hearing
from meteragent.agent.metrics import StreamVitals, Vitals
from meteragent.agent.notify import Notify
from meteragent.agent.runner import UNERASED_MAX_S, StoreThread
from meteragent.agent.sink import Sink
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.grid import floor
from meteragent.domain.problem import Alarms, Problem
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import Session
from meteragent.store import ledger, outbox

STATUS_S = 10.0
"""How often systemd is told how the agent is, at least."""
_ASK_S = 5.0
"""How long an answer may take."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def socket_path(store: Path) -> Path:
    """Where the agent of a store answers."""
    return store.with_name(store.name + ".health")


class StreamWatch:
    """What one stream's tasks say of themselves."""

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        sink: Sink,
        hearing: Hearing,
        clock: SteadyClock,
        shard: str | None,
    ) -> None:
        self.name = name
        self.shard = shard
        self.turned_s = _now_s()
        self.up = {"source": False, "sink": False}
        self._pipeline = pipeline
        self._sink = sink
        self._hearing = hearing
        self._clock = clock

    def turn(self) -> None:
        """The runner has gone round."""
        self.turned_s = _now_s()
        self._hearing.look(self._clock.newest_ms, connected=self.up["source"])

    def problems(self) -> Iterator[Problem]:
        """Name what is wrong with what arrives; an agent of a fleet may have no meter to hear."""
        if self.up["source"] and not (self.shard is not None and not self._pipeline.meters()):
            yield from self._hearing.problems(self.name)

    def lost(self, side: str) -> None:
        """A connection is lost."""
        self.up[side] = False

    def serving(
        self, side: str, serve: Callable[[Session], Awaitable[None]]
    ) -> Callable[[Session], Awaitable[None]]:
        """`serve`, which begins with a connection, and ends with it if it does not return."""

        async def served(session: Session) -> None:
            self.up[side] = True
            await serve(session)

        return served

    async def vitals(self, thread: StoreThread, now_ms: int | None) -> StreamVitals:
        """How the stream is; reads the store."""
        labels = self._pipeline.labels()
        confirmed = self._sink.confirmed
        waiting, first_ms = await thread.call(_waiting, thread, self.name, confirmed)
        lag_s = max(now_ms - first_ms, 0) / 1000 if now_ms is not None and first_ms is not None else 0.0
        spent: dict[str, Fraction] = {}
        if len(labels) <= metrics.LABELS and now_ms is not None:
            spent = await thread.call(_spent, thread, labels, floor(now_ms, DAY_MS))
        ups = self.up["source"], self.up["sink"]
        refused = len(self._sink.refusals.held)
        return StreamVitals(self.name, *ups, waiting, lag_s, len(labels), spent, self.shard, refused)


def _waiting(thread: StoreThread, channel: str, confirmed: frozenset[int]) -> tuple[int, int | None]:
    """How many messages wait, and when the first fell due; those confirmed since the last commit do not."""
    connection = thread.store.connection
    rows = outbox.pending(connection, channel, 2**62, len(confirmed) + 1)
    first_ms = next((row.due_ms for row in rows if row.id not in confirmed), None)
    return max(outbox.depth(connection, channel) - len(confirmed), 0), first_ms


def _spent(thread: StoreThread, labels: dict[str, str], day_ms: int) -> dict[str, Fraction]:
    connection = thread.store.connection
    return {label: ledger.spent(connection, meter, day_ms, DAY_MS) for meter, label in labels.items()}


class Watch:
    """The whole agent, as its streams and its store say."""

    def __init__(
        self, counts: Counts, clock: SteadyClock, thread: StoreThread, notify: Notify, alarms: Alarms
    ) -> None:
        self.streams: list[StreamWatch] = []
        self._counts = counts
        self._clock = clock
        self._thread = thread
        self._notify = notify
        self._alarms = alarms
        self._began_s = _now_s()

    async def vitals(self) -> Vitals:
        """How the agent is now."""
        now_ms = self._clock.now_ms()
        room = await self._thread.room()
        unerased_s = self._thread.unerased_s
        stands = "no clock" if now_ms is None else None if room else "no room in the store"
        if stands is None and unerased_s >= UNERASED_MAX_S:
            stands = "the log is not erased"
        hearing = (found for stream in self.streams for found in stream.problems())
        return Vitals(
            version=__version__,
            running_s=_now_s() - self._began_s,
            store_bytes=self._thread.store.path.stat().st_size,
            stands=stands,
            counts=dict(self._counts),
            streams=tuple([await stream.vitals(self._thread, now_ms) for stream in self.streams]),
            raised=self._alarms.active + tuple(hearing if stands is None else ()),
            unerased_s=unerased_s,
        )

    async def problems(self) -> tuple[Problem, ...]:
        """What a person should look at now."""
        return (await self.vitals()).problems

    async def answer(self) -> None:
        """Answer whoever asks, until cancelled."""
        path = socket_path(self._thread.store.path)
        path.unlink(missing_ok=True)  # the store's lock is ours: nobody answers there any more
        with _bound(path) as listening:
            path.chmod(0o600)
            server = await asyncio.start_unix_server(self._answer_one, sock=listening)
            try:
                await server.serve_forever()
            finally:
                path.unlink(missing_ok=True)

    async def _answer_one(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ASK_S):
                writer.write(metrics.as_json(await self.vitals()).encode())
                await writer.drain()
        writer.close()

    async def tell(self) -> None:
        """Tell systemd that the agent is ready, and then, while its runners go round, that it is alive."""
        self._notify.send("READY=1")
        watchdog_s = self._notify.watchdog_s
        pause_s = STATUS_S if watchdog_s is None else min(STATUS_S, watchdog_s / 4)
        while self._notify.address is not None:
            texts = [one.text for one in await self.problems()]
            lines = [f"STATUS={'; '.join(texts) or 'all is well'}"]
            if watchdog_s is not None and self._silent_s() < watchdog_s / 2:
                lines.append("WATCHDOG=1")
            self._notify.send(*lines)
            await asyncio.sleep(pause_s)

    def _silent_s(self) -> float:
        """How long ago the slowest runner went round."""
        return _now_s() - min((one.turned_s for one in self.streams), default=_now_s())


def _bound(path: Path) -> socket.socket:
    """A socket bound to a path of any length: addresses hold 108 bytes, a folder's descriptor is short."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    return listening


def ask(store: Path) -> str | None:
    """What the agent of a store says, as JSON; None when none answers."""
    path = socket_path(store)
    with contextlib.ExitStack() as stack:
        asking = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        asking.settimeout(_ASK_S)
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            asking.connect(f"/proc/self/fd/{folder}/{path.name}")
            answer = b"".join(iter(lambda: asking.recv(65_536), b""))
        except OSError:
            return None
    return answer.decode() or None
