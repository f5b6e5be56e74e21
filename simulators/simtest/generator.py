"""Schedules from seeds: all kinds of trouble, in all combinations, each small enough to be run in no time."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from simulators.simtest import schedule as s
from simulators.simtest.schedule import Configuration, Event, Network, Schedule
from simulators.simtest.setting import PACES, TICK_S, Setting

TICK_LOOP_MS = round(TICK_S * 1000)
STAMPED = 0.2
"""In so many schedules the readings of streams by the wall clock have no times of their own."""
RESUMED = 0.15
"""In so many schedules the machine is resumed from a snapshot."""
_VALUES = (0, 1, 499_999, 500_000, 10**6, 7 * 10**6 + 3, 1000 * 10**6, -5 * 10**6, 10**14)
"""The edges of rounding, the ordinary, the negative, the impossible; in millionths."""
_PLACES = (
    "commit-before",
    "commit-torn",
    "commit-written",
    "commit-moved",
    "commit-done",
    "acknowledge-before",
    "acknowledge-half",
    "acknowledge-after",
    "publish-before",
    "publish-after",
    "confirm",
    "open",
    "close",
    "now",
)


def generate(seed: int) -> Schedule:
    """The schedule of a seed."""
    # The first name of this test: another string would give every seed another schedule
    random = Random(f"ordeal {seed}")
    pace = random.choices(list(PACES), [8, 2, 1])[0]
    first = _configuration(random, pace)
    configurations = [first, *(_changed(random, pace, first) for _ in range(random.choice([0, 1, 1, 2])))]
    if Random(f"stamped {seed}").random() < STAMPED:
        configurations = [_stamped(one) for one in configurations]
    end_ms = random.randrange(4_000, 9_000 if pace == "fast" else 20_000)
    events = [*_readings(random, pace, end_ms), *_troubles(random, pace, end_ms, len(configurations))]
    events += _resumed(Random(f"resume {seed}"), pace, end_ms)
    events.sort(key=lambda event: event.at_ms)
    network = _network(Random(f"network {seed}"))
    return Schedule(seed, pace, tuple(configurations), tuple(events), end_ms, network)


# --- configurations ----------------------------------------------------------------------------


def _configuration(random: Random, pace: str) -> Configuration:
    main = _setting(random, pace, "main")
    if random.random() < 0.3:
        return main, _setting(random, pace, "other")
    return (main,)


def _grid(random: Random, pace: str) -> str:
    if pace == "fast":
        return random.choice(["10/10", "30/10", "24/6", "40/40", "60/15", "25/5"])
    return random.choice(["5/5", "30/30", "30/10", "1d", "1d/4", "1d:00-07,07-24", "1d:22-06,06-12,12-22"])


def _setting(random: Random, pace: str, name: str) -> Setting:
    slow_meter = random.random() < 0.2
    kind = random.choice(["power", "power", "interval_energy"])
    grid = _grid(random, pace)
    limit = 0
    if pace != "fast" and "d" not in grid and random.random() < 0.7:
        limit = {"30": 4, "5/": 24}[grid[:2]]
    return Setting(
        name=name,
        kind=kind,
        clock=random.choices(["wall", "event"], [4, 1])[0],
        grid=grid,
        lateness=random.choice([0, 0, 3, 12]),
        stands=random.choice([40, 60]) if slow_meter else random.choice([5, 12, 20]),
        spread=random.choice([0, 0, 15]),
        catch_up=random.choice([0, 5, 15]),
        forget=random.choice([10_000, 10_000, 80]),
        ahead=random.choice([0, 5, 20]),
        radius=random.choice([60, 120, 200]),
        gap=random.choice([0, 0, 50]) if kind == "power" else 0,
        key=random.choice([0, 0, 1]),
        limit=limit,
        inflight=random.choice([1000, 1000, 20, 3]),
        meters=random.choice([100, 100, 1]),
        keep=random.choice([10_000, 20]),
        version=random.choice([5, 5, 4]),
    )


def _changed(random: Random, pace: str, before: Configuration) -> Configuration:
    """Some settings are others now; now and then a stream is new, renamed or no more."""
    fresh = _configuration(random, pace)
    if random.random() < 0.15:
        return fresh
    names = [
        "grid",
        "radius",
        "spread",
        "catch_up",
        "key",
        "topic",
        "forget",
        "gap",
        "lateness",
        "stands",
        "name",
    ]
    chosen = random.sample(names, random.choice([1, 1, 2, 3]))
    found = []
    for one in before:
        other = fresh[0]
        values = {name: getattr(one, name) for name in Setting.__slots__}
        values |= {name: getattr(other, name) for name in chosen if name not in ("name", "topic")}
        if "name" in chosen and one.name == "main":
            values["name"] = random.choice(["main2", "other2"])
        if "topic" in chosen:
            values["topic"] = 1 - one.topic
        values["gap"] = values["gap"] if one.kind == "power" else 0
        values["limit"] = one.limit if values["grid"] == one.grid else 0
        found.append(Setting(**values))
    return tuple(found)


def _resumed(random: Random, pace: str, end_ms: int) -> Iterator[Event]:
    """A snapshot is resumed now and then; windows of seconds are too many for more than minutes."""
    if random.random() < RESUMED:
        jumps_s = (330, 600) if pace == "fast" else (1800, 4 * 3600, 30 * 3600)
        yield s.Resume(random.randrange(500, end_ms), 1000 * random.choice(jumps_s))


def _stamped(configuration: Configuration) -> Configuration:
    return tuple(replace(one, stamped=int(one.clock == "wall")) for one in configuration)


def _network(random: Random) -> Network:
    keepalive_s = random.choice([0, 0, 1, 2])
    return Network(
        pieces=random.choice([0, 5, 50]),
        late_ms=random.choice([0, 0, 20, 300]),
        keepalive_s=keepalive_s,
        maximum=random.choice([0, 0, 1, 3]),
        refuses=random.choice([0, 0, 30]),
        silent=random.choice([0, 50]) if keepalive_s else 0,
        level=random.choice([5, 5, 4]),
    )


# --- what happens ------------------------------------------------------------------------------


def _readings(random: Random, pace: str, end_ms: int) -> Iterator[Event]:
    """Meters that report now and then, with all that meters and networks do to readings."""
    per_ms = PACES[pace].tick_ms / TICK_LOOP_MS
    for meter in range(1, random.choice([1, 1, 2, 3]) + 1):
        period_ms = random.choice([3, 6, 12]) * TICK_LOOP_MS
        at_ms = random.randrange(0, 1500)
        while at_ms < end_ms:
            delay_ms = (
                random.choice([0, 0, 0, 20, 200]) if random.random() < 0.8 else random.randrange(-500, 3000)
            )
            sent_ms = round((at_ms - delay_ms) * per_ms)
            value_u = random.choice(_VALUES) if random.random() < 0.3 else random.randrange(3 * 10**9)
            qos, retain = int(random.random() > 0.05), int(random.random() < 0.03)
            yield s.Read(at_ms, meter, sent_ms, value_u, qos, retain)
            if random.random() < 0.12:  # again, or a correction
                other_u = value_u if random.random() < 0.7 else value_u + 1
                yield s.Read(at_ms + random.choice([0, 5, 1000]), meter, sent_ms, other_u)
            if random.random() < 0.04:
                yield s.Junk(at_ms, meter, random.randrange(100))
            silent = random.random() < 0.05
            at_ms += random.randrange(1, 2 * period_ms) + (random.randrange(1000, 6000) if silent else 0)


def _troubles(random: Random, pace: str, end_ms: int, configurations: int) -> Iterator[Event]:
    per_ms = PACES[pace].tick_ms / TICK_LOOP_MS
    slow = random.choice([0, 1, 1, 30])
    yield s.Slow(0, slow)
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        at_ms, down_ms = random.randrange(200, end_ms), random.choice([0, 50, 300, 2500])
        yield s.Crash(
            at_ms,
            down_ms,
            random.randrange(configurations),
            random.choice(_PLACES),
            random.randrange(1000),
            random.choices(["", "damaged", "restored"], [12, 1, 1])[0],
        )
    for _ in range(random.choice([0, 0, 1, 2])):
        at_ms, down_ms = random.randrange(200, end_ms), random.choice([0, 300, 2500])
        then = random.randrange(configurations)
        if random.random() < 0.75:
            yield s.Stop(at_ms, down_ms, then)
        else:
            yield s.Fail(at_ms, down_ms, then, random.randrange(1, 400))
    for _ in range(random.choice([0, 1, 1, 3])):
        at_ms = random.randrange(0, end_ms)
        down_ms = random.choice([0, 100, 1500])
        side = random.choice(["source", "sink"])
        yield s.Drop(at_ms, side, down_ms, int(random.random() < 0.15), int(random.random() < 0.2))
    yield from _rare(random, end_ms, per_ms)


def _rare(random: Random, end_ms: int, per_ms: float) -> Iterator[Event]:
    def at_ms() -> int:
        return random.randrange(0, end_ms)

    if random.random() < 0.2:
        yield s.Stall(at_ms(), random.choice([200, 1500]))
    if random.random() < 0.15:
        yield s.Refuse(at_ms())
    if random.random() < 0.3:
        jump_ms = round(random.choice([-3000, -700, -50, 50, 900, 4000]) * per_ms)
        yield s.Clock(at_ms(), jump_ms)
    if random.random() < 0.2:
        yield s.Slow(at_ms(), random.choice([0, 100, 1200]))
    if random.random() < 0.1:
        yield s.Full(at_ms(), random.choice([100, 2000]), random.choice([500, 3000]))
