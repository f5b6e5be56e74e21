"""Chatzikokolakis 2013, Example 2, on the running agent: signatures of programmes that meters replay.

The agent runs unchanged between simulated brokers, in virtual time, under the judge of the simulation test.
Each meter sends one programme's signature, a reading every 10 s, in window after window.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache
from itertools import starmap
from typing import NamedTuple

import numpy as np

from meteragent.domain.grid import parse_time
from meteragent.domain.units import MICRO
from simulators.adversary.library import SLOT_S, programmes
from simulators.adversary.scene import Integers
from simulators.simtest import runs
from simulators.simtest.model.setting import PACES, Setting
from simulators.simtest.schedule import Read, Schedule

PACE = PACES["fast"]
SLOTS, PROGRAMMES, WINDOWS = 30, 10, 6
_TICKS = SLOT_S * 1000 // PACE.tick_ms
_FIRST_MS = -PACE.begin_ms % (SLOT_S * SLOTS * 1000)
"""The start of the first window of signatures, in ms after the agent's start; an earlier reading opens it."""
_SETTLE_MS = 60_000


class Replay(NamedTuple):
    """The released numbers in W, the signatures from which they follow, and what the descriptor promises.

    `released` has the shape (PROGRAMMES, WINDOWS, SLOTS), and `numbers` states how many numbers were sent.
    """

    numbers: int
    released: Integers
    signatures: Integers
    epsilon: Fraction
    sd: float
    half_width: float

    @property
    def noise(self) -> Integers:
        """The noise of each number."""
        return self.released - self.signatures[:, np.newaxis]

    @property
    def recognised(self) -> int:
        """The number of windows whose nearest signature, in d_inf, is that of the window's own programme."""
        apart = np.abs(self.released[:, :, np.newaxis] - self.signatures).max(axis=3)
        return int((apart.argmin(axis=2) == np.arange(PROGRAMMES)[:, np.newaxis]).sum())


@lru_cache(maxsize=4)
def replay(radius_w: int, seed: int = 0) -> Replay:
    """Replay signatures to an agent that hides `radius_w` in each reading at level 1.

    Raises InvariantViolation at the first step of the agent that violates an invariant.
    """
    signatures = programmes(PROGRAMMES, SLOTS, seed).points[:, 0]
    setting = Setting(grid=f"{SLOTS * _TICKS}/{_TICKS}", stands=_TICKS, lateness=10, radius=radius_w)
    readings = list(starmap(_read, _samples(signatures)))
    plan = Schedule(seed, "fast", ((setting,),), tuple(readings), readings[-1].at_ms + _SETTLE_MS)
    # Run in a thread of its own, because a notebook's thread already runs an event loop.
    with runs.place() as folder, ThreadPoolExecutor(1) as thread:
        log = thread.submit(runs.run_world, plan, folder, is_scrambled=False).result().log
    promise = next(payload for _, topic, payload, _ in log if topic.endswith("/privacy"))
    records = [json.loads(payload) for _, _, payload, retain in log if not retain]
    released = np.zeros((PROGRAMMES, WINDOWS, SLOTS), np.int64)
    numbers = 0
    for record in records:
        since_ms = parse_time(record["t"]) - PACE.begin_ms - _FIRST_MS
        window, slot = divmod(since_ms // (SLOT_S * 1000), SLOTS)
        if window in range(WINDOWS):
            released[int(record["meter"][1:]), window, slot] = record["value"]
            numbers += 1
    stated = json.loads(promise)
    return Replay(numbers, released, signatures, Fraction(stated["epsilon"]), stated["sd"], stated["ci95"])


def _samples(signatures: Integers) -> Iterator[tuple[int, int, int]]:
    """Yield the time since the agent's start, in ms, the meter and the power of each reading."""
    for meter in range(PROGRAMMES):
        yield _FIRST_MS - 1000, meter, int(signatures[meter, 0])
    for number in range(WINDOWS * SLOTS):
        for meter in range(PROGRAMMES):
            yield _FIRST_MS + number * SLOT_S * 1000, meter, int(signatures[meter, number % SLOTS])


def _read(at_ms: int, meter: int, power_w: int) -> Read:
    return Read(at_ms, meter, at_ms, power_w * MICRO)
