"""The deterministic simulation test: the agent under seeded faults in virtual time, checked after every step.

Theory of operation
    A seed gives a `schedule` (`generator`): settings of streams, readings, and what goes wrong when. A
    `world` runs it: one agent process after the other (`agent_process`), each the agent as it is, in an
    Environment of the simulation's. The event loop (`loop`) is virtual: when nothing is ready, the time is
    that of the next timer, so that nobody waits and the same schedule takes the same steps every time.

    What surrounds the process is simulated: both brokers (`network`), the store's thread and device
    (`disk`, `power`: real SQLite in real files, whose state is taken at any moment of a commit), meters,
    clocks and disk space (`surroundings`), and what an operator puts back (`store_versions`). A crash ends
    the process where the schedule says, leaves the files of that moment, and the next process starts from
    them.

    The `oracle` is told all that crosses a border: what the core is fed and answers, transactions,
    publications, confirmations, acknowledgements. A reference `model` says, by definition and without the
    agent's arithmetic, which readings count for which time; `expected_store` says what is on disk. After
    each step `invariants` compares; an InvariantViolation ends the world. What a crash takes from the
    process it takes from the oracle as well; what nobody can know (a transaction whose COMMIT did not
    return) is in doubt until the next start shows it.

    At the end nothing goes wrong any more for a while, and all that must have left has. Some schedules run
    a second time with other values in their readings, and must publish the same but for the values (law 4).
    A schedule that violates an invariant is made smaller (`shrink`) and printed; --replay takes it back.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from simulators.invariant import InvariantViolation
from simulators.long_run import STOPPED, LongRun, OtherLog, Stopped, stoppable
from simulators.option import positive, seed
from simulators.simtest import runs
from simulators.simtest.generator import generate
from simulators.simtest.schedule import Schedule, read, write
from simulators.simtest.shrink import shrink

DESCRIPTION = """The agent under seeded faults: crashes, outages, bad disks and clocks, in virtual time, all
of it checked after every step. The first schedule that violates an invariant ends the run with 1, and is
printed as small as it gets: what is printed can be given back with --replay."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `python -m simulators simtest` takes."""
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
            print(f"simtest: {error}", file=sys.stderr)
            return 2
        return _one(plan, twin=True)
    if arguments.seed is not None:
        plan = generate(arguments.seed)
        print(write(plan))
        return _one(plan, twin=runs.has_twin(arguments.seed))
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    try:
        with stoppable(), LongRun(arguments.log, "simtest", ("meteragent", "simulators")) as log:
            return _many(seeds, arguments.jobs, log, to_the_end=arguments.log is not None)
    except OtherLog as error:
        print(f"simtest: {error}", file=sys.stderr)
        return 2


def _one(plan: Schedule, *, twin: bool) -> int:
    with runs.place() as where:
        try:
            counts = runs.run(plan, where, twin=twin)
        except InvariantViolation as violation:
            print(f"INVARIANT VIOLATED: {violation}")
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
                if part.violations and not to_the_end:
                    break
        except Stopped:
            stopped = True
    return _report(log, stopped=stopped)


def _parts(seeds: Sequence[int], jobs: int) -> Iterator[runs.Part]:
    """Run seeds that may have gaps; no part reaches over one."""
    for _, stretch in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        yield from runs.on_all_cores([seed for _, seed in stretch], jobs)


def _line(part: runs.Part) -> dict[str, object]:
    return {
        "from": part.seeds[0],
        "seeds": len(part.seeds),
        "counts": dict(part.counts),
        "broken": {str(seed): text for seed, text in part.violations.items()},
    }


def _report(log: LongRun, *, stopped: bool) -> int:
    """Print the totals of the log, and the first schedule that broke as small as it gets."""
    counts = Counter[str]()
    violations: dict[int, str] = {}
    for part in log.parts:
        counts += Counter(part["counts"])
        violations |= {int(seed): text for seed, text in part["broken"].items()}
    _print(counts)
    print(f"{log.total('seeds'):>12,}  seeds run, {len(violations)} of them broken")
    if stopped:
        print("stopped: the same command goes on from here")
        return STOPPED
    if violations:
        first = min(violations)
        return _violated(first, violations[first])
    return 0


def _violated(first: int, violation: str) -> int:
    print(f"seed {first} INVARIANT VIOLATED: {violation}\nas few events as possible:\n")
    twin = runs.has_twin(first)
    with runs.place() as where:
        print(write(shrink(generate(first), where, twin=twin)))
    return 1


def _print(counts: Counter[str]) -> None:
    for name in sorted(counts):
        print(f"{counts[name]:>12,}  {name}")
