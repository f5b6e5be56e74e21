"""Break a record's CPU time down by part of the program: `python -m benchmarks.shares`.

The agent runs without its connections (`line`), with one reading per slot from each of 20 meters, and 500
readings per commit. The profiler attributes elapsed time, including waits for the disk, to functions; the CPU
time is divided in the same proportions. The time of a library function or a built-in is attributed to the
parts of the program that call it, in proportion to the time of their calls, or to "else" if no part calls it.
Shares below one per cent are not printed.
"""

import cProfile
import pstats
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.line import BATCH, Line, cost_s, folder, open_store

METERS, BATCHES = 20, 20
LEAST = 0.01
OURS = str(ROOT / "meteragent")

Function = tuple[str, int, str]


def part(function: Function) -> str | None:
    """Return the part of the program (a folder or module) that contains a function, or None if none does."""
    name = function[0]
    if not name.startswith(OURS):
        return None
    return Path(name).relative_to(OURS).parts[0].removesuffix(".py")


def shares(stats: dict[Function, Any]) -> Counter[str]:
    """Return each part's share of the profiled time; the shares add up to 1."""
    times_s: Counter[str] = Counter()
    for function, (_, _, own_s, _, _) in stats.items():
        _give(stats, function, own_s, times_s, depth=0)
    total_s = sum(times_s.values())
    return Counter({name: duration_s / total_s for name, duration_s in times_s.items()})


def _give(
    stats: dict[Function, Any], function: Function, duration_s: float, times_s: Counter[str], depth: int
) -> None:
    """Add a time to the part of its function; if the function is not ours, to the parts of its callers.

    If a function has no callers, or none of ours within 21 levels, its time is added to "else".
    """
    name = part(function)
    callers = {} if depth > 20 else stats[function][4]
    if name is not None or not callers:
        times_s[name or "else"] += duration_s  # type: ignore[assignment]
        return
    weights = {caller: times[3] for caller, times in callers.items()}
    total = sum(weights.values())
    for caller, weight in weights.items():
        _give(stats, caller, duration_s * (weight / total if total else 1 / len(weights)), times_s, depth + 1)


def main() -> None:
    """Measure the CPU time of a record, profile the program, and print the shares."""
    with folder() as path, open_store(path / "db") as store:
        line = Line(store, METERS)
        line.feed(line.messages(BATCH))
        record_s, _ = cost_s(line, [line.messages(BATCH) for _ in range(BATCHES)])
        batches = [line.messages(BATCH) for _ in range(BATCHES)]
        profile = cProfile.Profile()
        profile.enable()
        for batch in batches:
            line.feed(batch)
        profile.disable()
    print(f"{record_s * 1e6:.1f} us of CPU time per record, of which")
    stats: dict[Function, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for name, share in shares(stats).most_common():
        if share >= LEAST:
            print(f"  {share * record_s * 1e6:5.1f} us  {share:4.0%}  {name}")


if __name__ == "__main__":
    main()
