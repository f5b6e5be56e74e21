"""A world in virtual time: homes, faults and the whole agent. A seed always gives the same files.

Meters report every minute, and faults affect the readings on the way to the source's broker. The agent runs
unchanged between simulated brokers, with a store on disk, as in the simulation test, whose judge checks each
of its steps (`simtest`). The world ends when every meter has been forgotten and all records have been sent.
Then the records are compared with the energy that the meters measured, which is computed in another way (see
`account`). The noise comes from seeded bits, so it hides nothing, although the descriptors look like the
agent's. No configuration of the agent can select such noise.

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
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from meteragent.domain import grid
from meteragent.domain.units import DAY_MS, MICRO, MINUTE_MS
from simulators.homes import fault
from simulators.homes.account import STEP_MS, Account, Slot
from simulators.homes.fault import Arrivals, Faults, Row
from simulators.homes.fleet import Fleet
from simulators.homes.meter import Meter, Readings
from simulators.homes.plan import event_table
from simulators.homes.signature import DAY_0
from simulators.invariant import InvariantViolation
from simulators.simtest import runs
from simulators.simtest.model.setting import PACES, Setting
from simulators.simtest.schedule import Event, Read, Schedule, Slow
from simulators.simtest.world import World as AgentWorld

STEP_S = 60
PACE = PACES["homes"]
START_MS = PACE.begin_ms + 10 * MINUTE_MS  # the agent subscribes before the first reading
SETTING = Setting(grid="30/10", lateness=2, stands=5, spread=9, catch_up=2, ahead=20, forget=360, radius=660)
"""The stream, in minutes: it hides 110 Wh in each slot, as the preset `appliance` does."""
COMMIT_MS = 100
"""How long a commit takes, in ms of the loop's time: the readings of about a minute are written together."""
END_MS = 45_000
"""The loop's time, in ms, from the last reading until a meter is forgotten and its last record is sent."""


@dataclass(frozen=True)
class World:
    """Homes 0 .. `homes` - 1 during `days` days, simulated from a seed.

    Simulating it raises ValueError if the seed is out of range.
    """

    seed: int
    homes: int = 20
    days: int = 1
    faults: Faults = field(default_factory=Faults)

    @cached_property
    def load(self) -> tuple[Any, dict[int, Readings]]:
        """The table of events, and each home's readings, with the stamps of its meter."""
        first_day = START_MS // DAY_MS - (DAY_0 - date(1970, 1, 1)).days
        days = list(Fleet(self.seed, range(self.homes)).days(first_day, self.days, STEP_S))
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

    def schedule(self) -> Schedule:
        """Return the readings as a schedule of the simulation test, in order of arrival."""
        readings = [
            Read(
                round((arrived_ms - PACE.begin_ms) * 1000 / PACE.per_s),
                home,
                time_ms - PACE.begin_ms,
                round(value * MICRO),
            )
            for home, arrivals in self.deliveries[0].items()
            for arrived_ms, time_ms, value in zip(
                arrivals.arrived_ms.tolist(),
                arrivals.times_ms.tolist(),
                arrivals.values.tolist(),
                strict=True,
            )
        ]
        readings.sort(key=lambda reading: reading.at_ms)
        events: list[Event] = [Slow(0, COMMIT_MS), *readings]
        return Schedule(self.seed, "homes", ((SETTING,),), tuple(events), readings[-1].at_ms + END_MS)

    def run(self) -> tuple[Account, AgentWorld]:
        """Run the world; return the account to check, and the agent's world.

        Raises InvariantViolation at the first step of the agent that violates an invariant.
        """
        with runs.place() as folder:
            agent = runs.run_world(self.schedule(), folder, is_scrambled=False)
        initial = {
            Slot(int(key.meter[1:]), window.spec.slot_start_ms(key.start_ms, index)): accumulator
            for key, window in agent.history.windows.items()
            for index, accumulator in window.initial.items()
        }
        released = [_parse_record(payload) for _, _, payload, retain in agent.log if not retain]
        return Account(released, initial, self.load[1], self.deliveries[1]), agent


def _parse_record(payload: bytes) -> tuple[Slot, int]:
    """Return the slot and the value, in quanta, of a record."""
    record = json.loads(payload)
    return Slot(int(record["meter"][1:]), grid.parse_time(record["t"])), record["value"]


def write(world: World, target: Path) -> dict[str, Any]:
    """Run a world, check it and write the files; return the summary.

    Raises InvariantViolation if a check fails, OSError if the files cannot be written, and ValueError if the
    seed is out of range.
    """
    account, agent = world.run()
    exact = account.check()
    target.mkdir(parents=True, exist_ok=True)
    (target / "releases.jsonl").write_text("".join(_format_releases(agent)), encoding="utf-8")
    parquet.write_table(world.load[0], target / "events.parquet", compression="zstd")
    spending = sorted(agent.history.expected.spending.items())
    ledger_rows = ((meter, day_ms, *spent) for (meter, day_ms, _), spent in spending)
    _write_csv(target / "ledger.csv", "meter day_ms windows epsilon_per_w", ledger_rows)
    _write_csv(target / "faults.csv", "home sent_ms what stamp_ms", account.rows)
    touched_slots = account.touched()
    slots = (
        (*slot, f"{energy / (MICRO * STEP_MS):.6f}", energy, int(slot in touched_slots))
        for slot, energy in sorted(account.energies().items())
    )
    _write_csv(target / "slots.csv", "home start_ms mean_w microwatt_ms touched", slots)
    summary = _summarise(world, account, agent, exact)
    (target / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _format_releases(agent: AgentWorld) -> Iterator[str]:
    for time_s, topic, payload, retain in agent.log:
        left_ms = PACE.begin_ms + round(time_s * PACE.per_s)
        head = f'{{"left_ms":{left_ms},"topic":{json.dumps(topic)},"retain":{json.dumps(retain)}'
        yield f'{head},"payload":{payload.decode()}}}\n'


def _write_csv(path: Path, header: str, rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split())
        writer.writerows(rows)


def _summarise(world: World, account: Account, agent: AgentWorld, exact: int) -> dict[str, Any]:
    return {
        "seed": world.seed,
        "homes": world.homes,
        "days": world.days,
        "readings": sum(map(len, account.readings.values())),
        "faults": fault.count(account.rows),
        "messages": agent.counts["read"],
        "counts": dict(sorted(agent.agent_counts.items())),
        "windows": len(agent.history.windows),
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
    except (OSError, InvariantViolation, ValueError) as error:
        print(f"world: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(
        f"{summary['messages']:,} messages of {summary['readings']:,} readings;"
        f" {summary['slots']:,} slots were released once each, as charged in the ledger, and the"
        f" {summary['slots_exact']:,} that no fault touched are the exact mean plus noise."
        f" The files are in {arguments.out}."
    )
    return 0
