"""Measure the operators of a crowd: `python -m benchmarks.crowd [--homes 100000]`.

One slot passes through the leader's and the helper's desk and store, with real files and commits, without a
broker. Printed are CPU seconds of each step, CPU time for each home, the elapsed time, and the memory that
the slot adds at its peak. Then the same with a tenth of the homes: the cost of a home may grow by a tenth.
Each measurement has a process of its own, and the median of the rounds counts. The exit code is 1 if it grew
by more.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness import GROWTH
from meteragent.crowd import home
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.seal import Identity
from meteragent.operators.desk import Arrival, Desk, Step
from meteragent.operators.service import BATCH
from meteragent.operators.store import Store
from meteragent.privacy.bits import SeededBits
from simulators.crowd import LATTICE, MEAN_W, make_group, secret

SLOT_S = 1_767_225_600
HIDES_WH = 110
T = TypeVar("T")


@dataclass
class Measured:
    """The cost of one slot: CPU seconds of each step, elapsed seconds, and the memory that it adds."""

    homes: int
    cpu_s: dict[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    memory_mib: float = 0.0

    @property
    def leader_us(self) -> float:
        """The leader's CPU time for each home."""
        return 1e6 * sum(self.cpu_s[step] for step in ("reports", "batch", "total")) / self.homes

    @property
    def helper_us(self) -> float:
        """The helper's CPU time for each home."""
        return 1e6 * self.cpu_s["answer"] / self.homes


class Operators:
    """Both operators with their stores in a folder."""

    def __init__(self, folder: Path, homes: int) -> None:
        self.group, self.bits = make_group(HIDES_WH), SeededBits(1)
        self.measured = Measured(homes)
        self.labels = [f"home-{number:07}" for number in range(homes)]
        self.stores, self.desks = {}, {}
        for machine in (Leader, Helper):
            role = machine.role
            self.stores[role] = Store.open(folder / f"{role}.db", role, self.group.id)
            self.desks[role] = Desk(machine(self.group, Identity(secret(role)), {}), os.urandom)

    def run(self) -> Measured:
        """Pass one slot through both, and close the stores."""
        keys = [self._begin(role) for role in ("leader", "helper")]
        slot_keys = home.slot_keys(keys[0], keys[1], SLOT_S)
        if slot_keys is None:
            raise AssertionError("no keys")
        end_s, late_s = self.group.end_s(SLOT_S), self.group.closes_s(SLOT_S) + 1
        reports = [Arrival(f"report/{label}", self._report(label, slot_keys), end_s) for label in self.labels]
        before_mib = _peak_mib()
        began_s = time.monotonic()
        for start in range(0, len(reports), BATCH):
            batch = reports[start : start + BATCH]
            self._step("leader", "reports", lambda batch=batch: self.desks["leader"].take(batch, end_s))  # type: ignore[misc]
        fixed = self._step("leader", "batch", lambda: self.desks["leader"].tick(late_s))
        requests = [Arrival("request", item.payload, late_s) for item in fixed.messages]
        answered = self._step("helper", "answer", lambda: self.desks["helper"].take(requests, late_s))
        answers = [Arrival("answer", item.payload, late_s) for item in answered.messages]
        closed = self._step("leader", "total", lambda: self.desks["leader"].take(answers, late_s))
        self.measured.elapsed_s = time.monotonic() - began_s
        self.measured.memory_mib = _peak_mib() - before_mib
        if [line.homes for line in closed.lines] != [self.measured.homes]:
            raise AssertionError(f"the total does not count every home: {closed.lines}")
        for store in self.stores.values():
            store.close()
        return self.measured

    def _begin(self, role: str) -> Any:
        step = self.desks[role].begin(SLOT_S)
        self.stores[role].commit(step.rows)
        return home.keys_of(self.group, role, step.messages[0].payload, 0)

    def _report(self, label: str, keys: home.SlotKeys) -> bytes:
        slot = home.open_slot(self.group, label, SLOT_S, LATTICE, keys, self.bits)
        return home.close_slot(self.group.id, label, slot.add(MEAN_W * 1_800_000))

    def _step(self, role: str, name: str, step: Callable[[], Step]) -> Step:
        """Take and commit a step of an operator, and add its CPU time."""
        start_s = time.process_time()
        effects = step()
        self.stores[role].commit(effects.rows, effects.lines)
        cpu_s = self.measured.cpu_s
        cpu_s[name] = cpu_s.get(name, 0.0) + time.process_time() - start_s
        return effects


def measure(homes: int) -> Measured:
    """Measure one slot in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (homes,))


def _measure(homes: int) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        return Operators(Path(name), homes).run()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def text(measured: Measured) -> str:
    """Return a measurement as a line."""
    steps = ", ".join(f"{name} {cpu_s:.1f} s" for name, cpu_s in measured.cpu_s.items())
    rates = f"leader {measured.leader_us:.0f} us, helper {measured.helper_us:.0f} us of CPU a home"
    memory = f"{measured.memory_mib:.0f} MiB for both"
    return f"{measured.homes:,} homes: {steps}; {rates}; {measured.elapsed_s:.1f} s elapsed, {memory}"


def main() -> int:
    """Measure both sizes; return 1 if the cost of a home grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", allow_abbrev=False)
    parser.add_argument("--homes", type=int, default=100_000, help="in the slot (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    options = parser.parse_args()
    growths: dict[str, list[float]] = {"leader": [], "helper": []}
    for _ in range(options.rounds):
        small, large = measure(options.homes // 10), measure(options.homes)
        print(text(small), text(large), sep="\n", flush=True)
        growths["leader"].append(large.leader_us / small.leader_us)
        growths["helper"].append(large.helper_us / small.helper_us)
    medians = {role: statistics.median(ratios) for role, ratios in growths.items()}
    print("cost of a home, ten times as many homes: " + ", ".join(f"{r} {m:.2f}" for r, m in medians.items()))
    return int(max(medians.values()) > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
