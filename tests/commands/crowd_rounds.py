"""Kill the parties of a crowd: ``python -m tests.commands.crowd_rounds --rounds 100``.

A part of `operators` is a street of its own in which leader, helper and mosquitto are each killed some times,
after which its totals and ledgers are compared with what the homes sent. A part of `homes` has an agent with
three homes that is killed some times; its reports are opened and added up. Each completed part is a line of
the log; after a stop the same command continues there. The exit code is 0 if nothing was wrong, missing or
doubled, 143 if the run was stopped, else 1. The integration tests do the same with 5 rounds.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from simulators.commands.option import positive
from simulators.long_run import LongRun, OtherLog, Part, finish
from tests.integration import crowd_homes, crowding
from tests.integration.collecting import DURABLE
from tests.integration.service import TELL_ALL
from tests.support.broker import Broker, mosquitto_program

PART: Final = 20
DEADLINE_S: Final = 1800
"""So long that reports wait for an operator or a broker that starts; an hour takes half a minute."""
BROKEN: Final = ("missing", "doubled", "wrong")


def operators(folder: Path, mosquitto: Path, rounds: int, seed: int) -> Part:
    """Kill leader, helper and broker, each `rounds` times. Raises AssertionError if a total is wrong."""
    with Broker(mosquitto, folder, is_persistent=True, settings=DURABLE) as broker:
        killing = crowding.kill(folder, broker, rounds=rounds, seed=seed, deadline_s=DEADLINE_S)
        totals = asyncio.run(killing)
    totals.assert_right()
    homes = sum(line.homes for line in totals.leader if line.result == "total")
    reasons = dict(totals.reasons())
    return {"slots": totals.slots, "totals": len(totals.received), "homes": homes, "late": reasons}


def homes(folder: Path, mosquitto: Path, rounds: int, seed: int) -> Part:
    """Kill the agent of three homes `rounds` times. Raises AssertionError if a secret is in a file."""
    with Broker(mosquitto, folder, settings=TELL_ALL) as broker:
        return dict(asyncio.run(crowd_homes.kill(folder, broker, rounds=rounds, seed=seed)))


KINDS: Final[dict[str, Callable[[Path, Path, int, int], Part]]] = {"operators": operators, "homes": homes}


def part(kind: str, rounds: int, seed: int) -> Part:
    """Run rounds of a kind with a new broker; return their counts."""
    mosquitto = mosquitto_program()
    assert mosquitto is not None
    with tempfile.TemporaryDirectory() as folder:
        return KINDS[kind](Path(folder), mosquitto, rounds, seed)


def run(rounds: int, log: LongRun) -> None:
    """Run the parts that the log lacks, of each kind in turn."""
    while True:
        completed = {kind: sum(line["rounds"] for line in _parts(log, kind)) for kind in KINDS}
        kind = min(KINDS, key=completed.__getitem__)
        if completed[kind] >= rounds:
            return
        size = min(PART, rounds - completed[kind])
        line: Part = {"kind": kind, "rounds": size, "seed": completed[kind] // PART}
        begun_s = time.monotonic()
        try:
            line |= part(kind, size, line["seed"])
        except Exception as error:  # noqa: BLE001 - a part that cannot be checked is a failure of the run
            line |= {"failed": f"{type(error).__name__}: {str(error)[-2000:]}"}
        log.append(line | {"seconds": round(time.monotonic() - begun_s, 1)})
        print(line, flush=True)


def _parts(log: LongRun, kind: str) -> list[Part]:
    return [line for line in log.parts if line["kind"] == kind]


def passes(log: LongRun) -> bool:
    """Print the totals; return whether every part was right."""
    totals = {}
    for kind in KINDS:
        parts = _parts(log, kind)
        names = ("rounds", "slots", "totals", "reports", "unopened", *BROKEN)
        totals[kind] = {name: sum(line[name] for line in parts if name in line) for name in names}
        failures = sum("failed" in line for line in parts)
        print(f"kill -9 of {kind}: {totals[kind]}; failures: {failures}")
    is_broken = any("failed" in line or any(map(line.get, BROKEN)) for line in log.parts)
    return not is_broken and bool(totals["operators"]["totals"] and totals["homes"]["reports"])


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
            return finish(lambda: run(options.rounds, log), lambda: passes(log))
    except OtherLog as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    sys.exit(main())
