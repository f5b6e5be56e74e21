"""The generator of schedules for collectors: records in any order, and troubles of everything around them."""

from collections.abc import Iterator
from random import Random

from simulators.simtest import schedule as s

KINDS = ("database", "dataset", "two", "shared")
"""One collector with a database or a dataset; two collectors that each get everything, or share a queue."""
_PLACES = ("now", "commit-before", "commit-done", "acknowledge-before", "acknowledge-half")
_FLAWS = ("unreadable", "other_meter", "unit", "grid", "early", "old", "poison")


def generate(seed: int) -> s.Schedule:
    """Draw the schedule of a seed."""
    random = Random(f"collect {seed}")
    kind = random.choice(KINDS)
    end_ms = random.choice([8_000, 20_000, 60_000])
    events = [*_draw_messages(random, kind, end_ms), *_draw_troubles(random, kind, end_ms)]
    network = s.Network(
        pieces=random.choice([0, 30]), refuses=random.choice([0, 20]), level=random.choice([5, 5, 4])
    )
    ordered = tuple(sorted(events, key=lambda event: event.at_ms))
    return s.Schedule(seed, f"collect-{kind}", (), ordered, end_ms, network)


def _draw_messages(random: Random, kind: str, end_ms: int) -> Iterator[s.Event]:
    """Yield terms and records of some meters: some are late, and some records are repeated or changed."""
    for meter in range(1, random.randint(2, 4)):
        terms = random.choice([[0], [0], [0, 2], [0, 1], [1]])
        for number in terms:
            at_ms = random.choice([0, random.randrange(end_ms)])
            if random.random() < 0.9:
                yield s.Announce(at_ms, meter, number)
            if random.random() < 0.2:
                yield s.Announce(random.randrange(end_ms), meter, number, "id")
        for _ in range(random.randint(5, 30)):
            at_ms, slot, of = random.randrange(end_ms), random.randrange(12), random.choice(terms)
            flaw = random.choice(_FLAWS) if random.random() < 0.1 else ""
            if flaw == "poison" and kind == "dataset":
                flaw = ""
            yield s.Record(at_ms, meter, slot, 1000 * slot + random.choice([0, 0, 0, 1]), of, flaw)


def _draw_troubles(random: Random, kind: str, end_ms: int) -> Iterator[s.Event]:
    """Yield the ends of processes, and the troubles of the broker and the tables."""
    for _ in range(random.randint(1, 8)):
        at_ms, lasts_ms = random.randrange(end_ms), random.choice([10, 300, 3_000, 25_000])
        match random.choice(["crash", "crash", "stop", "drop", "drop", "slow", "trouble", "trouble"]):
            case "crash":
                where, part = random.choice(_PLACES), random.randrange(1000)
                yield s.Crash(at_ms, lasts_ms, random.randrange(2), where, part)
            case "stop":
                yield s.Stop(at_ms, lasts_ms, random.randrange(2))
            case "drop":
                yield s.Drop(at_ms, "source", lasts_ms, random.choice([0, 0, 1, 2, 2]), random.randrange(2))
            case "slow":
                yield s.Slow(at_ms, random.choice([0, 1, 20, 200]))
            case "trouble":
                hows = ["fail", "lose", "hang", "refuse", "drop"] if kind != "dataset" else ["fail", "lose"]
                yield s.Trouble(at_ms, random.choice(hows), lasts_ms)
