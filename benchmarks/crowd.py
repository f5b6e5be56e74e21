"""Measure the operators of a crowd: `python -m benchmarks.crowd [--homes 100000]`.

One slot passes through the leader's and the helper's desk and store, with real files and commits but without
a broker. The output states the CPU seconds of each step, the CPU time per home, the elapsed time, and by how
much the slot raises the peak memory.

Besides the large street with all homes, ten small streets have a tenth of the homes each. Every street has
its own process. Each step is taken by five small streets, then by the large street, and then by the other
five small streets, so that the load of the machine affects both sizes alike. An operator's growth is its CPU
time per home in the large street, divided by its mean CPU time per home in the small streets. The exit code
is 1 if the median of an operator's growths over the rounds is above `GROWTH`.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import GROWTH
from meteragent.crowd import home
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import Outgoing
from meteragent.crowd.seal import Identity
from meteragent.operators.desk import Arrival, Desk, Step
from meteragent.operators.service import BATCH_MAX
from meteragent.operators.store import Store
from meteragent.privacy.bits import SeededBits
from simulators.commands.crowd import LATTICE, MEAN_W, make_group, secret

SLOT_S = 1_767_225_600
HIDES_WH = 110
STEPS: Final = {"leader": ("reports", "batch", "total"), "helper": ("answer",)}
"""The steps of each operator."""
ORDER: Final = ("reports", "batch", "answer", "total")
SMALL: Final = 10
"""The number of small streets; the large street has as many homes as all of them together."""


@dataclass
class Measured:
    """The cost of one slot: CPU seconds of each step, elapsed seconds, and the memory that the slot adds."""

    homes: int
    cpu_s: dict[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    memory_mib: float = 0.0

    def us(self, role: str) -> float:
        """Return an operator's CPU time per home, in us."""
        return 1e6 * sum(self.cpu_s[step] for step in STEPS[role]) / self.homes


class Operators:
    """Both operators with their stores in a folder, and the reports of all homes."""

    def __init__(self, folder: Path, homes: int) -> None:
        self.group, self.bits = make_group(HIDES_WH), SeededBits(1)
        self.measured = Measured(homes)
        self.stores, self.desks = {}, {}
        for machine in (Leader, Helper):
            role = machine.role
            self.stores[role] = Store.open(folder / f"{role}.db", role, self.group.id)
            self.desks[role] = Desk(machine(self.group, Identity(secret(role)), {}), os.urandom)
        keys = [self._begin(role) for role in ("leader", "helper")]
        slot_keys = home.slot_keys(keys[0], keys[1], SLOT_S)
        if slot_keys is None:
            raise AssertionError("the operators have no keys for the slot")
        labels = [f"home-{number:07}" for number in range(homes)]
        self._reports = {label: self._report(label, slot_keys) for label in labels}
        self._messages: list[Outgoing] = []
        self._before_mib = _peak_mib()

    def take(self, name: str) -> Measured:
        """Take the step `name`; return the cost of all steps up to and including it.

        Raises AssertionError if the total does not count every home.
        """
        start_s = time.monotonic()
        closes_s = self.group.closing_s(SLOT_S) + 1
        if name == "reports":
            for arrivals in self._batches():
                self._step("leader", name, lambda arrivals=arrivals: self._desk_takes("leader", arrivals))  # type: ignore[misc]
        elif name == "batch":
            self._step("leader", name, lambda: self.desks["leader"].tick(closes_s))
        else:
            role, topic = ("helper", "request") if name == "answer" else ("leader", "answer")
            arrivals = [Arrival(topic, message.payload, closes_s) for message in self._messages]
            self._step(role, name, lambda: self._desk_takes(role, arrivals))
        self.measured.elapsed_s += time.monotonic() - start_s
        self.measured.memory_mib = _peak_mib() - self._before_mib
        return self.measured

    def _desk_takes(self, role: str, arrivals: list[Arrival]) -> Step:
        return self.desks[role].take_messages(arrivals, arrivals[0].at_s)

    def _batches(self) -> Iterator[list[Arrival]]:
        end_s, reports = self.group.end_s(SLOT_S), list(self._reports.items())
        for start in range(0, len(reports), BATCH_MAX):
            batch = reports[start : start + BATCH_MAX]
            yield [Arrival(f"report/{label}", payload, end_s) for label, payload in batch]

    def _begin(self, role: str) -> Any:
        step = self.desks[role].first_step(SLOT_S)
        self.stores[role].commit_step(step.rows)
        return home.decode_key_list(self.group, role, step.messages[0].payload, 0)

    def _report(self, label: str, keys: home.SlotKeys) -> bytes:
        slot = home.open_slot(self.group, label, SLOT_S, LATTICE, keys, self.bits)
        return home.close_slot(self.group.id, label, slot.with_energy(MEAN_W * 1_800_000))

    def _step(self, role: str, name: str, step: Callable[[], Step]) -> None:
        """Take and commit a step of an operator, and add its CPU time."""
        start_s = time.process_time()
        effects = step()
        self.stores[role].commit_step(effects.rows, effects.lines)
        cpu_s = self.measured.cpu_s
        cpu_s[name] = cpu_s.get(name, 0.0) + time.process_time() - start_s
        self._messages = effects.messages
        if name == "total" and [line.homes for line in effects.lines] != [self.measured.homes]:
            raise AssertionError(f"the total does not count every home: {effects.lines}")


