"""The loop of one stream, which takes messages through the core into the store.

    wait for messages or a deadline -> feed the core -> one transaction -> hand to the sinks -> acknowledge

Theory of operation
-------------------
A runner takes these steps in turn, with at most one commit in progress, so a record is sent and a message is
acknowledged only after its transaction (law 2). During a commit the next batch grows, so commits grow with
the load. These times, all on the wall clock, drive a round of `Runner.run`:

    now           windows and slots open up to this time
    closing       slots close up to this time: `now`, except while `catch_up` runs (`CatchUp`)
    last_now, last_closing
                  `now` and `closing` of the last round; at a start, the stream's time at the last stop

If much time has passed since the last round, after an outage or a suspension of the machine, the runner
catches up window by window, so that no transaction contains a year of records. If messages are also waiting,
or closing lags behind opening, only windows open at first. Then the waiting messages are fed, and only then
do slots close, because a reading must not find its slot closed just because the agent was late (law 4).

Processing pauses while the clock shows no time, while the store is full, and while another reader keeps old
accumulators in the log too long (`_wait_for_time`). Any exception except ClockJumped must end the process.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meteragent.agent.clock import POLL_S, CatchUp
from meteragent.agent.environment import Context
from meteragent.agent.link.outlets import Outlets
from meteragent.agent.link.source import Source
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Budget, Commit
from meteragent.domain.problem import PROBLEMS
from meteragent.domain.reading import Message
from meteragent.store import outbox

UNERASED_MAX_S = 600.0
"""How long another reader may keep old accumulators in the log before processing pauses."""

_log = logging.getLogger("meteragent")


@dataclass(frozen=True, slots=True)
class Runner:
    """The loop that takes one stream's messages through the core into the store.

    Each round calls `heartbeat` (for watchdog, intake and log), and each commit `on_commit` with its rows.

    In a month-long slot, each commit writes an accumulator that is overwritten minutes later, which wears
    out flash memory. So readings are collected, unacknowledged, for up to `store.flush`; a slot that is
    due is never delayed.
    """

    pipeline: Pipeline
    source: Source
    outlets: Outlets
    context: Context
    catch_up: CatchUp
    budget: Budget | None
    heartbeat: Callable[[], None]
    on_commit: Callable[[Sequence[outbox.WaitingRow]], None] = lambda _: None

    async def run(self) -> None:
        """Run until cancelled; any exception except ClockJumped must end the process."""
        last_now_ms = last_closing_ms = self.catch_up.closed_ms
        while True:
            # Read the flag before the time, so that the catch-up never starts before the subscription.
            is_subscribed = self.source.subscribed.is_set()
            now_ms = await self._wait_for_time()
            closing_ms = self.catch_up.advance(now_ms, is_subscribed=is_subscribed)
            steps = self._feed_times_ms(last_now_ms, now_ms)
            # Slots that fell due since the last round stay open until the waiting messages are fed.
            messages_first = last_closing_ms < last_now_ms or bool(steps and self.source.batch_count)
            for step_ms in steps:
                await self._feed([], step_ms, last_closing_ms if messages_first else min(closing_ms, step_ms))
            if messages_first and closing_ms > last_closing_ms:
                await self._close_after(now_ms, last_closing_ms, closing_ms)
            if self._may_wait(last_now_ms, now_ms, closing_ms):
                await asyncio.sleep(min(self._pause_s(), self.context.config.store.flush / 1000))
                continue
            await self._feed(self.source.take_batch(now_ms), now_ms, closing_ms)
            last_now_ms, last_closing_ms = now_ms, closing_ms
            await self.source.wait(self._pause_s())

    def _may_wait(self, fed_ms: int, now_ms: int, closing_ms: int) -> bool:
        """Return whether messages may wait for more messages: for up to `store.flush`, while nothing is due.

        The messages may be a new meter's, whose first window opens at the next boundary, so this boundary is
        a deadline, too. No message may wait while a page is open or more than `backlog_max` wait.
        """
        if (
            self.context.viewers
            or not 0 < self.source.backlog_count <= self.source.backlog_max
            or now_ms - fed_ms >= self.context.config.store.flush
        ):
            return False
        deadline_ms = self.pipeline.deadline_ms(includes_closings=closing_ms == now_ms)
        due_ms = self.pipeline.schedule.first_start_ms(fed_ms + 1)
        return now_ms < (due_ms if deadline_ms is None else min(due_ms, deadline_ms))

    async def _close_after(self, now_ms: int, last_closing_ms: int, closing_ms: int) -> None:
        """Feed the waiting messages, then close the slots that fell due while closing was put off."""
        for _ in range(self.source.batch_count):
            await self._feed(self.source.take_batch(now_ms), now_ms, last_closing_ms)
        for step_ms in self._feed_times_ms(last_closing_ms, closing_ms):
            await self._feed([], now_ms, step_ms)

    def _feed_times_ms(self, from_ms: int, to_ms: int) -> range:
        """Return the times between `from_ms` and `to_ms` at which to feed the core: one per window length."""
        length_ms = self.pipeline.schedule.usual.length_ms
        return range(from_ms + length_ms, to_ms, length_ms)

    async def _feed(self, batch: Sequence[Message], now_ms: int, closing_ms: int) -> None:
        clock, viewers, name = self.context.clock, self.context.viewers, self.pipeline.name
        self.heartbeat()
        clock.check_no_jump()
        has_too_many = self.context.thread.note_refused_bytes(name, self.outlets.refused_bytes)
        self.pipeline.withhold_from(self.outlets.refused_destinations if has_too_many else ())
        observer = viewers.observer_of(name)
        self.pipeline.admit_destinations(self.outlets.take_free_destinations(), clock.newest_ms)
        effects = self.pipeline.feed(batch, now_ms, closing_ms, observer)
        await self._commit(effects.commit)
        self.outlets.ask_about(effects.ask_about)
        if viewers:
            viewers.queue_records(name, effects.commit.outgoing)
        self.source.acknowledge(effects.acknowledge)

    async def _commit(self, commit: Commit) -> None:
        row_ids = sorted(self.outlets.unmarked_ids)
        if commit or row_ids:
            rows = await self.context.thread.persist(commit, row_ids, self.budget)
            self.outlets.note_marked(row_ids)
            if rows:
                self.on_commit(rows)
                self.outlets.queue_rows(rows)

    async def _wait_for_time(self) -> int:
        """Wait while processing must pause, for the reasons in the module's docstring; return the time."""
        is_paused, thread, clock = False, self.context.thread, self.context.clock
        while True:
            self.heartbeat()
            await thread.wait_until_erased()
            clock.check_no_jump()
            now_ms = clock.now_ms()
            if now_ms is not None:
                is_unerased = thread.unerased_s >= UNERASED_MAX_S
                if not is_unerased and await thread.has_space():
                    return now_ms
                if not is_paused:
                    is_paused = True
                    self.catch_up.restart()
                    self.context.counts.add("store_unerased" if is_unerased else "store_full")
                    meaning = PROBLEMS["unerased_stands" if is_unerased else "store_full"]
                    _log.warning("%s. %s", meaning.cause, meaning.cure)
                if not is_unerased:
                    await self.flush_marks()
            await asyncio.sleep(POLL_S)

    async def flush_marks(self) -> None:
        """Mark delivered rows in a commit of their own, at a stop or to make room."""
        await self._commit(Commit(self.pipeline.name, self.context.clock.newest_ms))

    def _pause_s(self) -> float:
        """Return the time until the next deadline or the end of the catch-up, at most `POLL_S`."""
        now_ms = self.context.clock.now_ms()  # read again, because the last batch took time
        deadline_ms = self.pipeline.deadline_ms(includes_closings=self.catch_up.is_over)
        times_ms = [time_ms for time_ms in (deadline_ms, self.catch_up.ends_ms) if time_ms is not None]
        if now_ms is None or not times_ms:
            return POLL_S
        return min(max((min(times_ms) - now_ms) / 1000, 0), POLL_S)
