"""The local page's settings, data and routes.

The data are guarantees, privacy spent, the budget, messages and reports sent, connections, and history.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, Self

from meteragent import config as settings
from meteragent.agent import metrics
from meteragent.agent.clock import SteadyClock
from meteragent.agent.outlets import Outlet
from meteragent.agent.page import (
    Allowance,
    Glance,
    History,
    Message,
    Promises,
    Reports,
    Route,
    Settings,
    StreamView,
    View,
)
from meteragent.agent.page.view import OWN
from meteragent.agent.runner import StoreThread
from meteragent.agent.sink import Sink
from meteragent.agent.watch import Watch
from meteragent.config.model import Privacy
from meteragent.config.refuse import refuse
from meteragent.core.upcoming import Upcoming
from meteragent.domain import grid, identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.presets import COMPLETE, PRESETS
from meteragent.domain.problem import Problem
from meteragent.domain.shape import Space
from meteragent.domain.tariff import Tariff
from meteragent.report import guarantee
from meteragent.store import ledger, outbox
from meteragent.wire import descriptor

_EVER_MS = 2**62
_RECORDS = 4000
"""The largest number of records used for the history; 30 days of half-hourly slots need 1,440."""
_OVERLAP_MS = 60_000
"""How far back deliveries are read again; a delivery has the time of the commit that marks it, and this
commit becomes visible a little later."""
_EXAMPLES = [name for name, preset in COMPLETE.items() if preset.space is not Space.PEAK]
"""The presets for which the page draws examples: those that define their slots and do not release peaks."""


def page_settings(page: settings.Page) -> Settings:
    """Return the page's address, host names and token.

    Raises ConfigError if the token cannot be used, or if there is none and other machines can reach the page.
    """
    host, _, port = page.listen.rpartition(":")
    path = page.token_file
    token = None if path is None else settings.read_secret("page.token_file", path)
    return Settings(host.strip("[]"), int(port), frozenset(map(str.lower, page.hosts)), token)


class CrowdWatch(NamedTuple):
    """The source of the page's data about a stream's reports.

    `sink` sends the reports. `has_slot` returns whether the keys for the slot that contains the given time
    are known.
    """

    sink: Sink
    has_slot: Callable[[int], bool]

    @classmethod
    def of(cls, outlets: Sequence[Outlet]) -> Self | None:
        """Return the source for a stream's reports; None if the stream sends records."""
        crowd = outlets[0].crowd if outlets else None
        return None if crowd is None else cls(outlets[0].sink, crowd.has_slot)


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """The parts of a running stream that the page shows.

    `others_per_day` is the daily charge of the configuration's other streams, as epsilon in 1/W. `meters`
    returns the stream's meters, `connected` returns whether a side ("source" or "sink") is connected, and
    `upcoming` returns the next slot of a meter. `tariffs` are those that price the bands. `outlet` is the
    queue and the topic template of a shared stream's first receiver; None if the stream is not shared.
    `crowd` is the source of data about reports; None if the stream sends records.
    """

    stream: settings.Stream
    others_per_day: Fraction
    pseudonym_key: bytes | None
    meters: Callable[[], Collection[str]]
    connected: Callable[[str], bool]
    upcoming: Callable[[str], Upcoming | None]
    tariffs: tuple[Tariff, ...] = ()
    outlet: tuple[str, str] | None = None
    crowd: "CrowdWatch | None" = None

    def place(self, topic: str) -> tuple[str, str]:
        """Return the queue and the topic of the messages that the core publishes on `topic`.

        A shared stream has one queue and topic for each receiver; those of the first receiver are returned.
        """
        if self.outlet is None:
            return self.stream.name, topic
        queue, template = self.outlet
        return queue, identity.render(template, topic)


