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
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from simulators.long_run import STOPPED, LongRun, OtherLog, Stopped, stoppable
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
    add(
        "--log",
        type=Path,
        metavar="FILE",
        help="write each part that is done to this file, and go on where it ends: also past what breaks",
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
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    try:
        with stoppable(), LongRun(arguments.log, "ordeal", ("meteragent", "simulators")) as log:
            return _many(seeds, arguments.jobs, log, to_the_end=arguments.log is not None)
    except OtherLog as error:
        print(f"ordeal: {error}", file=sys.stderr)
        return 2


def _one(plan: Schedule, *, twin: bool) -> int:
    with runs.place() as where:
        try:
            counts = runs.run(plan, where, twin=twin)
        except Broken as broken:
            print(f"BROKEN: {broken}")
            return 1
    _print(counts)
    return 0


def _many(seeds: range, jobs: int, log: LongRun, *, to_the_end: bool) -> int:
    """Run what the log does not hold; without `to_the_end` the first schedule that breaks ends it."""
    done = {seed for part in log.parts for seed in range(part["from"], part["from"] + part["seeds"])}
    left = [seed for seed in seeds if seed not in done]
    stopped = False
    with tqdm(total=len(seeds), initial=len(seeds) - len(left), unit=" schedules", disable=None) as bar:
        try:
            for part in _parts(left, jobs):
                log.append(_line(part))
                bar.update(len(part.seeds))
                if part.broken and not to_the_end:
                    break
        except Stopped:
            stopped = True
    return _told(log, stopped=stopped)


def _parts(seeds: Sequence[int], jobs: int) -> Iterator[runs.Part]:
    """Run seeds that may have gaps; no part reaches over one."""
    for _, stretch in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        yield from runs.on_all_cores([seed for _, seed in stretch], jobs)


def _line(part: runs.Part) -> dict[str, object]:
    return {
        "from": part.seeds[0],
        "seeds": len(part.seeds),
        "counts": dict(part.counts),
        "broken": {str(seed): text for seed, text in part.broken.items()},
    }


def _told(log: LongRun, *, stopped: bool) -> int:
    """Print the totals of the log, and the first schedule that broke as small as it gets."""
    counts = Counter[str]()
    broken: dict[int, str] = {}
    for part in log.parts:
        counts += Counter(part["counts"])
        broken |= {int(seed): text for seed, text in part["broken"].items()}
    _print(counts)
    print(f"{log.total('seeds'):>12,}  seeds run, {len(broken)} of them broken")
    if stopped:
        print("stopped: the same command goes on from here")
        return STOPPED
    if broken:
        first = min(broken)
        return _broken(first, broken[first])
    return 0


def _broken(first: int, broken: str) -> int:
    print(f"seed {first} BROKEN: {broken}\nas few events as possible:\n")
    twin = runs.has_twin(first)
    with runs.place() as where:
        print(write(shrink(draw(first), where, twin=twin)))
    return 1


def _print(counts: Counter[str]) -> None:
    for name in sorted(counts):
        print(f"{counts[name]:>12,}  {name}")
