"""The state of a running service, for anyone who asks on its machine, and for systemd.

A socket (`<store>.health` for a service with a store) answers each question, even an empty one. Its mode is
0600. The service reports to systemd's watchdog only while it makes progress: if its work hangs, it is not
reported as alive, even if its event loop responds.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from meteragent.domain.errors import StoreError
from meteragent.domain.problem import Problem
from meteragent.service.process import Notify

STATUS_S = 10.0
"""The longest time between two status messages to systemd."""
_DESCRIPTORS = Path("/proc/self/fd")
_ASK_S = 5.0
"""The longest time in which a service prepares and sends an answer, or `ask_socket` waits for data."""
_QUESTION_MAX = 64


def socket_path(store: Path) -> Path:
    """Return the path of the socket on which the service that uses `store` answers."""
    return store.with_name(store.name + ".health")


async def serve_socket(path: Path, reply: Callable[[bytes], Awaitable[str]]) -> NoReturn:
    """Answer each connection to the socket at `path` with the reply to its question, until cancelled."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ASK_S):
                writer.write((await reply(await reader.read(_QUESTION_MAX))).encode())
                await writer.drain()
        writer.close()

    with bind_socket(path) as server_socket:
        server = await asyncio.start_unix_server(serve, sock=server_socket)
        try:
            await server.serve_forever()
        finally:
            _remove(path)
    raise AssertionError


def bind_socket(path: Path) -> socket.socket:
    """Return a socket for this user alone, at a path of any length; replace the socket of a crashed run.

    The caller holds the service's lock. Raises StoreError without /proc, and OSError if binding fails.
    """
    if not _DESCRIPTORS.exists():
        raise StoreError(f"{path}: nothing can listen there, because /proc is not mounted; mount it")
    _remove(path)
    server_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _address(path) as address:
        server_socket.bind(address)
    path.chmod(0o600)
    return server_socket


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def ask_socket(path: Path, question: bytes = b"") -> str | None:
    """Return the answer of the socket at `path` to a question, or None if nobody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_ASK_S)
        try:
            with _address(path) as address:
                client.connect(address)
            if question:  # even an empty write fails once the other side has answered and closed
                client.sendall(question)
            client.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: client.recv(65_536), b""))
        except OSError:
            return None
    return reply.decode() or None


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield a socket's address, which names the folder by file descriptor to fit into 108 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_DESCRIPTORS}/{folder}/{path.name}"
    finally:
        os.close(folder)


async def notify_systemd(
    notify: Notify, problems: Callable[[], Awaitable[Sequence[Problem]]], idle_s: Callable[[], float]
) -> None:
    """Report readiness and state to systemd, and feed its watchdog unless work is idle for too long."""
    notify.send_lines("READY=1")
    pause_s = STATUS_S if notify.watchdog_s is None else min(STATUS_S, notify.watchdog_s / 4)
    while notify.address is not None:
        texts = [problem.text for problem in await problems()]
        lines = [f"STATUS={'; '.join(texts) or 'all is well'}"]
        if notify.watchdog_s is not None and idle_s() < notify.watchdog_s / 2:
            lines.append("WATCHDOG=1")
        notify.send_lines(*lines)
        await asyncio.sleep(pause_s)
