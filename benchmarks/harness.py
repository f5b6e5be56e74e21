"""How benchmarks measure: contestants side by side in one interleaved run, ratios of CPU time, medians.

Times alone mean little on a shared machine. So every round runs every contestant once, for about
`SLICE_S` each, one after the other; a ratio is taken within a round, where both met the same machine,
and the median over the rounds is reported with the least and the greatest.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROUNDS = 5
SLICE_S = 0.05


@dataclass(frozen=True)
class Row:
    """One comparison: what, against what, two calls that do the same work, and the ratio to reach."""

    name: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    goal: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Result:
    """How many times as fast ours was, in each round, sorted."""

    row: Row
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)

    def as_json(self, versions: dict[str, str]) -> dict[str, Any]:
        """What a file of results holds."""
        return {
            "name": self.row.name,
            "against": self.row.against,
            "ratio": self.ratio,
            "spread": [self.ratios[0], self.ratios[-1]],
            "goal": self.row.goal,
            "rounds": len(self.ratios),
            "versions": versions,
        }


def seconds(call: Callable[[], object], times: int) -> float:
    """The CPU time of one call, over that many."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def times_in_a_slice(call: Callable[[], object]) -> int:
    """How often a call fits in a slice; the calls made to find out also warm it up."""
    times = 1
    while (took := seconds(call, times) * times) < SLICE_S / 4:
        times *= 2
    return max(1, round(SLICE_S / took * times))


def run(rows: Sequence[Row]) -> list[Result]:
    """All rows, interleaved."""
    repeats = [(times_in_a_slice(row.ours), times_in_a_slice(row.theirs)) for row in rows]
    ratios: list[list[float]] = [[] for _ in rows]
    for _ in range(ROUNDS):
        for row, (ours, theirs), seen in zip(rows, repeats, ratios, strict=True):
            seen.append(seconds(row.theirs, theirs) / seconds(row.ours, ours))
    return [Result(row, tuple(sorted(seen))) for row, seen in zip(rows, ratios, strict=True)]


def report(results: Sequence[Result], packages: Sequence[str]) -> None:
    """Prints a table and, with --out FILE, writes the rows there as JSON."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    out = parser.parse_args().out
    versions = {"python": platform.python_version()} | {package: version(package) for package in packages}
    print(f"{'what':<50} {'against':<34} {'ratio':>7} {'of five':>16} {'goal':>5}")
    for result in results:
        row, low, high = result.row, result.ratios[0], result.ratios[-1]
        goal = "" if row.goal is None else f"{row.goal:g}"
        met = "" if row.goal is None or result.ratio >= row.goal else "  MISSED"
        spread = f"{low:.3g} .. {high:.3g}"
        print(
            f"{row.name:<50} {row.against:<34} {result.ratio:>7.3g} {spread:>16} {goal:>5}{met}  {row.note}"
        )
    print(" ".join(f"{name} {number}" for name, number in versions.items()))
    if out is not None:
        out.write_text(json.dumps([result.as_json(versions) for result in results], indent=1) + "\n")
