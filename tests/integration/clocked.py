"""The agent with a wall clock that a test sets: `python -m tests.integration.clocked run CONFIG`.

The file `clock` beside the configuration holds by how many milliseconds it is off; it may change. The clock
counts as synchronised where there is a file `synchronised`.
"""

import sys
import time
from pathlib import Path

from meteragent import cli
from meteragent.service import boot_clock
from tests.integration.alone import listen_for

LOOK_S = 0.02
"""How often the file is looked at."""


class WallClock:
    """The system's clock, off by what the file says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._off_ms = 0
        self._looked_s = 0.0

    def __call__(self) -> int:
        """Milliseconds since the Unix epoch."""
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._off_ms, self._looked_s = int(self._path.read_text()), now_s
        return time.time_ns() // 1_000_000 + self._off_ms


def set_clock(folder: Path, off_ms: int) -> None:
    """Set the clock of the agent whose configuration is in a folder, at once."""
    new = folder / "clock.new"
    new.write_text(str(off_ms))
    new.replace(folder / "clock")


if __name__ == "__main__":
    listen_for(0)
    folder = Path(sys.argv[-1]).parent
    boot_clock.wall_ms = WallClock(folder / "clock")
    boot_clock.was_synchronised = lambda *_: (folder / "synchronised").exists()
    sys.exit(cli.main(sys.argv[1:]))
