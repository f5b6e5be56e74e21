"""Run the agent under seeded faults in virtual time, and check every step (`simulators.simtest`)."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from tqdm import tqdm

from simulators.invariant import InvariantViolation
from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Stopped, stoppable
from simulators.simtest import runs
from simulators.simtest.schedule import (
    KINDS,
    Announce,
    Junk,
    Price,
    PriceJunk,
    Read,
    Record,
    Report,
    Schedule,
    Step,
    Trouble,
    read,
    write,
)
from simulators.simtest.shrink import shrink
from simulators.simtest.world import STATES, met

NO_FAULTS = (Read, Junk, Price, PriceJunk, Announce, Record, Trouble, Report, Step)
"""The events that are not faults of the agent."""


def run(arguments: argparse.Namespace) -> int:
    """Run schedules.

    Return 0 if no invariant is violated, 1 if one is, 2 if the schedule or the log cannot be used, and
    EXIT_STOPPED if a run of many seeds was stopped before its end.
    """
    if arguments.replay is not None:
        stdin = str(arguments.replay) == "-"
        try:
            plan = read(sys.stdin.read() if stdin else arguments.replay.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError) as error:
            print(f"simtest: {error}", file=sys.stderr)
            return 2
        return _run_one(plan, has_twin=True)
    if arguments.seed is not None:
        plan = runs.draw(arguments.seed, arguments.service)
        print(write(plan))
        return _run_one(plan, has_twin=runs.has_twin(arguments.seed))
    first = runs.fresh_seed() if arguments.fresh else arguments.first
    seeds = range(first, first + arguments.seeds)
    try:
        service = arguments.service
        name = "simtest" if service == runs.AGENT else f"simtest of {service}"
        with stoppable(), LongRun(arguments.log, name, ("meteragent", "simulators")) as log:
            past = arguments.log is not None
            return _run_many(seeds, arguments.jobs, log, service, runs_past_violations=past)
    except OtherLog as error:
        print(f"simtest: {error}", file=sys.stderr)
        return 2


def _run_one(plan: Schedule, *, has_twin: bool) -> int:
    with runs.place() as folder:
        try:
            counts = runs.run(plan, folder, has_twin=has_twin)
        except InvariantViolation as violation:
            print(f"INVARIANT VIOLATED: {violation}")
            return 1
    _print_counts(counts)
    return 0


def _run_many(seeds: range, jobs: int, log: LongRun, service: str, *, runs_past_violations: bool) -> int:
    """Run the seeds of a service that the log lacks, and return the exit code.

    Stop after the first part in which a seed fails, unless `runs_past_violations` is set.
    """
    logged = {seed for part in log.parts for seed in range(part["from"], part["from"] + part["seeds"])}
    remaining = [seed for seed in seeds if seed not in logged]
    stopped = False
    with tqdm(total=len(seeds), initial=len(seeds) - len(remaining), unit=" schedules", disable=None) as bar:
        try:
            for part in _run_parts(remaining, jobs, service):
                log.append(_format_part(part))
                bar.update(len(part.seeds))
                if part.violations and not runs_past_violations:
                    break
        except Stopped:
            stopped = True
    return _report(log, service, is_stopped=stopped)


def _run_parts(seeds: Sequence[int], jobs: int, service: str) -> Iterator[runs.Part]:
    """Run seeds, which may have gaps, in parts without gaps; the log stores each part's start and length."""
    for _, stretch in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        yield from runs.on_all_cores([seed for _, seed in stretch], jobs, service)


def _format_part(part: runs.Part) -> dict[str, object]:
    return {
        "from": part.seeds[0],
        "seeds": len(part.seeds),
        "counts": dict(part.counts),
        "broken": {str(seed): text for seed, text in part.violations.items()},
    }


def _report(log: LongRun, service: str, *, is_stopped: bool) -> int:
    """Print the totals of the log, and return the exit code.

    If seeds failed and the run was not stopped, shrink and print the schedule of the lowest failed seed.
    """
    counts = Counter[str]()
    violations: dict[int, str] = {}
    for part in log.parts:
        counts += Counter(part["counts"])
        violations |= {int(seed): text for seed, text in part["broken"].items()}
    _print_counts(counts)
    if service == runs.AGENT:
        print(f"not met: {', '.join(_unmet(counts)) or 'nothing'}")
    print(f"{log.total('seeds'):>12,}  seeds run, {len(violations)} of them violated an invariant")
    if is_stopped:
        print("stopped: run the same command to continue")
        return EXIT_STOPPED
    if violations:
        lowest_seed = min(violations)
        return _shrink_and_print(lowest_seed, service, violations[lowest_seed])
    return 0


def _unmet(counts: Counter[str]) -> list[str]:
    """Return each pair of a fault and a state of the agent that occurred in no schedule."""
    kinds = [name for name, kind in KINDS.items() if kind not in NO_FAULTS]
    return [name for state in STATES for kind in kinds if not counts[name := met(state, kind)]]


def _shrink_and_print(seed: int, service: str, violation: str) -> int:
    print(f"seed {seed} INVARIANT VIOLATED: {violation}\nthe schedule, shrunk if possible:\n")
    twin = runs.has_twin(seed)
    with runs.place() as folder:
        print(write(shrink(runs.draw(seed, service), folder, has_twin=twin)))
    return 1


def _print_counts(counts: Counter[str]) -> None:
    for name in sorted(counts):
        print(f"{counts[name]:>12,}  {name}")
