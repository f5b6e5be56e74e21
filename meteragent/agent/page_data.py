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
from meteragent.agent.sink import Sink
from meteragent.agent.store_thread import StoreThread
from meteragent.agent.watch import Watch
from meteragent.config.model import Privacy
from meteragent.config.refuse import refuse
from meteragent.config.shapes import window_of
from meteragent.core.arrivals import CODES, ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.domain import grid, identity
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.presets import PRESETS
from meteragent.domain.problem import Problem
from meteragent.domain.tariff import Tariff
from meteragent.report import guarantee
from meteragent.service.vitals import as_metrics
from meteragent.store import ledger, outbox
from meteragent.wire import descriptor

_EVER_MS = 2**62
_RECORDS = 4000
"""The largest number of records used for the history; 30 days of half-hourly slots need 1,440."""
_OVERLAP_MS = 60_000
"""How far back deliveries are read again; a delivery has the time of the commit that marks it, and this
commit becomes visible a little later."""


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
    `upcoming` returns the next slot of a meter, and `arrivals` what has arrived of each. `receiver` is the
    stream's first, which is shown. `tariffs` are those that price the bands. `crowd` is the source of data
    about reports; None if the stream sends records.
    """

    stream: settings.Stream
    others_per_day: Fraction
    pseudonym_key: bytes | None
    meters: Callable[[], Collection[str]]
    connected: Callable[[str], bool]
    upcoming: Callable[[str], Upcoming | None]
    receiver: Receiver
    arrivals: Callable[[], Sequence[ArrivalRow]] = tuple
    tariffs: tuple[Tariff, ...] = ()
    crowd: "CrowdWatch | None" = None

    def topic(self, meter: str) -> str:
        """Return the topic of a meter's records."""
        key = self.pseudonym_key
        public_id = meter if key is None else identity.pseudonym(key, meter)
        return self.receiver.destination(public_id).topic


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
        promises = partial(self._promises, watched_stream)
        topic_of = watched_stream.topic
        meters, arrivals = watched_stream.meters, watched_stream.arrivals
        return StreamView(stream.name, terms, promises, topic_of, meters, stream.group, arrivals)

    def _promises(self, watched_stream: WatchedStream) -> Promises:
        stream, others_per_day = watched_stream.stream, watched_stream.others_per_day
        promise = guarantee.of(stream, other_charges=others_per_day)
        names = [] if stream.group else [name for name in settings.COMPLETE if name != promise.terms.preset]
        variants = {name: _with_preset(stream, name) for name in names}
        presets = {
            name: guarantee.of(variant, other_charges=others_per_day)
            for name, variant in variants.items()
            if variant is not None
        }
        return Promises(promise, presets, settings.schedule(stream, others_per_day))

    async def _glance(self, name: str, meter: str) -> Glance:
        watched_stream, now_ms = self._streams[name], self._clock.now_ms()
        newest_ms = self._clock.newest_ms
        since_ms, cached_row = self._last_rows.get(name, (0, None))
        epsilons, newest_row, waiting_count, due_ms = await self._thread.call(
            _read_state,
            self._thread.store.connection,
            watched_stream.receiver.queue,
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
        queue, topic = watched_stream.receiver.queue, watched_stream.topic(meter)
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
        queue = self._streams[name].receiver.queue
        return await self._thread.call(outbox.latest, self._thread.store.connection, queue, topic, limit)


def routes(watch: Watch) -> tuple[Route, ...]:
    """Return the routes for this machine's tools: `/healthz`, `/readyz`, and `/metrics` for Prometheus."""

    async def healthz() -> tuple[int, str, bytes]:
        """Return the problems of the agent itself as text, with status 503 if there are any.

        Those of the intake are not among them: a restart because a phase fell silent would cure nothing, and
        be visible at the sink.
        """
        vitals = await watch.vitals()
        return _status([item for item in vitals.problems if item.code not in CODES])

    async def readyz() -> tuple[int, str, bytes]:
        """Return all problems as text, with status 503 if there are any, or if nothing has arrived yet."""
        vitals = await watch.vitals()
        return _status(vitals.problems, is_waiting=vitals.state == "waiting")

    async def figures() -> tuple[int, str, bytes]:
        """Return the vitals in Prometheus' text format."""
        text = as_metrics(await watch.vitals())
        return 200, "text/plain; version=0.0.4", text.encode()

    return (
        Route("/healthz", healthz, open=True),
        Route("/readyz", readyz, open=True),
        Route("/metrics", figures),
    )


def _status(problems: Sequence[Problem], *, is_waiting: bool = False) -> tuple[int, str, bytes]:
    """Return the status, type and text of an answer about problems."""
    well = "waiting for the first message" if is_waiting else "all is well"
    text = "\n".join([f"{item.code}: {item.text}" for item in problems] or [well])
    return 503 if problems or is_waiting else 200, "text/plain", f"{text}\n".encode()


def _reports(watched_stream: WatchedStream, undelivered_count: int, now_ms: int) -> Reports | None:
    """Return the state of a stream's reports to a crowd; None if the stream sends records."""
    if watched_stream.crowd is None:
        return None
    sink, has_slot = watched_stream.crowd
    waiting_count = max(undelivered_count - len(sink.unmarked_ids), 0)
    counts = sink.counts["delivered"], waiting_count, sink.counts["report_late"]
    return Reports(*counts, sink.delivered_ms, has_slot(now_ms))


def _with_preset(stream: settings.Stream, preset: str) -> settings.Stream | None:
    """Return the stream under a preset without overrides.

    Returns None if the configuration would be refused, or if the readings are too coarse for the preset.
    """
    window = stream.window.model_copy(update={"timezone": stream.window.timezone or "UTC"})
    window = window_of(PRESETS[preset], window)
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
