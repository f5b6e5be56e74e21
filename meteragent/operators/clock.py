"""The clock of an operator: whole seconds since 1970, how long to wait for an instant, and its ticks."""

import time
from typing import Final

TICK_S: Final = 10
"""The time between two ticks of a machine."""
TICKS_S: Final = 600
"""The longest pause whose ticks are all made up for; after a longer one, only the latest is."""


class Clock:
    """The system's clock. Tests pass one that runs faster."""

    def now_s(self) -> int:
        """Return the time, in seconds since 1970."""
        return time.time_ns() // 1_000_000_000

    def pause_s(self, instant_s: int) -> float:
        """Return how long to wait for an instant, at most a minute, because the clock may be set."""
        return min(max(instant_s - time.time(), 0.0), 60.0)


class Ticks:
    """The instants of a machine's ticks: the multiples of TICK_S.

    A tick may run late, because of the work before it. It nevertheless has its own instant, so that its
    messages do not show how long that work took (crowd.md 8, Time).
    """

    def __init__(self, now_s: int) -> None:
        self._last_s = _floor(now_s)

    @property
    def next_s(self) -> int:
        """The next instant."""
        return self._last_s + TICK_S

    def due(self, now_s: int, oldest_s: int) -> list[int]:
        """Return the instants that have come, but none after the arrival of the oldest waiting message.

        Thus a report that arrived before a deadline and is still waiting counts. If the clock was set back,
        or after a pause of more than TICKS_S, return only the latest instant.
        """
        latest_s = _floor(min(now_s, oldest_s))
        if now_s < self._last_s or latest_s - self._last_s > TICKS_S:
            self._last_s = latest_s
            return [latest_s]
        instants = list(range(self.next_s, latest_s + 1, TICK_S))
        self._last_s = max(self._last_s, latest_s)
        return instants


def _floor(time_s: int) -> int:
    return time_s - time_s % TICK_S
