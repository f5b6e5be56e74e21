"""The loop that connects, serves and reconnects, with its pauses and its choice of the MQTT version."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Final, NoReturn

from meteragent.domain.errors import LinkError
from meteragent.mqtt.connection_log import STABLE_S, ConnectionLog
from meteragent.mqtt.endpoint import Version
from meteragent.mqtt.link import Link
from meteragent.mqtt.session import NoConnack, Serve, Session, VersionRefused

Entropy = Callable[[int], bytes]
"""A function that returns as many random bytes as requested, such as `os.urandom`."""

FLOOR_S: Final = 0.5
CEILING_S: Final = 30.0
"""The upper limits, in seconds, of the first pause (`FLOOR_S`) and of all pauses (`CEILING_S`)."""


async def keep_connected(link: Link, serve: Serve, entropy: Entropy) -> NoReturn:
    """Keep one connection to a broker open until cancelled, and run `serve` on each connection.

    A lost connection cancels `serve`. If `serve` returns, the connection stays open; if it raises LinkError,
    the connection is replaced. Any other exception from `serve` or a callback is raised here. A cancelled
    connection ends with a DISCONNECT (except over 3.1.1 with a `will`).
    """
    backoff, versions = Backoff(entropy), _Versions(link.endpoint.version)
    with closing(ConnectionLog(link.name, link.advice)) as log:
        while True:
            session = Session(link, versions.next_version)
            lifetime_s, reason = await _one_connection(log, session, serve)
            if link.will is not None and reason.code == "no_retain":
                link = replace(link, will=link.will._replace(retain=False))
            versions.note_attempt(reason, has_worked=session.accepted)
            if lifetime_s is not None:
                link.count("lost")
            link.on_failed(reason)
            delay_s = backoff.delay_s(lifetime_s or 0.0)
            log.failed(reason, lifetime_s or 0.0, delay_s)
            await asyncio.sleep(delay_s)


async def _one_connection(
    log: ConnectionLog, session: Session, serve: Serve
) -> tuple[float | None, LinkError]:
    """Open, serve and close a session; return its lifetime (None: not opened) and the reason for its end."""
    now_s = asyncio.get_running_loop().time
    opened_s = None
    try:
        await session.open()
        opened_s = now_s()
        log.connected("MQTT 5" if session.version == 5 else "MQTT 3.1.1")
        await session.run(serve)
    except LinkError as reason:
        return None if opened_s is None else now_s() - opened_s, reason
    finally:
        await session.close()


class _Versions:
    """The MQTT version of the next connection: the configured version, if there is one.

    Otherwise it is 5 until the broker refuses 5, then 3.1.1 until the broker refuses 3.1.1, and so on. A
    CONNECT without an answer counts as a refusal only if the version has never worked.
    """

    def __init__(self, version: Version) -> None:
        self.next_version = 4 if version == "3.1.1" else 5
        self._is_configured = version != "auto"
        self._has_worked = False

    def note_attempt(self, reason: LinkError, *, has_worked: bool) -> None:
        """Choose the next version from the reason why a connection ended."""
        self._has_worked |= has_worked
        is_unanswered = isinstance(reason, NoConnack) and not self._has_worked
        if not self._is_configured and (is_unanswered or isinstance(reason, VersionRefused)):
            self.next_version = 4 if self.next_version == 5 else 5
            self._has_worked = False


class Backoff:
    """The delay before the next connection: exponential, with full jitter.

    After the k-th failure in a row, counted from 0, the delay is uniform on [0, min(CEILING_S, FLOOR_S ·
    2^k)). Only a connection that lasted for STABLE_S resets k, so that a broker that accepts connections and
    ends them at once is not flooded.
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