class PageData:
    """The page's data source; the store is read on the store's thread."""

    def __init__(
        self,
        watched_streams: Sequence[WatchedStream],
        thread: StoreThread,
        clock: SteadyClock,
        counts: Counts,
        problems: Callable[[], Awaitable[Sequence[Problem]]],
    ) -> None:
        self._streams = {item.stream.name: item for item in watched_streams}
        self._thread = thread
        self._clock = clock
        self._last_rows: dict[str, tuple[int, outbox.DeliveredRow | None]] = {}
        self.view = View(
            [self._stream(item) for item in watched_streams],
            self._glance,
            self._payloads,
            counts,
            problems,
            self._history,
        )

    def _stream(self, watched_stream: WatchedStream) -> StreamView:
        stream = watched_stream.stream

        terms = settings.terms(stream, watched_stream.others_per_day)
        topic_of = partial(_topic, watched_stream)
        promises = partial(self._promises, watched_stream)
        return StreamView(stream.name, terms, promises, topic_of, watched_stream.meters, stream.group)

    def _promises(self, watched_stream: WatchedStream) -> Promises:
        promise = guarantee.of(watched_stream.stream, other_charges=watched_stream.others_per_day)
        variants = {
            name: _with_preset(watched_stream.stream, name)
            for name in _EXAMPLES
            if name != promise.terms.preset and watched_stream.stream.group is None
        }
        streams = {name: stream for name, stream in variants.items() if stream is not None}
        presets = {
            name: guarantee.of(stream, other_charges=watched_stream.others_per_day)
            for name, stream in streams.items()
        }
        streams[OWN] = watched_stream.stream
        schedules = {
            name: settings.schedule(stream, watched_stream.others_per_day) for name, stream in streams.items()
        }
        return Promises(promise, presets, schedules)

    async def _glance(self, name: str, meter: str) -> Glance:
        watched_stream, now_ms = self._streams[name], self._clock.now_ms()
        newest_ms = self._clock.newest_ms
        since_ms, cached_row = self._last_rows.get(name, (0, None))
        epsilons, newest_row, waiting_count, due_ms = await self._thread.call(
            _read_state,
            self._thread.store.connection,
            watched_stream.place("")[0],
            meter,
            newest_ms,
            since_ms,
        )
        allowance = await self._allowance(watched_stream.stream, meter, newest_ms)
        row = newest_row or cached_row
        self._last_rows[name] = newest_ms - _OVERLAP_MS, row
        lag_ms = None if due_ms is None else newest_ms - due_ms
        message = None if row is None else Message(row.topic, row.payload, row.delivered_ms)
        sides = watched_stream.connected("source"), watched_stream.connected("sink")
        return Glance(
            now_ms,
            epsilons,
            message,
            waiting_count,
            lag_ms,
            *sides,
            watched_stream.upcoming(meter),
            allowance,
            _reports(watched_stream, waiting_count, newest_ms),
        )

    async def _allowance(self, stream: settings.Stream, meter: str, now_ms: int) -> Allowance | None:
        """Return a meter's allowance in the current period; None if the stream has no budget."""
        limit, budget = settings.budget(stream), stream.privacy.budget
        if limit is None or budget is None:
            return None
        start_ms, per_ms = grid.floor(now_ms, budget.per), budget.per
        connection = self._thread.store.connection
        spent_per_w = await self._thread.call(ledger.sum_charges, connection, meter, start_ms, per_ms)
        return Allowance(limit, spent_per_w, start_ms, start_ms + per_ms)

    async def _history(self, name: str, meter: str) -> History:
        """Return the history of a meter, computed in a separate thread; empty for a stream of reports."""
        from meteragent.agent import page_history  # noqa: PLC0415  only an open page needs the receiving side

        watched_stream, connection = self._streams[name], self._thread.store.connection
        if watched_stream.stream.group is not None:
            return History("UTC", (), ())
        queue, topic = watched_stream.place(_topic(watched_stream, meter))
        records = await self._thread.call(outbox.latest, connection, queue, topic, _RECORDS)
        privacy_topic, _ = descriptor.topics(topic, "")
        descriptors = await self._thread.call(outbox.descriptors_of, connection, queue, topic, privacy_topic)
        schedule = settings.schedule(watched_stream.stream, watched_stream.others_per_day)
        topic_records = page_history.TopicRecords(records, descriptors, schedule)
        return await asyncio.to_thread(
            page_history.of, topic_records, self._clock.newest_ms, watched_stream.tariffs
        )

    async def _payloads(self, name: str, topic: str, limit: int) -> list[bytes]:
        if self._streams[name].stream.group is not None:  # reports are sealed
            return []
        place = self._streams[name].place(topic)
        return await self._thread.call(outbox.latest, self._thread.store.connection, *place, limit)


