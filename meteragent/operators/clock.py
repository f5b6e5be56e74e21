"""The clock of an operator: whole seconds since 1970, how long to wait, its steps and its ticks.

A key list has the time as its serial, and homes refuse lists with lower serials. So a list that is published
while the clock is years ahead makes homes refuse all later lists of an operator that begins anew.
"""

import time
from typing import Final

from meteragent.agent.clock import STEP_MS, BootClock
from meteragent.agent.synchronised import synchronised

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

    def boot_ms(self) -> int:
        """Return the time since the machine's start, in ms, which nobody can set."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Steps:
    """The forward steps of the wall clock that nobody has confirmed, by the rules of `BootClock`.

    A step ends when the clock is set back. A restart of the operator confirms it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._confirmed_ms: int | None = None
        self._begin()

    def ahead_s(self, now_s: int) -> int:
        """Return how far the clock is ahead of the time that is confirmed; 0 if it has not jumped."""
        step_ms = self._boot.step_ms(1000 * now_s)
        lead_ms = 1000 * now_s - self._clock.boot_ms()
        if step_ms and self._confirmed_ms is None:
            self._confirmed_ms = lead_ms - step_ms
        if self._confirmed_ms is None:
            return 0
        ahead_ms = lead_ms - self._confirmed_ms
        if ahead_ms > STEP_MS:
            return ahead_ms // 1000
        self._confirmed_ms = None
        self._begin()  # a BootClock accepts a time that it has seen before; this one must not
        self._boot.step_ms(1000 * now_s)
        return 0

    def _begin(self) -> None:
        self._boot = BootClock(self._clock.boot_ms, synchronised)


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
