"""A world in virtual time: homes, faults, the agent's core and a store. A seed always gives the same files.

Meters report every minute, and faults affect the readings on the way. The core processes the messages, and a
store on disk keeps the results, in the agent's order: one transaction, then the acknowledgements, then the
due records. Virtual time advances a minute at a time until every meter has been forgotten and all records
have been sent. The noise comes from seeded bits, so it hides nothing, although the descriptors look like the
agent's. No configuration of the agent can select such noise. At the end all results are checked (see
`account`).

The files in DIR are releases.jsonl (the records and descriptors that left, in order), ledger.csv, the ground
truth in events.parquet, faults.csv (home, true time, fault, stamp) and slots.csv (the exact mean and energy
of each slot, and whether a fault may have touched it), and summary.json (counters). Times are Unix
milliseconds, except where they have a zone.
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
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS, MICRO, MINUTE_MS
from meteragent.privacy.bits import SeededBits
from meteragent.store import Store, commands, outbox, transaction
from simulators import fault
from simulators.account import Account, Rules, Slot, first_window_ms
from simulators.fault import Arrivals, Faults, Row
from simulators.fleet import Fleet
from simulators.invariant import InvariantViolation
from simulators.meter import Meter, Readings
from simulators.plan import event_table
from simulators.signature import DAY_0

STEP_S = 60
TURN_MS = 60_000
"""The virtual time between two turns. Windows, slots and `lateness` are multiples of it, so that windows open
on time."""
KEEP_MS = 365 * DAY_MS
"""The time for which delivered rows are kept: a year."""
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
RULES = Rules(
    length_ms=30 * MINUTE_MS,
    step_ms=10 * MINUTE_MS,
    hold_ms=5 * MINUTE_MS,
    quantum_u=MICRO,
    charge=Fraction(1, 110 * 6),  # `appliance` hides 110 Wh in each slot
)
"""What this configuration means, for the account."""


_MEMORY = "/dev/shm"  # noqa: S108 - a folder in memory, where fsync costs nothing, if there is one


@dataclass(slots=True)
class Observations:
    """Observations of a run.

    `initial` holds the first accumulator of each slot, `rows` the rows sent, each after its time of sending
    (Unix ms), and `tokens` the acknowledged tokens.
    """

    initial: dict[Slot, int] = field(default_factory=dict)
    rows: list[tuple[int, outbox.WaitingRow]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def note(self, effects: Effects) -> None:
        """Record a committed step of the core.

        A new slot's accumulator should contain only noise and dither. If it already contained energy, the
        check of the slot's record would fail.
        """
        self.tokens += effects.acknowledge
        for state in effects.commit.states.values():
            for window in state.windows if state else ():
                for index, accumulator in window.slots:
                    slot = Slot(int(window.public_id[1:]), window.start_ms + index * RULES.step_ms)
                    self.initial.setdefault(slot, accumulator)


@dataclass(frozen=True)
class World:
    """Homes 0 .. `homes` - 1 during `days` days, simulated from a seed.

    Simulating it raises ValueError if the seed is out of range.
    """

    seed: int
    homes: int = 20
    days: int = 1
    faults: Faults = field(default_factory=Faults)

    @property
    def end_ms(self) -> int:
        """The end of the last reading's step, in Unix ms."""
        return START_MS + self.days * DAY_MS

    @cached_property
    def stream(self) -> Stream:
        """The agent's stream. Its secret, which determines the meters' delays, is the seed."""
        [configured] = config.parse(CONFIG).stream
        return Stream(
            name=configured.name,
            source=SourceTopic.parse(configured.source.topic),
            receivers=(Receiver(configured.name, configured.sink.topic),),
            decode=config.decoder(configured.source),
            schedule=config.schedule(configured),
            ahead_ms=configured.window.ahead,
            forget_ms=config.forget_ms(configured.source, configured.window.forget),
            spread_ms=configured.sink.spread,
            max_meters=configured.source.max_meters,
            max_payload=configured.source.max_payload,
            secret=b"%d" % self.seed,
        )

    @cached_property
    def load(self) -> tuple[Any, dict[int, Readings]]:
        """The table of events, and each home's readings, with the stamps of its meter."""
        days = list(Fleet(self.seed, range(self.homes)).days(0, self.days, STEP_S))
        watts = np.concatenate([day.watts for day in days], axis=1)
        readings = {
            home: Meter.random(self.seed, home).on_grid(row, START_MS, STEP_S)
            for home, row in enumerate(watts)
        }
        return pa.concat_tables([event_table(day.events) for day in days]), readings

    @cached_property
    def deliveries(self) -> tuple[dict[int, Arrivals], list[Row]]:
        """The arrivals from each home, and the table of faults."""
        sent_ms = START_MS + 1000 * STEP_S * np.arange(self.days * DAY_MS // (1000 * STEP_S))
        arrivals, rows = {}, list[Row]()
        for home, readings in self.load[1].items():
            arrivals[home], faults = self.faults.strike(self.seed, home, sent_ms, readings)
            rows += faults
        return arrivals, rows

    def messages(self) -> list[Message]:
        """Return all messages in order of arrival; a message's token is its index."""
        columns = [
            (arrived_ms, home, time_ms, value)
            for home, arrivals in self.deliveries[0].items()
            for arrived_ms, time_ms, value in zip(
                arrivals.arrived_ms.tolist(),
                arrivals.times_ms.tolist(),
                arrivals.values.tolist(),
                strict=True,
            )
        ]
        columns.sort(key=lambda column: column[:2])
        return [
            Message(
                f"meters/m{home}/power", b'{"t":%d,"power":%r}' % (time_ms, value), False, arrived_ms, index
            )
            for index, (arrived_ms, home, time_ms, value) in enumerate(columns)
        ]

    def run(self, folder: Path) -> tuple[Account, Observations]:
        """Run the world with a new store in `folder`; return the account to check and all observations.

        Raises InvariantViolation if a released value is off the lattice, and StoreError if the store cannot
        be written.
        """
        messages, observations, counts = self.messages(), Observations(), Counts()
        with Store.open(folder / "world.db", now_ms=START_MS, recovery_floor_ms=None) as store:
            snapshot = store.snapshot(self.stream.name)
            core = Pipeline(self.stream, snapshot, Spending(), SeededBits(self.seed), counts)
            _run_turns(core, store, messages, observations)
            ledger_lines = list(commands.report(store.connection))
        return self._account(observations, counts, ledger_lines, len(messages)), observations

    def _account(
        self, observations: Observations, counts: Counts, spent: list[commands.DayCharge], messages: int
    ) -> Account:
        arrivals, rows = self.deliveries
        first_ms = {
            home: first_window_ms(
                delivery.arrived_ms, delivery.times_ms, self.stream.ahead_ms, RULES.length_ms
            )
            for home, delivery in arrivals.items()
        }
        released = [
            _parse_record(row.payload, RULES.quantum_u) for _, row in observations.rows if not row.retain
        ]
        return Account(
            RULES,
            released,
            observations.initial,
            spent,
            self.load[1],
            rows,
            first_ms,
            self.end_ms,
            counts,
            messages,
            observations.tokens,
        )


def _run_turns(core: Pipeline, store: Store, messages: list[Message], observations: Observations) -> None:
    """Run turns until no work is left: feed arrived messages, commit, and take the due rows."""
    now_ms, end, delivered = START_MS, 0, list[int]()
    with tqdm(total=len(messages), unit=" readings", disable=None) as bar:
        while (
            end < len(messages)
            or core.deadline_ms(closing=True) is not None
            or outbox.depth(store.connection, core.name)
        ):
            now_ms, begin = now_ms + TURN_MS, end
            while end < len(messages) and messages[end].received_ms <= now_ms:
                end += 1
            effects = core.feed(messages[begin:end], now_ms, now_ms)
            if effects.commit or delivered:
                transaction.commit(store, effects.commit, delivered, None, KEEP_MS)
                store.erase()
            observations.note(effects)
            rows = outbox.pending(store.connection, core.name, now_ms, -1)
            observations.rows += [(now_ms, row) for row in rows]
            delivered = [row.id for row in rows]
            bar.update(end - begin)


def _parse_record(payload: bytes, quantum_u: int) -> tuple[Slot, int]:
    """Return the slot and the value, in quanta, of a record.

    Raises InvariantViolation if the value is off the lattice.
    """
    record = json.loads(payload, parse_float=Decimal)
    quanta, remainder = divmod(Fraction(record["value"]) * MICRO, quantum_u)
    if remainder:
        raise InvariantViolation("a value is off the lattice")
    return Slot(int(record["meter"][1:]), grid.parse_time(record["t"])), int(quanta)


@contextmanager
def folder() -> Iterator[Path]:
    """Create a folder for a store, in memory if possible; remove it afterwards."""
    with TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as name:
        yield Path(name)


def write(world: World, target: Path) -> dict[str, Any]:
    """Run a world, check it and write the files; return the summary.

    Raises InvariantViolation if a check fails, OSError or StoreError if the files cannot be written, and
    ValueError if the seed is out of range.
    """
    with folder() as temporary:
        account, observations = world.run(temporary)
    exact = account.check()
    target.mkdir(parents=True, exist_ok=True)
    (target / "releases.jsonl").write_text("".join(_format_releases(observations)), encoding="utf-8")
    parquet.write_table(world.load[0], target / "events.parquet", compression="zstd")
    ledger_rows = ((line.meter, line.start_ms, line.windows, line.epsilon_per_w) for line in account.spent)
    _write_csv(target / "ledger.csv", "meter day_ms windows epsilon_per_w", ledger_rows)
    _write_csv(target / "faults.csv", "home sent_ms what stamp_ms", account.rows)
    touched_slots, slot_ms = account.touched(), account.rules.step_ms
    slots = (
        (*slot, f"{energy / (MICRO * slot_ms):.6f}", energy, int(slot in touched_slots))
        for slot, energy in sorted(account.energies().items())
    )
    _write_csv(target / "slots.csv", "home start_ms mean_w microwatt_ms touched", slots)
    summary = _summarise(world, account, exact)
    (target / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _format_releases(observations: Observations) -> Iterator[str]:
    for sent_ms, row in observations.rows:
        head = f'{{"left_ms":{sent_ms},"topic":{json.dumps(row.topic)},"retain":{json.dumps(row.retain)}'
        yield f'{head},"payload":{row.payload.decode()}}}\n'


def _write_csv(path: Path, header: str, rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split())
        writer.writerows(rows)


def _summarise(world: World, account: Account, exact: int) -> dict[str, Any]:
    return {
        "seed": world.seed,
        "homes": world.homes,
        "days": world.days,
        "readings": sum(map(len, account.readings.values())),
        "faults": fault.count(account.rows),
        "messages": account.messages,
        "counts": dict(sorted(account.counts.items())),
        "windows": sum(line.windows for line in account.spent),
        "slots": len(account.released),
        "slots_touched": len(account.released) - exact,
        "slots_exact": exact,
    }


def run(arguments: argparse.Namespace) -> int:
    """Write a world's files and print a summary.

    Return 1 if writing or a check fails, 2 if the seed is out of range, and otherwise 0.
    """
    try:
        summary = write(World(arguments.seed, arguments.homes, arguments.days), arguments.out)
    except (OSError, StoreError, InvariantViolation, ValueError) as error:
        print(f"world: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(
        f"{summary['messages']:,} messages of {summary['readings']:,} readings;"
        f" {summary['slots']:,} slots were released once each, as charged in the ledger, and the"
        f" {summary['slots_exact']:,} that no fault touched are the exact mean plus noise."
        f" The files are in {arguments.out}."
    )
    return 0
