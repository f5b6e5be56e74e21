"""The composition root: entropy, connections, tasks, and the order of shutdown.

Each stream has a task for the source's connection, a task for each sink's connection, and a runner between
them. Any exception except `ClockJumped` ends the process, because the core's memory may then be ahead of the
store, and only a restart is safe. Cancellation is the only stop signal. The runners end first, so no further
slot closes; then the sinks send the messages that are due, for at most `DRAIN_S`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from meteragent import config as settings
from meteragent.agent import banner, page, parts, receivers
from meteragent.agent.clock import LOOK_S, POLL_S, CatchUp, ClockJumped, SteadyClock, run_until
from meteragent.agent.environment import Environment
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.outlets import Outlet, OutletMaker, Outlets
from meteragent.agent.page_data import CrowdWatch, PageData, WatchedStream, page_settings, routes
from meteragent.agent.runner import FlushPolicy, Runner
from meteragent.agent.store_thread import StoreThread
from meteragent.agent.watch import StreamWatch, Watch
from meteragent.core.charges import Spending
from meteragent.core.stream import Crowd, Stream
from meteragent.domain import grid, identity
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms, advice
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import WEEK_S, Entropy, Link, keep_connected
from meteragent.privacy.composition import Odometer
from meteragent.store import Store, grants, meta, read_only

DRAIN_S = 10.0
"""The longest time that a stop waits for brokers to confirm the messages that are due."""
TOTALS_S = 3600.0
"""The time between two log lines with public totals. Other totals would reveal when a home is busy (law 4),
so they are logged only for debugging and when all streams stop."""
ALARM_S = 86_400.0
"""How long `health` reports a clock jump."""
FORGET_MS = 60 * DAY_MS
"""The age at which odometers forget a period (wall clock only); a longer pause of processing may require a
restart."""

_log = logging.getLogger("meteragent")


class Unit(NamedTuple):
    """The parts of one running stream, and what keeps its connections."""

    stream: settings.Stream
    links: parts.Links
    runner: Runner
    watch: StreamWatch
    outlets: tuple[Outlet, ...]
    source_id: str

    async def keep_source(self, entropy: Entropy) -> None:
        """Keep the connection to the source until cancelled."""
        source = self.runner.source
        link = Link(
            self.links.source,
            self.source_id,
            on_message=source.on_message,
            receive_maximum=source.receive_maximum,
            session_expiry_s=WEEK_S if parts.keeps_session(self.stream) else 0,
            count=self._count("source", self.stream.name),
            role=parts.role(self.stream, "source"),
            on_failed=partial(self.watch.note_failed, "source", self.stream.name),
            advice=partial(advice, side="source"),
        )
        serve = self.watch.wrap_serve("source", self.stream.name, source.serve)
        await keep_connected(link, serve, entropy)

    async def keep_sink(self, outlet: Outlet, entropy: Entropy) -> None:
        """Keep the connection to the sink or to a receiver until cancelled."""
        link = Link(
            outlet.endpoint,
            outlet.client_id,
            on_message=outlet.on_message,
            on_delivered=outlet.sink.on_delivered,
            on_refused=outlet.sink.on_refused,
            will=outlet.sink.presence.will,
            inflight=outlet.stream.sink.inflight,
            count=self._count("sink", outlet.queue),
            role=outlet.role,
            on_failed=partial(self.watch.note_failed, "sink", outlet.queue),
            advice=partial(advice, side="sink"),
        )
        serve = self.watch.wrap_serve("sink", outlet.queue, outlet.serve)
        await keep_connected(link, serve, entropy)

    @property
    def shown(self) -> Receiver:
        """The receiver that the page shows: the first, or one without messages if none is admitted yet."""
        places = [(outlet.queue, outlet.stream.sink.topic) for outlet in self.outlets]
        return Receiver(*(places or [(self.stream.name, identity.PLACEHOLDER)])[0])

    def watched(self, config: settings.Config) -> WatchedStream:
        """Return the parts that the page shows."""
        return WatchedStream(
            self.stream,
            settings.others_per_day(config, self.stream),
            self.links.pseudonym_key,
            self.runner.pipeline.meters,
            self.watch.up.__getitem__,
            self.runner.pipeline.upcoming,
            self.shown,
            self.watch.arrivals,
            settings.tariffs(config, self.stream),
            CrowdWatch.of(self.outlets),
        )

    def _count(self, side: str, queue: str) -> Callable[[str], None]:
        """Return a function that counts a connection's events; `side` is "source" or "sink"."""

        def count(event: str) -> None:
            """Count an event, and note a lost connection."""
            if event == "lost":
                self.watch.note_lost(side, queue)
            self.runner.counts.add(f"{side}_lost" if event == "lost" else event)

        return count


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log only the type of an exception that the event loop caught: the context may hold a payload."""
    _log.error("in the event loop: %s", type(context.get("exception")).__name__)


async def _compare(clock: SteadyClock) -> None:
    """Compare the wall clock with the boot clock every `LOOK_S`. Raises ClockJumped after a jump."""
    while True:
        clock.check()
        await asyncio.sleep(LOOK_S)


async def _drain(units: list[Unit]) -> None:
    """Give all sinks, even disconnected ones, `DRAIN_S` to send due messages; mark the delivered rows."""
    sinks = [outlet.sink for unit in units for outlet in unit.outlets]
    for sink in sinks:
        sink.finish()
    if sinks := [sink for sink in sinks if await sink.has_due()]:
        _log.info("stopping: waiting at most %g s for brokers to confirm due messages", DRAIN_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for sink in sinks:
                    await sink.idle.wait()
    for unit in units:
        await unit.runner.flush()


class Agent:
    """All streams of a configuration, with one store."""

    def __init__(self, config: settings.Config, environment: Environment) -> None:
        self.counts, self.alarms = Counts(), Alarms()
        self._alarm_timer: asyncio.TimerHandle | None = None
        self._config = config
        self._environment = environment
        self._viewers = page.Viewers()

    async def run(self) -> None:
        """Run until cancelled, then drain the sinks.

        Raises any error that must end the process, alone or in an exception group: for example
        StoreError if the store cannot be used, or ConfigError if a file cannot be read.
        """
        asyncio.get_running_loop().set_exception_handler(_log_exception)
        links = {stream.name: parts.Links.of(stream) for stream in self._config.stream}
        address = None if self._config.page is None else page_settings(self._config.page)
        for line in banner.lines(self._config):
            _log.info("%s", line)
        for key, path in settings.exposed(self._config).items():
            _log.warning("%s: every user of this machine can read %s: run chmod 600 on it", key, path)
        while True:
            clock = SteadyClock(self._environment.wall_ms, self.counts, self._environment.boot)
            try:
                # A separate task, because the parent task of a failing task group cannot recognise a stop.
                await asyncio.create_task(self._run_on_store(clock, links, address))
            except* ClockJumped:
                pass
            finally:
                clock.now_ms()  # check once more, because the next process cannot detect an earlier jump
                if clock.jumped_ms:
                    self._restore(clock.jumped_ms)
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the agent was stopped while the tasks ended
                raise asyncio.CancelledError

    def _restore(self, jumped_ms: int) -> None:
        """Report a jump, and treat the store as a copy. Raises StoreError if the store cannot be used."""
        self.counts.add("clock_jumped")
        step_ms = round(jumped_ms / 1000) * 1000
        self.alarms.raise_("clock_jumped", step_ms=step_ms)
        if self._alarm_timer is not None:
            self._alarm_timer.cancel()  # the timer of an earlier jump would clear this alarm too soon
        self._alarm_timer = asyncio.get_running_loop().call_later(ALARM_S, self.alarms.clear, "clock_jumped")
        _log.error(
            "the clock jumped %s ahead of this machine's uptime, as if a snapshot had been resumed:"
            " open windows are dropped, no window starts before now, and earlier charges are unknown",
            grid.duration_text(step_ms, 2),
        )
        path = self._config.store.path
        if path.exists():
            with read_only(path) as connection:
                at_ms = max(self._environment.wall_ms(), int(meta(connection, "clock_ms")))
            windows = [stream.window for stream in self._config.stream]
            at_ms += max((window.ahead for window in windows if window.clock is Clock.EVENT), default=0)
            self._environment.restore_store(path, at_ms=at_ms, now_ms=at_ms, take_over=False)

    async def _run_on_store(
        self, clock: SteadyClock, links: dict[str, parts.Links], address: page.Settings | None
    ) -> None:
        """Open the store and run until cancelled, or until a receiver is to be admitted or revoked.

        Raises ClockJumped, alone or in an exception group, after a jump of the clock.
        """
        store = self._open(await self._synchronised_ms(clock))
        now_ms = max(clock.newest_ms, store.clock_ms)
        streams = [stream for stream in self._config.stream if receivers.runs(stream, now_ms)]
        names = {stream.name for stream in streams}
        max_bytes = self._config.store.max_mb * 2**20
        keep_ms = self._config.store.keep
        thread = self._environment.store_thread(store, keep_ms, max_bytes, names, self.counts)
        try:
            if store.set_aside:
                self.counts.add("store_set_aside")
                _log.error("the store was corrupt or missing; a new one has replaced it: see the runbook")
            if not store.blanked:
                _log.error(
                    "the open windows in the store that was set aside could not be erased: delete that file"
                )
            receivers.settle(self._config, store, now_ms)
            revoked_grants = grants.withdrawing(store.connection)
            names.update(grant.queue for grant in (*grants.active(store.connection), *revoked_grants))
            for stream in streams:
                wall = stream.window.clock is Clock.WALL
                store.claim(stream.name, settings.fleet_share(stream.source), follows_wall_clock=wall)
            self.counts.add("retired", store.retire([stream.name for stream in streams]))
            clock.not_before(store.clock_ms)
            odometers = parts.odometers(self._config, store)
            units = [
                self._assemble(stream, links[stream.name], thread, clock, odometers) for stream in streams
            ]
            outlet_maker = self._outlet_maker(thread, clock)
            watch = Watch(self.counts, clock, thread, self._environment.notify, self.alarms)
            watch.streams += [unit.watch for unit in units]
            service_tasks = [
                watch.answer(),
                watch.tell(),
                _compare(clock),
                self._keep_totals(odometers, clock),
                *(outlet_maker.withdraw(grant) for grant in revoked_grants),
            ]
            if address is not None:
                service_tasks.append(self._keep_page(address, units, thread, clock, watch))
            end_ms = receivers.next_ms(self._config, now_ms)
            await run_until(end_ms, clock, self._serve(units, service_tasks))
        finally:
            _log.info("totals: %s", self.counts.text())
            await thread.close()

    async def _synchronised_ms(self, clock: SteadyClock) -> int:
        """Wait until the clock shows a time, and return it. Raises ClockJumped after a jump."""
        while True:
            clock.check()
            now_ms = clock.now_ms()
            if now_ms is not None:
                return now_ms
            await asyncio.sleep(POLL_S)

    def _open(self, now_ms: int) -> Store:
        """Open the store, or replace a store that is damaged or missing, and return it.

        In the new store, no window opens before the current window of every stream and the current period of
        every budget have ended, because the former store may have held windows and charges from that time. If
        a stream uses the event clock, no such time is known, and a damaged or missing store is an error.
        """
        floor_ms = None
        if not parts.has_event_clock(self._config):
            ends_ms = [settings.schedule(stream).first_ms(now_ms) for stream in self._config.stream]
            budgets = [budget for stream in self._config.stream if (budget := parts.budget(stream))]
            floor_ms = max(ends_ms + [grid.ceil(now_ms, budget.period_ms) for budget in budgets])
        path = self._config.store.path
        return self._environment.open_store(path, now_ms=now_ms, recovery_floor_ms=floor_ms)

    def _core(self, stream: settings.Stream, links: parts.Links, store: Store, crowd: Crowd | None) -> Stream:
        """Return a stream's core settings; a stream on the event clock or in a crowd does not listen."""
        others_per_day, get = settings.others_per_day(self._config, stream), receivers.of(stream, store)
        core = parts.core(stream, others_per_day, links, store.secret, store.claim_key, receivers=get)
        listens = self._environment.listen_s > 0 and stream.window.clock is Clock.WALL and crowd is None
        return replace(core, listens=listens, crowd=crowd)

    def _outlet_maker(self, thread: StoreThread, clock: SteadyClock) -> OutletMaker:
        environment = (self._environment.listen_s, self._environment.entropy, self._config.page)
        return OutletMaker(thread, clock, self.counts, self.alarms, *environment)

    def _assemble(
        self,
        stream: settings.Stream,
        links: parts.Links,
        thread: StoreThread,
        clock: SteadyClock,
        odometers: dict[str, Odometer],
    ) -> Unit:
        store, name = thread.store, stream.name
        connections = self._outlet_maker(thread, clock).of(stream, links)
        outlets = Outlets(
            {outlet.queue: outlet.sink for outlet in connections},
            {outlet.queue: outlet.listener for outlet in connections},
        )
        crowd = connections[0].crowd if connections else None
        core = self._core(stream, links, store, crowd)
        spending = Spending(odometers.get(name), tuple(odometers.values()))
        snapshot = store.snapshot(name)
        counts = self.counts.part()
        pipeline = self._environment.pipeline(core, snapshot, spending, self._environment.bits, counts)
        source = parts.source(stream, core.source, clock.now_ms, self.counts)
        pipeline.leave_after(outlets.last_due_ms(store))
        # At the stop, the stream's time was before its first deadline. The store's time may be later, because
        # other streams advance it, and so does a run that stops before the end of its catch-up.
        due_ms = pipeline.deadline_ms(closing=True)
        resume_ms = clock.newest_ms if due_ms is None else min(store.clock_ms, due_ms - 1)
        now_ms, listen_s = clock.newest_ms, self._environment.listen_s
        _log.info("%s", banner.next_number(stream, core, pipeline, now_ms, listen_s))
        first_minutes = FirstMinutes(stream, counts)
        watch = StreamWatch(stream, pipeline, outlets, clock, first_minutes)
        watch.crowd = crowd
        runner = Runner(
            pipeline=pipeline,
            source=source,
            outlets=outlets,
            store=thread,
            clock=clock,
            catch_up=CatchUp(resume_ms, stream.window.catch_up, waits=due_ms is not None),
            budget=parts.budget(stream),
            counts=self.counts,
            resume_ms=resume_ms,
            heartbeat=watch.heartbeat,
            on_commit=first_minutes.on_commit,
            flush_policy=FlushPolicy(self._config.store.flush, core.schedule.first_ms),
            viewers=self._viewers,
        )
        return Unit(stream, links, runner, watch, connections, parts.client_ids(store, name, links)[0])

    async def _serve(self, units: list[Unit], service_tasks: list[Coroutine[Any, Any, None]]) -> None:
        """Run all tasks; a stop ends runners and services, then drains the sinks unless one has failed."""
        entropy = self._environment.entropy
        async with asyncio.TaskGroup() as sinks:
            sink_tasks = [
                sinks.create_task(unit.keep_sink(outlet, entropy))
                for unit in units
                for outlet in unit.outlets
            ]
            try:
                async with asyncio.TaskGroup() as intake:
                    for unit in units:
                        intake.create_task(unit.runner.run())
                        intake.create_task(unit.keep_source(entropy))
                    for service in service_tasks:
                        intake.create_task(service)
            except asyncio.CancelledError:
                if not any(task.done() for task in sink_tasks):
                    await _drain(units)
                raise
            finally:
                for task in sink_tasks:
                    task.cancel()

    async def _keep_page(
        self,
        address: page.Settings,
        units: list[Unit],
        thread: StoreThread,
        clock: SteadyClock,
        watch: Watch,
    ) -> None:
        """Serve the local page and the routes for this machine's tools."""
        watched_streams = [unit.watched(self._config) for unit in units]
        page_data = PageData(watched_streams, thread, clock, self.counts, watch.problems)
        await page.serve(address, page_data.view, self._viewers, routes(watch))

    async def _keep_totals(self, odometers: dict[str, Odometer], clock: SteadyClock) -> None:
        """Log totals every `TOTALS_S`; if no stream uses the event clock, also forget old budget periods."""
        while True:
            await asyncio.sleep(TOTALS_S)
            _log.info("totals: %s", self.counts.text(public=True))
            _log.debug("all totals: %s", self.counts.text())
            if not parts.has_event_clock(self._config):
                for odometer in odometers.values():
                    odometer.forget_before(clock.newest_ms - FORGET_MS)
