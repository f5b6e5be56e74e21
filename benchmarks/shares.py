"""Break a record's CPU time down by part of the program: `python -m benchmarks.shares`.

The agent runs without its connections (`line`), with one reading per slot from each of 20 meters, and 500
readings per commit. A signal interrupts it about every millisecond of CPU time, and the CPU time since the
previous signal is attributed to the part of the program that is running: that of the innermost of our
functions on the stack, or "else" if there is none. So the time of a library function or a built-in counts for
the part that calls it, waits for the disk do not count, and the times add up to the CPU time of this one run.
Shares below one per cent are not printed.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.harness import ROOT
from benchmarks.line import BATCH, Line, folder, open_store

METERS, BATCHES = 20, 200
INTERVAL_S = 0.001
LEAST = 0.01
OURS = str(ROOT / "meteragent")


def part(path: str) -> str | None:
    """Return the part of the program (a folder or module) that a file belongs to, or None if none does."""
    if not path.startswith(f"{OURS}/"):
        return None
    return Path(path).relative_to(OURS).parts[0].removesuffix(".py")


def running(frame: FrameType | None) -> str:
    """Return the part of the innermost of our functions on a stack, or "else" if none is ours."""
    while frame is not None:
        if (name := part(frame.f_code.co_filename)) is not None:
            return name
        frame = frame.f_back
    return "else"


@contextmanager
def sampling() -> Iterator[dict[str, float]]:
    """Measure a block; the dictionary that is yielded gets the CPU time of each part of the program."""
    times_s: dict[str, float] = {}
    last_s = time.process_time()

    def sample(_: int, frame: FrameType | None) -> None:
        """Add the time since the last signal, which may be long: a signal waits until a built-in returns."""
        nonlocal last_s
        now_s, name = time.process_time(), running(frame)
        times_s[name] = times_s.get(name, 0.0) + now_s - last_s
        last_s = now_s

    handler = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        yield times_s
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


def main() -> None:
    """Sample the program while it processes records, and print each part's CPU time per record."""
    with folder() as path, open_store(path / "db") as store:
        line = Line(store, METERS)
        line.feed(line.messages(BATCH))
        batches = [line.messages(BATCH) for _ in range(BATCHES)]
        with sampling() as times_s:
            for batch in batches:
                line.feed(batch)
    total_s, records = sum(times_s.values()), BATCH * BATCHES
    print(f"{total_s / records * 1e6:.1f} us of CPU time per record, of which")
    for name, duration_s in sorted(times_s.items(), key=lambda item: item[1], reverse=True):
        if duration_s >= LEAST * total_s:
            print(f"  {duration_s / records * 1e6:5.1f} us  {duration_s / total_s:4.0%}  {name}")


if __name__ == "__main__":
    main()
