"""Kill leader, helper and mosquitto of a crowd: ``python -m tests.commands.crowd_rounds --rounds 100``.

A part is a street of its own in which each of the three is killed some times, after which its totals and
ledgers are compared with what the homes sent. Each completed part is a line of the log; after a stop the same
command continues there. The exit code is 0 if all totals were right, 143 if the run was stopped, else 1. The
integration tests do the same with 5 rounds.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Part, Stopped, stoppable
from simulators.option import positive
from tests.integration.collecting import DURABLE
from tests.integration.crowding import kill
from tests.support.broker import Broker, mosquitto_program

PART = 10


def part(rounds: int, seed: int) -> Part:
    """Run rounds on a new street; return its counts. Raises AssertionError if a total is wrong."""
    mosquitto = mosquitto_program()
    assert mosquitto is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Broker(mosquitto, folder, persistence=True, settings=DURABLE) as broker:
            totals = asyncio.run(kill(folder, broker, rounds=rounds, seed=seed))
    totals.assert_right()
    homes = sum(line.homes for line in totals.leader)
    return {"slots": totals.slots, "totals": len(totals.received), "homes": homes}


def run(rounds: int, log: LongRun) -> None:
    """Run the parts that the log lacks."""
    while (completed := sum(line["rounds"] for line in log.parts)) < rounds:
        size = min(PART, rounds - completed)
        line: Part = {"kind": "each", "rounds": size, "seed": completed // PART}
        begun_s = time.monotonic()
        try:
            line |= part(size, line["seed"])
        except Exception as error:  # noqa: BLE001 - a part that cannot be checked is a failure of the run
            line |= {"failed": f"{type(error).__name__}: {str(error)[:2000]}"}
        log.append(line | {"seconds": round(time.monotonic() - begun_s, 1)})
        print(line, flush=True)


def passes(log: LongRun) -> bool:
    """Print the totals; return whether every part was right."""
    sums = {name: sum(line.get(name, 0) for line in log.parts) for name in ("rounds", "slots", "totals")}
    failures = [line for line in log.parts if "failed" in line]
    print(f"kill -9 of leader, helper and broker, each: {sums}; failures: {len(failures)}")
    return not failures and sums["totals"] > 0


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=100, help="of each (default %(default)s)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log of the completed parts")
    options = parser.parse_args()
    if mosquitto_program() is None:
        parser.exit(1, "NOT RUN: mosquitto is not installed\n")
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the homes' client: connections that end
    try:
        with LongRun(options.log, "crowd_rounds", ("meteragent", "simulators", "tests")) as log:
            stopped = False
            try:
                with stoppable():
                    run(options.rounds, log)
            except Stopped:
                stopped = True
            is_right = passes(log)
    except OtherLog as error:
        parser.exit(2, f"{error}\n")
    return EXIT_STOPPED if stopped else 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
