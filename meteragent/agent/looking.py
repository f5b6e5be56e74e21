"""What the local page may know, put together: promises, what was spent, what left, and how the lines are."""

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
from meteragent.domain import grid, identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.presets import PRESETS
from meteragent.domain.problem import Problem
from meteragent.report import guarantee
from meteragent.store import ledger, outbox

_EVER_MS = 2**62
_OVERLAP_MS = 60_000
"""What left is marked with the time of a commit, which is written a little later."""


def page_settings(page: settings.Page) -> Settings:
    """Where the page is served; raises ConfigError when its token cannot be read or would be guessed."""
    host, _, port = page.listen.rpartition(":")
    path = page.token_file
    token = None if path is None else settings.read_secret("page.token_file", path)
    return Settings(host.strip("[]"), int(port), frozenset(map(str.lower, page.hosts)), token)


@dataclass(frozen=True, slots=True)
class Seen:
    """One running stream, as far as it is looked at: the meters it knows, and whether a side is connected.

    `others` is what the configuration's other streams charge a meter on a day, as epsilon in 1/W.
    """

    stream: settings.Stream
    others: Fraction
    pseudonym_key: bytes | None
    meters: Callable[[], Collection[str]]
    connected: Callable[[str], bool]


class Looking:
    """Answers what the page asks; reads the store on its own thread."""

    def __init__(
        self,
        seen: Sequence[Seen],
        thread: StoreThread,
        clock: SteadyClock,
        counts: Counts,
        problems: Callable[[], Awaitable[Sequence[Problem]]],
    ) -> None:
        self._seen = {each.stream.name: each for each in seen}
        self._thread = thread
        self._clock = clock
        self._last: dict[str, tuple[int, outbox.Left | None]] = {}
        self.view = View([self._stream(each) for each in seen], self._glance, self._left, counts, problems)

    def _stream(self, seen: Seen) -> StreamView:
        stream = seen.stream

        def leaves_on(meter: str) -> str:
            key = seen.pseudonym_key
            label = meter if key is None else identity.pseudonym(key, meter)
            return identity.render(stream.sink.topic, label)

        terms = settings.terms(stream, seen.others)
        return StreamView(stream.name, terms, partial(self._promises, seen), leaves_on, seen.meters)

    def _promises(self, seen: Seen) -> Promises:
        own = guarantee.of(seen.stream, others=seen.others)
        changed = {name: _under(seen.stream, name) for name in PRESETS if name != own.terms.preset}
        streams = {name: stream for name, stream in changed.items() if stream is not None}
        presets = {name: guarantee.of(stream, others=seen.others) for name, stream in streams.items()}
        streams[OWN] = seen.stream
        schedules = {name: settings.schedule(stream, seen.others) for name, stream in streams.items()}
        return Promises(own, presets, schedules)

    async def _glance(self, name: str, meter: str) -> Glance:
        connected, now_ms = self._seen[name].connected, self._clock.now_ms()
        newest_ms = self._clock.newest_ms
        since_ms, known = self._last.get(name, (0, None))
        spent, found, waiting, due_ms = await self._thread.call(
            _read, self._thread.store.connection, name, meter, newest_ms, since_ms
        )
        last = found or known
        self._last[name] = newest_ms - _OVERLAP_MS, last
        lag_ms = None if due_ms is None else newest_ms - due_ms
        message = None if last is None else Message(last.topic, last.payload, last.delivered_ms)
        return Glance(now_ms, spent, message, waiting, lag_ms, connected("source"), connected("sink"))

    async def _left(self, name: str, where: str, limit: int) -> list[bytes]:
        return await self._thread.call(outbox.latest, self._thread.store.connection, name, where, limit)


def routes(watch: Watch) -> tuple[Route, ...]:
    """What this machine's tools ask of the same server: whether all is well, and Prometheus' figures."""

    async def healthz() -> tuple[int, str, bytes]:
        problems = await watch.problems()
        text = "\n".join([f"{one.code}: {one.text}" for one in problems] or ["all is well"])
        return 503 if problems else 200, "text/plain", f"{text}\n".encode()

    async def figures() -> tuple[int, str, bytes]:
        text = metrics.as_metrics(await watch.vitals())
        return 200, "text/plain; version=0.0.4", text.encode()

    return Route("/healthz", healthz, open=True), Route("/metrics", figures)


def _under(stream: settings.Stream, preset: str) -> settings.Stream | None:
    """The stream under a preset as it comes; None where that cannot be."""
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
    connection: sqlite3.Connection, channel: str, meter: str, now_ms: int, since_ms: int
) -> tuple[dict[str, Fraction], outbox.Left | None, int, int | None]:
    """What a meter has spent, what its stream has sent since, how much waits, and since when some is due."""
    starts_ms = {"today": grid.day(now_ms), "month": grid.Calendar("UTC", "1mo").start_ms(now_ms), "start": 0}
    spent = {
        name: ledger.spent(connection, meter, start_ms, _EVER_MS) for name, start_ms in starts_ms.items()
    }
    due = outbox.pending(connection, channel, now_ms, 1)
    waiting = outbox.depth(connection, channel)
    return spent, outbox.last_left(connection, channel, since_ms), waiting, due[0].due_ms if due else None
