"""A program of the crowd's demo, whose clock stands still until the demo sets it.

`python -m simulators.crowd.staged agent CONFIG CLOCK` does the same as `meteragent run CONFIG`. With `leader`
or `helper` instead of `agent`, it does the same as `meteragent crowd leader CONFIG` or `meteragent crowd
helper CONFIG`. The difference is that the time is read from the file CLOCK, so a day takes only as long as
its readings take to handle. With the real clock, a slot's messages would wait at each operator for minutes.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

from meteragent import config
from meteragent.agent.environment import Environment
from meteragent.agent.service import Agent
from meteragent.operators import configuration
from meteragent.operators.clock import Clock
from meteragent.operators.service import Service
from meteragent.service.boot_clock import BootClock
from meteragent.service.process import Notify, log_to_stderr, run_until_signalled

AGENT = "agent"
POLL_S = 0.01


class StagedClock(Clock):
    """A clock that stands still until it is set; all processes that read its file see the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, time_ms: int) -> None:
        """Set the clock in all processes."""
        new_path = self._path.with_suffix(".new")
        new_path.write_text(str(time_ms))
        new_path.replace(self._path)

    def now_ms(self) -> int:
        """Return the time, in ms since 1970."""
        return int(self._path.read_text())

    def now_s(self) -> int:
        """Return the time, in seconds since 1970."""
        return self.now_ms() // 1000

    def boot_ms(self) -> int:
        """Return the same time as `now_ms`, so that setting this clock does not look like a clock's jump."""
        return self.now_ms()

    def pause_s(self, instant_s: int) -> float:
        """Return the seconds until the next look at the clock; 0 if `instant_s` has been reached."""
        return POLL_S if instant_s > self.now_s() else 0.0


def _work(role: str, path: Path, clock: StagedClock) -> Awaitable[object]:
    """Return an awaitable that runs the agent or an operator."""
    if role == AGENT:
        boot = BootClock(clock.now_ms, lambda: False)
        environment = Environment(wall_ms=clock.now_ms, boot=boot, listen_s=0.0)  # there is no other agent
        return Agent(config.load(path), environment).run()
    return Service(configuration.load(path, role), os.urandom, clock, Notify()).run()


def main(role: str, path: str, clock: str) -> None:
    """Run a program until SIGTERM or SIGINT."""
    log_to_stderr(logging.INFO)
    asyncio.run(run_until_signalled(_work(role, Path(path), StagedClock(Path(clock)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
