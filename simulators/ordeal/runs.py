"""Running schedules: one, or many on all cores; where they run leaves nothing behind."""

import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from simulators.ordeal.draw import draw
from simulators.ordeal.life import Life
from simulators.ordeal.schedule import Full, Schedule
from simulators.ordeal.setting import write_keys
from simulators.ordeal.witness import Broken, must
from simulators.ordeal.world import World

BLOCK = 20
"""Schedules that a process runs at once."""
TWINS = 5
"""One schedule in so many runs again with other values in its readings."""

_MEMORY = "/dev/shm"  # noqa: S108 - a folder in memory, where a system has it: fsync costs nothing there


_log = logging.getLogger("meteragent")


class Outcome(NamedTuple):
    """What happened in some schedules, and the first that broke: its seed and what did not hold."""

    counts: Counter[str]
    seed: int | None = None
    broken: Broken | None = None


@contextmanager
def place() -> Iterator[Path]:
    """A folder for worlds, with the key files that they need; gone afterwards."""
    with TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as name:
        write_keys(Path(name))
        yield Path(name)


def run(plan: Schedule, where: Path, *, twin: bool = False, make: Callable[..., Life] = Life) -> Counter[str]:
    """Let a schedule happen; what was exercised.

    With `twin` a second world has other values in its readings, and must publish at the same times the same
    but for its values (law 4). Raises Broken.
    """
    world = _world(plan, where, scramble=False, make=make)
    if twin and not any(isinstance(event, Full) for event in plan.events):
        other = _world(plan, where, scramble=True, make=make)
        pairs = zip(_without_values(world), _without_values(other), strict=False)
        differs = next((pair for pair in pairs if pair[0] != pair[1]), None)
        must(differs is None, "what leaves, and when, depends on what was measured", differs)
        must(len(world.log) == len(other.log), "how much leaves depends on what was measured")
        world.counts["twins"] += 1
    return world.counts


def _world(plan: Schedule, where: Path, *, scramble: bool, make: Callable[..., Life]) -> World:
    folder = where / "world"
    folder.mkdir()
    _log.addFilter(_mute)
    try:
        world = World(plan, where, folder, scramble=scramble, make=make)
        world.run()
    finally:
        _log.removeFilter(_mute)
        shutil.rmtree(folder)
    return world


def _mute(_: logging.LogRecord) -> bool:
    """Hundreds of thousands of lives are not logged."""
    return False


def _without_values(world: World) -> Iterator[tuple[float, str, bytes, bool]]:
    for time_s, topic, payload, retain in world.log:
        yield time_s, topic, re.sub(rb'"value":[^,]*', b"", payload), retain


def has_twin(seed: int) -> bool:
    """Whether a seed's schedule runs twice."""
    return seed % TWINS == 0


def block(seeds: Sequence[int], make: Callable[..., Life] = Life) -> Outcome:
    """The schedules of some seeds, until one breaks."""
    counts = Counter[str]()
    with place() as where:
        for seed in seeds:
            try:
                counts += run(draw(seed), where, twin=has_twin(seed), make=make)
            except Broken as broken:
                return Outcome(counts, seed, Broken(*broken.args))
            counts["schedules"] += 1
    return Outcome(counts)


class Part(NamedTuple):
    """All schedules of some seeds: what happened in them, and what did not hold in those that broke."""

    seeds: Sequence[int]
    counts: Counter[str]
    broken: Mapping[int, str]


def whole_block(seeds: Sequence[int]) -> Part:
    """Run the schedules of some seeds, also those after one that breaks."""
    counts, broken = Counter[str](), {}
    rest = seeds
    while rest:
        outcome = block(rest)
        counts += outcome.counts
        if outcome.seed is None:
            break
        broken[outcome.seed] = str(outcome.broken)
        rest = rest[rest.index(outcome.seed) + 1 :]
    return Part(seeds, counts, broken)


def on_all_cores(seeds: Sequence[int], jobs: int) -> Iterator[Part]:
    """Yield the parts of all seeds as they end; one job runs in this process."""
    blocks = [seeds[at : at + BLOCK] for at in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(whole_block, blocks)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(whole_block, blocks)
