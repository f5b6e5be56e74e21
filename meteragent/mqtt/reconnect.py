"""The loop that connects, serves and reconnects, with its pauses and its choice of the MQTT version."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Final, NoReturn

from meteragent.domain.errors import LinkError
from meteragent.mqtt.connection_log import STABLE_S, ConnectionLog
from meteragent.mqtt.endpoint import Endpoint, Version
from meteragent.mqtt.packets import Will
from meteragent.mqtt.session import (
    Count,
    Link,
    NoConnack,
    OnDelivered,
    OnMessage,
    OnRefused,
    Session,
    VersionRefused,
)

Entropy = Callable[[int], bytes]
"""A function that returns as many random bytes as requested, such as `os.urandom`."""

FLOOR_S: Final = 0.5
CEILING_S: Final = 30.0
"""The upper limits, in seconds, of the first pause (`FLOOR_S`) and of all pauses (`CEILING_S`)."""
WEEK_S: Final = 7 * 86_400


def _ignore(*_: object) -> None:
    """Do nothing; this is the default callback."""


async def keep_connected(  # noqa: PLR0913 -- each argument is the caller's choice
    endpoint: Endpoint,
    client_id: str,
    serve: Callable[[Session], Awaitable[None]],
    *,
    entropy: Entropy,
    on_message: OnMessage = _ignore,
    on_delivered: OnDelivered = _ignore,
    on_refused: OnRefused | None = None,
    receive_maximum: int = 65_535,
    inflight: int = 100,
    session_expiry_s: int = WEEK_S,
    keepalive_s: int = 60,
    timeout_s: float = 10.0,
    count: Count = _ignore,
    will: Will | None = None,
    on_failed: Callable[[LinkError], None] = _ignore,
    role: str = "",
    login_hint: str = "",
) -> NoReturn:
    """Keep one connection to a broker open until cancelled, and run `serve` on each connection.

    A lost connection cancels `serve`. If `serve` returns, the connection stays open; if it raises LinkError,
    the connection is replaced. Any other exception from `serve` or a callback is raised here. A cancelled
    connection ends with a DISCONNECT (except over 3.1.1 with a `will`). The broker publishes `will` after
    each connection, and keeps the session for `session_expiry_s` (0: no session; over 3.1.1 it decides).

    `receive_maximum` limits the unacknowledged messages that the broker may send (MQTT 5 only), `inflight` is
    an upper limit of `Session.inflight`, and `timeout_s` limits each wait for a connection or a subscription.
    `on_refused` gets each publication that the broker refuses (MQTT 5 only). If it is None, or the refusal
    does not concern a topic, the connection ends. `on_failed` gets the reason when a connection or an attempt
    fails, and may raise an error to give up. `role` and `login_hint` are for the log.
    """
    link = Link(
        name=f"{role} {endpoint.host}:{endpoint.port}".lstrip(),
        endpoint=endpoint,
        client_id=client_id,
        on_message=on_message,
        on_delivered=on_delivered,
        on_refused=on_refused,
        receive_maximum=receive_maximum,
        inflight=inflight,
        session_expiry_s=session_expiry_s,
        keepalive_s=keepalive_s,
        timeout_s=timeout_s,
        count=count,
        will=will,
    )
    backoff, versions = Backoff(entropy), _Versions(endpoint.version)
    with closing(ConnectionLog(link.name, login_hint)) as log:
        while True:
            session = Session(link, versions.next_version)
            lifetime_s, reason = await _one_connection(log, session, serve)
            versions.note_attempt(reason, has_worked=session.accepted)
            if lifetime_s is not None:
                count("lost")
            on_failed(reason)
            delay_s = backoff.delay_s(lifetime_s or 0.0)
            log.failed(reason, lifetime_s or 0.0, delay_s)
            await asyncio.sleep(delay_s)


async def _one_connection(
    log: ConnectionLog, session: Session, serve: Callable[[Session], Awaitable[None]]
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
