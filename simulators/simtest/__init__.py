"""The deterministic simulation test: the agent under seeded faults in virtual time, checked after every step.

Theory of operation
    **A seed is a schedule.** `generator` draws the schedule, and `schedule` writes it as text and reads it
    back. It consists of the settings of the network and the streams, and of the messages and faults with
    their times. It determines everything that happens, except the random bytes of sealed messages, so a
    schedule that fails once fails every time.

    **A world runs a schedule.** `world` starts one agent process after another. Each runs `meteragent.agent`
    unchanged, with the simulation's `Environment` (`agent_process`). The event loop (`loop`) is virtual: it
    never waits. When nothing is ready, its time jumps to the next timer.

    **The surroundings of the process are simulated**, each in a separate module:

        network         connections, in bytes: pieces, delays, cuts, silence
        brokers         the brokers of source, sink and receivers; `mqtt_server` is their side of MQTT
        disk, power     the store's thread and device; SQLite and its files are real
        surroundings    messages of meters and markets, outages, clocks, a slow or full disk
        crowd           the operators' lists of keys
        other_stores    descriptors of other stores, which hold a receiver back
        store_versions  the store's folders: at a start, after a crash, after a copy is restored

    A crash stops the process at a chosen point; the next process starts from the files that the crash, or a
    power cut at that moment, leaves.

    **The oracle decides what is correct.** The world reports to `oracle` everything that the process receives
    or sends: messages, transactions, publications, confirmations, acknowledgements. `windows` and `spec`
    compute from a stream's setting what its windows are: slots, limits, one quantum, charges. `model`
    computes, from the definitions, which readings count for which time. Neither knows the agent's terms,
    its kinds of windows or its descriptors; `stated` compares what descriptors say. `receivers`
    determines which receiver gets which slot. `expected_store` holds the contents that must be on disk. When
    a crash destroys part of the process's state, the oracle discards that part too. A transaction whose
    COMMIT did not return may be in doubt until the store shows whether it is on disk.

    **Invariants are checked at once.** After each step `invariants` compares the agent with the oracle. The
    first difference raises InvariantViolation and ends the world at the step that caused it.

    **The end is quiet.** Faults stop several seconds before the end. By the end everything that was due must
    have been received and acknowledged. One schedule in five runs a second time with different values in its
    readings, unless it limits the store's space; apart from the values and sealed bytes, the agent must
    publish the same messages at the same times (law 4).

    **A failure is shrunk.** If one of many seeds fails, `shrink` leaves out events and settings as long as
    the same invariant is still violated. The command prints the remaining schedule, which `--replay` can run
    again.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from tqdm import tqdm

from simulators.invariant import InvariantViolation
from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Stopped, stoppable
from simulators.simtest import runs
from simulators.simtest.generator import generate
from simulators.simtest.schedule import Schedule, read, write
from simulators.simtest.shrink import shrink


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
        return _run_one(plan, twin=True)
    if arguments.seed is not None:
        plan = generate(arguments.seed)
        print(write(plan))
        return _run_one(plan, twin=runs.has_twin(arguments.seed))
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    try:
        with stoppable(), LongRun(arguments.log, "simtest", ("meteragent", "simulators")) as log:
            return _run_many(seeds, arguments.jobs, log, past_violations=arguments.log is not None)
    except OtherLog as error:
        print(f"simtest: {error}", file=sys.stderr)
        return 2


def _run_one(plan: Schedule, *, twin: bool) -> int:
    with runs.place() as folder:
        try:
            counts = runs.run(plan, folder, twin=twin)
        except InvariantViolation as violation:
            print(f"INVARIANT VIOLATED: {violation}")
            return 1
    _print_counts(counts)
    return 0


def _run_many(seeds: range, jobs: int, log: LongRun, *, past_violations: bool) -> int:
    """Run the seeds that the log lacks, and return the exit code.

    Stop after the first part in which a seed fails, unless `past_violations` is set.
    """
    logged = {seed for part in log.parts for seed in range(part["from"], part["from"] + part["seeds"])}
    remaining = [seed for seed in seeds if seed not in logged]
    stopped = False
    with tqdm(total=len(seeds), initial=len(seeds) - len(remaining), unit=" schedules", disable=None) as bar:
        try:
            for part in _run_parts(remaining, jobs):
                log.append(_format_part(part))
                bar.update(len(part.seeds))
                if part.violations and not past_violations:
                    break
        except Stopped:
            stopped = True
    return _report(log, stopped=stopped)


def _run_parts(seeds: Sequence[int], jobs: int) -> Iterator[runs.Part]:
    """Run seeds, which may have gaps, in parts without gaps; the log stores each part's start and length."""
    for _, stretch in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        yield from runs.on_all_cores([seed for _, seed in stretch], jobs)


def _format_part(part: runs.Part) -> dict[str, object]:
    return {
        "from": part.seeds[0],
        "seeds": len(part.seeds),
        "counts": dict(part.counts),
        "broken": {str(seed): text for seed, text in part.violations.items()},
    }


def _report(log: LongRun, *, stopped: bool) -> int:
    """Print the totals of the log, and return the exit code.

    If seeds failed and the run was not stopped, shrink and print the schedule of the lowest failed seed.
    """
    counts = Counter[str]()
    violations: dict[int, str] = {}
    for part in log.parts:
        counts += Counter(part["counts"])
        violations |= {int(seed): text for seed, text in part["broken"].items()}
    _print_counts(counts)
    print(f"{log.total('seeds'):>12,}  seeds run, {len(violations)} of them violated an invariant")
    if stopped:
        print("stopped: run the same command to continue")
        return EXIT_STOPPED
    if violations:
        lowest_seed = min(violations)
        return _shrink_and_print(lowest_seed, violations[lowest_seed])
    return 0


def _shrink_and_print(seed: int, violation: str) -> int:
    print(f"seed {seed} INVARIANT VIOLATED: {violation}\nthe schedule, shrunk if possible:\n")
    twin = runs.has_twin(seed)
    with runs.place() as folder:
        print(write(shrink(generate(seed), folder, twin=twin)))
    return 1


def _print_counts(counts: Counter[str]) -> None:
    for name in sorted(counts):
        print(f"{counts[name]:>12,}  {name}")
