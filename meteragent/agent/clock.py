"""The clocks of the agent: one that never runs backwards, and one that waits after a start (law 4)."""

import logging
from collections.abc import Callable

from meteragent.health import Counts

EARLIEST_MS = 1_767_225_600_000
"""2026-01-01: a clock before the software's own time is not synchronised."""

_log = logging.getLogger("meteragent")


class SteadyClock:
    """A wall clock that is never earlier than what it, or the store, has seen (law 4)."""

    def __init__(self, wall_ms: Callable[[], int], counts: Counts) -> None:
        self._wall_ms = wall_ms
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
        """The time; None while the clock shows an earlier one: then everything stands."""
        now_ms = self._wall_ms()
        if now_ms < self._newest_ms:
            if not self._stands:
                self._counts.add("clock_waits")
                _log.warning("the clock is %d s behind: nothing leaves", (self._newest_ms - now_ms) // 1000)
            self._stands = True
            return None
        self._stands = False
        self._newest_ms = now_ms
        return now_ms


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
