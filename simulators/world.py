"""A world in virtual time: homes, faults, the agent's core and a store, the same files from the same seed.

Meters report every minute, faults strike the readings on their way, the core takes in what arrives and a
store on disk keeps what it decides, as in the agent: one transaction, then the acknowledgements, then what is
due leaves. Virtual time goes from minute to minute, until every meter has been forgotten and all has left.
The noise is from seeded bits: it hides nothing (though the descriptors say what the agent's say), and no
configuration of the agent can ask for it. In the end everything is held against everything, see `account`.

DIR gets releases.jsonl (what left, in order), ledger.csv, and the ground truth: events.parquet, faults.csv
(home, true time, what), slots.csv (the exact mean of each slot, and whether a fault may have touched it) and
summary.json (counters). Times are Unix milliseconds, but where they have a zone.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tqdm import tqdm

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.domain import grid
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.privacy.bits import SeededBits
from meteragent.store import Store, ledger, outbox, transaction
from simulators import fault
from simulators.account import Account, Slot, first_window_ms
from simulators.fault import Arrivals, Faults, Row
from simulators.fleet import Fleet
from simulators.invariant import InvariantViolation
from simulators.meter import Meter, Readings
from simulators.plan import DAY_0, event_table

STEP_S = 60
TURN_MS = 60_000
"""Virtual time between two turns; windows, slots and `lateness` are multiples, so that all opens on time."""
KEEP_MS = 365 * DAY_MS
"""How long what has left is kept: a world is over before that."""
START_MS = (DAY_0 - date(1970, 1, 1)).days * DAY_MS
CONFIG = """
[source]
topic = "meters/{meter}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
hold = "5min"
[window]
length = "30min"
step = "10min"
lateness = "2min"
ahead = "20min"
forget = "6h"
[privacy]
preset = "appliance"
[sink]
topic = "private/{meter}/power"
spread = "9min"
"""
"""The agent's configuration in this world."""


_MEMORY = "/dev/shm"  # noqa: S108 - a folder in memory, where a file system has it: fsync costs nothing there


