"""Run one schedule, or many in several processes, in temporary folders."""

import hashlib
import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias, TypeVar

from simulators.invariant import InvariantViolation, check
from simulators.long_run import revision
from simulators.simtest.configuration import write_keys
from simulators.simtest.generator import generate
from simulators.simtest.model.setting import kind_of
from simulators.simtest.schedule import Act, Crash, Event, Fail, Foreign, Full, Hesitate, Schedule
from simulators.simtest.world import World

BLOCK = 20
"""The largest number of schedules that a process runs as one part."""
TWINS = 5
"""One schedule in `TWINS` runs a second time, with other values in its readings, if `run` allows it."""

AGENT = "agent"
SERVICES = (AGENT, "collect", "operators")
"""The services whose schedules can run. Each service except the agent has a package of that name here."""

_MEMORY = "/dev/shm"  # noqa: S108 - a folder in memory, if the system has one: fsync costs nothing there

Message: TypeAlias = tuple[float, str, bytes, bool]
"""What a broker has received: the time in s, the topic, the payload, and whether it is retained."""

_World = TypeVar("_World", bound=Any)

_log = logging.getLogger("meteragent")


class Outcome(NamedTuple):
    """The total counts over several schedules, with the seed and the violation of the first that failed.

    `seed` and `violation` are None if none failed.
    """

    counts: Counter[str]
    seed: int | None = None
    violation: InvariantViolation | None = None


@contextmanager
def place() -> Iterator[Path]:
    """Create a folder for worlds, with the key files that they need; remove it afterwards."""
    with TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as name:
        write_keys(Path(name))
        yield Path(name)


def run(plan: Schedule, folder: Path, *, has_twin: bool = False) -> Counter[str]:
    """Run a schedule; return the counts of the events that it exercised.

    With `has_twin`, a second world gets different values in its readings, unless the plan `_may_differ`.
    Apart from the values and sealed bytes, both worlds must publish the same messages at the same times (law
    4). Raises InvariantViolation at the first violation.
    """
    if (service := service_of(plan)) != AGENT:
        counts: Counter[str] = _run_alone(partial(_part_of(service, "world").World, plan), folder).counts
        return counts
    world = run_world(plan, folder, is_scrambled=False)
    has_registers = any(
        kind_of(setting) == "register" for settings in plan.configurations for setting in settings
    )
    if has_twin and not _may_differ(plan, has_registers=has_registers):
        twin_world = run_world(plan, folder, is_scrambled=True)
        logs = [item.log for item in (world, twin_world)]
        if has_registers:
            # Acknowledgements depend on which readings are doubted, and the broker waits for them: it sends
            # messages some ms earlier or later, and after a drop it sends other messages again. On each
            # topic, the new messages and their order are the same.
            logs = [_by_topic(log) for log in logs]
        pairs = zip(*map(_without_values, logs), strict=False)
        differs = next((pair for pair in pairs if pair[0] != pair[1]), None)
        check(differs is None, "the messages or their times depend on measured values", differs)
        check(len(logs[0]) == len(logs[1]), "the number of messages depends on measured values")
        world.counts["twins"] += 1
    return world.counts


def _may_differ(plan: Schedule, *, has_registers: bool) -> bool:
    """Return whether measured values may change the messages of a schedule.

    The values of registers change the arrival of readings by some ms. If a stream whose windows open on
    arrivals (event clock) shares a budget with one whose windows open by the wall clock, the last window
    that the budget allows may belong to either.
    """
    is_budget_shared = any(
        any(setting.limit for setting in settings) and len({setting.clock for setting in settings}) > 1
        for settings in plan.configurations
    )
    return (has_registers and is_budget_shared) or any(
        _is_moved(event, has_registers=has_registers) for event in plan.events
    )


