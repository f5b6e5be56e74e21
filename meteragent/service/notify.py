"""Messages to systemd (sd_notify(3)), which say that the agent is ready or alive, or give its status."""

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notify:
    """The address at which systemd listens, and the interval of its watchdog; each may be None (not set)."""

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], pid: int) -> "Notify":
        """Return the address and the interval that systemd sets in a process's environment."""
        address = environment.get("NOTIFY_SOCKET") or None
        micros, watched_pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
        has_watchdog = address is not None and micros.isdecimal() and watched_pid == str(pid)
        return cls(address, int(micros) / 10**6 if has_watchdog else None)

    def send(self, *lines: str) -> None:
        """Send lines to systemd, if it has set an address; errors of the socket are ignored."""
        if self.address is None:
            return
        # An address that starts with "@" is in the abstract namespace, whose names start with a NUL.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto("\n".join(lines).encode(), address)
