"""The local page's data: guarantees, budget spent, the last record sent, and the connections."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from meteragent import config as settings
from meteragent.agent import metrics
from meteragent.agent.clock import SteadyClock
from meteragent.agent.page import Glance, Message, Promises, Route, Settings, StreamView, View
from meteragent.agent.page.view import OWN
from meteragent.agent.runner import StoreThread
from meteragent.agent.watch import Watch
from meteragent.config.model import Privacy
from meteragent.config.refuse import refuse
from meteragent.core.upcoming import Upcoming
from meteragent.domain import grid, identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.presets import PRESETS
from meteragent.domain.problem import Problem
from meteragent.report import guarantee
from meteragent.store import ledger, outbox

_EVER_MS = 2**62
_OVERLAP_MS = 60_000
"""A delivery is marked with the time of its commit, which is written a little later."""


def page_settings(page: settings.Page) -> Settings:
    """Return where the page is served; raises ConfigError if its token cannot be read or could be guessed."""
    host, _, port = page.listen.rpartition(":")
    path = page.token_file
    token = None if path is None else settings.read_secret("page.token_file", path)
    return Settings(host.strip("[]"), int(port), frozenset(map(str.lower, page.hosts)), token)


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """One running stream, as the page sees it: its meters, their next slots, and its connections.

    `others` is what the configuration's other streams charge a meter in a day, as epsilon in 1/W.
    """

    stream: settings.Stream
    others: Fraction
    pseudonym_key: bytes | None
    meters: Callable[[], Collection[str]]
    connected: Callable[[str], bool]
    upcoming: Callable[[str], Upcoming | None]


class PageData:
    """Answers the page's requests; reads the store on its thread."""

    def __init__(
        self,
        watched: Sequence[WatchedStream],
        thread: StoreThread,
        clock: SteadyClock,
        counts: Counts,
        problems: Callable[[], Awaitable[Sequence[Problem]]],
    ) -> None:
        self._watched = {item.stream.name: item for item in watched}
        self._thread = thread
        self._clock = clock
        self._last: dict[str, tuple[int, outbox.DeliveredRow | None]] = {}
        self.view = View([self._stream(item) for item in watched], self._glance, self._left, counts, problems)

    def _stream(self, watched: WatchedStream) -> StreamView:
        stream = watched.stream

        def leaves_on(meter: str) -> str:
            key = watched.pseudonym_key
            public_id = meter if key is None else identity.pseudonym(key, meter)
            return identity.render(stream.sink.topic, public_id)

        terms = settings.terms(stream, watched.others)
        return StreamView(stream.name, terms, partial(self._promises, watched), leaves_on, watched.meters)

    def _promises(self, watched: WatchedStream) -> Promises:
        promise = guarantee.of(watched.stream, others=watched.others)
        changed = {name: _under(watched.stream, name) for name in PRESETS if name != promise.terms.preset}
        streams = {name: stream for name, stream in changed.items() if stream is not None}
        presets = {name: guarantee.of(stream, others=watched.others) for name, stream in streams.items()}
        streams[OWN] = watched.stream
        schedules = {name: settings.schedule(stream, watched.others) for name, stream in streams.items()}
        return Promises(promise, presets, schedules)

    async def _glance(self, name: str, meter: str) -> Glance:
        seen, now_ms = self._watched[name], self._clock.now_ms()
        newest_ms = self._clock.newest_ms
        since_ms, cached = self._last.get(name, (0, None))
        spent, newest, waiting, due_ms = await self._thread.call(
            _read, self._thread.store.connection, name, meter, newest_ms, since_ms
        )
        last = newest or cached
        self._last[name] = newest_ms - _OVERLAP_MS, last
        lag_ms = None if due_ms is None else newest_ms - due_ms
        message = None if last is None else Message(last.topic, last.payload, last.delivered_ms)
        sides = seen.connected("source"), seen.connected("sink")
        return Glance(now_ms, spent, message, waiting, lag_ms, *sides, seen.upcoming(meter))

    async def _left(self, name: str, topic: str, limit: int) -> list[bytes]:
        return await self._thread.call(outbox.latest, self._thread.store.connection, name, topic, limit)


def routes(watch: Watch) -> tuple[Route, ...]:
    """Return the routes for this machine's tools: `/healthz`, and `/metrics` for Prometheus."""

    async def healthz() -> tuple[int, str, bytes]:
        problems = await watch.problems()
        text = "\n".join([f"{problem.code}: {problem.text}" for problem in problems] or ["all is well"])
        return 503 if problems else 200, "text/plain", f"{text}\n".encode()

    async def figures() -> tuple[int, str, bytes]:
        text = metrics.as_metrics(await watch.vitals())
        return 200, "text/plain; version=0.0.4", text.encode()

    return Route("/healthz", healthz, open=True), Route("/metrics", figures)


def _under(stream: settings.Stream, preset: str) -> settings.Stream | None:
    """Return the stream under an unchanged preset; None if that combination is refused."""
    zone = stream.window.timezone or "UTC" if isinstance(PRESETS[preset].length, str) else None
    shape = {"length": None, "step": None, "blocks": None, "bands": None, "timezone": zone}
    window = stream.window.model_copy(update=shape)
    other = stream.model_copy(update={"window": window, "privacy": Privacy(preset=preset)})
    try:
        refuse(settings.Config(stream=(other,)), flat=True)
    except ConfigError:
        return None
    return other


def _read(
    connection: sqlite3.Connection, stream: str, meter: str, now_ms: int, since_ms: int
) -> tuple[dict[str, Fraction], outbox.DeliveredRow | None, int, int | None]:
    """Return a meter's spending, its stream's last delivery since `since_ms`, what waits, and since when."""
    starts_ms = {"today": grid.day(now_ms), "month": grid.Calendar("UTC", "1mo").start_ms(now_ms), "start": 0}
    spent = {
        name: ledger.spent(connection, meter, start_ms, _EVER_MS) for name, start_ms in starts_ms.items()
    }
    due = outbox.pending(connection, stream, now_ms, 1)
    waiting = outbox.depth(connection, stream)
    return spent, outbox.last_delivered(connection, stream, since_ms), waiting, due[0].due_ms if due else None
