"""Kill the agent and brokers with kill -9: ``python -m tests.commands.kill_rounds --rounds 200 --log FILE``.

Run rounds of three kinds under a burst feed, and kill at random moments: the agent; the broker; one of two
brokers. A part is a number of rounds with a new store and its own seed, after which every message received
and the ledger are checked. The noise of all parts together is compared with its law. Each completed part is a
line of the log. After a stop, the same command continues there and prints the totals of the whole log. The
exit code is 0 if nothing is missing, doubled or wrong, 143 if the run was stopped, else 1. The integration
tests do the same with 25 rounds.

With ``--doubted``, rounds of a fourth kind run instead: the agent is killed while readings of a register are
doubted. There is no log; the half hours are counted, and are compared with the energy that was used.

With ``--receivers``, two receivers' brokers are killed, stand still, refuse or belong to another store, or a
receiver is paused, while the agent is killed (`tests.integration.receiver_kills`). There is no log either.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from scipy import stats

from simulators.commands.option import positive
from simulators.long_run import LongRun, OtherLog, Part, finish
from tests.integration import law
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.integration.doubted import kill_while_doubted
from tests.integration.judge import Fed, Messages, dither, noise, slots, violations
from tests.integration.kills import PLAN, UNLIMITED, Outcome, kill_agent, kill_brokers
from tests.integration.plan import Plan
from tests.integration.receiver_kills import kill_beside_receivers
from tests.integration.service import TELL_ALL
from tests.support.broker import Broker, mosquitto_program

AGENT_BURST = 500
BROKER_BURSTS = {1: 40, 2: 60}
PART_MIN = 5
"""The number of rounds after which every meter has released something."""
KINDS = {"the agent": 0, "the broker": 1, "one of two brokers": 2}
"""The target of each kind of kill, and the number of brokers involved."""
WINDOWS_MIN = 150
"""The smallest number of windows for a test of the noise's law, so that its cells are large enough."""
JUDGED = {"missing": "missing", "two values": "doubled"}
"""The counter of a violation; any other kind is counted as wrong."""


async def part(program: Path, folder: Path, kind: str, rounds: int, seed: int) -> Part:
    """Run rounds of one kind, and check the results."""
    settings, brokers = LOGS_SUBSCRIPTIONS, max(1, KINDS[kind])
    plans = [PLAN, PLAN.noisy]
    with ExitStack() as stack:
        if KINDS[kind]:
            settings, plans = settings | UNLIMITED, [PLAN]
        running = [
            stack.enter_context(
                Broker(
                    program,
                    _make_folder(folder / f"broker-{number}"),
                    is_persistent=bool(KINDS[kind]),
                    settings=settings,
                )
            )
            for number in range(brokers)
        ]
        place = _make_folder(folder / "agent")
        if KINDS[kind]:
            outcome = await kill_brokers(running, place, plans, rounds, BROKER_BURSTS[brokers], seed=seed)
        else:
            outcome = await kill_agent(running[0], place, plans, rounds, AGENT_BURST, seed=seed)
    return judged(plans, outcome)


def judged(plans: Sequence[Plan], outcome: Outcome) -> Part:
    """Return the counts of a part, and the noise of its noisy windows."""
    fed, messages = outcome.fed, outcome.receiver.messages
    line: Part = {
        "lives": outcome.lives,
        "records": outcome.receiver.records,
        "dither": dither(PLAN, fed, messages),
        **counted(plans, fed, messages),
    }
    try:
        outcome.agent.assert_kept(fed, outcome.receiver)
    except AssertionError as error:
        return line | {"failed": f"{str(error)[-2000:]}; the agent's counts: {outcome.agent.totals}"}
    return line | {"noise": [w for plan in plans if not plan.is_exact for w in noise(plan, fed, messages)]}


def counted(plans: Sequence[Plan], fed: Fed, messages: Messages) -> Part:
    """Count readings and slots, and those that are missing, doubled or wrong among the messages received."""
    kinds = Counter(
        JUDGED.get(violation.kind, "wrong") for plan in plans for violation in violations(plan, fed, messages)
    )
    return {
        "readings": sum(map(len, fed.values())),
        "slots": sum(len(slots(plan, meter, messages)) for plan in plans for meter in fed),
        **{kind: kinds[kind] for kind in ("missing", "doubled", "wrong")},
    }


def run(program: Path, rounds: int, size: int, log: LongRun) -> None:
    """Run the parts that the log lacks, in parts of `size` rounds of each kind in turn."""
    while True:
        completed = {kind: sum(p["rounds"] for p in log.parts if p["kind"] == kind) for kind in KINDS}
        kind = min(KINDS, key=completed.__getitem__)
        if completed[kind] >= rounds:
            return
        seed = sum(p["kind"] == kind for p in log.parts)
        line: Part = {"kind": kind, "rounds": size, "seed": seed}
        begun_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                line |= asyncio.run(part(program, Path(folder), kind, size, seed))
            except Exception as error:  # noqa: BLE001 - a part that cannot be checked is a failure of the run
                line |= {"failed": f"{type(error).__name__}: {str(error)[-2000:]}"}
        log.append(line | {"seconds": round(time.monotonic() - begun_s, 1)})
        print(_sentence(line), flush=True)


