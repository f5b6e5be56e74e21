"""What the page shows of the agent. The page accesses the agent only through this module and `viewers`."""

import asyncio
import ipaddress
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, Self

from meteragent import config as settings
from meteragent.agent import parts
from meteragent.agent.environment import Context
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import Outlet
from meteragent.agent.unit import Unit
from meteragent.agent.watch import Watch
from meteragent.config.files import read_token
from meteragent.config.model import Privacy
from meteragent.config.refuse import all_refusals
from meteragent.config.refuse.readings import is_too_coarse
from meteragent.config.shapes import window_of
from meteragent.core.arrivals import CODES, ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.domain import grid, identity
from meteragent.domain.commit import Receiver
from meteragent.domain.errors import ConfigError
from meteragent.domain.presets import PRESETS
from meteragent.domain.problem import Problem
from meteragent.domain.schedule import Schedule
from meteragent.domain.tariff import Tariff
from meteragent.domain.terms import Terms
from meteragent.report import guarantee
from meteragent.report.guarantee import Guarantee
from meteragent.service.vitals import as_metrics
from meteragent.store import Connection, ledger, outbox
from meteragent.wire import descriptor

if TYPE_CHECKING:
    from meteragent.agent.page.history import History

Problems = Sequence[Problem]
_EVER_MS = 2**62
_RECORDS = 4000
"""The largest number of records used for the history; 30 days of half-hourly slots need 1,440."""
_OVERLAP_MS = 60_000
"""How far back deliveries are read again, because a delivery has the time of the commit that marks it, and
this commit becomes visible a little later."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The page's address, host names and token. Raises ConfigError if anyone could read the page.

    `key` signs the logins of this run. If `has_actions`, anyone who is logged in may act on receivers.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    hosts: frozenset[str] = frozenset()
    token: bytes | None = field(default=None, repr=False)
    has_actions: bool = False
    key: bytes = field(default_factory=partial(os.urandom, 32), repr=False, compare=False)

    @classmethod
    def of(cls, page: settings.Page) -> Self:
        """Return the configured address, host names and token. Raises ConfigError for a bad token, too."""
        host, _, port = page.listen.rpartition(":")
        token = None if page.token_file is None else read_token(page.token_file)
        host, hosts = host.strip("[]"), frozenset(map(str.lower, page.hosts))
        is_default = page.actions is None and is_loopback(host) and not hosts
        has_actions = token is not None and (page.actions or is_default)
        return cls(host, int(port), hosts, token, has_actions)

    def __post_init__(self) -> None:
        """Refuse a page that other machines could read without a token."""
        if self.token is None and not is_loopback(self.host):
            expected = "a token file: other machines can reach page.listen"
            raise ConfigError("page.token_file", "nothing", expected)


def is_loopback(host: str) -> bool:
    """Return whether `host` is an address that only this machine can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Allowance(NamedTuple):
    """A budget's current period: its limit, and a meter's charges over all its streams, in 1/W."""

    limit: Fraction
    spent: Fraction
    start_ms: int
    end_ms: int


class Reports(NamedTuple):
    """The numbers of a stream's reports to a crowd since its start, and the state of its keys.

    The broker has confirmed `sent_count` reports, the last at `last_ms`; `late_count` reports were too late,
    and `waiting_count` reports wait.
    """

    sent_count: int
    waiting_count: int
    late_count: int
    last_ms: int | None
    has_keys: bool


class MeterState(NamedTuple):
    """The current state of one meter and its stream.

    `now_ms` is None while the clock shows no time. `spent` is epsilon in 1/W over all streams of the meter:
    today, this month (both UTC), and ever. `last_message` is the last delivered message of any meter;
    `lag_ms` is how long the first undelivered message has been due. `upcoming` is the slot that is released
    next. `reports` is None if the stream sends records.
    """

    now_ms: int | None
    spent: Mapping[str, Fraction]
    last_message: outbox.DeliveredRow | None
    waiting_count: int
    lag_ms: int | None
    source_is_connected: bool
    sink_is_connected: bool
    upcoming: Upcoming | None = None
    allowance: Allowance | None = None
    reports: Reports | None = None