def routes(watch: Watch) -> tuple[Route, ...]:
    """Return the routes for this machine's tools: `/healthz`, and `/metrics` for Prometheus."""

    async def healthz() -> tuple[int, str, bytes]:
        """Return the problems as text, with status 503 if there are any."""
        problems = await watch.problems()
        text = "\n".join([f"{problem.code}: {problem.text}" for problem in problems] or ["all is well"])
        return 503 if problems else 200, "text/plain", f"{text}\n".encode()

    async def figures() -> tuple[int, str, bytes]:
        """Return the vitals in Prometheus' text format."""
        text = metrics.as_metrics(await watch.vitals())
        return 200, "text/plain; version=0.0.4", text.encode()

    return Route("/healthz", healthz, open=True), Route("/metrics", figures)


def _reports(watched_stream: WatchedStream, undelivered_count: int, now_ms: int) -> Reports | None:
    """Return the state of a stream's reports to a crowd; None if the stream sends records."""
    if watched_stream.crowd is None:
        return None
    sink, has_slot = watched_stream.crowd
    waiting_count = max(undelivered_count - len(sink.unmarked_ids), 0)
    counts = sink.counts["delivered"], waiting_count, sink.counts["report_late"]
    return Reports(*counts, sink.delivered_ms, has_slot(now_ms))


def _topic(watched_stream: WatchedStream, meter: str) -> str:
    """Return the core's topic for a meter's records, which for a shared stream is the public id."""
    key = watched_stream.pseudonym_key
    public_id = meter if key is None else identity.pseudonym(key, meter)
    if watched_stream.stream.receivers:
        return public_id
    return identity.render(watched_stream.stream.sink.topic, public_id)


def _with_preset(stream: settings.Stream, preset: str) -> settings.Stream | None:
    """Return the stream under a preset without overrides.

    Returns None if the configuration would be refused, or if the readings are too coarse for the preset.
    """
    zone = stream.window.timezone or "UTC" if isinstance(PRESETS[preset].length, str) else None
    slots = {"length": None, "step": None, "blocks": None, "bands": None}
    no_tariff = {"band": (), "rest": None, "holidays": ()}
    window = stream.window.model_copy(update={**slots, **no_tariff, "timezone": zone})
    preset_stream = stream.model_copy(update={"window": window, "privacy": Privacy(preset=preset)})
    try:
        refuse(settings.Config(stream=(preset_stream,)), flat=True)
    except ConfigError:
        return None
    return None if settings.is_too_coarse(preset_stream) else preset_stream


def _read_state(
    connection: sqlite3.Connection, queue: str, meter: str, now_ms: int, since_ms: int
) -> tuple[dict[str, Fraction], outbox.DeliveredRow | None, int, int | None]:
    """Return a meter's epsilons and the state of a queue.

    The state consists of the last delivery since `since_ms` (None if there is none), the number of
    undelivered messages, and the time at which the first due message was due (None if no message is due).
    """
    starts_ms = {"today": grid.day(now_ms), "month": grid.Calendar("UTC", "1mo").start_ms(now_ms), "start": 0}
    epsilons = {
        name: ledger.sum_charges(connection, meter, start_ms, _EVER_MS)
        for name, start_ms in starts_ms.items()
    }
    rows = outbox.pending(connection, queue, now_ms, 1)
    waiting_count, due_ms = outbox.depth(connection, queue), rows[0].due_ms if rows else None
    return epsilons, outbox.last_delivered(connection, queue, since_ms), waiting_count, due_ms
