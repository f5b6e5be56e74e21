"""Measurements for the benchmarks: interleaved runs of contestants, and the ratios between their results.

Times alone mean little on a shared machine. Therefore every contestant has one turn in every round, and the
rounds begin with different contestants. A ratio is taken within a round, where all contestants meet the same
conditions. The median over the rounds is reported with the smallest and the largest ratio. A higher ratio is
always better: for memory, added latency and growth, the ratio is the limit divided by the measured value, and
a goal, if there is one, is 1.
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
LONG_S = 1.0
SLICE_S = 0.05
GROWTH = 1.1
"""The largest allowed cost per unit of work at the large size, as a multiple of that at the small size."""
FSYNCS = 20
ROOT = Path(__file__).resolve().parent.parent
LOAD_BEFORE = os.getloadavg()[0]
_missing_peers: list[str] = []


@dataclass(frozen=True)
class Row:
    """Two calls that do the same work, with its name, the peer, and the goal for the ratio of the rates.

    `theirs` may be a limit instead of a call: the CPU seconds that `ours` may take. `work` holds the number
    of `unit`s that each call processes; a slow peer may process fewer.
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
    """A comparison: the ratio in each round, and the goal, or None if there is none."""

    name: str
    against: str
    ratios: tuple[float, ...]
    goal: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio."""
        return min(self.ratios), max(self.ratios)

    def as_json(self, versions: dict[str, str]) -> dict[str, Any]:
        """Return the row for a file of results; its ratios have four significant digits."""
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
    """Return the CPU time of one call, averaged over `times` calls, in s."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def calls_per_slice(call: Callable[[], object]) -> int:
    """Return the number of calls that fit into a slice, at least 1. The measurement is also a warm-up."""
    if seconds(call, 1) > LONG_S:
        return 1
    times = 1  # measured anew, because a first call may make tables
    while (duration_s := seconds(call, times) * times) < SLICE_S / 4:
        times *= 2
    return max(1, round(SLICE_S / duration_s * times))


def slice_s(call: Callable[[], object] | float, times: int) -> float:
    """Return the CPU time of one call, averaged over `times` calls, in s.

    If `call` is a limit in s, it is returned unchanged. A short call is first made once without measurement,
    because the system reclaims memory from a process that waits, and the first call to use this memory again
    pays for it.
    """
    if not callable(call):
        return call
    if times > 1:
        call()
    return seconds(call, times)


def run(rows: Sequence[Row]) -> list[Result]:
    """Measure all rows, interleaved; ours and theirs take turns at running first."""
    calls = [(row.ours, row.theirs) for row in rows]
    times = [tuple(calls_per_slice(call) if callable(call) else 1 for call in pair) for pair in calls]
    row_times_s: list[list[tuple[float, float]]] = [[] for _ in rows]
    for round_index in range(ROUNDS):
        for pair, counts, durations_s in zip(calls, times, row_times_s, strict=True):
            sides = [*zip(pair, counts, strict=True)]
            sides_in_order = [slice_s(*side) for side in (sides if round_index % 2 else reversed(sides))]
            ours, theirs = sides_in_order if round_index % 2 else reversed(sides_in_order)
            durations_s.append((ours, theirs))
    return [_result(row, durations_s) for row, durations_s in zip(rows, row_times_s, strict=True)]


def compare(
    name: str,
    against: str,
    pairs: Sequence[tuple[float, float]],
    text: str,
    *,
    are_rates: bool = False,
    goal: float | None = None,
    allow: Callable[[float], float] = float,
) -> Result:
    """Compare ours with theirs, round by round: as rates if `are_rates` is true, otherwise as costs.

    Our cost may be as high as `allow(theirs)`. `text` formats the note from the medians of ours and theirs.
    """
    ratios = tuple(ours / theirs if are_rates else allow(theirs) / ours for ours, theirs in pairs)
    note = text.format(*(statistics.median(values) for values in zip(*pairs, strict=True)))
    return Result(name, against, ratios, goal, note)