def _is_moved(event: Event, *, has_registers: bool) -> bool:
    """Return whether the moment of an event depends on the values of readings.

    Values determine how fast a nearly full store fills up. Values of registers also determine which readings
    are doubted, and so the moments of commits and acknowledgements. A crash, a failure of the device or an
    action may wait for such a moment, and a receiver may be held back until then.
    """
    waits = isinstance(event, Fail) or (isinstance(event, Crash) and event.where != "now")
    flips = isinstance(event, Crash) and event.store == "flipped"
    moves = waits or isinstance(event, Foreign | Hesitate | Act)
    return isinstance(event, Full) or flips or (has_registers and moves)


def run_world(plan: Schedule, keys: Path, *, is_scrambled: bool) -> World:
    """Run an agent's schedule, and return its world. Raises InvariantViolation at the first violation."""
    return _run_alone(lambda folder: World(plan, keys, folder, is_scrambled=is_scrambled), keys)


def _run_alone(make_world: Callable[[Path], _World], keys: Path) -> _World:
    """Run a world in a folder of its own, and return it."""
    folder = keys / "world"
    folder.mkdir()
    level = _log.level
    _log.setLevel(logging.CRITICAL + 1)  # do not log hundreds of thousands of processes
    try:
        world = make_world(folder)
        world.run()
    finally:
        _log.setLevel(level)
        shutil.rmtree(folder)
    return world


def service_of(plan: Schedule) -> str:
    """Return the name of the service whose schedule this is."""
    name = plan.pace.partition("-")[0]
    return name if name in SERVICES else AGENT


def draw(seed: int, service: str = AGENT) -> Schedule:
    """Draw the schedule of a seed of a service."""
    return generate(seed) if service == AGENT else _part_of(service, "generator").generate(seed)


def _part_of(service: str, name: str) -> Any:
    """Import a module of a service, which needs the extra of that service."""
    return import_module(f"simulators.simtest.{service}.{name}")


def _by_topic(log: Sequence[Message]) -> list[Message]:
    """Return the first sending of each message without its time, topic by topic."""
    return sorted(dict.fromkeys((0.0, *message) for _, *message in log), key=itemgetter(1))  # type: ignore[misc]


def _without_values(log: Sequence[Message]) -> Iterator[Message]:
    for time_s, topic, payload, retain in log:
        is_sealed = topic.startswith("crowd/")  # with new random bytes in each run
        public = b"%d" % len(payload) if is_sealed else re.sub(rb'"value":[^,]*', b"", payload)
        yield time_s, topic, public, retain


def fresh_seed() -> int:
    """Return a first seed that follows from the checked-out commit: schedules that were not tried before."""
    return int.from_bytes(hashlib.sha256(revision().encode()).digest()[:5])


def has_twin(seed: int) -> bool:
    """Return whether a seed's schedule is to run twice."""
    return seed % TWINS == 0


def block(seeds: Sequence[int], service: str = AGENT) -> Outcome:
    """Run the schedules of the given seeds of a service until one fails; return the outcome."""
    counts = Counter[str]()
    with place() as folder:
        for seed in seeds:
            try:
                counts += run(draw(seed, service), folder, has_twin=has_twin(seed))
            except InvariantViolation as violation:
                return Outcome(counts, seed, InvariantViolation(*violation.args))
            counts["schedules"] += 1
    return Outcome(counts)


class Part(NamedTuple):
    """The total counts over a block of seeds, and all violations by seed."""

    seeds: Sequence[int]
    counts: Counter[str]
    violations: Mapping[int, str]


def whole_block(seeds: Sequence[int], service: str = AGENT) -> Part:
    """Run the schedules of all given seeds, even after one fails; return the part."""
    counts, violations = Counter[str](), {}
    seeds_left = seeds
    while seeds_left:
        outcome = block(seeds_left, service)
        counts += outcome.counts
        if outcome.seed is None:
            break
        violations[outcome.seed] = str(outcome.violation)
        seeds_left = seeds_left[seeds_left.index(outcome.seed) + 1 :]
    return Part(seeds, counts, violations)


def on_all_cores(seeds: Sequence[int], jobs: int, service: str = AGENT) -> Iterator[Part]:
    """Yield the parts of all seeds as `jobs` processes finish them; with one job, all run in this process."""
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(partial(whole_block, service=service), blocks)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(partial(whole_block, service=service), blocks)
