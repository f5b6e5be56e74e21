"""The clocks of the agent.

Windows follow the wall clock, which may be wrong, set back, or part of a copied machine. Two
classes derive reliable times from the wall clock: `SteadyClock` shows the time, and `CatchUp` shows the time
up to which slots may close.

The time since the machine's start (`BootClock`) reveals copies (law 1). When a machine is resumed
from a snapshot, its open windows may have been released since the snapshot, with the same noise. The wall
clock is then set forward, while the boot clock has not advanced. After such a jump, `check_no_jump` raises
ClockJumped, the store is treated as a copy, and the agent restarts with a new clock.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time
from meteragent.service.boot_clock import COMPARE_S, BootClock

EARLIEST_MS = 1_767_225_600_000
"""2026-01-01; a clock that shows an earlier time, before the software existed, is not synchronised."""

POLL_S = 1.0
"""The longest sleep of a task that follows the wall clock, since the clock may be set at any time."""
_log = logging.getLogger("meteragent")


def loop_s() -> float:
    """Return the event loop's time, for schedules that do not depend on the wall clock."""
    return asyncio.get_running_loop().time()


async def wait_at_most(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, but at most for `timeout_s`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


class ClockJumped(Exception):
    """A forward jump of the wall clock: the store may be a copy whose windows have already been released."""


class SteadyClock:
    """A wall clock that never runs backwards and is never behind the newest time in the store (law 4).

    No time is shown, and processing pauses, while the wall clock is behind `newest_ms` or `EARLIEST_MS`, and
    after a jump (`jumped_ms` is not 0). `newest_ms` is the newest time that any process has shown.
    """

    def __init__(self, wall_ms: Callable[[], int], counts: Counts, boot: BootClock | None = None) -> None:
        self.jumped_ms = 0
        self._wall_ms = wall_ms
        self._boot = boot
        self.newest_ms = EARLIEST_MS
        self._counts = counts
        self._is_behind = False

    def set_earliest(self, newest_ms: int) -> None:
        """Ensure that no time before `newest_ms`, the newest time in the store, is shown."""
        self.newest_ms = max(self.newest_ms, newest_ms)

    def now_ms(self) -> int | None:
        """Return the time; None after a jump, or (with a warning) while the clock is behind `newest_ms`."""
        now_ms = self._wall_ms()
        if self._boot is not None and not self.jumped_ms:
            self.jumped_ms = self._boot.step_ms(now_ms)
        if self.jumped_ms:
            return None
        if now_ms < self.newest_ms:
            if not self._is_behind:
                self._counts.add("clock_waits")
                text = "processing paused: the clock shows %s, but the newest known time is %s: set the clock"
                _log.warning(text, iso_time(now_ms), iso_time(self.newest_ms))
            self._is_behind = True
            return None
        self._is_behind = False
        self.newest_ms = now_ms
        return now_ms

    def check_no_jump(self) -> None:
        """Raise ClockJumped after a jump; nothing may be fed to the core after a jump."""
        self.now_ms()
        if self.jumped_ms:
            raise ClockJumped


class CatchUp:
    """The time up to which slots may close, even after a stop or a pause (law 4).

    Slots that became due during the stop stay open for `catch_up` after the subscription is confirmed or
    processing resumes, whichever is later, for readings that wait in the broker. Slots have closed up to
    `closed_ms`. Once the catch-up is over (`is_over`), slots close as soon as they are due.
    """

    def __init__(self, closed_ms: int, wait_ms: int, *, waits: bool) -> None:
        """Start after a stop at `closed_ms`; catch up for `wait_ms` if a slot may be overdue (`waits`)."""
        self.ends_ms: int | None = None
        self.is_over = not waits
        self.closed_ms = closed_ms
        self._wait_ms = wait_ms

    def restart(self) -> None:
        """Begin another catch-up, because processing has paused."""
        self.is_over, self.ends_ms = False, None

    def advance(self, now_ms: int, *, is_subscribed: bool) -> int:
        """Return the time up to which slots may close; begin or end the catch-up if that is due."""
        if is_subscribed and not self.is_over and self.ends_ms is None:
            self.ends_ms = now_ms + self._wait_ms
        if self.ends_ms is not None and now_ms >= self.ends_ms:
            self.is_over, self.ends_ms = True, None
        if self.is_over:
            self.closed_ms = now_ms
        return self.closed_ms


async def run_until(
    end_ms: int | None, is_over: asyncio.Event, clock: SteadyClock, work: Coroutine[Any, Any, None]
) -> None:
    """Run a coroutine; at `end_ms` or once `is_over` is set, cancel it as a stop would, and wait for its end.

    A stop waits until the coroutine has finished, too. Raises the coroutine's error, and CancelledError after
    a stop.
    """
    work_task = asyncio.create_task(work)
    timer_task = asyncio.create_task(_wait_until(clock, end_ms, is_over))
    is_stopped = False
    try:
        await asyncio.wait({work_task, timer_task}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        is_stopped = True
    timer_task.cancel()
    work_task.cancel()
    while not work_task.done():
        try:
            await asyncio.wait({work_task})
        except asyncio.CancelledError:
            if is_stopped:
                work_task.cancel()
            is_stopped = True
    if not work_task.cancelled():
        work_task.result()
    if is_stopped:
        raise asyncio.CancelledError


async def _wait_until(clock: SteadyClock, time_ms: int | None, event: asyncio.Event) -> None:
    """Wait for an event, or until the clock, which may be set meanwhile, has reached `time_ms`."""
    if time_ms is None:
        await event.wait()
        return
    while not event.is_set() and ((now_ms := clock.now_ms()) is None or now_ms < time_ms):
        left_s = COMPARE_S if now_ms is None else (time_ms - now_ms) / 1000
        await wait_at_most(event, min(left_s, COMPARE_S))
