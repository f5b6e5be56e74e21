"""Where the time of a record goes: `python -m benchmarks.shares`.

The agent without its connections (`line`), a reading a slot of 20 meters, 500 a commit: CPU microseconds a
record, of which the profiler says what part of the program spent them. What a library or an inner function
takes counts for the part of ours that called it, in proportion to the calls' times.
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
    """Return the part of the project that a function belongs to: its folder or module."""
    name = function[0]
    if not name.startswith(OURS):
        return None
    return Path(name).relative_to(OURS).parts[0].removesuffix(".py")


def shares(stats: dict[Function, Any]) -> Counter[str]:
    """Return the share of each part, in total 1."""
    times_s: Counter[str] = Counter()
    for function, (_, _, own_s, _, _) in stats.items():
        _give(stats, function, own_s, times_s, depth=0)
    total_s = sum(times_s.values())
    return Counter({name: took_s / total_s for name, took_s in times_s.items()})


def _give(
    stats: dict[Function, Any], function: Function, took_s: float, times_s: Counter[str], depth: int
) -> None:
    """Count a time for the part of a function; of what is not ours, for those who called it."""
    name = part(function)
    callers = {} if depth > 20 else stats[function][4]
    if name is not None or not callers:
        times_s[name or "else"] += took_s  # type: ignore[assignment]
        return
    weights = {caller: times[3] for caller, times in callers.items()}
    total = sum(weights.values())
    for caller, weight in weights.items():
        _give(stats, caller, took_s * (weight / total if total else 1 / len(weights)), times_s, depth + 1)


def main() -> None:
    """Measure, then profile."""
    with folder() as where, open_store(where / "db") as store:
        line = Line(store, METERS)
        line.feed(line.messages(BATCH))
        record_s, _ = cost_s(line, [line.messages(BATCH) for _ in range(BATCHES)])
        batches = [line.messages(BATCH) for _ in range(BATCHES)]
        profile = cProfile.Profile()
        profile.enable()
        for batch in batches:
            line.feed(batch)
        profile.disable()
    print(f"{record_s * 1e6:.1f} us of CPU a record, of these")
    stats: dict[Function, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for name, share in shares(stats).most_common():
        if share >= LEAST:
            print(f"  {share * record_s * 1e6:5.1f} us  {share:4.0%}  {name}")


if __name__ == "__main__":
    main()
