"""The log of a connection that fails repeatedly: a first warning, a summary each minute, and the recovery."""

import asyncio
import logging
from typing import Final

from meteragent.domain.errors import LinkError
from meteragent.mqtt.session import LoginRefused

SUMMARY_S: Final = 60.0
"""The time between two log lines about the same broken connection."""
REASONS_MAX: Final = 5
"""The largest number of different reasons per outage to log immediately."""
STABLE_S: Final = 30.0
"""The lifetime after which a connection counts as established."""

_log = logging.getLogger("meteragent.mqtt.reconnect")


class ConnectionLog:
    """A log of the attempts to keep a connection open.

    The first failure after an established connection is logged immediately, and so is each new reason.
    Further failures are counted, and their number is logged once every SUMMARY_S. While failures are counted,
    a new connection is logged only when it has lasted for STABLE_S, because a broker may accept connections
    and end them at once.
    """

    def __init__(self, name: str, login_hint: str) -> None:
        self._name = name
        self._login_hint = login_hint
        self._loop = asyncio.get_running_loop()
        self._logged_s = 0.0
        self._failures = 0
        self._unlogged = 0
        self._reasons: set[str] = set()
        self._return: asyncio.TimerHandle | None = None

    def connected(self, protocol: str) -> None:
        """Log a connection: immediately, or, if failures were counted before, once it is established."""
        text = f"connected with {protocol}"
        if self._unlogged:
            self._return = self._loop.call_later(STABLE_S, self._log_return, text, self._failures)
        else:
            _log.info("%s: %s", self._name, text)

    def _log_return(self, text: str, failures: int) -> None:
        _log.info("%s: %s after %d failures", self._name, text, failures)
        self._begin()

    def _begin(self) -> None:
        """Forget the failures, so that the next one is logged immediately."""
        self._failures = self._unlogged = 0
        self._reasons.clear()

    def failed(self, reason: LinkError, lifetime_s: float, delay_s: float) -> None:
        """Log or count a failed attempt, or the end of a connection that lasted for `lifetime_s`."""
        self.close()
        if lifetime_s >= STABLE_S:
            self._begin()
        self._failures += 1
        now_s, text = self._loop.time(), str(reason)
        is_new = text not in self._reasons and len(self._reasons) < REASONS_MAX
        if not is_new and now_s - self._logged_s < SUMMARY_S:
            self._unlogged += 1
            return
        hint = f": {self._login_hint}" if self._login_hint and isinstance(reason, LoginRefused) else ""
        count = f" ({self._failures} failures so far)" if self._failures > 1 else ""
        _log.warning("%s: %s%s; next try in %.1f s%s", self._name, text, hint, delay_s, count)
        self._reasons.add(text)
        self._logged_s, self._unlogged = now_s, 0

    def close(self) -> None:
        """Discard a log line that is waiting for a connection to become established."""
        if self._return is not None:
            self._return.cancel()
            self._return = None
