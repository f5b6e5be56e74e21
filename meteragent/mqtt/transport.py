"""The socket of a `Protocol`, which writes once per iteration of the event loop and detects a dead broker."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from meteragent.mqtt.packets import PINGREQ
from meteragent.mqtt.protocol import Event, Protocol

CLOSE_TIMEOUT_S: Final = 2.0
"""The longest time, in seconds, that `close` waits for the peer, which may be dead, to receive all bytes."""
SILENT_KEEPALIVES: Final = 2
"""The number of keep-alive periods for which a broker may be silent before the connection is dropped."""


class Transport(asyncio.Protocol):
    """One connection of a `Protocol`.

    on_event  called with each event from the broker
    on_lost   called once, when the connection has ended, with the error if that is the reason
    on_tick   called four times in each keep-alive period; it returns False to end the connection
    """

    def __init__(
        self,
        protocol: Protocol,
        on_event: Callable[[Event], None],
        on_lost: Callable[[Exception | None], None],
        on_tick: Callable[[], bool],
    ) -> None:
        self._protocol = protocol
        self._on_event = on_event
        self._on_lost = on_lost
        self._on_tick = on_tick
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport | None = None
        self._packets: list[bytes] = []
        self._is_reading = True
        self._last_read_s = self._last_write_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._loss = self._loop.create_future()

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Open the socket, or raise OSError."""
        await self._loop.create_connection(lambda: self, host, port, ssl=tls)

    def keep_alive(self, keepalive_s: float) -> None:
        """Ping after 1/2 period without a write or 1 without a read; abort after 2 periods without a read."""
        self._last_read_s = self._loop.time()
        self._tick(keepalive_s)

    def _tick(self, keepalive_s: float) -> None:
        now_s = self._loop.time()
        if not self._is_reading:
            self._last_read_s = now_s  # while reading is paused, the broker is not treated as silent
        if now_s - self._last_read_s >= SILENT_KEEPALIVES * keepalive_s or not self._on_tick():
            self.abort()
            return
        if now_s - self._last_write_s >= keepalive_s / 2 or now_s - self._last_read_s >= keepalive_s:
            self.write(PINGREQ)
        self._timer = self._loop.call_later(keepalive_s / 4, self._tick, keepalive_s)

    def _stop_ticking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def write(self, packets: bytes) -> None:
        """Write packets with all others of this iteration of the event loop, unless the connection closes."""
        if not self._packets:
            self._loop.call_soon(self._flush)
        self._packets.append(packets)

    def _flush(self) -> None:
        if self._packets and self._socket is not None and not self._socket.is_closing():
            self._socket.write(b"".join(self._packets))
            self._last_write_s = self._loop.time()
        self._packets.clear()

    def set_reading(self, *, is_reading: bool) -> None:
        """Pause reading or, if `is_reading` is True, resume it."""
        if self._socket is None or is_reading == self._is_reading or self._socket.is_closing():
            return
        self._is_reading = is_reading
        self._last_read_s = self._loop.time()
        if is_reading:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    async def close(self, last_packet: bytes = b"") -> None:
        """Write waiting packets and `last_packet`, then close; after CLOSE_TIMEOUT_S, drop unsent bytes."""
        if self._socket is None:
            return
        self._stop_ticking()
        if last_packet:
            self.write(last_packet)
        self._flush()
        self._socket.close()
        try:
            await asyncio.wait({self._loss}, timeout=CLOSE_TIMEOUT_S)
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the connection, if there is one."""
        self._stop_ticking()
        if self._socket is not None:
            # In Python 3.11.2 (Debian 12) a TLS socket has no protocol after its connection has ended.
            with suppress(AttributeError):
                self._socket.abort()

    # --- calls from asyncio --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the socket."""
        self._socket = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass each event in the bytes to `on_event`."""
        self._last_read_s = self._loop.time()
        for event in self._protocol.receive(data):
            self._on_event(event)

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end of the connection, once."""
        self._stop_ticking()
        if not self._loss.done():
            self._loss.set_result(None)
            self._on_lost(error)
