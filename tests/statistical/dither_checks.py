"""What must be true of dithered accumulators in the store and of what leaves: checks with their p values.

Each check gives p values by name, 0.0 for what is plainly wrong. A right program has a p below ALARM among
its fewer than 40 with a chance of 4e-7 at most; seeds are fixed, so a run repeats.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from meteragent.domain.commit import OpenWindow
from meteragent.privacy import SeededBits
from tests.statistical import dither_world
from tests.statistical.dither_world import COARSE, POWER, Stored

ALARM = 1e-8
LATTICE = POWER.steps_per_quantum[0]
LOADS_W = (0.0, 2150.0)
Floats = NDArray[np.float64]
Found = dict[str, float]


def parts(accumulators: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The accumulators' whole quanta and what is beside them."""
    quanta, rest = np.divmod(np.array(accumulators, dtype=np.int64), LATTICE)
    return quanta, rest


def equal(counts: NDArray[np.int64]) -> float:
    """The p of counts that should be equally likely."""
    return float(stats.chisquare(counts).pvalue)


def apart(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """The p of a correlation of 0, normal for many pairs; 0 where one of them never changes."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(2 * stats.norm.sf(abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(one.size)))


def independent(table: NDArray[np.int64]) -> float:
    """The p of rows and columns that have nothing to do with each other, 0 where one is empty."""
    if not (table.any(axis=0).all() and table.any(axis=1).all()):
        return 0.0
    return float(stats.chi2_contingency(table).pvalue)


def of_the_store(meters: int) -> Found:
    """One copy, ten seconds into a slot: beside whole quanta it is uniform, whatever is used."""
    bits = SeededBits(12)
    both = [dither_world.opened([load_w] * meters, bits) for load_w in LOADS_W]
    found: Found = {}
    rests = []
    for load_w, (_, store) in zip(LOADS_W, both, strict=True):
        quanta, rest = parts(store.accumulators)
        rests.append(rest)
        found[f"uniform at {load_w:g} W"] = float(stats.kstest(rest / LATTICE, "uniform").pvalue)
        low = np.bincount(rest % 4096 // 64, minlength=64)
        found[f"low bits at {load_w:g} W"] = equal(low)
        table = np.bincount(np.abs(quanta) % 4 * 4 + rest // (LATTICE // 4), minlength=16).reshape(4, 4)
        found[f"beside the noise at {load_w:g} W"] = independent(table)
    found["the same for both loads"] = float(stats.ks_2samp(*rests).pvalue)
    found["all distinct"] = float(np.unique(np.concatenate(rests)).size == 2 * meters)
    running, _ = both[0]
    dither_world.feed(running, [], dither_world.STEP_MS // 2)
    later = dither_world.stored(dither_world.feed(running, [], dither_world.STEP_MS))
    found["slot after slot"] = apart(rests[0], parts(later.accumulators)[1])
    found["two streams of a meter"] = apart(*rests)
    return found


def law(f: float, reach: int = 60) -> Floats:
    """The law of what leaves less the whole quanta, on -reach .. reach: (1-f) p(y) + f p(y-1), a = 1."""
    t = math.exp(-1)
    lattice = (1 - t) / (1 + t) * t ** np.abs(np.arange(-reach - 1, reach + 1))
    return np.asarray((1 - f) * lattice[1:] + f * lattice[:-1])


def of_what_leaves(meters: int) -> Found:
    """With a restart in the slot, each fraction of a quantum is rounded up in its share of the windows."""
    found: Found = {}
    for place, f in enumerate((0.0, 0.25, 0.5, 0.9)):
        moved = dither_world.released(3 + f, meters, 20 + place) - 3
        right = law(f)
        reach = right.size // 2
        deviation = math.sqrt(float(right @ (np.arange(-reach, right.size - reach) - f) ** 2))
        z = (float(moved.mean()) - f) / deviation * math.sqrt(meters)
        found[f"mean at {f}"] = float(2 * stats.norm.sf(abs(z)))
        inside = np.abs(moved) <= 4
        counts = np.append(np.bincount(moved[inside] + 4, minlength=9), np.sum(~inside))
        near = right[reach - 4 : reach + 5]
        expected = np.append(near, 1 - near.sum()) * meters
        found[f"law at {f}"] = float(stats.chisquare(counts, expected).pvalue)
    return found


def of_the_structure(meters: int = 1) -> Found:
    """One whole number a slot and no more; R only while slots are to be drawn; a restart changes nothing."""
    del meters
    thirds = dither_world.of_three_slots()
    kept = [window["noise_bound"] is not None for store in thirds for window in store.windows]
    found = {"R only for slots to come": float(kept == [True, True, False])}
    register = dither_world.of_a_register()
    stores: list[Stored] = [*thirds, register]
    whole = [type(a) is int for store in stores for a in store.accumulators]
    found["whole numbers"] = float(all(whole) and len(whole) == 3 + 1)
    fields = [*OpenWindow._fields]
    found["nothing beside them"] = float(all([*w] == fields for one in stores for w in one.windows))
    running = dither_world.core(COARSE, 1, SeededBits(8))
    dither_world.feed(running, dither_world.said([5], -1000), -1000)
    before = dither_world.feed(running, [], 0)
    after = dither_world.again(before, COARSE, 1, SeededBits(9))
    state = after._timelines["m0"].stored_state()
    found["a restart changes nothing"] = float(state == before.states["m0"])
    return found


CHECKS: dict[str, Callable[[int], Found]] = {
    "store": of_the_store,
    "release": of_what_leaves,
    "structure": of_the_structure,
}
