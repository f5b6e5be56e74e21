"""The log of a connection that fails repeatedly: warnings, at most one summary a minute, and the recovery."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from meteragent.domain.errors import LinkError

SUMMARY_S: Final = 60.0
"""The shortest time, in seconds, from a warning to a summary of further failures."""
REASONS_MAX: Final = 5
"""The largest number of different reasons per outage that are logged immediately."""
STABLE_S: Final = 30.0
"""The lifetime, in seconds, after which a connection counts as established."""

_log = logging.getLogger("meteragent.mqtt.reconnect")


class ConnectionLog:
    """A log of the attempts to keep a connection open.

    The first failure after an established connection is logged immediately, and so is each new reason, up to
    REASONS_MAX. Other failures are counted. A failure that comes SUMMARY_S or more after the last warning is
    logged, with the number of failures in this outage. While counted failures have not been logged, a new
    connection is logged only when it has lasted for STABLE_S, because a broker may accept connections and end
    them at once.
    """

    def __init__(self, name: str, advice: Callable[[str], str]) -> None:
        self._name = name
        self._advice = advice
        self._loop = asyncio.get_running_loop()
        self._last_log_s = 0.0
        self._failure_count = 0
        self._unlogged_count = 0
        self._reasons: set[str] = set()
        self._recovery_timer: asyncio.TimerHandle | None = None

    def connected(self, protocol: str) -> None:
        """Log a connection at once or, after failures that were not logged, once it has lasted STABLE_S."""
        text = f"connected with {protocol}"
        if self._unlogged_count:
            self._recovery_timer = self._loop.call_later(
                STABLE_S, self._log_recovery, text, self._failure_count
            )
        else:
            _log.info("%s: %s", self._name, text)

    def _log_recovery(self, text: str, failure_count: int) -> None:
        _log.info("%s: %s after %d failures", self._name, text, failure_count)
        self._reset()

    def _reset(self) -> None:
        """Forget the failures, so that the next one is logged immediately."""
        self._failure_count = self._unlogged_count = 0
        self._reasons.clear()

    def failed(self, reason: LinkError, lifetime_s: float, delay_s: float) -> None:
        """Log or count the end of an attempt or of a connection; the next attempt follows after `delay_s`."""
        self.close()
        if lifetime_s >= STABLE_S:
            self._reset()
        self._failure_count += 1
        now_s, text = self._loop.time(), str(reason)
        is_new = text not in self._reasons and len(self._reasons) < REASONS_MAX
        if not is_new and now_s - self._last_log_s < SUMMARY_S:
            self._unlogged_count += 1
            return
        advice = self._advice(reason.code)
        hint = f". {advice}" if advice else ""
        count = f" ({self._failure_count} failures so far)" if self._failure_count > 1 else ""
        _log.warning("%s: %s; next try in %.1f s%s%s", self._name, text, delay_s, count, hint)
        self._reasons.add(text)
        self._last_log_s, self._unlogged_count = now_s, 0

    def close(self) -> None:
        """Discard a log line that is waiting for a connection to become established."""
        if self._recovery_timer is not None:
            self._recovery_timer.cancel()
            self._recovery_timer = None
