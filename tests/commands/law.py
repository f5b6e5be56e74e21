"""Test the law of a running agent's output: ``python -m tests.commands.law --windows 50000 --log FILE``.

Meters with constant loads send them through a real mosquitto to a real agent at a coarse epsilon, in two
streams: windows of one slot and of two. A value minus the whole quanta of its load is z + d, where z is the
window's noise, and the dither d is 1 with probability f, the load's remainder, else 0. Windows are counted by
n and f, and compared with the exact laws: the joint law of a window's slots, each slot, the largest absolute
value, and the correlation of successive windows of a meter. The exit code is 1 if a p-value is below ALARM /
(number of tests), which has a probability of ALARM under the correct law. A part (a new broker, a new store)
is a line of the log. After a stop (143), the same command continues there.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from simulators.commands.option import positive
from simulators.long_run import LongRun, OtherLog, Part, finish
from tests.integration.plan import time_ms
from tests.integration.service import Service, now_ms, stream, until, until_ms
from tests.integration.wire import Publication, Receiver, feed
from tests.support.broker import Broker, mosquitto_program

ALARM = 1e-6
RADIUS = 2
EPSILON = Fraction(1, RADIUS)
SLOT_MS = 1000
SLOTS = (1, 2)
REMAINDERS = (Fraction(0), Fraction(1, 4))
BASE_W = 300
TOP = 50 * RADIUS
"""Values beyond this are counted in its cell; they occur with a probability below 1e-20."""
EXPECTED_MIN = 20
Floats = NDArray[np.float64]
Window = tuple[int, ...]


class Tested(NamedTuple):
    """A test and its p-value."""

    name: str
    p: float


def law(n: int, remainder: Fraction) -> Floats:
    """Return the law of a window minus its whole quanta over {-TOP .. TOP}^n: z and a dither in each slot."""
    k = np.arange(-TOP, TOP + 1)
    size = np.abs(k) if n == 1 else np.maximum(np.abs(k)[:, np.newaxis], np.abs(k))
    table = np.exp(-float(EPSILON) * size)
    table /= table.sum()
    f = float(remainder)
    for axis in range(n):
        table = (1 - f) * table + f * np.roll(table, 1, axis=axis)
    return np.asarray(table)


def tests_of(
    n: int, remainder: Fraction, counts: Mapping[Window, int], moments: Sequence[float]
) -> list[Tested]:
    """Return all tests of windows of n slots; `moments` are those that `pairs` returns."""
    exact, observed_counts = law(n, remainder), np.zeros((2 * TOP + 1,) * n)
    for window, count in counts.items():
        observed_counts[tuple(min(max(value, -TOP), TOP) + TOP for value in window)] += count
    k = np.abs(np.arange(-TOP, TOP + 1))
    largest = k if n == 1 else np.maximum(k[:, np.newaxis], k)
    label = f"n = {n}, f = {remainder}"
    tests = [Tested(f"{label}: joint law", chi_square(observed_counts.ravel(), exact.ravel()))]
    if n > 1:
        for slot in range(n):
            axes = tuple(axis for axis in range(n) if axis != slot)
            slot_p = chi_square(observed_counts.sum(axis=axes), exact.sum(axis=axes))
            tests.append(Tested(f"{label}: slot {slot}", slot_p))
    sizes, chances = (
        np.bincount(largest.ravel(), weights=cells.ravel()) for cells in (observed_counts, exact)
    )
    size_p = chi_square(np.asarray(sizes, np.float64), np.asarray(chances, np.float64))
    tests.append(Tested(f"{label}: largest absolute value", size_p))
    return [*tests, Tested(f"{label}: correlation of successive windows", correlation_p(moments))]


def chi_square(counts: Floats, chances: Floats) -> float:
    """Return the p-value of counts against probabilities; 1 if there are too few counts.

    Cells whose expected count is below EXPECTED_MIN are merged.
    """
    expectation = chances * counts.sum()
    large = expectation >= EXPECTED_MIN
    cells = [np.append(row[large], row[~large].sum()) for row in (counts, expectation)]
    if cells[1][-1] < EXPECTED_MIN:
        cells = [np.append(row[:-2], row[-2:].sum()) for row in cells]
    if len(cells[0]) < 2:
        return 1.0
    statistic = float(((cells[0] - cells[1]) ** 2 / cells[1]).sum())
    return float(stats.chi2.sf(statistic, len(cells[0]) - 1))


def pairs(windows: Iterable[Sequence[Window]]) -> list[float]:
    """Return count, sums, sums of squares and sum of products of the first slots of successive windows."""
    slots = np.array([(a[0], b[0]) for meter in windows for a, b in pairwise(meter)], np.float64)
    if not len(slots):
        return [0.0] * 6
    x, y = slots.T
    return [float(len(x)), *(float(s) for s in (x.sum(), y.sum(), x @ x, y @ y, x @ y))]


def correlation_p(moments: Sequence[float]) -> float:
    """Return the p-value of a correlation, by Fisher's transformation; 1 if there are too few pairs."""
    count, x, y, xx, yy, xy = moments
    if count < EXPECTED_MIN:
        return 1.0
    r = (xy - x * y / count) / ((xx - x * x / count) * (yy - y * y / count)) ** 0.5
    return float(2 * stats.norm.sf(abs(np.arctanh(r)) * (count - 3) ** 0.5))