def _sentence(line: Part) -> str:
    if "failed" in line:
        return f"FAILED, {line['rounds']} kills of {line['kind']}, seed {line['seed']}: {line['failed']}"
    return (
        f"{line['rounds']} kills of {line['kind']}: {line['readings']} readings, {line['slots']} slots, kept"
    )


def totals(log: LongRun) -> bool:
    """Print the totals of the whole log; return whether nothing failed and the noise has its law."""
    for kind in KINDS:
        parts = [part for part in log.parts if part["kind"] == kind]
        counts = Counter[str]()
        for line in parts:
            counts += Counter({key: n for key, n in line.items() if isinstance(n, int) and key != "seed"})
        minutes = sum(line["seconds"] for line in parts) / 60
        violation_counts = ", ".join(f"{counts[name]} {name}" for name in ("missing", "doubled", "wrong"))
        print(f"kill -9 of {kind}: {counts['rounds']} rounds in {minutes:.1f} min")
        print(f"  {counts['lives']} of them after a release; {counts['records']} records with repetitions")
        print(f"  {counts['readings']} readings, {counts['slots']} slots: {violation_counts}")
    failures = [line for line in log.parts if "failed" in line]
    for line in failures:
        print(_sentence(line))
    noise_passes = _has_its_law([window for line in log.parts for window in line.get("noise", ())])
    dithers = [line["dither"] for line in log.parts if "dither" in line]
    return _is_unbiased(dithers) and noise_passes and not failures


def _is_unbiased(parts: Sequence[Sequence[float]]) -> bool:
    """Test the dither of all parts; a correct dither fails with a probability of 1e-6."""
    deviation, variance = (sum(part[column] for part in parts) for column in range(2))
    if not variance:
        print("the dither of no slots: nothing to test")
        return True
    z = deviation / variance**0.5
    passes = bool(abs(z) < stats.norm.isf(law.ALARM / 2))
    verdict = "is unbiased" if passes else "FAILED: is NOT unbiased"
    print(f"the dither {verdict}: {z:.2f} standard deviations off")
    return passes


def _has_its_law(windows: Sequence[Sequence[int]]) -> bool:
    """Test the noise of all parts; a correct sampler fails with a probability of 2e-6."""
    if len(windows) < WINDOWS_MIN:
        print(f"the noise of {len(windows)} windows: too few to test its law")
        return True
    passes = law.passes_scale_test(windows, PLAN.noisy.epsilon) and law.rest_p(windows) > law.ALARM
    print(f"the noise of {len(windows)} windows {'has its law' if passes else 'FAILED: has NOT its law'}")
    return passes


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def run_doubted(program: Path, rounds: int) -> int:
    """Run rounds of kills while readings are doubted; return the exit code."""
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = _make_folder(Path(folder) / "agent")
        with Broker(program, _make_folder(Path(folder) / "broker"), settings=TELL_ALL) as broker:
            outcome = asyncio.run(kill_while_doubted(broker, place, rounds))
    print(
        f"kill -9 while readings are doubted: {rounds} rounds in {(time.monotonic() - begun_s) / 60:.1f} min"
    )
    counts = f"{outcome.missing} missing, {outcome.doubled} doubled, {outcome.wrong} wrong"
    print(f"  {outcome.slots} slots: {counts}")
    return 0 if outcome.is_kept else 1


def run_receivers(program: Path, rounds: int, size: int) -> int:
    """Run rounds of kills beside two receivers in parts of `size`; return the exit code."""
    begun_s, slots, mistakes = time.monotonic(), 0, list[str]()
    for seed in range(-(-rounds // size)):
        with tempfile.TemporaryDirectory() as folder:
            part = asyncio.run(kill_beside_receivers(program, Path(folder), size, seed))
        slots += part.slots
        mistakes += [f"seed {seed}: {text}" for text in part.mistakes]
    minutes = (time.monotonic() - begun_s) / 60
    print(f"kill -9 beside two receivers, one of them struck: {rounds} rounds in {minutes:.1f} min")
    print(
        f"  {slots} slots of both: {len(mistakes)} missing, drawn twice or not their own", *mistakes, sep="\n"
    )
    return 1 if mistakes else 0


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=200, help="of each kind (default %(default)s)")
    parser.add_argument(
        "--part",
        type=positive,
        default=10,
        help=f"rounds in a part, at least {PART_MIN} (default %(default)s); only whole parts run",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="log of the completed parts")
    parser.add_argument(
        "--doubted", action="store_true", help="kill while readings of a register are doubted"
    )
    parser.add_argument("--receivers", action="store_true", help="kill while one of two receivers is struck")
    options = parser.parse_args()
    if options.part < PART_MIN:
        parser.error(f"--part: a part has at least {PART_MIN} rounds")
    program = mosquitto_program()
    if program is None:
        parser.exit(1, "NOT RUN: mosquitto is neither on the path nor in /usr/sbin\n")
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the feeder's client: connections that end
    if options.doubted:
        return run_doubted(program, options.rounds)
    if options.receivers:
        return run_receivers(program, options.rounds, options.part)
    try:
        with LongRun(options.log, "kill_rounds", ("meteragent", "simulators", "tests")) as log:
            return finish(lambda: run(program, options.rounds, options.part, log), lambda: totals(log))
    except OtherLog as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    sys.exit(main())