class Promises(NamedTuple):
    """A stream's guarantee, and its guarantees under other presets."""

    guarantee: Guarantee
    presets: Mapping[str, Guarantee]


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream: its configuration, and functions that read its running parts.

    `others_per_day` is the daily charge of all other streams, as epsilon in 1/W. `is_connected` takes a side
    ("source" or "sink"), `upcoming` returns a meter's next slot, and `arrivals` a row per meter and phase.
    `receiver` is the one that is shown, `tariffs` price its bands, and `outlet` is its connection or None.
    """

    stream: settings.Stream
    others_per_day: Fraction
    pseudonym_key: bytes | None
    meters: Callable[[], Collection[str]]
    is_connected: Callable[[str], bool]
    upcoming: Callable[[str], Upcoming | None]
    receiver: Receiver
    arrivals: Callable[[], Sequence[ArrivalRow]] = tuple
    tariffs: tuple[Tariff, ...] = ()
    outlet: Outlet | None = None

    @classmethod
    def of(cls, unit: Unit, config: settings.Config) -> Self:
        """Return the view of a running stream."""
        pipeline, outlets = unit.runner.pipeline, unit.outlets
        return cls(
            unit.stream,
            settings.other_charges_per_day(config, unit.stream),
            unit.core.pseudonym_key,
            pipeline.meters,
            unit.watch.up.__getitem__,
            pipeline.upcoming_slot,
            first_receiver(unit.stream, outlets),
            unit.watch.arrival_rows,
            settings.tariffs_of(config, unit.stream),
            next(iter(outlets), None),
        )

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def schedule(self) -> Schedule:
        """The windows of the stream."""
        return settings.schedule(self.stream, self.others_per_day)

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return settings.terms(self.stream, self.others_per_day)

    def promises(self) -> Promises:
        """Return the stream's promises; they are slow to compute, so they are kept."""
        return _promises(self.stream, self.others_per_day)

    def topic_of(self, meter: str) -> str:
        """Return the topic of a meter's records."""
        key = self.pseudonym_key
        public_id = meter if key is None else identity.pseudonym(key, meter)
        return self.receiver.destination(public_id).topic

    def report_state(self, undelivered_count: int, now_ms: int) -> Reports | None:
        """Return the state of the reports to a crowd; None if the stream sends records."""
        if self.outlet is None or self.outlet.crowd is None:
            return None
        sink = self.outlet.sink
        waiting_count = max(undelivered_count - len(sink.unmarked_ids), 0)
        counts = sink.counts["delivered"], waiting_count, sink.counts["report_late"]
        return Reports(*counts, sink.delivered_ms, self.outlet.crowd.has_slot(now_ms))


def first_receiver(stream: settings.Stream, outlets: Iterable[Outlet]) -> Receiver:
    """Return the receiver that the page shows: the first one or, if none is admitted yet, a placeholder."""
    nobody = Receiver(stream.name, identity.PLACEHOLDER)
    return next((outlet.receiver for outlet in outlets), nobody)


@lru_cache(maxsize=64)
def _promises(stream: settings.Stream, others_per_day: Fraction) -> Promises:
    """Return a stream's promises, which in a crowd have no other presets."""
    compute = partial(guarantee.compute_guarantee, other_charges=others_per_day)
    promise = compute(stream)
    names = [] if stream.group else [name for name in settings.FULL_PRESETS if name != promise.terms.preset]
    variants = {name: variant for name in names if (variant := _with_preset(stream, name)) is not None}
    return Promises(promise, {name: compute(item) for name, item in variants.items()})


def _with_preset(stream: settings.Stream, preset: str) -> settings.Stream | None:
    """Return the stream under a preset; None if that is refused, or the readings are too coarse for it."""
    window = stream.window.model_copy(update={"timezone": stream.window.timezone or "UTC"})
    window = window_of(PRESETS[preset], window)
    for_preset = stream.model_copy(update={"window": window, "privacy": Privacy(preset=preset)})
    is_refused = any(all_refusals(settings.Config(stream=(for_preset,)))) or is_too_coarse(for_preset)
    return None if is_refused else for_preset