class Street:
    """The operators of one street, in a separate process."""

    def __init__(self, stack: ExitStack, homes: int) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        context = multiprocessing.get_context("spawn")
        self._process = stack.enter_context(ProcessPoolExecutor(1, context, _begin, (folder, homes)))
        self._start = self._process.submit(_no_op)

    def wait(self) -> None:
        """Wait until all reports have been constructed."""
        self._start.result()

    def take(self, step: str) -> Measured:
        """Take a step; return the cost of all steps up to and including it."""
        return self._process.submit(_take, step).result()


_operators: list[Operators] = []
"""The operators of this process."""


def _begin(folder: Path, homes: int) -> None:
    _operators.append(Operators(folder, homes))


def _no_op() -> None:
    """Do nothing; the call returns once the process has started."""


def _take(step: str) -> Measured:
    return _operators[0].take(step)


def measure(homes: int) -> tuple[Measured, list[Measured]]:
    """Measure one slot in a large street, and in `SMALL` small streets that together have as many homes.

    If the number of homes is not divisible by `SMALL`, the small streets have a few homes fewer.
    """
    with ExitStack() as stack:
        large = Street(stack, homes)
        small = [Street(stack, homes // SMALL) for _ in range(SMALL)]
        order = [*small[: SMALL // 2], large, *small[SMALL // 2 :]]
        for street in order:
            street.wait()
        for step in ORDER:
            results = {street: street.take(step) for street in order}
        return results.pop(large), list(results.values())


def growth(role: str, large: Measured, small: Sequence[Measured]) -> float:
    """Return an operator's CPU time per home in the large street, divided by the mean in the small ones."""
    return large.us(role) / statistics.fmean(street.us(role) for street in small)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def text(measured: Measured) -> str:
    """Return a measurement as a line."""
    steps = ", ".join(f"{name} {cpu_s:.2f} s" for name, cpu_s in measured.cpu_s.items())
    rates = (
        f"leader {measured.us('leader'):.0f} us, helper {measured.us('helper'):.0f} us of CPU time per home"
    )
    memory = f"{measured.memory_mib:.0f} MiB for both operators"
    return f"{measured.homes:,} homes: {steps}; {rates}; {measured.elapsed_s:.1f} s elapsed, {memory}"


def main() -> int:
    """Measure both sizes; return 1 if an operator's CPU time per home grows beyond the limit, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", allow_abbrev=False)
    parser.add_argument(
        "--homes", type=int, default=100_000, help="homes of the large street (default %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    options = parser.parse_args()
    growths: dict[str, list[float]] = {role: [] for role in STEPS}
    for _ in range(options.rounds):
        large, small = measure(options.homes)
        print(text(small[0]), text(large), sep="\n", flush=True)
        for role, ratios in growths.items():
            ratios.append(growth(role, large, small))
    print("growth of the CPU time per home with ten times as many homes:")
    for role, ratios in growths.items():
        print(f"  {role}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return int(max(map(statistics.median, growths.values())) > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
