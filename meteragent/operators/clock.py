"""The clock of an operator: the time, waits, unconfirmed jumps and ticks. Times are seconds since 1970.

The serial of a key list is the time of its publication, and homes refuse lists with lower serials. If a list
was published by a clock that is years ahead, and then the store is lost, homes refuse new lists for years.
"""

import time
from typing import Final

from meteragent.service.boot_clock import STEP_MS, BootClock, boot_ms, was_synchronised

TICK_S: Final = 10
"""The time between two ticks of a machine, in seconds."""
CATCH_UP_MAX_S: Final = 600
"""The longest pause, in seconds, after which all missed ticks run; after a longer one, only the last."""


class Clock:
    """The system's clock. Tests pass a clock that runs faster."""

    def now_s(self) -> int:
        """Return the time, in seconds since 1970."""
        return time.time_ns() // 1_000_000_000

    def pause_s(self, instant_s: int) -> float:
        """Return how long to wait for an instant: at most a minute, as the clock may be set meanwhile."""
        return min(max(instant_s - time.time(), 0.0), 60.0)

    def boot_ms(self) -> int:
        """Return the time since the machine's start, in ms; setting the wall clock does not change it."""
        return boot_ms()


class StepWatch:
    """A watch for an unconfirmed forward step of the wall clock, as defined by `BootClock`.

    The step is over when the clock is set back. A restart of the operator confirms the step.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._confirmed_ms: int | None = None
        self._begin()

    def ahead_s(self, now_s: int) -> int:
        """Return how many seconds the clock is ahead of the confirmed time; 0 without an unconfirmed step."""
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
        self._begin()  # because the old BootClock would accept a second step to a time that it has seen
        self._boot.step_ms(1000 * now_s)
        return 0

    def _begin(self) -> None:
        self._boot = BootClock(self._clock.boot_ms, was_synchronised)


class Ticks:
    """The instants of a machine's ticks: the multiples of TICK_S.

    A tick may run late because of earlier work. The time of a tick is nevertheless its scheduled instant, so
    the tick's messages do not show how long the earlier work took (crowd.md 4).
    """

    def __init__(self, now_s: int) -> None:
        self._last_s = _floor(now_s)

    @property
    def next_s(self) -> int:
        """The instant of the next tick."""
        return self._last_s + TICK_S

    def take_due(self, now_s: int, oldest_s: int) -> list[int]:
        """Return the instants of due ticks, up to `oldest_s`, the arrival of the oldest waiting message.

        Because of this limit, a report that arrived before a deadline is used even if it waits. If the clock
        was set back, or after a pause of more than CATCH_UP_MAX_S, return only the latest instant.
        """
        latest_s = _floor(min(now_s, oldest_s))
        if now_s < self._last_s or latest_s - self._last_s > CATCH_UP_MAX_S:
            self._last_s = latest_s
            return [latest_s]
        instants = list(range(self.next_s, latest_s + 1, TICK_S))
        self._last_s = max(self._last_s, latest_s)
        return instants


def _floor(time_s: int) -> int:
    return time_s - time_s % TICK_S
