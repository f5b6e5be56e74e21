"""Kill `collect`, its database and its broker: ``python -m tests.commands.collect_rounds --rounds 50``.

A part is a number of rounds with empty tables and its own seed, after which the table is compared with what
was sent. Each completed part is a line of the log; after a stop the same command continues there. The exit
code is 0 if every table was right, 143 if the run was stopped, else 1. The integration tests do the same
with 5 rounds.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from simulators.commands.option import positive
from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Part, Stopped, stoppable
from tests.integration.collecting import (
    DURABLE,
    VICTIMS,
    Chain,
    Kept,
    Victim,
    by_kafka,
    by_mqtt,
    by_nats,
    kill,
)
from tests.integration.collecting_files import kill_with_files
from tests.support.broker import Broker, mosquitto_program
from tests.support.collecting import empty_database
from tests.support.kafka import Kafka
from tests.support.nats import Nats, nats_program
from tests.support.postgres import Postgres, server_programs

BURST = 500
PART = 10


@contextmanager
def _mqtt(folder: Path) -> Iterator[Chain]:
    program = mosquitto_program()
    assert program is not None
    with Broker(program, folder, is_persistent=True, settings=DURABLE) as broker:
        yield by_mqtt(broker)


@contextmanager
def _nats(folder: Path) -> Iterator[Chain]:
    program = nats_program()
    assert program is not None
    with Nats(program, folder) as server:
        server.make_streams()
        yield by_nats(server, folder)


@contextmanager
def _kafka(_: Path) -> Iterator[Chain]:
    with Kafka() as cluster:
        yield by_kafka(cluster)


SOURCES: dict[str, Callable[[Path], AbstractContextManager[Chain]]] = {
    "mqtt": _mqtt,
    "nats": _nats,
    "kafka": _kafka,
}
"""What is between the sender and `collect`; that of Kafka is a mock, and not killed."""


class Kind(NamedTuple):
    """A kind of rounds."""

    source: str
    victim: Victim | Literal["collect with files"]


async def result_of(kind: Kind, rounds: int, seed: int) -> Kept:
    """Run rounds of one kind with a new broker and empty tables."""
    programs = server_programs()
    assert programs is not None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        chain = stack.enter_context(SOURCES[kind.source](folder))
        if kind.victim == "collect with files":
            return await kill_with_files(chain=chain, folder=folder, rounds=rounds, size=BURST, seed=seed)
        postgres = stack.enter_context(Postgres(programs))
        return await kill(
            kind.victim,
            chain=chain,
            postgres=postgres,
            table_url=empty_database(postgres),
            folder=folder,
            rounds=rounds,
            size=BURST,
            seed=seed,
        )


async def part(kind: Kind, rounds: int, seed: int) -> Part:
    """Run rounds of one kind; return their counts."""
    result = await result_of(kind, rounds, seed)
    counts = Counter(result.table)
    line: Part = {"records": len(result.expected), "lives": result.lives, "refused": result.refusal_counts}
    line |= {
        "missing": len(set(result.expected) - set(counts)),
        "doubled": sum(counts.values()) - len(counts),
        "wrong": len(set(counts) - set(result.expected)),
    }
    return line


def run(kinds: Sequence[Kind], rounds: int, log: LongRun) -> None:
    """Run the parts that the log lacks, of each kind in turn."""
    while True:
        completed = {kind: sum(line["rounds"] for line in _parts(log, kind)) for kind in kinds}
        kind = min(kinds, key=completed.__getitem__)
        if completed[kind] >= rounds:
            return
        size = min(PART, rounds - completed[kind])
        line: Part = {**kind._asdict(), "rounds": size, "seed": completed[kind] // PART}
        begun_s = time.monotonic()
        try:
            line |= asyncio.run(part(kind, size, line["seed"]))
        except Exception as error:  # noqa: BLE001 - a part that cannot be checked is a failure of the run
            line |= {"failed": f"{type(error).__name__}: {str(error)[-2000:]}"}
        log.append(line | {"seconds": round(time.monotonic() - begun_s, 1)})
        print(line, flush=True)


def _parts(log: LongRun, kind: Kind) -> list[Part]:
    return [line for line in log.parts if (line["source"], line["victim"]) == kind]


def passes(kinds: Sequence[Kind], log: LongRun) -> bool:
    """Print the totals; return whether every table was right."""
    for kind in kinds:
        parts = _parts(log, kind)
        totals = {name: sum(line.get(name, 0) for line in parts) for name in ("rounds", "lives", "records")}
        wrong = {name: sum(line.get(name, 0) for line in parts) for name in ("missing", "doubled", "wrong")}
        print(f"{kind.source}, kill -9 of {kind.victim}: {totals}; {wrong}")
    return not any(
        "failed" in line or line["missing"] or line["doubled"] or line["wrong"] or line["refused"]
        for line in log.parts
    )


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=50, help="of each kind (default %(default)s)")
    parser.add_argument("--source", choices=SOURCES, action="append", help="default: all")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log of the completed parts")
    options = parser.parse_args()
    sources = options.source or SOURCES
    kinds = [
        Kind(source, victim)
        for source in sources
        for victim in VICTIMS
        if (source, victim) != ("kafka", "broker")
    ]
    kinds += [Kind(source, "collect with files") for source in sources if source == "mqtt"]
    for name, program in (
        ("mosquitto", mosquitto_program()),
        ("nats-server", nats_program()),
        ("PostgreSQL 15", server_programs()),
    ):
        if program is None:
            parser.exit(1, f"NOT RUN: {name} is not installed\n")
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the feeder's client: connections that end
    try:
        with LongRun(options.log, "collect_rounds", ("meteragent", "simulators", "tests")) as log:
            stopped = False
            try:
                with stoppable():
                    run(kinds, options.rounds, log)
            except Stopped:
                stopped = True
            is_right = passes(kinds, log)
    except OtherLog as error:
        parser.exit(2, f"{error}\n")
    return EXIT_STOPPED if stopped else 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