class View:
    """The data available to the page: `counts` are the agent's, and `problems` returns the current ones.

    `config` is the configuration after `actions`, and `act` adds an action (`receivers.act`).
    """

    def __init__(
        self, streams: Sequence[StreamView], context: Context, problems: Callable[[], Awaitable[Problems]]
    ) -> None:
        self.streams = streams
        self.config = context.config
        self.actions = context.actions
        self.act = partial(receivers.act, context)
        self.counts = context.counts
        self.problems = problems
        self._by_name = {stream.name: stream for stream in streams}
        self._thread = context.thread
        self._clock = context.clock
        self._last_rows: dict[str, tuple[int, outbox.DeliveredRow | None]] = {}

    async def meter_state(self, name: str, meter: str) -> MeterState:
        """Return the state of a meter of a stream."""
        stream, now_ms = self._by_name[name], self._clock.now_ms()
        newest_ms, connection = self._clock.newest_ms, self._thread.store.connection
        since_ms, cached_row = self._last_rows.get(name, (0, None))
        epsilons, newest_row, waiting_count, due_ms = await self._thread.call(
            _read_state, connection, stream.receiver.queue, meter, newest_ms, since_ms
        )
        row = newest_row or cached_row
        self._last_rows[name] = newest_ms - _OVERLAP_MS, row
        return MeterState(
            now_ms,
            epsilons,
            row,
            waiting_count,
            None if due_ms is None else newest_ms - due_ms,
            stream.is_connected("source"),
            stream.is_connected("sink"),
            stream.upcoming(meter),
            await self._allowance(stream.stream, meter, newest_ms),
            stream.report_state(waiting_count, newest_ms),
        )

    async def _allowance(self, stream: settings.Stream, meter: str, now_ms: int) -> Allowance | None:
        """Return a meter's allowance in the current period; None if the stream has no budget."""
        budget = parts.budget_of(stream)
        if budget is None:
            return None
        start_ms, per_ms = grid.round_down(now_ms, budget.period_ms), budget.period_ms
        connection = self._thread.store.connection
        spent_per_w = await self._thread.call(ledger.sum_charges, connection, meter, start_ms, per_ms)
        return Allowance(budget.epsilon_per_w, spent_per_w, start_ms, start_ms + per_ms)

    async def compute_history(self, name: str, meter: str) -> "History":
        """Return the history of a meter, computed in a separate thread; empty for a stream of reports."""
        from meteragent.agent.page import history  # noqa: PLC0415  only an open page needs the receiving side

        stream, connection = self._by_name[name], self._thread.store.connection
        if stream.stream.group is not None:
            return history.NO_HISTORY
        queue, topic = stream.receiver.queue, stream.topic_of(meter)
        records = await self._thread.call(outbox.latest_records, connection, queue, topic, _RECORDS)
        privacy_topic, _ = descriptor.descriptor_topics(topic, "")
        descriptors = await self._thread.call(outbox.descriptors_of, connection, queue, topic, privacy_topic)
        topic_records = history.TopicRecords(records, descriptors, stream.schedule)
        newest_ms = self._clock.newest_ms
        return await asyncio.to_thread(history.build_history, topic_records, newest_ms, stream.tariffs)

    async def latest_payloads(self, name: str, topic: str, limit: int) -> list[bytes]:
        """Return the payloads of the latest records on a topic, oldest first; reports have none."""
        stream = self._by_name[name]
        if stream.stream.group is not None:  # reports are sealed
            return []
        connection = self._thread.store.connection
        return await self._thread.call(outbox.latest_records, connection, stream.receiver.queue, topic, limit)


def _read_state(
    connection: Connection, queue: str, meter: str, now_ms: int, since_ms: int
) -> tuple[dict[str, Fraction], outbox.DeliveredRow | None, int, int | None]:
    """Return a meter's epsilons, and a queue's last delivery since `since_ms`, depth and first due time."""
    month_ms = grid.Calendar("UTC", "1mo").start_ms(now_ms)
    starts_ms = {"today": grid.day_ms(now_ms), "month": month_ms, "start": 0}
    epsilons = {name: ledger.sum_charges(connection, meter, ms, _EVER_MS) for name, ms in starts_ms.items()}
    rows = outbox.pending_rows(connection, queue, now_ms, 1)
    waiting_count, due_ms = outbox.queue_depth(connection, queue), rows[0].due_ms if rows else None
    return epsilons, outbox.last_delivered(connection, queue, since_ms), waiting_count, due_ms


class Route(NamedTuple):
    """A path and its status, type and body; without the token, an `is_open` route answers only its status."""

    path: str
    answer: Callable[[], Awaitable[tuple[int, str, bytes]]]
    is_open: bool = False


def local_routes(watch: Watch) -> tuple[Route, ...]:
    """Return the routes for this machine's tools: `/healthz`, `/readyz`, and `/metrics` for Prometheus."""

    async def healthz() -> tuple[int, str, bytes]:
        """Return the problems of the agent itself as text, with status 503 if there are any."""
        # To restart the agent because a phase is silent would not help, and would be visible at the sink.
        vitals = await watch.vitals()
        return _problems_response([item for item in vitals.problems if item.code not in CODES])

    async def readyz() -> tuple[int, str, bytes]:
        """Return all problems as text, with status 503 if there are any, or if nothing has arrived yet."""
        vitals = await watch.vitals()
        return _problems_response(vitals.problems, is_waiting=vitals.state == "waiting")

    async def figures() -> tuple[int, str, bytes]:
        """Return the vitals in Prometheus' text format."""
        return 200, "text/plain; version=0.0.4", as_metrics(await watch.vitals()).encode()

    return (
        Route("/healthz", healthz, is_open=True),
        Route("/readyz", readyz, is_open=True),
        Route("/metrics", figures),
    )


def _problems_response(problems: Sequence[Problem], *, is_waiting: bool = False) -> tuple[int, str, bytes]:
    well = "waiting for the first message" if is_waiting else "all is well"
    text = "\n".join([f"{item.code}: {item.text}" for item in problems] or [well])
    return 503 if problems or is_waiting else 200, "text/plain", f"{text}\n".encode()
