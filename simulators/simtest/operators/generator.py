"""The generator of schedules for operators: reports of slots around midnight, and troubles of everything."""

from collections.abc import Iterator
from random import Random

from simulators.simtest import schedule as s
from simulators.simtest.operators.judge import DEADLINE_S, HOMES_MAX, SLOT_S

SLOTS = 6
_PLACES = ("now", "commit-before", "commit-before", "commit-written", "commit-done", "publish", "acknowledge")
_END_MS = 900_000


def generate(seed: int) -> s.Schedule:
    """Draw the schedule of a seed."""
    random = Random(f"operators {seed}")
    events = [*_draw_reports(random), *_draw_troubles(random)]
    network = s.Network(pieces=random.choice([0, 30]), refuses=random.choice([0, 20]))
    ordered = tuple(sorted(events, key=lambda event: event.at_ms))
    return s.Schedule(seed, "operators", (), ordered, _END_MS, network)


def _draw_reports(random: Random) -> Iterator[s.Event]:
    """Yield reports of most homes and slots: at once, late, or several times."""
    homes, silent = random.randint(3, HOMES_MAX), random.choice([0, 0.1, 0.4])
    for slot in range(1, SLOTS):
        for home in range(homes):
            if random.random() < silent:
                continue
            for _ in range(random.choice([1, 1, 2])):
                delay_ms = random.choice([1_000, random.randrange(1000 * DEADLINE_S), 70_000])
                yield s.Report(1000 * SLOT_S * (slot + 1) + delay_ms, home, slot)


def _draw_troubles(random: Random) -> Iterator[s.Event]:
    """Yield the ends of processes, and the troubles of broker, disks and clocks."""
    may_step = random.random() < 0.25
    for _ in range(random.randint(1, 9)):
        at_ms, lasts_ms = (
            random.randrange(60_000, _END_MS * 2 // 3),
            random.choice([100, 3_000, 40_000, 150_000]),
        )
        match random.choice(["crash", "crash", "crash", "stop", "drop", "step"]):
            case "crash":
                yield s.Crash(at_ms, lasts_ms, random.randrange(2), random.choice(_PLACES))
            case "stop":
                yield s.Stop(at_ms, lasts_ms, random.randrange(2))
            case "drop":
                yield s.Drop(at_ms, "source", lasts_ms, random.choice([0, 0, 1, 2]), random.randrange(2))
            case "step" if may_step:
                jump_ms = random.choice([-40_000, -3_000, 3_000, 40_000, 400_000])
                yield s.Step(at_ms, random.randrange(2), jump_ms)
