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
from typing import Any, NamedTuple

from meteragent import config as settings
from meteragent.agent import banner, page, parts, receivers
from meteragent.agent.clock import LOOK_S, CatchUp, ClockJumped, SteadyClock, run_until
from meteragent.agent.environment import Environment
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.intake_health import IntakeHealth, first_silence_ms, silence_ms
from meteragent.agent.outlets import Outlet, OutletMaker
from meteragent.agent.page_data import CrowdWatch, PageData, WatchedStream, page_settings, routes
from meteragent.agent.runner import POLL_S, FlushPolicy, Runner, StoreThread
from meteragent.agent.watch import StreamWatch, Watch
from meteragent.core.charges import Spending
from meteragent.core.shares import Crowd
from meteragent.core.stream import Stream
from meteragent.domain import grid, identity
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import keep_connected
from meteragent.mqtt.reconnect import WEEK_S
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
    """The parts of one running stream."""

    stream: settings.Stream
    links: parts.Links
    runner: Runner
    watch: StreamWatch
    outlets: tuple[Outlet, ...]
    source_id: str


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log only the type of an exception that the event loop caught: the context may hold a payload."""
    _log.error("in the event loop: %s", type(context.get("exception")).__name__)


def _page_outlet(unit: Unit) -> tuple[str, str] | None:
    """Return the queue and topic template that the page shows for a shared stream; None for other streams."""
    if not unit.stream.receivers:
        return None
    if not unit.outlets:
        return unit.stream.name, identity.PLACEHOLDER
    outlet = unit.outlets[0]
    return outlet.queue, outlet.stream.sink.topic


async def _compare(clock: SteadyClock) -> None:
    """Compare the wall clock with the boot clock every `LOOK_S`. Raises ClockJumped after a jump."""
    while True:
        clock.check()
        await asyncio.sleep(LOOK_S)


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
        others_per_day = settings.others_per_day(self._config, stream)
        validities = receivers.validities(stream, store)
        core = parts.core(stream, others_per_day, links, store.secret, store.claim_key, validities)
        unannounced = receivers.unannounced(stream, store)
        listens = self._environment.listen_s > 0 and stream.window.clock is Clock.WALL and crowd is None
        return replace(core, listens=listens, crowd=crowd, unannounced=unannounced)

    def _outlet_maker(self, thread: StoreThread, clock: SteadyClock) -> OutletMaker:
        environment = self._environment
        return OutletMaker(
            thread,
            clock,
            self.counts,
            self.alarms,
            environment.listen_s,
            environment.entropy,
            self._config.page,
        )

    def _assemble(
        self,
        stream: settings.Stream,
        links: parts.Links,
        thread: StoreThread,
        clock: SteadyClock,
        odometers: dict[str, Odometer],
    ) -> Unit:
        store, name = thread.store, stream.name
        outlets = self._outlet_maker(thread, clock).of(stream, links)
        core = self._core(stream, links, store, outlets.crowd)
        spending = Spending(odometers.get(name), tuple(odometers.values()))
        snapshot = store.snapshot(name)
        counts = self.counts.part()
        pipeline = self._environment.pipeline(core, snapshot, spending, self._environment.bits, counts)
        source = parts.source(stream, core.source.filter, clock.now_ms, self.counts)
        pipeline.leave_after(outlets.last_due_ms(store))
        # At the stop, the stream's time was before its first deadline. The store's time may be later, because
        # other streams advance it, and so does a run that stops before the end of its catch-up.
        due_ms = pipeline.deadline_ms(closing=True)
        resume_ms = clock.newest_ms if due_ms is None else min(store.clock_ms, due_ms - 1)
        now_ms, listen_s = clock.newest_ms, self._environment.listen_s
        _log.info("%s", banner.next_number(stream, core, pipeline, now_ms, listen_s))
        intake_health = IntakeHealth(counts, silence_ms(stream), now_ms, first_silence_ms(stream))
        first_minutes = FirstMinutes(stream, counts, now_ms)
        watch = StreamWatch(
            stream, pipeline, outlets.sink, intake_health, clock, first_minutes, queues=outlets.queues
        )
        watch.crowd = outlets.crowd
        runner = Runner(
            pipeline=pipeline,
            source=source,
            sink=outlets.sink,
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
            listener=outlets.listener,
        )
        return Unit(stream, links, runner, watch, outlets.all, parts.client_ids(store, name)[0])

    async def _serve(self, units: list[Unit], service_tasks: list[Coroutine[Any, Any, None]]) -> None:
        """Run all tasks; a stop ends runners and services, then drains the sinks unless one has failed."""
        async with asyncio.TaskGroup() as sinks:
            sink_tasks = [
                sinks.create_task(self._keep_sink(unit, outlet)) for unit in units for outlet in unit.outlets
            ]
            try:
                async with asyncio.TaskGroup() as intake:
                    for unit in units:
                        intake.create_task(unit.runner.run())
                        intake.create_task(self._keep_source(unit))
                    for service in service_tasks:
                        intake.create_task(service)
            except asyncio.CancelledError:
                if not any(task.done() for task in sink_tasks):
                    await self._drain(units)
                raise
            finally:
                for task in sink_tasks:
                    task.cancel()

    async def _drain(self, units: list[Unit]) -> None:
        """Give all sinks, even disconnected ones, `DRAIN_S` to send due messages; mark the delivered rows."""
        sinks = [outlet.sink for unit in units for outlet in unit.outlets]
        for sink in sinks:
            sink.finish()
        _log.info("stopping: waiting at most %g s for brokers to confirm due messages", DRAIN_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for sink in sinks:
                    await sink.idle.wait()
        for unit in units:
            await unit.runner.flush()

    async def _keep_source(self, unit: Unit) -> None:
        source = unit.runner.source
        await keep_connected(
            unit.links.source,
            unit.source_id,
            unit.watch.wrap_serve("source", unit.stream.name, source.serve),
            on_message=source.on_message,
            receive_maximum=source.receive_maximum,
            entropy=self._environment.entropy,
            session_expiry_s=WEEK_S if parts.keeps_session(unit.stream) else 0,
            count=self._count(unit, "source", unit.stream.name),
            role=parts.role(unit.stream, "source"),
            login_hint=parts.login_hint("source", unit.stream),
        )

    async def _keep_sink(self, unit: Unit, outlet: Outlet) -> None:
        sink = outlet.sink
        await keep_connected(
            outlet.endpoint,
            outlet.client_id,
            unit.watch.wrap_serve("sink", outlet.queue, outlet.serve),
            on_message=outlet.on_message,
            on_delivered=sink.on_delivered,
            on_refused=sink.on_refused,
            will=sink.presence.will,
            inflight=outlet.stream.sink.inflight,
            entropy=self._environment.entropy,
            count=self._count(unit, "sink", outlet.queue),
            role=outlet.role,
            login_hint=parts.login_hint("sink", outlet.stream),
        )

    async def _keep_page(
        self,
        address: page.Settings,
        units: list[Unit],
        thread: StoreThread,
        clock: SteadyClock,
        watch: Watch,
    ) -> None:
        """Serve the local page and the routes for this machine's tools."""
        watched_streams = [
            WatchedStream(
                unit.stream,
                settings.others_per_day(self._config, unit.stream),
                unit.links.pseudonym_key,
                unit.runner.pipeline.meters,
                unit.watch.up.__getitem__,
                unit.runner.pipeline.upcoming,
                settings.tariffs(self._config, unit.stream),
                _page_outlet(unit),
                CrowdWatch.of(unit.outlets),
            )
            for unit in units
        ]
        page_data = PageData(watched_streams, thread, clock, self.counts, watch.problems)
        await page.serve(address, page_data.view, self._viewers, routes(watch))

    def _count(self, unit: Unit, side: str, queue: str) -> Callable[[str], None]:
        """Return a function that counts a connection's events; `side` is "source" or "sink"."""

        def count(event: str) -> None:
            """Count an event, and note a lost connection."""
            if event == "lost":
                unit.watch.note_lost(side, queue)
            self.counts.add(f"{side}_lost" if event == "lost" else event)

        return count

    async def _keep_totals(self, odometers: dict[str, Odometer], clock: SteadyClock) -> None:
        """Log totals every `TOTALS_S`; if no stream uses the event clock, also forget old budget periods."""
        while True:
            await asyncio.sleep(TOTALS_S)
            _log.info("totals: %s", self.counts.text(public=True))
            _log.debug("all totals: %s", self.counts.text())
            if not parts.has_event_clock(self._config):
                for odometer in odometers.values():
                    odometer.forget_before(clock.newest_ms - FORGET_MS)
