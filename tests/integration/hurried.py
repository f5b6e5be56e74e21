"""The agent with clocks that run fast: `python -m tests.integration.hurried run CONFIG`.

The file `clock` beside the configuration holds two times in ms: the real one at which the fast one is shown.
From then on an hour takes HOUR_S seconds, or the third number, for every process that reads the file.
"""

import sys
import time
from pathlib import Path

from meteragent import cli
from meteragent.agent import synchronised
from meteragent.cli import common
from tests.integration.alone import listen_to_nobody

HOUR_S = 4


class FastClock:
    """A wall clock that runs fast."""

    def __init__(self, path: Path) -> None:
        self._real_ms, self._fast_ms, hour_s = map(int, path.read_text().split())
        self._per_ms = 3600 // hour_s

    def __call__(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._fast_ms + (time.time_ns() // 1000 - 1000 * self._real_ms) * self._per_ms // 1000


def make_clock(folder: Path, fast_ms: int, hour_s: int = HOUR_S) -> FastClock:
    """Make the clock of the agent whose configuration is in a folder, which now shows a time."""
    path = folder / "clock"
    path.write_text(f"{time.time_ns() // 1_000_000} {fast_ms} {hour_s}")
    return FastClock(path)


if __name__ == "__main__":
    listen_to_nobody()
    common.now_ms = FastClock(Path(sys.argv[-1]).parent / "clock")
    # The machine's own clock is slower, so no step of the wall clock may count as a jump.
    synchronised.synchronised = lambda *_: False
    sys.exit(cli.main(sys.argv[1:]))