def _result(row: Row, durations_s: Sequence[tuple[float, float]]) -> Result:
    """Return the ratios of work per second, with the medians as a note."""
    rates = [
        tuple(work / duration_s for work, duration_s in zip(row.work, pair, strict=True))
        for pair in durations_s
    ]
    ours, theirs = (rate(statistics.median(values)) for values in zip(*rates, strict=True))
    rates_text = [f"{ours} and {theirs} {row.unit} per CPU-second"] if row.unit else []
    note = "; ".join([*rates_text, *([row.note] if row.note else [])])
    return Result(
        row.name, row.against, tuple(our_rate / their_rate for our_rate, their_rate in rates), row.goal, note
    )


def rate(per_s: float) -> str:
    """Format a number with three significant digits, with M for millions; from 10^9 on, in whole millions.

    >>> rate(12_345_678), rate(7_312), rate(0.1234)
    ('12.3M', '7,310', '0.123')
    """
    if per_s >= 1e6:
        return f"{per_s / 1e6:.3g}M" if per_s < 1e9 else f"{per_s / 1e6:,.0f}M"
    return f"{float(f'{per_s:.3g}'):,g}" if per_s < 1000 else f"{float(f'{per_s:.3g}'):,.0f}"


# The machine and the peers ------------------------------------------------------------------------


def peer(module: str) -> Any:
    """Import a peer's module; return None if it cannot be imported, and `report` then exits with 1."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        report_missing(module.partition(".")[0], f"cannot be imported ({error})")
        return None


def report_missing(name: str, reason: str) -> None:
    """Report a missing peer; `report` then exits with 1."""
    _missing_peers.append(name)
    print(f"NOT RUN: {name} {reason}", file=sys.stderr)


def machine() -> dict[str, str]:
    """Return the conditions of the run: processor, kernel, disk, Python, meteragent, commit, day and load."""
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
    """Return the commit that is measured, with -dirty if tracked files differ; "not known" if git fails."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "not known"


def disk() -> str:
    """Return the file system of the project and its device."""
    mounts = [line.split()[:3] for line in Path("/proc/mounts").read_text().splitlines()]
    mounts_above = [mount for mount in mounts if ROOT.is_relative_to(mount[1])]
    device, _, kind = max(mounts_above, key=lambda mount: len(mount[1]))
    return f"{kind} on {Path(device).name}"


def fsync_s() -> float:
    """Return the median time to write and sync 4 KiB on the project's file system, in s."""
    durations_s = []
    with tempfile.TemporaryFile(dir=ROOT) as file:
        for _ in range(FSYNCS):
            start_s = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            durations_s.append(time.perf_counter() - start_s)
    return statistics.median(durations_s)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


# Reporting ----------------------------------------------------------------------------------------


def report(
    results: Sequence[Result], packages: Sequence[str], program_versions: dict[str, str] | None = None
) -> None:
    """Print a table and, with --out FILE, write the rows to that JSON file.

    The rows replace those in the file that have the same name and peer. `program_versions` holds the versions
    of peers that are not Python packages. Raises SystemExit if a peer is missing.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    out = parser.parse_args().out
    versions = machine() | {package: _version(package) for package in packages} | (program_versions or {})
    print(f"{'what':<50} {'against':<34} {'ratio':>7} {'from .. to':>16} {'goal':>5}")
    for row in results:
        goal = "" if row.goal is None else f"{row.goal:g}"
        verdict = "" if row.goal is None or row.ratio >= row.goal else "  MISSED"
        spread = "{:.3g} .. {:.3g}".format(*row.spread)
        print(
            f"{row.name:<50} {row.against:<34} {row.ratio:>7.3g} {spread:>16} {goal:>5}{verdict}  {row.note}"
        )
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    if out is not None:
        _merge(out, [row.as_json(versions) for row in results])
    if _missing_peers:
        raise SystemExit(f"NOT RUN: {', '.join(_missing_peers)}; `make bench` installs the available peers")


def _merge(out: Path, rows: list[dict[str, Any]]) -> None:
    former_rows = json.loads(out.read_text()) if out.exists() else []
    keys = {(row["name"], row["against"]) for row in rows}
    other_rows = [row for row in former_rows if (row["name"], row["against"]) not in keys]
    out.write_text(json.dumps(other_rows + rows, indent=1) + "\n")
