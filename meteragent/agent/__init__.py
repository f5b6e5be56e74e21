"""The composition root: entropy, connections, tasks, and the order of a stop.

Each stream has three tasks: its source's connection, its sink's connection, and a runner between
them. Anything that raises ends the process with 1: the memory of the core may be ahead of the store
then, and only a restart is safe. Cancellation is the only stop signal: the runners end first (no
slot is closed any more), then the sinks drain what is due for at most DRAIN_S.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from meteragent import config as settings
from meteragent.agent import page, parts
from meteragent.agent.clock import LOOK_S, CatchUp, ClockJumped, SteadyClock
from meteragent.agent.environment import Environment
from meteragent.agent.hearing import Hearing, silence_ms
from meteragent.agent.listener import Listener
from meteragent.agent.looking import Looking, Seen, page_settings, routes
from meteragent.agent.refused_topics import Refusals
from meteragent.agent.runner import POLL_S, Patience, Runner, StoreThread
from meteragent.agent.sink import Sink
from meteragent.agent.watch import StreamWatch, Watch
from meteragent.core.charges import Spending
from meteragent.core.stream import Stream
from meteragent.domain import grid
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import keep_connected
from meteragent.mqtt.reconnect import WEEK_S
from meteragent.privacy.composition import Odometer
from meteragent.store import Store, ledger, meta, outbox, read_only

DRAIN_S = 10.0
"""How long a stop waits for the outbox."""
TOTALS_S = 3600.0
"""How often the totals are logged: those that are public. The others tell when a home is busy (law 4)."""
ALARM_S = 86_400.0
"""How long `health` tells of a jump of the clock."""
FORGET_MS = 60 * DAY_MS
"""Odometers forget periods older than this; a clock that stood still longer needs a restart."""

_log = logging.getLogger("meteragent")


class Unit(NamedTuple):
    """One stream's moving parts."""

    stream: settings.Stream
    links: parts.Links
    runner: Runner
    watch: StreamWatch
    listener: Listener
    source_id: str
    sink_id: str


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Name what went wrong in the loop, and nothing of its context: it may hold a payload."""
    _log.error("in the event loop: %s", type(context.get("exception")).__name__)


async def _compare(clock: SteadyClock) -> None:
    """Look at the clocks once a second, whatever else is to do; raises ClockJumped."""
    while True:
        clock.check()
        await asyncio.sleep(LOOK_S)


class Agent:
    """All streams of a configuration over one store; `run` it until it is cancelled."""

    def __init__(self, config: settings.Config, environment: Environment) -> None:
        self.counts = Counts()
        self.alarms = Alarms()
        self._config = config
        self._environment = environment
        self._viewers = page.Viewers()

    async def run(self) -> None:
        """Run until cancelled, then drain; raises what must end the process.

        Raises StoreError when the store cannot be used, ConfigError for files that cannot be read.
        """
        asyncio.get_running_loop().set_exception_handler(_log_exception)
        links = [parts.Links.of(stream) for stream in self._config.stream]
        where = None if self._config.page is None else page_settings(self._config.page)
        for line in settings.exposed(self._config):
            _log.warning("%s", line)
        while True:
            clock = SteadyClock(self._environment.wall_ms, self.counts, self._environment.boot)
            try:
                # A task of its own: where a task group fails, its parent cannot tell who cancelled it.
                await asyncio.create_task(self._live(clock, links, where))
            except* ClockJumped:
                pass
            finally:
                clock.now_ms()  # a last look, whatever has ended it: the next process would see no jump
                if clock.jumped_ms:
                    self._restore(clock.jumped_ms)
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # a stop came while the tasks ended
                raise asyncio.CancelledError

    def _restore(self, jumped_ms: int) -> None:
        """Do what `ledger --restored-at` now does: the store may be a copy of one that went on.

        Raises StoreError.
        """
        self.counts.add("clock_jumped")
        step = grid.format_duration(round(jumped_ms / 1000) * 1000)
        self.alarms.raise_("clock_jumped", step=step)
        asyncio.get_running_loop().call_later(ALARM_S, self.alarms.clear, "clock_jumped")
        _log.error(
            "the clock jumped %s ahead of the time since the machine's start, as when a snapshot is resumed:"
            " open windows are dropped, nothing before now is released, charges before now are unknown",
            step,
        )
        path = self._config.store.path
        if path.exists():
            with read_only(path) as connection:
                at_ms = max(self._environment.wall_ms(), int(meta(connection, "clock_ms")))
            windows = [stream.window for stream in self._config.stream]
            at_ms += max((window.ahead for window in windows if window.clock is Clock.EVENT), default=0)
            self._environment.restore_store(path, at_ms=at_ms, now_ms=at_ms, take_over=False)

    async def _live(self, clock: SteadyClock, links: list[parts.Links], where: page.Settings | None) -> None:
        """Run over one opened store; raises ClockJumped, perhaps in a group, when its clock has jumped."""
        store = self._open(await self._synchronised_ms(clock))
        names = {stream.name for stream in self._config.stream}
        max_bytes = self._config.store.max_mb * 2**20
        keep_ms = self._config.store.keep
        thread = self._environment.store_thread(store, keep_ms, max_bytes, names, self.counts)
        try:
            if store.set_aside:
                self.counts.add("store_set_aside")
                _log.error("the store was corrupt or lost and has been set aside: see the runbook")
            if not store.blanked:
                _log.error("what was open in it could not be erased: delete the file that was set aside")
            for stream in self._config.stream:
                wall = stream.window.clock is Clock.WALL
                store.claim(stream.name, settings.held(stream.source), wall=wall)
            self.counts.add("retired", store.retire(names))
            clock.not_before(store.clock_ms)
            odometers = parts.odometers(self._config, store)
            units = [
                self._assemble(stream, link, thread, clock, odometers)
                for stream, link in zip(self._config.stream, links, strict=True)
            ]
            watch = Watch(self.counts, clock, thread, self._environment.notify, self.alarms)
            watch.streams += [unit.watch for unit in units]
            serving = [watch.answer(), watch.tell(), _compare(clock), self._keep_totals(odometers, clock)]
            if where is not None:
                serving.append(self._keep_page(where, units, thread, clock, watch))
            await self._serve(units, serving)
        finally:
            _log.info("totals: %s", self.counts.text())
            await thread.close()

    async def _synchronised_ms(self, clock: SteadyClock) -> int:
        """The time, once there is one: a store that is lost is replaced from the present on."""
        while True:
            clock.check()
            now_ms = clock.now_ms()
            if now_ms is not None:
                return now_ms
            await asyncio.sleep(POLL_S)

    def _open(self, now_ms: int) -> Store:
        """The store; one that is lost is replaced, and nothing opens before what it may have held.

        That is the end of every stream's window, and of every budget's period.
        """
        floor_ms = None
        if not parts.has_event_clock(self._config):
            ends_ms = [settings.schedule(stream).first_ms(now_ms) for stream in self._config.stream]
            budgets = [budget for stream in self._config.stream if (budget := parts.budget(stream))]
            floor_ms = max(ends_ms + [grid.ceil(now_ms, budget.period_ms) for budget in budgets])
        path = self._config.store.path
        return self._environment.open_store(path, now_ms=now_ms, recovery_floor_ms=floor_ms)

    def _core(self, stream: settings.Stream, links: parts.Links, store: Store) -> Stream:
        """Return what the core is told; a replay, by the event clock, listens for no other agent."""
        others = settings.others_per_day(self._config, stream)
        core = parts.core(stream, others, links, store.secret, store.claim_key)
        return replace(core, listens=self._environment.listen_s > 0 and stream.window.clock is Clock.WALL)

    def _assemble(
        self,
        stream: settings.Stream,
        links: parts.Links,
        thread: StoreThread,
        clock: SteadyClock,
        odometers: dict[str, Odometer],
    ) -> Unit:
        store, name = thread.store, stream.name
        core = self._core(stream, links, store)
        spending = Spending(odometers.get(name), tuple(odometers.values()))
        known = store.snapshot(name)
        counts = self.counts.part()
        pipeline = self._environment.pipeline(core, known, spending, self._environment.bits, counts)
        pipeline.leave_after(outbox.last_due_ms(store.connection, name, store.clock_ms))
        source = parts.source(stream, core.source.filter, clock.now_ms, self.counts)
        beside, refusals = parts.beside(stream, store.secret), Refusals(stream.sink.topic.count("/") + 1)
        sink = Sink(thread.outlet(name), clock.now_ms, self.counts, beside, refusals)
        # Where the stream's clock stood: before the first thing that is due. The store's own clock
        # may be later: other streams move it, and so does a start that stops before its catch_up.
        due_ms = pipeline.deadline_ms(closing=True)
        stood_ms = clock.newest_ms if due_ms is None else min(store.clock_ms, due_ms - 1)
        shard = None if stream.source.shard is None else str(stream.source.shard)
        hearing = Hearing(counts, silence_ms(stream), clock.newest_ms)
        watch = StreamWatch(name, pipeline, sink, hearing, clock, shard)
        taken_over_ms = ledger.taken_over_ms(store.connection)
        listen_s = self._environment.listen_s
        listener = Listener(name, store.claim_key, taken_over_ms, listen_s, self.counts, self.alarms)
        runner = Runner(
            pipeline=pipeline,
            source=source,
            sink=sink,
            store=thread,
            clock=clock,
            catch_up=CatchUp(stood_ms, stream.window.catch_up, waits=due_ms is not None),
            budget=parts.budget(stream),
            counts=self.counts,
            stood_ms=stood_ms,
            turn=watch.turn,
            patience=Patience(self._config.store.flush, core.schedule.first_ms),
            viewers=self._viewers,
            listener=listener,
        )
        source_id, sink_id = parts.client_ids(store, name)
        return Unit(stream, links, runner, watch, listener, source_id, sink_id)

    async def _serve(self, units: list[Unit], serving: list[Coroutine[Any, Any, None]]) -> None:
        """Run all tasks; when cancelled, end the runners and what is served, drain the sinks, end those."""
        async with asyncio.TaskGroup() as sinks:
            sending = [sinks.create_task(self._keep_sink(unit)) for unit in units]
            try:
                async with asyncio.TaskGroup() as intake:
                    for unit in units:
                        intake.create_task(unit.runner.run())
                        intake.create_task(self._keep_source(unit))
                    for other in serving:
                        intake.create_task(other)
            except asyncio.CancelledError:
                if not any(task.done() for task in sending):
                    await self._drain(units)
                raise
            finally:
                for task in sending:
                    task.cancel()

    async def _drain(self, units: list[Unit]) -> None:
        """Let the sinks send what is due, for at most DRAIN_S, and mark what was delivered."""
        for unit in units:
            unit.runner.sink.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for unit in units:
                    await unit.runner.sink.idle.wait()
        for unit in units:
            await unit.runner.flush()

    async def _keep_source(self, unit: Unit) -> None:
        source = unit.runner.source
        await keep_connected(
            unit.links.source,
            unit.source_id,
            unit.watch.serving("source", source.serve),
            on_message=source.on_message,
            receive_maximum=source.receive_maximum,
            entropy=self._environment.entropy,
            session_expiry_s=WEEK_S if parts.keeps_session(unit.stream) else 0,
            count=self._count(unit, "source"),
        )

    async def _keep_sink(self, unit: Unit) -> None:
        sink = unit.runner.sink
        await keep_connected(
            unit.links.sink,
            unit.sink_id,
            unit.watch.serving("sink", unit.listener.beside(sink.serve)),
            on_message=unit.listener.before(sink.on_message),
            on_delivered=sink.on_delivered,
            on_refused=sink.on_refused,
            will=sink.beside.will,
            inflight=unit.stream.sink.inflight,
            entropy=self._environment.entropy,
            count=self._count(unit, "sink"),
        )

    async def _keep_page(
        self,
        where: page.Settings,
        units: list[Unit],
        thread: StoreThread,
        clock: SteadyClock,
        watch: Watch,
    ) -> None:
        """Serve the local page, and this machine's tools."""
        seen = [
            Seen(
                unit.stream,
                settings.others_per_day(self._config, unit.stream),
                unit.links.pseudonym_key,
                unit.runner.pipeline.meters,
                unit.watch.up.__getitem__,
            )
            for unit in units
        ]
        looking = Looking(seen, thread, clock, self.counts, watch.problems)
        await page.serve(where, looking.view, self._viewers, routes(watch))

    def _count(self, unit: Unit, side: str) -> Callable[[str], None]:
        def count(what: str) -> None:
            if what == "lost":
                unit.watch.lost(side)
            self.counts.add(f"{side}_lost" if what == "lost" else what)

        return count

    async def _keep_totals(self, odometers: dict[str, Odometer], clock: SteadyClock) -> None:
        """Log the totals now and then, and forget what was spent in periods long past."""
        while True:
            await asyncio.sleep(TOTALS_S)
            _log.info("totals: %s", self.counts.text(public=True))
            _log.debug("all totals: %s", self.counts.text())
            if not parts.has_event_clock(self._config):
                for odometer in odometers.values():
                    odometer.forget_before(clock.newest_ms - FORGET_MS)
