"""The law of what leaves a running agent: ``python -m tests.commands.law --windows 50000 --log FILE``.

Meters with constant loads say them through a real mosquitto to a real agent at a coarse epsilon, in two
streams: windows of one slot and of two. So a value less its load's whole quanta is z + d, where z is the
window's noise, and d, the dither, is 1 with the chance of the load's remainder f and else 0 (never, where f
is 0). Windows are counted by n and f, and held against the exact law: the joint law of a window's slots, each
slot, the largest absolute value, and the correlation of successive windows of a meter. A test below ALARM /
(number of tests) ends the run with 1, which the right law does with a chance of ALARM. A part (a new broker,
a new store) is a line of the log; stopped at any time (143), the same command goes on there.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from simulators.long_run import STOPPED, LongRun, OtherLog, Part, Stopped, stoppable
from simulators.option import positive
from tests.integration.plan import time_ms
from tests.integration.service import Service, now_ms, stream
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
"""Values beyond this are counted as one: rarer than 1e-20."""
EXPECTED_MIN = 20
Floats = NDArray[np.float64]
Window = tuple[int, ...]


class Tested(NamedTuple):
    """A test and its p-value."""

    name: str
    p: float


def law(n: int, remainder: Fraction) -> Floats:
    """Return the law of a window less its whole quanta, over {-TOP .. TOP}^n: z and a dither in each slot."""
    k = np.arange(-TOP, TOP + 1)
    size = np.abs(k) if n == 1 else np.maximum(np.abs(k)[:, np.newaxis], np.abs(k))
    found = np.exp(-float(EPSILON) * size)
    found /= found.sum()
    f = float(remainder)
    for axis in range(n):
        found = (1 - f) * found + f * np.roll(found, 1, axis=axis)
    return np.asarray(found)


def tests_of(
    n: int, remainder: Fraction, counts: Mapping[Window, int], moments: Sequence[float]
) -> list[Tested]:
    """Return all tests of windows of n slots; `moments` are those of `pairs`, over successive windows."""
    right, observed = law(n, remainder), np.zeros((2 * TOP + 1,) * n)
    for window, count in counts.items():
        observed[tuple(min(max(value, -TOP), TOP) + TOP for value in window)] += count
    k = np.abs(np.arange(-TOP, TOP + 1))
    largest = k if n == 1 else np.maximum(k[:, np.newaxis], k)
    named = f"n = {n}, f = {remainder}"
    found = [Tested(f"{named}: joint law", chi_square(observed.ravel(), right.ravel()))]
    if n > 1:
        for slot in range(n):
            others = tuple(axis for axis in range(n) if axis != slot)
            one = chi_square(observed.sum(axis=others), right.sum(axis=others))
            found.append(Tested(f"{named}: slot {slot}", one))
    seen, chances = (np.bincount(largest.ravel(), weights=one.ravel()) for one in (observed, right))
    size_p = chi_square(np.asarray(seen, np.float64), np.asarray(chances, np.float64))
    found.append(Tested(f"{named}: largest absolute value", size_p))
    return [*found, Tested(f"{named}: correlation of successive windows", correlation_p(moments))]


def chi_square(observed: Floats, chances: Floats) -> float:
    """Return the p-value of counts against chances; 1 where there are too few to test.

    Cells that expect less than EXPECTED_MIN are one cell.
    """
    expected = chances * observed.sum()
    large = expected >= EXPECTED_MIN
    cells = [np.append(one[large], one[~large].sum()) for one in (observed, expected)]
    if cells[1][-1] < EXPECTED_MIN:
        cells = [np.append(one[:-2], one[-2:].sum()) for one in cells]
    if len(cells[0]) < 2:
        return 1.0
    statistic = float(((cells[0] - cells[1]) ** 2 / cells[1]).sum())
    return float(stats.chi2.sf(statistic, len(cells[0]) - 1))


def pairs(windows: Iterable[Sequence[Window]]) -> list[float]:
    """Return count, sums, sums of squares and of products of the first slots of successive windows."""
    found = np.array([(a[0], b[0]) for meter in windows for a, b in pairwise(meter)], np.float64)
    if not len(found):
        return [0.0] * 6
    x, y = found.T
    return [float(len(x)), *(float(s) for s in (x.sum(), y.sum(), x @ x, y @ y, x @ y))]


def correlation_p(moments: Sequence[float]) -> float:
    """Return the p-value of a correlation, by Fisher's transformation; 1 where there is nothing."""
    count, x, y, xx, yy, xy = moments
    if count < EXPECTED_MIN:
        return 1.0
    r = (xy - x * y / count) / ((xx - x * x / count) * (yy - y * y / count)) ** 0.5
    return float(2 * stats.norm.sf(abs(np.arctanh(r)) * (count - 3) ** 0.5))


