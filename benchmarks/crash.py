"""A store whose process is killed while SQLite's log is in use, and the next process that opens the store.

`python -m benchmarks.crash PATH METERS COMMITS` is the program of both processes: it opens the store, makes
COMMITS commits, and prints a line after each commit that releases a slot. The first process is paused
repeatedly until the log has at least `MIN_LOG_BYTES`, and is then killed. The second process reads the store
from the system's cache, as after a crash of the agent alone.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contestants import ROOT
from benchmarks.line import BATCH, NOW_MS, SLOT_MS, Line, open_store

FOREVER, LIMIT_S = 1_000_000, 60.0
COMMIT_S, BETWEEN_S, MIN_LOG_BYTES = 0.2, 0.003, 100_000


@contextmanager
def _process(path: Path, meters: int, commits: int) -> Iterator[subprocess.Popen[str]]:
    """Run a process that makes `commits` commits; the block begins after the process's first release.

    The process is killed at the end of the block. Raises AssertionError if it exits without a release.
    """
    command = [sys.executable, "-m", "benchmarks.crash", str(path), str(meters), str(commits)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise AssertionError("the process ended before it released a slot")
            yield process
        finally:
            process.kill()


def kill_in_commit(path: Path, meters: int) -> int:
    """Kill a process while SQLite's log holds at least `MIN_LOG_BYTES`; return the size of the log in bytes.

    Raises AssertionError if the process exits by itself.
    """
    log = Path(f"{path}-wal")
    with _process(path, meters, FOREVER) as process:
        time.sleep(COMMIT_S)
        while True:
            process.send_signal(signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                raise AssertionError("the process exited before it was killed")
            if log.stat().st_size >= MIN_LOG_BYTES:
                return log.stat().st_size  # the end of the block kills the process
            process.send_signal(signal.SIGCONT)
            time.sleep(BETWEEN_S)


def recovery_s(path: Path, meters: int) -> float:
    """Return the time from the start of the next process to its first release, in s."""
    start_s = time.perf_counter()
    with _process(path, meters, 1) as process:
        duration_s = time.perf_counter() - start_s
        process.wait(LIMIT_S)
    return duration_s


def main() -> None:
    """Open the store, and make the commits."""
    path, *numbers = sys.argv[1:]
    meters, commits = map(int, numbers)
    with open_store(Path(path)) as store:
        steps = (max(store.clock_ms, NOW_MS) - NOW_MS) // SLOT_MS + 1
        line = Line(store, meters, reading_count=steps * meters)
        for _ in range(commits):
            if line.feed(line.messages(BATCH)):
                print("released", flush=True)


if __name__ == "__main__":
    main()
