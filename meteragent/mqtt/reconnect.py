"""Connect, serve, and connect again: when, and with which version of MQTT."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from meteragent.domain.errors import LinkError
from meteragent.mqtt.endpoint import Endpoint, Version
from meteragent.mqtt.packets import Will
from meteragent.mqtt.session import (
    Count,
    Link,
    LoginRefused,
    NoConnack,
    OnDelivered,
    OnMessage,
    OnRefused,
    Session,
    VersionRefused,
)

Entropy = Callable[[int], bytes]
"""Returns a number of random bytes: `os.urandom`, or a test's own."""

FLOOR_S: Final = 0.5
CEILING_S: Final = 30.0
STABLE_S: Final = 30.0
WEEK_S: Final = 7 * 86_400

_log = logging.getLogger(__name__)


def _ignore(*_: object) -> None:
    """Do nothing: the default callback."""


async def keep_connected(  # noqa: PLR0913 -- each is the caller's to say
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
    """Keep one connection to a broker until cancelled, and run `serve` on each.

    `serve` is cancelled when its connection is lost. When it returns, the connection stays. When it raises
    LinkError, the connection is closed and another is made. Any other exception from it or a callback is
    raised here. A cancelled connection ends with a DISCONNECT; the broker keeps its side of the session for
    `session_expiry_s` (0: there is none), and publishes the `will` after each connection, however it ended.

    `receive_maximum` bounds the unacknowledged messages that the broker may send (MQTT 5 only), `timeout_s`
    each wait for an answer. `on_refused` is called for each publication that the broker refuses (MQTT 5
    only); without it, or if the refusal does not concern a topic, a refusal ends the connection. `on_failed`
    is called with the reason when a connection ends or cannot be made. `role` precedes the broker's address
    in the log; `login_hint` says what to do if the user name and password are refused.
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
    while True:
        session = Session(link, versions.next)
        lifetime_s, reason = await _one_connection(link.name, session, serve)
        versions.note_attempt(reason, worked=session.accepted)
        if lifetime_s is not None:
            count("lost")
        on_failed(reason)
        hint = f": {login_hint}" if login_hint and isinstance(reason, LoginRefused) else ""
        delay_s = backoff.delay_s(lifetime_s or 0.0)
        _log.warning("%s: %s%s; next try in %.1f s", link.name, reason, hint, delay_s)
        await asyncio.sleep(delay_s)


async def _one_connection(
    name: str, session: Session, serve: Callable[[Session], Awaitable[None]]
) -> tuple[float | None, LinkError]:
    """Open, serve and close one session; return its lifetime (None: it did not open) and why it ended."""
    now_s = asyncio.get_running_loop().time
    opened_s = None
    try:
        await session.open()
        opened_s = now_s()
        _log.info("%s: connected with MQTT %s", name, "5" if session.version == 5 else "3.1.1")
        await session.run(serve)
    except LinkError as reason:
        return None if opened_s is None else now_s() - opened_s, reason
    finally:
        await session.close()


class _Versions:
    """The version of MQTT to speak next: 5 until it is refused, unless the configuration states one.

    If the broker does not answer CONNECT, that counts as a refusal only while the version has never worked.
    """

    def __init__(self, stated: Version) -> None:
        self.next = 4 if stated == "3.1.1" else 5
        self._stated = stated != "auto"
        self._worked = False

    def note_attempt(self, reason: LinkError, *, worked: bool) -> None:
        self._worked |= worked
        unanswered = isinstance(reason, NoConnack) and not self._worked
        if not self._stated and (unanswered or isinstance(reason, VersionRefused)):
            self.next = 4 if self.next == 5 else 5
            self._worked = False


class Backoff:
    """The delay before the next connection: exponential, with full jitter.

    After the k-th failure in a row, from 0: uniform on [0, min(CEILING_S, FLOOR_S · 2^k)). Only a connection
    that lasted for STABLE_S resets k, so a broker that accepts connections and ends them at once is not
    stormed.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._failures = 0

    def delay_s(self, lifetime_s: float) -> float:
        """Return the delay after a connection that lasted for `lifetime_s` (0: it was never made)."""
        if lifetime_s >= STABLE_S:
            self._failures = 0
        ceiling_s = min(CEILING_S, FLOOR_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return ceiling_s * (int.from_bytes(self._entropy(6)) / 2.0**48)
