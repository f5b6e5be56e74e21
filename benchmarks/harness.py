"""How benchmarks measure: contestants side by side in one interleaved run, ratios, medians.

Times alone mean little on a shared machine. So every round runs every contestant once, one after the
other; a ratio is taken within a round, where all met the same machine, and the median over the rounds
is reported with the least and the greatest. Ratios and goals are such that more is better: for memory,
added latency and growth a ratio is limit / measured, and its goal is 1.
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
    """Two calls that do the same work: what, against what, and the ratio of their CPU times to reach."""

    name: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    goal: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Result:
    """A comparison: the ratio in each round, and the one to reach."""

    name: str
    against: str
    ratios: tuple[float, ...]
    goal: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest."""
        return min(self.ratios), max(self.ratios)

    def as_json(self, versions: dict[str, str]) -> dict[str, Any]:
        """What a file of results holds."""
        return {
            "name": self.name,
            "against": self.against,
            "ratio": float(f"{self.ratio:.4g}"),
            "spread": [float(f"{end:.4g}") for end in self.spread],
            "goal": self.goal,
            "rounds": len(self.ratios),
            "versions": versions,
            "note": self.note,
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
    return [
        Result(row.name, row.against, tuple(seen), row.goal, row.note)
        for row, seen in zip(rows, ratios, strict=True)
    ]


def machine() -> dict[str, str]:
    """What the figures were taken on: the processor's kind, cores, the system, Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    kind = names[0] if names else platform.machine()
    cores = str(sum(line.startswith("processor") for line in lines))
    system = {"kernel": platform.release(), "python": platform.python_version()}
    return {"processor": kind, "cores": cores} | system


def report(results: Sequence[Result], packages: Sequence[str], others: dict[str, str] | None = None) -> None:
    """Prints a table and, with --out FILE, puts the rows into that JSON file, in the place of older ones.

    `others` are versions of what is no Python package.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, help="put the rows into this JSON file")
    out = parser.parse_args().out
    versions = machine() | {package: version(package) for package in packages} | (others or {})
    print(f"{'what':<50} {'against':<34} {'ratio':>7} {'from .. to':>16} {'goal':>5}")
    for one in results:
        goal = "" if one.goal is None else f"{one.goal:g}"
        met = "" if one.goal is None or one.ratio >= one.goal else "  MISSED"
        spread = "{:.3g} .. {:.3g}".format(*one.spread)
        print(f"{one.name:<50} {one.against:<34} {one.ratio:>7.3g} {spread:>16} {goal:>5}{met}  {one.note}")
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    if out is not None:
        _merge(out, [one.as_json(versions) for one in results])


def _merge(out: Path, rows: list[dict[str, Any]]) -> None:
    known = json.loads(out.read_text()) if out.exists() else []
    new = {(row["name"], row["against"]) for row in rows}
    kept = [row for row in known if (row["name"], row["against"]) not in new]
    out.write_text(json.dumps(kept + rows, indent=1) + "\n")
