"""Measure the agent under load: ``python -m tests.commands.load --meters 10000``.

The meters report once a minute. The phases are their start, the normal rate, ten times that rate, a flood of
unknown meters, payloads that are too large, and an hour of backlog after an outage of the agent. The command
prints the figures of each phase; its exit code is 1 if a slot is missing, doubled or wrong. The integration
tests do the same with 100 meters and less time.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.integration.load import HEADER, SETTINGS, Outcome, run
from tests.support.broker import Broker, mosquitto_program


async def measure(program: Path, folder: Path, meters: int, seconds: float) -> Outcome:
    """Run the agent under load once."""
    place = folder / "broker"
    place.mkdir()
    with Broker(program, place, settings=SETTINGS) as broker:
        return await run(broker, folder / "agent", meters, seconds=seconds)


def main() -> None:
    """Read the arguments, run, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meters", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the normal rate, and of the burst")
    options = parser.parse_args()
    program = mosquitto_program()
    if program is None:
        parser.exit(1, "NOT RUN: mosquitto is neither on the path nor in /usr/sbin\n")
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(measure(program, Path(folder), options.meters, options.seconds))
    print(f"{options.meters} meters, one reading a minute each, windows of 30 minutes")
    print(HEADER)
    for phase in outcome.phases:
        print(phase)
    for name, totals in (("first life", outcome.first), ("second life", outcome.second)):
        print(f"{name}: " + " ".join(f"{key}={count}" for key, count in totals.items()))
    print(f"{outcome.slots} slots; missing, doubled or wrong: {len(outcome.wrong)} {outcome.wrong[:5]}")
    parser.exit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
