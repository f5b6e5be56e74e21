"""The agent as a whole: it assembles entropy, connections and tasks, and ends them in order.

Each stream has a task for each connection (source and sinks) and a runner between them. Any exception except
`ClockJumped` ends the process, because the core's memory may then be ahead of the store, and only a restart
is safe. Cancellation is the only stop signal. The runners end first, so no further slot closes; then the
sinks send what is due, for at most `DRAIN_S`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from meteragent import config as settings
from meteragent.agent import banner, page, parts
from meteragent.agent.clock import POLL_S, ClockJumped, SteadyClock, run_until
from meteragent.agent.environment import Context, Environment
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import withdraw_descriptors
from meteragent.agent.page.view import Settings, StreamView, View, local_routes
from meteragent.agent.unit import Unit, assemble_unit
from meteragent.agent.viewers import Viewers
from meteragent.agent.watch import Watch
from meteragent.config.source import fleet_share
from meteragent.domain import grid
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreInUse
from meteragent.domain.problem import Alarms
from meteragent.domain.refusal import raise_all
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS
from meteragent.service.boot_clock import COMPARE_S
from meteragent.service.process import TOTALS_S
from meteragent.store import Store, grants, meta_value, outbox, read_only

DRAIN_S = 10.0
"""The longest time that a stop waits for brokers to confirm the messages that are due."""
ALARM_S = 86_400.0
"""How long `health` reports a clock jump."""
BUSY_TRIES, BUSY_S = 5, 0.2
"""How many times the store is tried while a command has it open, and the pause after each try."""
ODOMETER_KEEP_MS = 60 * DAY_MS
"""The age at which odometers forget a period (wall clock only); a longer pause of processing may require a
restart."""

_log = logging.getLogger("meteragent")

Work = Coroutine[Any, Any, None]


class Agent:
    """All streams of a configuration, with one store."""

    def __init__(self, config: settings.Config, environment: Environment) -> None:
        self.counts, self.alarms = Counts(), Alarms()
        self._alarm_timer: asyncio.TimerHandle | None = None
        self._config = config
        self._environment = environment
        self._viewers = Viewers()

    async def run(self) -> None:
        """Run until cancelled, then drain the sinks. Raises errors that must end the process."""
        asyncio.get_running_loop().set_exception_handler(_log_exception)
        raise_all(settings.file_refusals(self._config))  # before the store is touched
        address = None if self._config.page is None else Settings.of(self._config.page)
        for line in banner.startup_lines(self._config):
            _log.info("%s", line)
        for key, path in settings.world_readable_files(self._config).items():
            _log.warning("%s: every user of this machine can read %s: run chmod 600 on it", key, path)
        while True:
            clock = SteadyClock(self._environment.wall_ms, self.counts, self._environment.boot)
            try:
                # A separate task, because the parent task of a failing task group cannot recognise a stop.
                await asyncio.create_task(self._run_on_store(clock, address))
            except* ClockJumped:
                pass
            finally:
                clock.now_ms()  # check for a jump once more: after a reboot, it would go unnoticed
                if clock.jumped_ms:
                    self._treat_as_copy(clock.jumped_ms)
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the agent was stopped while the tasks ended
                raise asyncio.CancelledError

    def _treat_as_copy(self, jumped_ms: int) -> None:
        """Treat the store as a copy, and report the jump. Raises StoreError if the store cannot be used."""
        self.counts.add("clock_jumped")
        step_ms = round(jumped_ms / 1000) * 1000
        self.alarms.raise_("clock_jumped", step_ms=step_ms)
        if self._alarm_timer is not None:
            self._alarm_timer.cancel()  # the timer of an earlier jump would clear this alarm too soon
        self._alarm_timer = asyncio.get_running_loop().call_later(ALARM_S, self.alarms.clear, "clock_jumped")
        path = self._config.store.path
        if path.exists():
            with read_only(path) as connection:
                at_ms = max(self._environment.wall_ms(), int(meta_value(connection, "clock_ms")))
            windows = [stream.window for stream in self._config.stream]
            at_ms += max((window.ahead for window in windows if window.clock is Clock.EVENT), default=0)
            self._environment.restore_store(path, at_ms=at_ms, now_ms=at_ms, take_over=False)
        _log.error(
            "the clock jumped %s ahead of this machine's uptime, as if a snapshot had been resumed:"
            " open windows were dropped, no window starts before now, and earlier charges are unknown",
            grid.duration_text(step_ms, 2),
        )

    async def _run_on_store(self, clock: SteadyClock, address: Settings | None) -> None:
        """Run with an open store until cancelled, or until a receiver is to be admitted or revoked."""
        store = await self._open_free_store(await _wait_for_clock(clock))
        actions = grants.last_actions(store.connection)
        config = settings.with_actions(self._config, actions)
        now_ms = max(clock.newest_ms, store.clock_ms)
        streams = [stream for stream in config.stream if receivers.must_run(stream, now_ms)]
        queues = {stream.name for stream in streams}
        max_bytes = config.store.max_mb * 2**20
        thread = self._environment.store_thread(store, config.store.keep, max_bytes, queues, self.counts)
        try:
            self._report_replaced(store)
            receivers.apply_admissions(config, store, now_ms)
            revoked_grants = grants.grants_to_withdraw(store.connection)
            sent_grants = *grants.active_grants(store.connection), *revoked_grants
            thread.kept_queues |= {grant.queue for grant in sent_grants}
            self._claim_streams(streams, store)
            self._environment.boot.recall_note(meta_value(store.connection, "boot", ""))
            clock.check_no_jump()
            store.boot_note = lambda: self._environment.boot.note
            clock.set_earliest(store.clock_ms)
            shared = self.counts, self.alarms, self._viewers
            odometers = parts.load_odometers(config, store)
            context = Context(config, self._environment, thread, clock, *shared, odometers, actions)
            units = [assemble_unit(stream, context) for stream in streams]
            watch = Watch([unit.watch for unit in units], context)
            services = [watch.serve_socket(), watch.notify_systemd(), _find_jump(clock), _log_totals(context)]
            services += [withdraw_descriptors(grant, context) for grant in revoked_grants]
            if address is not None:
                views = [StreamView.of(unit, config) for unit in units]
                view = View(views, context, watch.problems)
                services.append(page.serve(address, view, self._viewers, local_routes(watch)))
            end_ms, has_acted = receivers.next_admission_ms(config, now_ms), context.has_acted
            await run_until(end_ms, has_acted, clock, _serve(units, services, context))
        finally:
            _log.info("totals: %s", self.counts.as_text())
            await thread.close()

    async def _open_free_store(self, now_ms: int) -> Store:
        """Open the store; wait for a moment while a command has it open."""
        for _ in range(BUSY_TRIES):
            with contextlib.suppress(StoreInUse):
                return self._open_store(now_ms)
            await asyncio.sleep(BUSY_S)
        return self._open_store(now_ms)

    def _open_store(self, now_ms: int) -> Store:
        """Open the store, or replace a damaged or missing one, and return it.

        In a new store, no window opens before the current window of every stream and the current period of
        every budget have ended, because the former store may have charged them. With an event clock, no such
        time is known, so a damaged or missing store is an error.
        """
        floor_ms = None
        if not parts.has_event_clock(self._config):
            ends_ms = [settings.schedule(stream).first_start_ms(now_ms) for stream in self._config.stream]
            budgets = [budget for stream in self._config.stream if (budget := parts.budget_of(stream))]
            floor_ms = max(ends_ms + [grid.round_up(now_ms, budget.period_ms) for budget in budgets])
        path = self._config.store.path
        return self._environment.open_store(path, now_ms=now_ms, recovery_floor_ms=floor_ms)

    def _report_replaced(self, store: Store) -> None:
        """Log that a store was replaced or could not be erased; hold back and log damaged messages."""
        if store.damage:
            self.counts.add("store_set_aside")
            _log.error(
                "the store was set aside: %s; a new one has replaced it: see the runbook", store.damage
            )
        if not store.is_blanked:
            _log.error(
                "the open windows in the store that was set aside could not be erased: delete that file"
            )
        if names := outbox.hold_damaged(store):
            _log.error("damaged messages in the store are not sent: %s", "; ".join(names))

    def _claim_streams(self, streams: list[settings.Stream], store: Store) -> None:
        """Claim the shards of the streams that run; blank the states of all others."""
        for stream in streams:
            wall = stream.window.clock is Clock.WALL
            store.claim_shard(stream.name, fleet_share(stream.source), follows_wall_clock=wall)
        self.counts.add("retired", store.blank_other_states([stream.name for stream in streams]))


async def _serve(units: list[Unit], services: list[Work], context: Context) -> None:
    """Run all tasks; a stop ends runners and services, then drains the sinks unless one has failed.

    An action on a receiver ends the sinks at once: what is due waits until it is known who gets it.
    """
    environment = context.environment
    async with asyncio.TaskGroup() as sinks:
        sink_tasks = [
            sinks.create_task(unit.keep_sink(outlet, environment.entropy))
            for unit in units
            for outlet in unit.outlets
        ]
        try:
            async with asyncio.TaskGroup() as intake:
                for unit in units:
                    intake.create_task(unit.runner.run())
                    intake.create_task(unit.keep_source(environment.entropy))
                for service in services:
                    intake.create_task(service)
                intake.create_task(_cancel_after(context.has_acted, sink_tasks))
        except asyncio.CancelledError:
            if context.has_acted.is_set():
                await _flush_marks(units)
            elif not any(task.done() for task in sink_tasks):
                await _drain(units)
            raise
        finally:
            for task in sink_tasks:
                task.cancel()


async def _cancel_after(event: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Wait for an event, then cancel tasks."""
    await event.wait()
    for task in tasks:
        task.cancel()


