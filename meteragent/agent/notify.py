"""Messages to systemd: that the agent is ready, its status, and that it is alive (sd_notify(3))."""

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notify:
    """The address where systemd listens (None: nobody does), and how often its watchdog expects a message."""

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], pid: int) -> "Notify":
        """Read what systemd has put into a process's environment."""
        address = environment.get("NOTIFY_SOCKET") or None
        micro, watched = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
        mine = address is not None and micro.isdecimal() and watched == str(pid)
        return cls(address, int(micro) / 10**6 if mine else None)

    def send(self, *lines: str) -> None:
        """Send lines; it is not an error if systemd is not listening."""
        if self.address is None:
            return
        where = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), where)
