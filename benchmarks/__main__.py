"""Run all programs in `PROGRAMS`, or only those that are named, one after the other.

`python -m benchmarks [--rounds N] [--out FILE] [PROGRAM …]`. If a program fails, the others still run, and
the exit code is 1. Without names, all programs run, and FILE is replaced at the end, so that no older rows
remain. With names, the new rows replace only rows with the same name and peer. Without --out, the results are
only printed. `python -m benchmarks compare BEFORE AFTER` says what became slower between two files of rows.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import compare
from benchmarks.harness import ROOT, ROUNDS_VARIABLE

PROGRAMS = ("mechanisms", "agent", "store", "footprint", "simulators", "attackers", "archive")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment variables that limit OpenMP and OpenBLAS to one thread, so that CPU times are comparable."""

LIMIT_S = 3600.0


def run(name: str, rounds: int, out: Path) -> str:
    """Run one program; return a description of its failure, or "" if it succeeds."""
    environment = os.environ | ONE_THREAD | {ROUNDS_VARIABLE: str(rounds)}
    command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(out)]
    try:
        code = subprocess.run(command, check=False, cwd=ROOT, env=environment, timeout=LIMIT_S).returncode
    except subprocess.TimeoutExpired:
        return f"{name} was stopped after {LIMIT_S:.0f} s"
    return f"{name} exited with code {code}" if code else ""


def run_all(names: Sequence[str], rounds: int, out: Path) -> list[str]:
    """Run the programs; return descriptions of their failures."""
    start_s, failures = time.monotonic(), []
    for name in names:
        program_start_s = time.monotonic()
        print(f"\n== {name}", flush=True)
        failures.append(run(name, rounds, out))
        print(f"== {name}: {time.monotonic() - program_start_s:.0f} s", flush=True)
    summary = f"{rounds} round{'s' * (rounds != 1)}, {time.monotonic() - start_s:.0f} s in all"
    print(f"\n{summary}", *(f"FAILED: {failure}" for failure in failures if failure), sep="\n")
    return [failure for failure in failures if failure]


def main() -> None:
    """Run the programs that the arguments name, or all of them; or compare two files of results."""
    if sys.argv[1:2] == ["compare"]:
        sys.exit(compare.main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=5, help="how often each contestant runs (default 5)")
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"{', '.join(PROGRAMS)}; by default all")
    options = parser.parse_args()
    if unknown := set(options.names) - set(PROGRAMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; programs are {', '.join(PROGRAMS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        new_path = Path(folder) / "results.json"
        is_merge = options.out is not None and options.names
        failures = run_all(
            options.names or PROGRAMS, options.rounds, options.out.resolve() if is_merge else new_path
        )
        if options.out is not None and not options.names and new_path.exists():
            options.out.write_text(new_path.read_text())
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