async def part(program: Path, folder: Path, meters: int, seconds: float) -> Part:
    """Run an agent for so long, and count what has left: by n and f the windows, and their moments."""
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
                await asyncio.sleep(seconds)
                await agent.stop()
                await receiver.flush(broker.url)
        finally:
            agent.end()
    return {"groups": dict(_groups(receiver.messages, meters))}


async def _feed(broker: Broker, meters: int) -> None:
    """Send each meter's load, and wait: what is sent before the agent subscribes is sent to nobody."""
    readings = [
        Publication(f"meters/{name}/power", json.dumps({"t": now_ms(), "power": float(load_w)}).encode())
        for name, load_w in _loads(meters).items()
    ]
    await feed(broker.url, readings)
    await asyncio.sleep(2 * max(SLOTS) * SLOT_MS / 1000)


def _loads(meters: int) -> dict[str, Fraction]:
    """The loads of so many meters for each remainder."""
    return {
        f"f{at}-{number}": BASE_W + number + remainder
        for at, remainder in enumerate(REMAINDERS)
        for number in range(meters)
    }


def _groups(messages: Mapping[str, Sequence[bytes]], meters: int) -> Iterator[tuple[str, Part]]:
    """The windows of what was received: counts of their values less the load's whole quanta."""
    loads = _loads(meters)
    for n in SLOTS:
        for at in range(len(REMAINDERS)):
            windows = [
                list(_windows(n, int(loads[name]), messages.get(f"private/n{n}/{name}", ())))
                for name in loads
                if name.startswith(f"f{at}-")
            ]
            counts = Counter(window for meter in windows for window in meter)
            values = [[*window, count] for window, count in sorted(counts.items())]
            yield f"{n} {at}", {"windows": counts.total(), "counts": values, "pairs": pairs(windows)}


def _windows(n: int, whole_w: int, payloads: Sequence[bytes]) -> Iterator[Window]:
    """The whole windows of a meter, in order of time."""
    slots = {time_ms(facts["t"]): int(facts["value"]) - whole_w for facts in map(json.loads, payloads)}
    by_window: dict[int, dict[int, int]] = defaultdict(dict)
    for start_ms, value in sorted(slots.items()):
        by_window[start_ms // (n * SLOT_MS)][start_ms] = value
    for found in by_window.values():
        if len(found) == n:
            yield tuple(found.values())


def run(program: Path, options: argparse.Namespace, log: LongRun) -> None:
    """Run what the log does not hold."""
    while min(windows_of(log).values()) < options.windows:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(part(program, Path(folder), options.meters, options.seconds))
        log.append(found)
        print(", ".join(f"{name}: {count}" for name, count in windows_of(log).items()), flush=True)


def windows_of(log: LongRun) -> dict[str, int]:
    """Return how many windows there are, by n and remainder."""
    names = [f"{n} {at}" for n in SLOTS for at in range(len(REMAINDERS))]
    return {name: sum(one["groups"][name]["windows"] for one in log.parts) for name in names}


def totals(log: LongRun) -> bool:
    """Print the tests of the whole log; returns whether none is below its threshold."""
    found: list[Tested] = []
    for name, windows in windows_of(log).items():
        n, at = map(int, name.split())
        counts, moments = Counter[Window](), np.zeros(6)
        for one in log.parts:
            group = one["groups"][name]
            counts.update({tuple(values): count for *values, count in group["counts"]})
            moments += group["pairs"]
        print(f"n = {n}, f = {REMAINDERS[at]}: {windows} windows")
        if windows:
            found += tests_of(n, REMAINDERS[at], counts, moments.tolist())
    return judged(found)


def judged(found: Sequence[Tested]) -> bool:
    """Print tests with their p-values; returns whether none is below its threshold."""
    threshold = ALARM / max(1, len(found))
    for one in found:
        print(f"  {one.name}: p = {one.p:.3g}{'  FAILED' if one.p < threshold else ''}")
    least = min((one.p for one in found), default=1.0)
    print(f"{len(found)} tests, least p {least:.3g}, by Bonferroni {min(1.0, least * len(found)):.3g}")
    return least >= threshold


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=positive, default=50_000, help="of each kind (default %(default)s)")
    parser.add_argument("--meters", type=positive, default=200, help="of each load (default %(default)s)")
    parser.add_argument("--seconds", type=positive, default=60, help="of a part (default %(default)s)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where the parts that are done are kept")
    options = parser.parse_args()
    program = mosquitto_program()
    if program is None:
        parser.exit(1, "NOT RUN: mosquitto is not on the path, nor in /usr/sbin\n")
    try:
        with LongRun(options.log, "law", ("meteragent", "simulators", "tests")) as log:
            return _go(program, options, log)
    except OtherLog as error:
        parser.exit(2, f"{error}\n")


def _go(program: Path, options: argparse.Namespace, log: LongRun) -> int:
    stopped = False
    try:
        with stoppable():
            run(program, options, log)
    except Stopped:
        stopped = True
    kept = totals(log)
    if stopped:
        print("stopped: the same command goes on from here")
        return STOPPED
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
