"""Our MQTT client against real brokers: ``python -m tests.commands.brokers [NAME...] [--kills N]``.

Start each broker on loopback ports with the configuration that deploy/ ships. Measure its behaviour with our
client in each version of MQTT that it speaks. Then kill the agent and the broker while readings are fed, and
check every record. The tables are those of docs/brokers.md. Programs are unpacked from Debian's and npm's
packages into a cache folder; nothing is installed. The exit code is 0 if every broker that ran behaved as
documented (a broker that is NOT RUN is no failure), else 1.
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from meteragent.mqtt.endpoint import Version
from simulators.option import positive
from tests.brokers.behaviours import BEHAVIOURS, connects, falls_back, measure
from tests.brokers.makes import MAKES, Make, Ready
from tests.brokers.report import KILLED, Report, tables
from tests.brokers.root import Missing
from tests.brokers.trial import Measured, Trial
from tests.integration import broker_kills as kills
from tests.support.broker import Server

KILLS = 4
AT_ONCE = 2
"""The number of brokers that run in parallel; they mostly wait."""
KILLS_S = 120.0
"""The time limit for the kills of one broker; a longer wait would never end."""
BY_NAME = {make.name: make for make in MAKES}

Killing = Callable[[Server, Path, Version, int], Awaitable[kills.Judged]]


def trial(number: int, name: str, rounds: int) -> Report:
    """Start a broker, measure its behaviour, and run the kills; each trial's number determines its ports."""
    os.environ["PYTEST_XDIST_WORKER"] = f"gw{number % 8}"  # `free_port` chooses ports by worker
    make = BY_NAME[name]
    ready = make.obtain()
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the feeder's client: connections that end
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, ready.server(Path(folder)) as server:
            connecting, does = asyncio.run(_measured(make, server))
    except (OSError, RuntimeError) as error:  # the message ends with the broker's log
        failed = Measured(f"does not start: {str(error)[-2000:]}", holds=False)
        return Report(make, ready.version, {"start": failed})
    if make.shipped and make.keeps:
        for version in make.speaks:
            killed = _killed(make, ready, version, rounds)
            does[version] |= dict(zip(KILLED, killed, strict=False))
    print(f"{name}: done in {time.monotonic() - began_s:.0f} s", flush=True)
    return Report(make, ready.version, connecting, does)


async def _measured(make: Make, server: Server) -> tuple[dict[str, Measured], dict[str, dict[str, Measured]]]:
    """Measure connecting, and each behaviour in each MQTT version that the broker speaks."""
    connecting: dict[str, Measured] = {}
    does: dict[str, dict[str, Measured]] = {}
    versions: tuple[Version, ...] = ("5", "3.1.1")
    for version in versions:
        measured = await measure(connects, Trial(server, version))
        connecting[f"MQTT {version}"] = measured._replace(holds=measured.holds == (version in make.speaks))
    connecting["auto"] = await measure(falls_back, Trial(server, "auto"))
    for version in make.speaks:
        on_trial = Trial(server, version)
        does[version] = {name: await measure(does_it, on_trial) for name, does_it in BEHAVIOURS.items()}
    return connecting, does


def _killed(make: Make, ready: Ready, version: Version, rounds: int) -> list[Measured]:
    """Kill the agent, and also the broker if its messages survive a restart."""
    killings: list[Killing] = [kills.of_agent if make.at_once else kills.of_agent_by_clock]
    killings += [kills.of_broker] * make.lasts
    return [_judged(killing, ready, version, rounds) for killing in killings]


def _judged(killing: Killing, ready: Ready, version: Version, rounds: int) -> Measured:
    """Run the kills in new folders; an outcome that cannot be checked counts as a failure."""

    async def run(server: Server, folder: Path) -> kills.Judged:
        """Run the kills with a time limit."""
        async with asyncio.timeout(KILLS_S):
            return await killing(server, folder, version, rounds)

    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as folder:
        try:
            with ready.server(Path(place)) as server:
                judged = asyncio.run(run(server, Path(folder)))
        except (AssertionError, OSError, RuntimeError) as error:  # TimeoutError is an OSError
            return Measured(f"failed: {type(error).__name__} {error}"[:500].replace("\n", " "), holds=False)
    return Measured(judged.text, judged.kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, run the brokers, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_NAME)} (default: all)")
    parser.add_argument("--kills", type=positive, default=KILLS, help="of each kind (default %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - BY_NAME.keys():
        parser.error(f"no such broker: {', '.join(sorted(unknown))}")
    began_s = time.monotonic()
    reports = _run(options.names or [*BY_NAME], options.kills)
    print(f"\n{tables(reports)}\n\n{time.monotonic() - began_s:.0f} s")
    failures = [failure for report in reports for failure in report.failures]
    print("\n".join(failures) or "every broker that ran behaved as documented")
    return 1 if failures else 0


def _run(names: Sequence[str], rounds: int) -> list[Report]:
    """Obtain the brokers one after the other, because they share downloads, then try them in parallel."""
    available = []
    for name in names:
        try:
            print(f"{name}: {BY_NAME[name].obtain().version}", flush=True)
            available.append(name)
        except Missing as error:
            print(f"NOT RUN: {name}: {error}", flush=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(AT_ONCE, mp_context=context, max_tasks_per_child=1) as pool:
        return list(pool.map(partial(trial, rounds=rounds), range(len(available)), available))


if __name__ == "__main__":
    sys.exit(main())
