"""The agent with clocks that run fast: `python -m tests.integration.hurried run CONFIG`.

The file `clock` beside the configuration holds two times in ms: the real one at which the fast one is shown.
From then on an hour takes HOUR_S seconds, or the third number, for every process that reads the file. A clock
whose real time is 0 stands, so that a test does not depend on how long the agent takes to start. The fourth
number is how many seconds the agent listens for another before a meter's first window.
"""

import sys
import time
from pathlib import Path

from meteragent import cli
from meteragent.service import boot_clock
from tests.integration.alone import listen_for

HOUR_S = 4


class FastClock:
    """A wall clock that runs fast, from the real time in its file on; while that is 0, it stands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    def _read(self) -> None:
        self._real_ms, self._fast_ms, hour_s = map(int, self._path.read_text().split()[:3])
        self._per_ms = 3600 // hour_s

    def __call__(self) -> int:
        """Return milliseconds since the Unix epoch."""
        if not self._real_ms:
            self._read()
        if not self._real_ms:
            return self._fast_ms
        return self._fast_ms + (time.time_ns() // 1000 - 1000 * self._real_ms) * self._per_ms // 1000

    def start(self) -> None:
        """Start a standing clock, in all processes that have it."""
        _, _, *settings = self._path.read_text().split()
        _write(self._path, time.time_ns() // 1_000_000, self._fast_ms, *settings)


def _write(path: Path, *numbers: float | str) -> None:
    """Write a clock's file at once, because another process may be reading it."""
    new = path.with_suffix(".new")
    new.write_text(" ".join(map(str, numbers)))
    new.replace(path)


def make_clock(
    folder: Path, fast_ms: int, hour_s: int = HOUR_S, *, stands: bool = False, listen_s: float = 0
) -> FastClock:
    """Make the clock of the agent whose configuration is in a folder, which now shows a time."""
    _write(folder / "clock", 0 if stands else time.time_ns() // 1_000_000, fast_ms, hour_s, listen_s)
    return FastClock(folder / "clock")


if __name__ == "__main__":
    path = Path(sys.argv[-1]).parent / "clock"
    listen_for(float(path.read_text().split()[3]))
    boot_clock.wall_ms = FastClock(path)
    # The machine's own clock is slower, so no step of the wall clock may count as a jump.
    boot_clock.was_synchronised = lambda *_: False
    sys.exit(cli.main(sys.argv[1:]))
