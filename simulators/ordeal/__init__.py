"""The agent under seeded faults: crashes, outages, bad disks and clocks, in virtual time, all of it checked.

A seed is a schedule of what goes wrong and when. The agent's own shell, core, store, ledger and outbox live
through it between two simulated brokers, and after every step everything must hold that DESIGN promises. The
first schedule that breaks something ends the run with 1, and is printed as small as it gets: what is printed
can be given back with --replay.
"""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from simulators.option import positive, seed
from simulators.ordeal import runs
from simulators.ordeal.draw import draw
from simulators.ordeal.schedule import Schedule, read, write
from simulators.ordeal.shrink import shrink
from simulators.ordeal.witness import Broken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators ordeal` takes."""
    add = parser.add_argument
    add(
        "--seeds", type=positive, default=100_000, metavar="N", help="so many schedules (default %(default)s)"
    )
    add("--from", dest="first", type=seed, default=0, metavar="SEED", help="the first one's seed")
    add("--seed", type=seed, metavar="SEED", help="this one only, printed")
    add("--replay", type=Path, metavar="FILE", help="a schedule as it was printed; - reads it from the input")
    add(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run schedules; 1: one broke something, 2: what was given is no schedule."""
    if arguments.replay is not None:
        stdin = str(arguments.replay) == "-"
        try:
            plan = read(sys.stdin.read() if stdin else arguments.replay.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError) as error:
            print(f"ordeal: {error}", file=sys.stderr)
            return 2
        return _one(plan, twin=True)
    if arguments.seed is not None:
        plan = draw(arguments.seed)
        print(write(plan))
        return _one(plan, twin=runs.has_twin(arguments.seed))
    return _many(range(arguments.first, arguments.first + arguments.seeds), arguments.jobs)


def _one(plan: Schedule, *, twin: bool) -> int:
    with runs.place() as where:
        try:
            counts = runs.run(plan, where, twin=twin)
        except Broken as broken:
            print(f"BROKEN: {broken}")
            return 1
    _print(counts)
    return 0


def _many(seeds: range, jobs: int) -> int:
    counts = Counter[str]()
    with tqdm(total=len(seeds), unit=" schedules", disable=None) as bar:
        for outcome in runs.on_all_cores(seeds, jobs):
            counts += outcome.counts
            bar.update(outcome.counts["schedules"])
            if outcome.seed is not None:
                bar.close()
                return _broken(outcome.seed, outcome.broken)
    _print(counts)
    return 0


def _broken(first: int, broken: Broken | None) -> int:
    print(f"seed {first} BROKEN: {broken}\nas few events as possible:\n")
    twin = runs.has_twin(first)
    with runs.place() as where:
        print(write(shrink(draw(first), where, twin=twin)))
    return 1


def _print(counts: Counter[str]) -> None:
    for name in sorted(counts):
        print(f"{counts[name]:>12,}  {name}")
