"""The page's server: uvicorn in the agent's event loop, without uvicorn's signal handlers, logs or timer.

The server limits the number of connections, the time until a request's head has arrived, and how long sent
data may stay unacknowledged. uvicorn wakes ten times a second to check whether it should stop; this server
waits to be cancelled, so it uses no CPU time while no page is open.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from meteragent.agent.page.app import build_application
from meteragent.agent.page.view import Route, Settings, View
from meteragent.agent.viewers import Viewers
from meteragent.domain.errors import ConfigError, PageError

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64
"""The largest number of connections at once; a browser opens up to six.

Beyond this number, the oldest connection that waits for its client is dropped: no client can lock others out.
"""
PATIENCE_S = 20
"""The longest wait for the head of the first or next request; also the longest time before sent data is
acknowledged."""
GRACE_S = 2
"""How long responses may take to finish when the server stops."""


async def run_server(settings: Settings, view: View, viewers: Viewers, routes: Sequence[Route]) -> None:
    """Serve until cancelled. Raises the ConfigError and PageError of `meteragent.agent.page.serve`."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).disabled = True  # these loggers write addresses and tracebacks
    config = uvicorn.Config(
        build_application(settings, view, viewers, routes),
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    listener = _listen(settings)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _log.info("page: http://%s:%s", host, settings.port)
    await _Server(config, viewers).serve([listener])


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        number = error.errno or 0
        if number <= 0 or number == errno.EADDRNOTAVAIL:  # an unknown host name gives a negative number
            expected = "an address of this machine, such as 127.0.0.1:8321"
            raise ConfigError("page.listen", settings.host, expected) from None
        reason = os.strerror(number).lower()
        raise PageError(
            f"page.listen: {settings.host}:{settings.port}: {reason}: name another port, or remove [page]"
        ) from None


class _Server(uvicorn.Server):
    """A server that runs until it is cancelled."""

    def __init__(self, config: uvicorn.Config, viewers: Viewers) -> None:
        super().__init__(config)
        self._viewers = viewers

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signal handling to the agent."""
        yield

    async def main_loop(self) -> None:
        """Wait to be cancelled, then end all connections."""
        await self.on_tick(0)
        try:
            await asyncio.Event().wait()
        finally:
            self._viewers.end_viewers()
            await self.shutdown()


class _Protocol(H11Protocol):
    """A connection; the number of connections, and the time for the head of each request, are limited."""

    _deadline: asyncio.TimerHandle | None = None
    is_dropped = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, drop the oldest that waits for its client."""
        super().connection_made(transport)
        line = cast("socket.socket", transport.get_extra_info("socket"))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(PATIENCE_S * 1000))
        self.opened_s = self.loop.time()
        self._await_head()
        connections = [cast("_Protocol", connection) for connection in self.connections]
        connections = [connection for connection in connections if not connection.is_dropped]
        if len(connections) > CONNECTIONS_MAX:
            waiting = [item for item in connections if item is not self and item.waits_for_client]
            min(waiting, key=lambda item: item.opened_s, default=self).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of the closed connection."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """Limit the time until the head of the next request has arrived."""
        super().on_response_complete()
        self._await_head()

    @property
    def waits_for_client(self) -> bool:
        """Whether the connection waits for a request, for the rest of one, or for its response to be read."""
        return not self._is_answering or self.cycle.more_body

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(PATIENCE_S, self._hang_up)

    def _hang_up(self) -> None:
        if not self._is_answering:
            self.drop()

    def drop(self) -> None:
        """Close the connection, and lose what has not been sent on it."""
        self.is_dropped = True  # the server still lists it until the next turn of the event loop
        self.transport.abort()
