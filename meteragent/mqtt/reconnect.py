"""The loop that connects, serves and reconnects: its pauses, its log and its choice of the MQTT version."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Final, NoReturn

from meteragent.domain.errors import LinkError
from meteragent.mqtt.link import Link, Version
from meteragent.mqtt.packets import MQTT_3, MQTT_5
from meteragent.mqtt.session import NoConnack, Serve, Session, VersionRefused

Entropy = Callable[[int], bytes]
"""A function that returns as many random bytes as requested, such as `os.urandom`."""

FLOOR_S: Final = 0.5
CEILING_S: Final = 30.0
"""The upper limits, in seconds, of the first pause (`FLOOR_S`) and of all pauses (`CEILING_S`)."""
SUMMARY_S: Final = 60.0
"""The shortest time, in seconds, from a warning to a summary of further failures."""
REASONS_MAX: Final = 5
"""The largest number of different reasons per outage that are logged immediately."""
STABLE_S: Final = 30.0
"""The lifetime, in seconds, after which a connection is treated as established."""

_log = logging.getLogger(__name__)


async def keep_connected(link: Link, serve: Serve, entropy: Entropy) -> NoReturn:
    """Keep one connection to a broker open until cancelled, and run `serve` on each connection.

    A lost connection cancels `serve`. After a LinkError from `serve`, a new connection is opened; any other
    exception, also from a callback, is raised here. A cancelled connection ends with a DISCONNECT (except
    over 3.1.1 with a `will`).
    """
    backoff, versions = Backoff(entropy), _Versions(link.endpoint.version)
    with closing(ConnectionLog(link.name, link.advice)) as log:
        while True:
            session = Session(link, versions.next_version)
            lifetime_s, reason = await _serve_once(log, session, serve)
            if link.will is not None and reason.code == "no_retain":
                link = replace(link, will=link.will._replace(retain=False))
            versions.note_attempt(reason, has_worked=session.is_accepted)
            if lifetime_s is not None:
                link.count("lost")
            link.on_failed(reason)
            delay_s = backoff.delay_s(lifetime_s or 0.0)
            log.on_failed(reason, lifetime_s or 0.0, delay_s)
            await asyncio.sleep(delay_s)


async def _serve_once(log: "ConnectionLog", session: Session, serve: Serve) -> tuple[float | None, LinkError]:
    """Open, serve and close a session; return its lifetime (None: not opened) and the reason for its end."""
    now_s = asyncio.get_running_loop().time
    opened_s = None
    try:
        await session.open()
        opened_s = now_s()
        log.on_connected("MQTT 5" if session.version == MQTT_5 else "MQTT 3.1.1")
        await session.run(serve)
    except LinkError as reason:
        return None if opened_s is None else now_s() - opened_s, reason
    finally:
        await session.close()


class _Versions:
    """The MQTT version of the next connection: as configured, or 5 until the broker refuses it.

    A CONNECT without an answer is treated as a refusal only if the version has never worked.
    """

    def __init__(self, version: Version) -> None:
        self.next_version = MQTT_3 if version == "3.1.1" else MQTT_5
        self._is_configured = version != "auto"
        self._has_worked = False

    def note_attempt(self, reason: LinkError, *, has_worked: bool) -> None:
        """Choose the next version from the reason why a connection ended."""
        self._has_worked |= has_worked
        is_unanswered = isinstance(reason, NoConnack) and not self._has_worked
        if not self._is_configured and (is_unanswered or isinstance(reason, VersionRefused)):
            self.next_version = MQTT_3 if self.next_version == MQTT_5 else MQTT_5
            self._has_worked = False


class Backoff:
    """The delay before the next connection: exponential, with full jitter.

    After the k-th failure in a row, counted from 0, it is uniform on [0, min(CEILING_S, FLOOR_S · 2^k)). Only
    a connection that lasted for STABLE_S resets k, so a broker that ends connections at once is not flooded.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._failure_count = 0

    def delay_s(self, lifetime_s: float) -> float:
        """Return the delay, in seconds, after a connection of `lifetime_s` (0 if it was never opened)."""
        if lifetime_s >= STABLE_S:
            self._failure_count = 0
        ceiling_s = min(CEILING_S, FLOOR_S * 2.0 ** min(self._failure_count, 16))
        self._failure_count += 1
        return ceiling_s * (int.from_bytes(self._entropy(6)) / 2.0**48)


class ConnectionLog:
    """A log of the attempts to keep a connection open.

    The first failure after an established connection is logged at once, and so is each new reason, up to
    REASONS_MAX. A failure SUMMARY_S or more after the last warning is logged with the number of failures.
    Other failures are only counted; the connection after them is logged when it has lasted for STABLE_S.
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

    def on_connected(self, protocol: str) -> None:
        """Log a connection at once or, after failures that were not logged, once it has lasted STABLE_S."""
        text = f"connected with {protocol}"
        if self._unlogged_count:
            self._recovery_timer = self._loop.call_later(
                STABLE_S, self._log_stable, text, self._failure_count
            )
        else:
            _log.info("%s: %s", self._name, text)

    def _log_stable(self, text: str, failure_count: int) -> None:
        _log.info("%s: %s after %d failures", self._name, text, failure_count)
        self._reset()

    def _reset(self) -> None:
        """Forget the failures, so that the next one is logged immediately."""
        self._failure_count = self._unlogged_count = 0
        self._reasons.clear()

    def on_failed(self, reason: LinkError, lifetime_s: float, delay_s: float) -> None:
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
