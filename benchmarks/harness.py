"""How benchmarks measure: contestants in one interleaved run, ratios, medians.

Times alone mean little on a shared machine. So every round runs every contestant once, one after the
other, in turns begun by each; a ratio is taken within a round, where all met the same machine, and the
median over the rounds is reported with the least and the greatest. Ratios and goals are such that more is
better: for memory, added latency and growth a ratio is limit / measured, and its goal is 1.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROUNDS_VARIABLE = "BENCH_ROUNDS"
ROUNDS = int(os.environ.get(ROUNDS_VARIABLE, "5"))
SLICE_S = 0.05
GROWTH = 1.1
"""How much more a unit of large work may cost than one of small work."""
FSYNCS = 20
ROOT = Path(__file__).resolve().parent.parent
LOAD_BEFORE = os.getloadavg()[0]
_absent: list[str] = []


@dataclass(frozen=True)
class Row:
    """Two calls that do the same work: their names, and the ratio of their CPU times to reach.

    `theirs` may be the CPU seconds that `ours` may take. `work` is how many `unit` each call does: a peer
    that is slow may do fewer.
    """

    name: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object] | float
    goal: float | None = None
    note: str = ""
    work: tuple[float, float] = (1, 1)
    unit: str = ""


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
        """Return the row as a file of results holds it."""
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


# Measuring ----------------------------------------------------------------------------------------


def seconds(call: Callable[[], object], times: int) -> float:
    """Measure the CPU time of one call, averaged over `times`."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def times_in_a_slice(call: Callable[[], object]) -> int:
    """Measure how often a call fits into a slice; this also warms it up."""
    times = 1
    while (took := seconds(call, times) * times) < SLICE_S / 4:
        times *= 2
    return max(1, round(SLICE_S / took * times))


def a_slice(call: Callable[[], object] | float, times: int) -> float:
    """Measure the CPU time of one call, averaged over `times`; or return the seconds that it may take.

    A short call is made once before: the system takes memory back from a process that waits, and the first
    to touch it again would pay for the others.
    """
    if not callable(call):
        return call
    if times > 1:
        call()
    return seconds(call, times)


def run(rows: Sequence[Row]) -> list[Result]:
    """Measure all rows, interleaved; ours and theirs begin by turns."""
    calls = [(row.ours, row.theirs) for row in rows]
    times = [tuple(times_in_a_slice(call) if callable(call) else 1 for call in pair) for pair in calls]
    seen: list[list[tuple[float, float]]] = [[] for _ in rows]
    for turn in range(ROUNDS):
        for pair, counts, took in zip(calls, times, seen, strict=True):
            sides = [*zip(pair, counts, strict=True)]
            ordered = [a_slice(*side) for side in (sides if turn % 2 else reversed(sides))]
            ours, theirs = ordered if turn % 2 else reversed(ordered)
            took.append((ours, theirs))
    return [_result(row, took) for row, took in zip(rows, seen, strict=True)]


def compared(
    name: str,
    against: str,
    pairs: Sequence[tuple[float, float]],
    text: str,
    *,
    more: bool = False,
    goal: float | None = None,
    allow: Callable[[float], float] = float,
) -> Result:
    """Compare ours with theirs, round by round: rates, of which `more` is better, or costs.

    Our cost may be `allow` of theirs. `text` is the note, with the medians of ours and theirs.
    """
    ratios = tuple(ours / theirs if more else allow(theirs) / ours for ours, theirs in pairs)
    note = text.format(*(statistics.median(values) for values in zip(*pairs, strict=True)))
    return Result(name, against, ratios, goal, note)


def _result(row: Row, took: Sequence[tuple[float, float]]) -> Result:
    """Return the ratios of work per second, with the medians as a note."""
    rates = [tuple(work / took_s for work, took_s in zip(row.work, pair, strict=True)) for pair in took]
    ours, theirs = (rate(statistics.median(values)) for values in zip(*rates, strict=True))
    done = [f"{ours} and {theirs} {row.unit} per CPU-second"] if row.unit else []
    note = "; ".join([*done, *([row.note] if row.note else [])])
    return Result(
        row.name, row.against, tuple(our_rate / their_rate for our_rate, their_rate in rates), row.goal, note
    )


