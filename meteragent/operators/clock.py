"""The clock of an operator: whole seconds since 1970, and how long to wait for an instant."""

import time


class Clock:
    """The system's clock. Tests pass one that runs faster."""

    def now_s(self) -> int:
        """Return the time, in seconds since 1970."""
        return time.time_ns() // 1_000_000_000

    def pause_s(self, instant_s: int) -> float:
        """Return how long to wait for an instant, at most a minute, since the clock may be set."""
        return min(max(instant_s - time.time(), 0.0), 60.0)