async def part(program: Path, folder: Path, meters: int, seconds: float) -> Part:
    """Run an agent for a time, and return the counts and moments of its windows, by n and f."""
    (folder / "broker").mkdir()
    (folder / "agent").mkdir()
    with Broker(program, folder / "broker", settings={"max_inflight_messages": 1000}) as broker:
        streams = "".join(
            stream(
                broker.url,
                name=f"n{n}",
                source='hold = "1h"\ninflight = 5000',
                window=f'length = "{n * SLOT_MS}ms"\nstep = "{SLOT_MS}ms"\ncatch_up = "200ms"',
                privacy=f"level = 1\nradius = {RADIUS}\nquantum = 1",
                sink="inflight = 1000",
            )
            for n in SLOTS
        )
        agent = Service(folder / "agent", streams)
        try:
            agent.start()
            async with Receiver(broker) as receiver:
                while not receiver.records:
                    assert agent.runs, agent.log
                    await _feed(broker, meters)
                    with suppress(TimeoutError):  # readings sent before the agent subscribes are lost
                        await until(lambda: receiver.records, 2 * max(SLOTS) * SLOT_MS / 1000)
                await until_ms(now_ms() + 1000 * seconds)
                await agent.stop()
                await receiver.flush(broker.url)
        finally:
            agent.end()
    return {"groups": dict(_groups(receiver.messages, meters))}


async def _feed(broker: Broker, meters: int) -> None:
    """Send each meter's load."""
    readings = [
        Publication(f"meters/{name}/power", json.dumps({"t": now_ms(), "power": float(load_w)}).encode())
        for name, load_w in _loads(meters).items()
    ]
    await feed(broker.url, readings)


def _loads(meters: int) -> dict[str, Fraction]:
    """Return the loads of `meters` meters for each remainder."""
    return {
        f"f{index}-{number}": BASE_W + number + remainder
        for index, remainder in enumerate(REMAINDERS)
        for number in range(meters)
    }


def _groups(messages: Mapping[str, Sequence[bytes]], meters: int) -> Iterator[tuple[str, Part]]:
    """Yield the counts of a group's windows, as values minus the load's whole quanta."""
    loads = _loads(meters)
    for n in SLOTS:
        for index in range(len(REMAINDERS)):
            windows = [
                list(_windows(n, int(loads[name]), messages.get(f"private/n{n}/{name}", ())))
                for name in loads
                if name.startswith(f"f{index}-")
            ]
            counts = Counter(window for meter in windows for window in meter)
            values = [[*window, count] for window, count in sorted(counts.items())]
            yield f"{n} {index}", {"windows": counts.total(), "counts": values, "pairs": pairs(windows)}


def _windows(n: int, whole_w: int, payloads: Sequence[bytes]) -> Iterator[Window]:
    """Yield the complete windows of a meter, in order of time."""
    slots = {time_ms(facts["t"]): int(facts["value"]) - whole_w for facts in map(json.loads, payloads)}
    by_window: dict[int, dict[int, int]] = defaultdict(dict)
    for start_ms, value in sorted(slots.items()):
        by_window[start_ms // (n * SLOT_MS)][start_ms] = value
    for window in by_window.values():
        if len(window) == n:
            yield tuple(window.values())


def run(program: Path, options: argparse.Namespace, log: LongRun) -> None:
    """Run the parts that the log lacks."""
    while min(windows_of(log).values()) < options.windows:
        with tempfile.TemporaryDirectory() as folder:
            line = asyncio.run(part(program, Path(folder), options.meters, options.seconds))
        log.append(line)
        print(", ".join(f"{name}: {count}" for name, count in windows_of(log).items()), flush=True)


def windows_of(log: LongRun) -> dict[str, int]:
    """Return the number of windows, by n and remainder."""
    names = [f"{n} {index}" for n in SLOTS for index in range(len(REMAINDERS))]
    return {name: sum(line["groups"][name]["windows"] for line in log.parts) for name in names}


def totals(log: LongRun) -> bool:
    """Print the tests of the whole log; return whether no p-value is below its threshold."""
    tests: list[Tested] = []
    for name, windows in windows_of(log).items():
        n, index = map(int, name.split())
        counts, moments = Counter[Window](), np.zeros(6)
        for line in log.parts:
            group = line["groups"][name]
            counts.update({tuple(values): count for *values, count in group["counts"]})
            moments += group["pairs"]
        print(f"n = {n}, f = {REMAINDERS[index]}: {windows} windows")
        if windows:
            tests += tests_of(n, REMAINDERS[index], counts, moments.tolist())
    return print_tests(tests)


def print_tests(tests: Sequence[Tested]) -> bool:
    """Print tests with their p-values; return whether no p-value is below the threshold."""
    threshold = ALARM / max(1, len(tests))
    for test in tests:
        print(f"  {test.name}: p = {test.p:.3g}{'  FAILED' if test.p < threshold else ''}")
    lowest = min((test.p for test in tests), default=1.0)
    print(f"{len(tests)} tests, lowest p {lowest:.3g}, by Bonferroni {min(1.0, lowest * len(tests)):.3g}")
    return lowest >= threshold


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=positive, default=50_000, help="of each kind (default %(default)s)")
    parser.add_argument("--meters", type=positive, default=200, help="of each load (default %(default)s)")
    parser.add_argument("--seconds", type=positive, default=60, help="of a part (default %(default)s)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log of the completed parts")
    options = parser.parse_args()
    program = mosquitto_program()
    if program is None:
        parser.exit(1, "NOT RUN: mosquitto is neither on the path nor in /usr/sbin\n")
    try:
        with LongRun(options.log, "law", ("meteragent", "simulators", "tests")) as log:
            return finish(lambda: run(program, options, log), lambda: totals(log))
    except OtherLog as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    sys.exit(main())