def rate(per_s: float) -> str:
    """Format a number with three digits, with M for millions.

    >>> rate(12_345_678), rate(7_312), rate(0.1234)
    ('12.3M', '7,310', '0.123')
    """
    if per_s >= 1e6:
        return f"{per_s / 1e6:.3g}M" if per_s < 1e9 else f"{per_s / 1e6:,.0f}M"
    return f"{float(f'{per_s:.3g}'):,g}" if per_s < 1000 else f"{float(f'{per_s:.3g}'):,.0f}"


# What it is measured on and against ---------------------------------------------------------------


def peer(module: str) -> Any:
    """Import a peer's module; None if it cannot be imported: then `report` ends with 1."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        absent(module.partition(".")[0], f"cannot be imported ({error})")
        return None


def absent(name: str, why: str) -> None:
    """Say that a peer that is no module is not there; `report` ends with 1."""
    _absent.append(name)
    print(f"NOT RUN: {name} {why}", file=sys.stderr)


def machine() -> dict[str, str]:
    """Return the conditions of the run: processor, cores, system, disk, day, and load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": str(sum(line.startswith("processor") for line in lines)),
        "kernel": platform.release(),
        "disk": disk(),
        "fsync": f"{1000 * fsync_s():.2g} ms",
        "python": platform.python_version(),
        "meteragent": version("meteragent"),
        "commit": commit(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "load before": f"{LOAD_BEFORE:.2f}",
        "load after": f"{os.getloadavg()[0]:.2f}",
    }


def commit() -> str:
    """Return the commit that is measured, and whether files have changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not known"


def disk() -> str:
    """Return the file system that the project is on, and its device."""
    mounts = [line.split()[:3] for line in Path("/proc/mounts").read_text().splitlines()]
    over = [mount for mount in mounts if ROOT.is_relative_to(mount[1])]
    device, _, kind = max(over, key=lambda mount: len(mount[1]))
    return f"{kind} on {Path(device).name}"


def fsync_s() -> float:
    """Measure the median time of writing and syncing 4 KiB on that file system."""
    took_s = []
    with tempfile.TemporaryFile(dir=ROOT) as file:
        for _ in range(FSYNCS):
            began_s = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            took_s.append(time.perf_counter() - began_s)
    return statistics.median(took_s)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not there"


# Reporting ----------------------------------------------------------------------------------------


def report(results: Sequence[Result], packages: Sequence[str], others: dict[str, str] | None = None) -> None:
    """Print a table and, with --out FILE, put the rows into that JSON file, replacing older ones.

    `others` are versions of peers that are no Python packages. Raises SystemExit if a peer is missing.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, help="put the rows into this JSON file")
    out = parser.parse_args().out
    versions = machine() | {package: _version(package) for package in packages} | (others or {})
    print(f"{'what':<50} {'against':<34} {'ratio':>7} {'from .. to':>16} {'goal':>5}")
    for row in results:
        goal = "" if row.goal is None else f"{row.goal:g}"
        met = "" if row.goal is None or row.ratio >= row.goal else "  MISSED"
        spread = "{:.3g} .. {:.3g}".format(*row.spread)
        print(f"{row.name:<50} {row.against:<34} {row.ratio:>7.3g} {spread:>16} {goal:>5}{met}  {row.note}")
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    if out is not None:
        _merge(out, [row.as_json(versions) for row in results])
    if _absent:
        raise SystemExit(f"NOT RUN: {', '.join(_absent)}: `make bench` installs what can be")


def _merge(out: Path, rows: list[dict[str, Any]]) -> None:
    known = json.loads(out.read_text()) if out.exists() else []
    new = {(row["name"], row["against"]) for row in rows}
    kept = [row for row in known if (row["name"], row["against"]) not in new]
    out.write_text(json.dumps(kept + rows, indent=1) + "\n")
