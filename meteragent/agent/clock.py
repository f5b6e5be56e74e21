"""The clocks of the agent: one that never runs backwards, and one that waits after a start (law 4)."""

import logging
from collections.abc import Callable

from meteragent.health import Counts

EARLIEST_MS = 1_767_225_600_000
"""2026-01-01: a clock before the software's own time is not synchronised."""

_log = logging.getLogger("meteragent")


class SteadyClock:
    """A wall clock that is never earlier than what it, or the store, has seen (law 4)."""

    def __init__(self, wall_ms: Callable[[], int], newest_ms: int, counts: Counts) -> None:
        self._wall_ms = wall_ms
        self._newest_ms = max(newest_ms, EARLIEST_MS)
        self._counts = counts
        self._stands = False

    @property
    def newest_ms(self) -> int:
        """The newest time seen."""
        return self._newest_ms

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
    """When slots may close after a start (law 4).

    What fell due while the agent was stopped stays open until `catch_up` has passed since the
    subscription was confirmed, and readings that arrive by then count.
    """

    def __init__(self, stood_ms: int | None, wait_ms: int) -> None:
        """`stood_ms` is where the clock stood at the stop; None: nothing was open, nothing waits."""
        self._stood_ms = stood_ms
        self._wait_ms = wait_ms
        self._ends_ms: int | None = None

    @property
    def over(self) -> bool:
        """Whether slots close by the clock again."""
        return self._stood_ms is None

    def closing_ms(self, now_ms: int, *, subscribed: bool) -> int:
        """The time up to which slots may close."""
        if self._stood_ms is None:
            return now_ms
        if subscribed and self._ends_ms is None:
            self._ends_ms = now_ms + self._wait_ms
        if self._ends_ms is None or now_ms < self._ends_ms:
            return self._stood_ms
        self._stood_ms = None
        return now_ms
