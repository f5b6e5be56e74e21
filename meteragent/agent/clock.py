"""The clocks of the agent: one that never runs backwards, and one that waits after a start (law 4).

A third watches for copies (law 1): memory and disk that are resumed from a snapshot hold open windows
whose intervals may have left since, with the noise that is still to leave. What gives a copy away is the wall
clock: it is set forward, while the time since the machine's start has not moved on.
"""

import logging
from collections.abc import Callable

from meteragent.domain.counters import Counts
from meteragent.domain.units import HOUR_MS, MINUTE_MS

EARLIEST_MS = 1_767_225_600_000
"""2026-01-01: a clock before the software's own time is not synchronised."""

LOOK_S = 1.0
"""How often the time is asked for, at least, so that the wall clock is compared with the boot clock."""
STEP_MS = 5 * MINUTE_MS
"""Once the clock has been synchronised, a longer step forward is a jump."""
UNKNOWN_STEP_MS = HOUR_MS
"""The same where nobody knows whether it has been synchronised."""

_log = logging.getLogger("meteragent")


class ClockJumped(Exception):
    """The wall clock has jumped forward: what is in memory and on disk may be a copy of what has left."""


class BootClock:
    """The time since the machine's start, which tells a jump of the wall clock from the passing of time.

    Both count suspended time, and both follow the slewing of the clock's rate: their difference changes only
    when somebody sets the wall clock. A step before the first synchronisation is no jump (law 4), nor is one
    back, or forward again to where the wall clock has been.
    """

    def __init__(self, boot_ms: Callable[[], int], synchronised: Callable[[], bool | None]) -> None:
        """`boot_ms` reads the clock; `synchronised` is None where nobody knows whether the wall clock is."""
        self._boot_ms = boot_ms
        self._ask = synchronised
        self._synchronised: bool | None = False
        self._asked_ms: int | None = None
        self._ahead_ms: int | None = None

    def step_ms(self, wall_ms: int) -> int:
        """Return by how much the wall clock has jumped since the last call, 0 if it has not.

        `wall_ms` must have been read before this call: then a pause in between looks like a step back.
        """
        boot_ms = self._boot_ms()
        ahead_ms = wall_ms - boot_ms
        before_ms, before = self._ahead_ms, self._synchronised
        if before_ms is None or ahead_ms > before_ms:
            self._ahead_ms = ahead_ms
        step_ms = 0 if before_ms is None else ahead_ms - before_ms
        self._look(boot_ms, at_once=step_ms > STEP_MS)
        if before or self._synchronised is None:
            return step_ms if step_ms > (STEP_MS if before else UNKNOWN_STEP_MS) else 0
        return 0

    def _look(self, boot_ms: int, *, at_once: bool) -> None:
        """Ask whether the clock is synchronised, now and then, until it is."""
        if self._synchronised:
            return
        if at_once or self._asked_ms is None or boot_ms - self._asked_ms >= round(LOOK_S * 1000):
            self._synchronised, self._asked_ms = self._ask(), boot_ms


class SteadyClock:
    """A wall clock that is never earlier than what it, or the store, has seen (law 4).

    After a jump it is no clock any more: everything stands until the store is restored.
    """

    def __init__(self, wall_ms: Callable[[], int], counts: Counts, boot: BootClock | None = None) -> None:
        self.jumped_ms = 0
        self._wall_ms = wall_ms
        self._boot = boot
        self._newest_ms = EARLIEST_MS
        self._counts = counts
        self._stands = False

    @property
    def newest_ms(self) -> int:
        """The newest time seen."""
        return self._newest_ms

    def not_before(self, newest_ms: int) -> None:
        """Take in what the store has seen."""
        self._newest_ms = max(self._newest_ms, newest_ms)

    def now_ms(self) -> int | None:
        """The time; None while the clock shows an earlier one, or has jumped: then everything stands."""
        now_ms = self._wall_ms()
        if self._boot is not None and not self.jumped_ms:
            self.jumped_ms = self._boot.step_ms(now_ms)
        if self.jumped_ms:
            return None
        if now_ms < self._newest_ms:
            if not self._stands:
                self._counts.add("clock_waits")
                _log.warning("the clock is %d s behind: nothing leaves", (self._newest_ms - now_ms) // 1000)
            self._stands = True
            return None
        self._stands = False
        self._newest_ms = now_ms
        return now_ms

    def check(self) -> None:
        """Raise ClockJumped after a jump: nothing may be fed to the core."""
        self.now_ms()
        if self.jumped_ms:
            raise ClockJumped


class CatchUp:
    """Up to when slots may close, also after the stream stood still (law 4).

    What fell due while the agent was stopped, or its store full, stays open until `catch_up` has
    passed since the subscription was confirmed, and readings that arrive by then count.
    """

    def __init__(self, closed_ms: int, wait_ms: int, *, waits: bool) -> None:
        """`closed_ms`: up to when slots have closed; `waits`: whether any could have fallen due."""
        self.ends_ms: int | None = None
        self._closed_ms = closed_ms
        self._wait_ms = wait_ms
        self._waits = waits

    @property
    def over(self) -> bool:
        """Whether slots close by the clock again."""
        return not self._waits

    def again(self) -> None:
        """The stream stood still once more."""
        self._waits, self.ends_ms = True, None

    def closing_ms(self, now_ms: int, *, subscribed: bool) -> int:
        """The time up to which slots may close."""
        if self._waits and subscribed and self.ends_ms is None:
            self.ends_ms = now_ms + self._wait_ms
        if self.ends_ms is not None and now_ms >= self.ends_ms:
            self._waits, self.ends_ms = False, None
        if not self._waits:
            self._closed_ms = now_ms
        return self._closed_ms
