"""Hostile senders against `collect`: ``python -m tests.commands.hostile mutations`` or ``senders``.

`mutations` sends altered messages with valid digests through `consume` and both sinks, in batches with empty
tables, and reads every view after each batch. `senders` lets hostile senders send for an hour beside honest
meters, whose rows must be exact, while memory does not grow. Both end with 1 if something does not hold. The
tests do the same with small numbers (`tests/collect/test_collect_hostile.py`).
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from simulators.commands.option import positive
from tests.support.collecting import empty_database
from tests.support.hostile_holds import hold
from tests.support.hostile_senders import Scene, Sink, attacked, newcomers
from tests.support.postgres import Postgres, server_programs

GROWTH_MIB = 32
"""How much memory may grow from the middle of an attack to its end."""


def mutations(options: argparse.Namespace, postgres: Postgres) -> int:
    """Send batches until there were enough messages; return 1 if one does not hold."""
    total = Counter[str]()
    while total["messages"] < options.count:
        rng, begun_s = random.Random(f"{options.seed}/{total['messages']}"), time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            url = empty_database(postgres)
            total += asyncio.run(hold(rng, total["messages"], options.batch, url, Path(folder)))
        print(dict(total), f"{time.monotonic() - begun_s:.1f} s", flush=True)
    return 0


def senders(options: argparse.Namespace, postgres: Postgres) -> int:
    """Attack both sinks; return 1 if an honest row is not exact, or memory grows."""
    scene = Scene(options.hostile, options.honest, options.minutes)
    exit_code = 0
    for kind in ("PostgreSQL", "Parquet"):
        with tempfile.TemporaryDirectory() as folder:
            sink = Sink(kind, empty_database(postgres), Path(folder))
            begun_s = time.monotonic()
            outcome = asyncio.run(attacked(scene, sink, options.max_meters, options.seed))
            refused, rows = asyncio.run(newcomers(scene, sink, options.max_meters))
        has_room = refused["meters"] == 10 and len(rows) == 20
        is_exact, growth_mib = outcome.honest == scene.expected, outcome.source.growth_mib()
        exit_code |= not is_exact or not has_room or growth_mib > GROWTH_MIB
        memory = outcome.source.memory_mib
        print(
            f"{kind}: {outcome.source.count} messages in {time.monotonic() - begun_s:.0f} s;"
            f" honest rows: {len(outcome.honest)}, exact: {is_exact}; memory: {memory[0]:.0f} MiB at first,"
            f" at most {max(memory):.0f}, from the middle to the end {growth_mib:+.0f}; kept of hostile ones:"
            f" {outcome.counts}; refused: {dict(outcome.refused)};"
            f" new meters have room when there is a list: {has_room}",
            flush=True,
        )
    return exit_code


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["mutations", "senders"])
    parser.add_argument("--count", type=positive, default=100_000, help="of messages (default %(default)s)")
    parser.add_argument(
        "--batch", type=positive, default=2_000, help="messages a batch (default %(default)s)"
    )
    parser.add_argument("--hostile", type=positive, default=10_000, help="senders (default %(default)s)")
    parser.add_argument("--honest", type=positive, default=1_000, help="meters (default %(default)s)")
    parser.add_argument("--minutes", type=positive, default=60, help="of event time (default %(default)s)")
    parser.add_argument("--max-meters", type=positive, default=6_000, help="accept.max_meters (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    programs = server_programs()
    if programs is None:
        parser.exit(1, "NOT RUN: PostgreSQL 15 is not installed\n")
    logging.getLogger("meteragent").setLevel(logging.ERROR)
    with Postgres(programs) as postgres:
        return {"mutations": mutations, "senders": senders}[options.what](options, postgres)


if __name__ == "__main__":
    sys.exit(main())
