"""What systemd is told: that the agent is ready, how it is, and that it is alive (sd_notify(3))."""

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notify:
    """Where systemd listens, and how often it wants to hear; `address` None: nobody listens."""

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], pid: int) -> "Notify":
        """As systemd says in a process's environment."""
        address = environment.get("NOTIFY_SOCKET") or None
        micro, watched = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
        mine = address is not None and micro.isdecimal() and watched == str(pid)
        return cls(address, int(micro) / 10**6 if mine else None)

    def send(self, *lines: str) -> None:
        """Say it; a systemd that does not listen is no reason to stop."""
        if self.address is None:
            return
        where = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), where)