@dataclass(slots=True)
class Books:
    """What was seen of a world while it ran: noise by slot, what left (and when), tokens acknowledged."""

    begun: dict[Slot, int] = field(default_factory=dict)
    left: list[tuple[int, outbox.Waiting]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def see(self, effects: Effects, terms: Terms) -> None:
        """Note what a step of the core decided, once it is on disk: slots that have just opened hold noise.

        A reading before a slot opens is only added afterwards: its energy would show in what leaves.
        """
        self.tokens += effects.acknowledge
        for state in effects.commit.states.values():
            for window in state.windows if state else ():
                for place, accumulator in window.slots:
                    slot = Slot(int(window.label[1:]), window.start_ms + place * terms.step_ms)
                    self.begun.setdefault(slot, accumulator)


@dataclass(frozen=True)
class World:
    """Homes 0 .. `homes` - 1 over `days` days, from a seed.

    Raises ValueError if the seed is none.
    """

    seed: int
    homes: int = 20
    days: int = 1
    faults: Faults = field(default_factory=Faults)

    @property
    def end_ms(self) -> int:
        """When the last reading has stood for its step."""
        return START_MS + self.days * DAY_MS

    @cached_property
    def stream(self) -> Stream:
        """The agent's stream; its secret, which spreads the meters' delays, is the seed."""
        [one] = config.parse(CONFIG).stream
        return Stream(
            name=one.name,
            source=SourceTopic.parse(one.source.topic),
            sink_topic=one.sink.topic,
            decode=config.decoder(one.source),
            schedule=config.schedule(one),
            ahead_ms=one.window.ahead,
            forget_ms=config.forget_ms(one.source, one.window.forget),
            spread_ms=one.sink.spread,
            max_meters=one.source.max_meters,
            max_payload=one.source.max_payload,
            secret=b"%d" % self.seed,
        )

    @cached_property
    def load(self) -> tuple[Any, dict[int, Readings]]:
        """The table of events, and each home's readings as its meter stamps them."""
        days = list(Fleet(self.seed, range(self.homes)).days(0, self.days, STEP_S))
        watts = np.concatenate([day.watts for day in days], axis=1)
        readings = {
            home: Meter.drawn(self.seed, home).on_grid(row, START_MS, STEP_S)
            for home, row in enumerate(watts)
        }
        return pa.concat_tables([event_table(day.events) for day in days]), readings

    @cached_property
    def struck(self) -> tuple[dict[int, Arrivals], list[Row]]:
        """What arrives from each home, and the table of faults."""
        sent_ms = START_MS + 1000 * STEP_S * np.arange(self.days * DAY_MS // (1000 * STEP_S))
        arrivals, rows = {}, list[Row]()
        for home, readings in self.load[1].items():
            arrivals[home], more = self.faults.strike(self.seed, home, sent_ms, readings)
            rows += more
        return arrivals, rows

    def messages(self) -> list[Message]:
        """All that arrives, in order of arrival; a token is a message's place."""
        columns = [
            (arrived_ms, home, time_ms, value)
            for home, mine in self.struck[0].items()
            for arrived_ms, time_ms, value in zip(
                mine.arrived_ms.tolist(), mine.times_ms.tolist(), mine.values.tolist(), strict=True
            )
        ]
        columns.sort(key=lambda column: column[:2])
        return [
            Message(f"meters/m{home}/power", b'{"t":%d,"power":%r}' % (time_ms, value), False, arrived_ms, at)
            for at, (arrived_ms, home, time_ms, value) in enumerate(columns)
        ]

    def run(self, folder: Path) -> tuple[Account, Books]:
        """Let the time pass, with a new store in `folder`; what there is to check, and what was seen.

        Raises:
            InvariantViolation: a value leaves off the lattice.
            StoreError: the store cannot be written.
        """
        messages, books, counts = self.messages(), Books(), Counts()
        with Store.open(folder / "world.db", now_ms=START_MS, recovery_floor_ms=None) as store:
            known = store.snapshot(self.stream.name)
            core = Pipeline(self.stream, known, Spending(), SeededBits(self.seed), counts)
            _live(core, store, messages, books, self.stream.terms)
            spent = list(ledger.report(store.connection))
        return self._account(books, counts, spent, len(messages)), books

    def _account(self, books: Books, counts: Counts, spent: list[ledger.Spent], messages: int) -> Account:
        arrivals, rows = self.struck
        terms = self.stream.terms
        first_ms = {
            home: first_window_ms(mine.arrived_ms, mine.times_ms, self.stream.ahead_ms, terms.length_ms)
            for home, mine in arrivals.items()
        }
        released = [_released(row.payload, terms.quantum_u) for _, row in books.left if not row.retain]
        return Account(
            terms,
            released,
            books.begun,
            spent,
            self.load[1],
            rows,
            first_ms,
            self.end_ms,
            counts,
            messages,
            books.tokens,
        )


def _live(core: Pipeline, store: Store, messages: list[Message], books: Books, terms: Terms) -> None:
    """Turn after turn: what has arrived goes in, one transaction, acknowledgements, what is due leaves."""
    now_ms, at, delivered = START_MS, 0, list[int]()
    with tqdm(total=len(messages), unit=" readings", disable=None) as bar:
        while (
            at < len(messages)
            or core.deadline_ms(closing=True) is not None
            or outbox.depth(store.connection, core.name)
        ):
            now_ms, begin = now_ms + TURN_MS, at
            while at < len(messages) and messages[at].received_ms <= now_ms:
                at += 1
            effects = core.feed(messages[begin:at], now_ms, now_ms)
            if effects.commit or delivered:
                transaction.commit(store, effects.commit, delivered, None, KEEP_MS)
                store.erase()
            books.see(effects, terms)
            due = outbox.pending(store.connection, core.name, now_ms, -1)
            books.left += [(now_ms, row) for row in due]
            delivered = [row.id for row in due]
            bar.update(at - begin)


def _released(payload: bytes, quantum_u: int) -> tuple[Slot, int]:
    """A record's slot and its value in quanta.

    Raises:
        InvariantViolation: the value is off the lattice.
    """
    record = json.loads(payload, parse_float=Decimal)
    quanta, rest = divmod(Fraction(record["value"]) * MICRO, quantum_u)
    if rest:
        raise InvariantViolation("a value is off the lattice")
    return Slot(int(record["meter"][1:]), grid.parse_time(record["t"])), int(quanta)


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for a store, gone afterwards."""
    with TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as name:
        yield Path(name)


def write(world: World, out: Path) -> dict[str, Any]:
    """Run it, check it and write the files; returns the summary.

    Raises:
        InvariantViolation: something does not hold.  OSError, StoreError: as the system says.
    """
    with folder() as new:
        account, books = world.run(new)
    exact = account.check()
    out.mkdir(parents=True, exist_ok=True)
    (out / "releases.jsonl").write_text("".join(_lines(books)), encoding="utf-8")
    parquet.write_table(world.load[0], out / "events.parquet", compression="zstd")
    spent = ((one.meter, one.start_ms, one.windows, one.epsilon_per_w) for one in account.spent)
    _table(out / "ledger.csv", "meter day_ms windows epsilon_per_w", spent)
    _table(out / "faults.csv", "home sent_ms what stamp_ms", account.rows)
    touched, slot_ms = account.touched(), account.terms.step_ms
    slots = (
        (*slot, f"{energy / (MICRO * slot_ms):.6f}", energy, int(slot in touched))
        for slot, energy in sorted(account.energies().items())
    )
    _table(out / "slots.csv", "home start_ms mean_w microwatt_ms touched", slots)
    summary = _summary(world, account, exact)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _lines(books: Books) -> Iterator[str]:
    for left_ms, row in books.left:
        head = f'{{"left_ms":{left_ms},"topic":{json.dumps(row.topic)},"retain":{json.dumps(row.retain)}'
        yield f'{head},"payload":{row.payload.decode()}}}\n'


def _table(path: Path, header: str, rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split())
        writer.writerows(rows)


def _summary(world: World, account: Account, exact: int) -> dict[str, Any]:
    return {
        "seed": world.seed,
        "homes": world.homes,
        "days": world.days,
        "readings": sum(map(len, account.readings.values())),
        "faults": fault.count(account.rows),
        "messages": account.messages,
        "counts": dict(sorted(account.counts.items())),
        "windows": sum(one.windows for one in account.spent),
        "slots": len(account.released),
        "slots_touched": len(account.released) - exact,
        "slots_exact": exact,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators world` takes."""
    add = parser.add_argument
    add("--seed", type=int, required=True, metavar="N", help="0 is one")
    add("--homes", type=_count, default=20, metavar="N", help="default %(default)s")
    add("--days", type=_count, default=1, metavar="N", help="default %(default)s")
    add("--out", type=Path, required=True, metavar="DIR", help="files that are there are replaced")


def run(arguments: argparse.Namespace) -> int:
    """Write a world and say what was found; 1: it cannot be written or does not hold, 2: no such seed."""
    try:
        summary = write(World(arguments.seed, arguments.homes, arguments.days), arguments.out)
    except (OSError, StoreError, InvariantViolation, ValueError) as error:
        print(f"world: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(
        f"{summary['messages']:,} messages of {summary['readings']:,} readings;"
        f" {summary['slots']:,} slots left once each and as in the ledger,"
        f" and the {summary['slots_exact']:,} that no fault touched are exact mean and noise: {arguments.out}"
    )
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)
