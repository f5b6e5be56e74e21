"""A service as a process: its log, no memory dumps, running until a signal, and reports to systemd."""

import asyncio
import contextlib
import ctypes
import logging
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

TOTALS_S = 3600.0
"""The time, in seconds, between two log lines with a service's totals."""
_PR_SET_DUMPABLE = 4


def log_to_stderr(level: int) -> None:
    """Log messages of `level` and above, except other packages' debug messages, which may hold readings."""
    logging.basicConfig(level=max(level, logging.INFO), format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("meteragent").setLevel(level)


async def run_until_signalled(work: Awaitable[object]) -> None:
    """Run a service, or other work, until it ends or SIGTERM or SIGINT stops it. Raises the work's error."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def stop(*_: object) -> None:
        """Cancel the work, unless it has ended."""
        if not task.done():
            loop.call_soon_threadsafe(task.cancel)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)  # not by the loop, which at its end would restore the default
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await task
        finally:  # at exit, Python resets handlers: a late signal would give the exit code -15
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def forbid_dumps() -> None:
    """Forbid dumps of this process, both to core files and to a program that the kernel pipes them to.

    The resource limit is not enough: the kernel ignores it if `core_pattern` is a pipe. A process that may
    not be dumped cannot be traced or read by the user's other processes, either. If the system lacks this
    flag, only the limit applies.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Notify:
    """The address of systemd (sd_notify(3)), and the interval of its watchdog; each may be None (not set)."""

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], pid: int) -> "Notify":
        """Return the address and the interval that systemd sets in a process's environment."""
        address = environment.get("NOTIFY_SOCKET") or None
        micros, watched_pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
        has_watchdog = address is not None and micros.isdecimal() and watched_pid == str(pid)
        return cls(address, int(micros) / 10**6 if has_watchdog else None)

    def send_lines(self, *lines: str) -> None:
        """Send lines to systemd, if it has set an address; errors of the socket are ignored."""
        if self.address is None:
            return
        # An address that starts with "@" is in the abstract namespace, whose names start with a NUL.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto("\n".join(lines).encode(), address)
