"""An operator of a crowd whose clock runs faster: ``crowd_operator.py ROLE CONFIG SPEED BEGIN``.

It is the program of `meteragent crowd ROLE CONFIG` but for its clock, which shows START_S at BEGIN on the
system's clock.
"""

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

from meteragent.operators import configuration
from meteragent.operators.clock import Clock
from meteragent.operators.service import Service
from meteragent.service.process import Notify, log_to_stderr, run_until_signalled

START_S = 1_794_981_600
"""A morning, so that no test meets midnight."""


class FastClock(Clock):
    """A clock that runs `speed` times as fast since `begin` on the system's clock."""

    def __init__(self, speed: float, begin: float) -> None:
        self._speed, self._begin = speed, begin

    def time(self) -> float:
        """Return the time as a number with a fraction."""
        return START_S + (time.time() - self._begin) * self._speed

    def now_s(self) -> int:
        """Return the time, in seconds since 1970."""
        return int(self.time())

    def boot_ms(self) -> int:
        """Return the time in ms: this clock is never set."""
        return int(1000 * self.time())

    def pause_s(self, instant_s: int) -> float:
        """Return how long to wait for an instant, in seconds of the system's clock."""
        return max(instant_s - self.time(), 0.0) / self._speed


def main(role: str, config: str, speed: str, begin: str) -> None:
    """Serve until SIGTERM."""
    log_to_stderr(logging.INFO)
    operation = configuration.load(Path(config), role)
    service = Service(operation, os.urandom, FastClock(float(speed), float(begin)), Notify())
    asyncio.run(run_until_signalled(service.run()))


if __name__ == "__main__":
    main(*sys.argv[1:])