async def _flush_marks(units: list[Unit]) -> None:
    """Mark the delivered rows of all streams."""
    for unit in units:
        await unit.runner.flush_marks()


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
    await _flush_marks(units)


async def _wait_for_clock(clock: SteadyClock) -> int:
    """Wait until the clock shows a time, and return it. Raises ClockJumped after a jump."""
    while True:
        clock.check_no_jump()
        if (now_ms := clock.now_ms()) is not None:
            return now_ms
        await asyncio.sleep(POLL_S)


async def _find_jump(clock: SteadyClock) -> None:
    """Compare the wall clock with the boot clock every `COMPARE_S`. Raises ClockJumped after a jump."""
    while True:
        clock.check_no_jump()
        await asyncio.sleep(COMPARE_S)


async def _log_totals(context: Context) -> None:
    """Log totals every `TOTALS_S`; if no stream uses the event clock, also forget old budget periods."""
    while True:
        await asyncio.sleep(TOTALS_S)
        _log.info("totals: %s", context.counts.as_text(is_public=True))
        _log.debug("all totals: %s", context.counts.as_text())  # they reveal when a home is busy (law 4)
        if not parts.has_event_clock(context.config):
            for odometer in context.odometers.values():
                odometer.forget_before(context.clock.newest_ms - ODOMETER_KEEP_MS)


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log only the type of an exception that the event loop caught: the context may hold a payload."""
    _log.error("in the event loop: %s", type(context.get("exception")).__name__)
