"""The generator of schedules from seeds, which draws all kinds of faults in any combination."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from meteragent.domain import identity
from meteragent.domain.prices import PRICE_MS
from meteragent.domain.units import DAY_MS
from simulators.simtest import schedule as s
from simulators.simtest.counting import count
from simulators.simtest.crowding import CROWDED, Crowding
from simulators.simtest.judge.crowd import is_available
from simulators.simtest.model.names import public_name
from simulators.simtest.model.setting import KEYS, PACES, TICK_S, Pace, Setting
from simulators.simtest.phasing import Phasing
from simulators.simtest.schedule import Configuration, Event, Network, Schedule
from simulators.simtest.sharing import SHARED, SHARED_PACE, Sharing, draw_actions, slowed

TICK_LOOP_MS = round(TICK_S * 1000)
STAMPED_SHARE = 0.2
"""The share of the schedules in which readings of wall-clock streams are stamped on arrival."""
ABOVE_SHARE = 0.1
"""The share of the schedules in which most streams of power release the energy above a threshold."""
SLOTS_SHARE = 0.2
"""The share of the schedules in which streams with equal slots release blocks of a curve, or peaks."""
REGISTER_SHARE = {False: 0.1, True: 0.5}
"""The share of the schedules in which meters send registers, without and with phases."""
PHASED_SHARE = 0.12
"""The share of the schedules in which meters send phases, and most streams of power or registers sum them."""
READ_FAILURE_SHARE, LOST_ANSWERS_SHARE = 0.05, 0.06
"""The shares of the schedules in which the device fails on reading, and acknowledgements are lost."""
PRICED_SHARE = 0.4
"""The share of the slow and autumn schedules in which most wall-clock streams release amounts at prices."""
FOREIGN = {False: 0.05, True: 0.3}
"""The share of the schedules in which another store releases, without and with receivers."""
RESUMED_SHARE = 0.15
"""The share of the schedules in which the machine is resumed from a snapshot."""
_VALUES = (0, 1, 499_999, 500_000, 10**6, 7 * 10**6 + 3, 1000 * 10**6, -5 * 10**6, 10**14)
"""Values in millionths of the unit: at rounding boundaries, ordinary, negative, and impossible."""
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
    """Draw the schedule of a seed.

    Each feature that was added later has its own random number generator, so it does not change the other
    draws of a seed.
    """
    # "ordeal" is the test's original name; any other string would change the schedule of every seed.
    random = Random(f"ordeal {seed}")
    pace = random.choices(["fast", "slow", "autumn"], [8, 2, 1])[0]
    initial_configuration = _draw_configuration(random, pace)
    configurations = [
        initial_configuration,
        *(
            _change_configuration(random, pace, initial_configuration)
            for _ in range(random.choice([0, 1, 1, 2]))
        ),
    ]
    if Random(f"stamped {seed}").random() < STAMPED_SHARE:
        configurations = [_without_times(configuration) for configuration in configurations]
    network = _draw_network(Random(f"network {seed}"))
    end_ms = random.randrange(4_000, 9_000 if pace == "fast" else 20_000)
    events = [*_draw_readings(random, pace, end_ms), *_draw_faults(random, pace, end_ms, len(configurations))]
    if Random(f"threshold {seed}").random() < ABOVE_SHARE:
        random = Random(f"thresholds of {seed}")
        configurations = [_with_thresholds(random, pace, settings) for settings in configurations]
    if pace != "fast" and Random(f"prices {seed}").random() < PRICED_SHARE:
        random = Random(f"prices of {seed}")
        configurations = [_with_prices(random, configuration) for configuration in configurations]
        events += _draw_prices(random, PACES[pace], end_ms)
    if Random(f"slots {seed}").random() < SLOTS_SHARE:
        sign = "~" if pace == "fast" else Random(f"sign {seed}").choice("~^^")
        configurations = [_with_slots(sign, settings) for settings in configurations]
    is_phased = Random(f"phases {seed}").random() < PHASED_SHARE
    if is_phased:
        phasing = Phasing(Random(f"phases of {seed}"))
        configurations, events = phasing.divide(configurations), [*phasing.divide_events(events)]
    if Random(f"register {seed}").random() < REGISTER_SHARE[is_phased]:
        configurations, events = count(seed, configurations, events)
    events += _draw_resumption(Random(f"resume {seed}"), pace, end_ms)
    is_priced = any(setting.bound for configuration in configurations for setting in configuration)
    if not is_priced and Random(f"sharing {seed}").random() < SHARED[pace]:
        configurations, more_events = Sharing(Random(f"sharing of {seed}"), end_ms).share(configurations)
        pace, events = SHARED_PACE[pace], [*slowed(pace, events), *more_events]
    elif not is_priced and Random(f"crowd {seed}").random() < CROWDED[pace] and is_available():
        crowding = Crowding(Random(f"crowd of {seed}"), pace, end_ms)
        configurations = crowding.join(configurations)
        pace, events = SHARED_PACE[pace], [*slowed(pace, events), *crowding.draw_keys()]
    is_shared = any(setting.receivers for configuration in configurations for setting in configuration)
    if Random(f"foreign {seed}").random() < FOREIGN[is_shared]:
        random = Random(f"other stores of {seed}")
        events = [*_with_foreign(events), *_draw_foreign(random, configurations, end_ms)]
        network = replace(network, level=5)
    events = [
        *_with_more_signals(Random(f"signals {seed}"), events),
        *_draw_more(Random(f"more {seed}"), end_ms),
        *_draw_losses(Random(f"unsaved {seed}"), end_ms, len(configurations)),
        *draw_actions(Random(f"actions {seed}"), configurations, end_ms),
    ]
    events.sort(key=lambda event: event.at_ms)
    return Schedule(seed, pace, tuple(configurations), tuple(events), end_ms, network)


# --- configurations ----------------------------------------------------------------------------


def _draw_configuration(random: Random, pace: str) -> Configuration:
    main = _draw_setting(random, pace, "main")
    if random.random() < 0.3:
        return main, _draw_setting(random, pace, "other")
    return (main,)


_PEAK_GRID = "1d^5"
_PEAK_RADIUS = 200
"""If a drawn stream of local days has this radius, its grid becomes `_PEAK_GRID`."""


def _draw_grid(random: Random, pace: str) -> str:
    if pace == "fast":
        return random.choice(["10/10", "30/10", "24/6", "40/40", "60/15", "25/5"])
    bands = ["1d:00-07,07-24", "1d:22-06,06-12,12-22", "1d=06-22"]
    return random.choice(["5/5", "30/30", "30/10", "1d", "1d/4", *bands])


def _draw_setting(random: Random, pace: str, name: str) -> Setting:
    slow_meter = random.random() < 0.2
    kind = random.choice(["power", "power", "interval_energy"])
    grid = _draw_grid(random, pace)
    limit = 0
    if pace != "fast" and "d" not in grid and random.random() < 0.7:
        limit = {"30": 4, "5/": 24}[grid[:2]]
    setting = Setting(
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
    # The following draws no random numbers, so that existing seeds keep their schedules.
    is_peak = grid in {"1d", "1d/4"} and setting.radius == _PEAK_RADIUS
    fits_parts = kind == "power" or setting.stands == 5  # the interval must divide the part
    return replace(setting, grid=_PEAK_GRID) if is_peak and fits_parts else setting


def _change_configuration(random: Random, pace: str, former: Configuration) -> Configuration:
    """Change some settings and sometimes a stream's name; sometimes draw a new configuration."""
    fresh = _draw_configuration(random, pace)
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
    settings = []
    for setting in former:
        fresh_setting = fresh[0]
        values = {name: getattr(setting, name) for name in Setting.__slots__}
        values |= {name: getattr(fresh_setting, name) for name in chosen if name not in ("name", "topic")}
        if "name" in chosen and setting.name == "main":
            values["name"] = random.choice(["main2", "other2"])
        if "topic" in chosen:
            values["topic"] = 1 - setting.topic
        values["gap"] = values["gap"] if setting.kind == "power" else 0
        values["limit"] = setting.limit if values["grid"] == setting.grid else 0
        settings.append(Setting(**values))
    return tuple(settings)


def _draw_foreign(random: Random, configurations: Sequence[Configuration], end_ms: int) -> Iterator[Event]:
    """Let another store release on a topic of a meter, mostly before the meter's first window there."""
    for _ in range(random.choice([1, 2, 4])):
        setting = random.choice(random.choice(configurations))
        template = random.choice([receiver.sink_topic for receiver in setting.peers] or [setting.sink_topic])
        key = KEYS[setting.key - 1] if setting.key else None
        topic = identity.render_topic(template, public_name(key, f"m{random.choice([1, 1, 2])}"))
        at_ms = random.randrange(random.choice([100, 1500, end_ms]))
        yield s.Foreign(at_ms, topic, random.choice([200, 2000, 6000, 30_000]))


def _with_foreign(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events without those after which an agent cannot know what another store has released.

    These are a clock that is set back, and an earlier copy of the store.
    """
    for event in events:
        match event:
            case s.Clock(jump_ms=jump_ms) if jump_ms < 0:
                continue
            case s.Crash(store="restored"):
                yield replace(event, store="damaged")
            case _:
                yield event


def _with_more_signals(random: Random, events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events; some stops have several signals, and some crashes flip a bit of the store."""
    for event in events:
        match event:
            case s.Stop():
                yield replace(
                    event, signals=random.choice([1, 1, 2, 3]), apart_ms=random.choice([0, 3, 40, 300])
                )
            case s.Crash(where="now", store="") if random.random() < 0.25:
                yield replace(event, store="flipped")
            case _:
                yield event


def _draw_more(random: Random, end_ms: int) -> Iterator[Event]:
    """Yield the faults that were added later: calls of the store that wait, and second agents."""
    if random.random() < 0.3:
        yield s.Hesitate(random.randrange(end_ms), random.choice([1, 30, 400]))
    if random.random() < 0.1:
        yield s.Second(random.randrange(end_ms))


def _draw_losses(random: Random, end_ms: int, configurations: int) -> Iterator[Event]:
    """Sometimes let the device fail while it reads, or the source's broker lose acknowledgements."""
    if random.random() < READ_FAILURE_SHARE:
        steps = random.choice([1, 3, 10, 30, 100])
        yield s.Fail(random.randrange(end_ms), 300, random.randrange(configurations), steps, in_call=1)
    if random.random() < LOST_ANSWERS_SHARE:
        yield s.Drop(random.randrange(end_ms), "source", random.choice([0, 100, 1500]), 2)


def _draw_resumption(random: Random, pace: str, end_ms: int) -> Iterator[Event]:
    """Sometimes resume a snapshot; in a fast schedule at most ten minutes later, so that few windows pass."""
    if random.random() < RESUMED_SHARE:
        jumps_s = (330, 600) if pace == "fast" else (1800, 4 * 3600, 30 * 3600)
        yield s.Resume(random.randrange(500, end_ms), 1000 * random.choice(jumps_s))


def _with_thresholds(random: Random, pace: str, configuration: Configuration) -> Configuration:
    """Let most streams of power release the energy above a threshold; each stream is drawn separately."""
    grids = ["10/10", "40/40"] if pace == "fast" else ["5/5", "30/30", "1d"]
    return tuple(
        replace(setting, grid=random.choice(grids), threshold=random.choice([1, 500, 1700]), limit=0)
        if setting.kind == "power" and random.random() < 0.85
        else setting
        for setting in configuration
    )


def _with_prices(random: Random, configuration: Configuration) -> Configuration:
    """Let most wall-clock streams release amounts; each stream is drawn separately."""
    settings = []
    for setting in configuration:
        priced = replace(
            setting, threshold=0, grid=random.choice(["5/5", "30/30", "1d"]), bound=random.choice([30, 50])
        )
        priced = replace(priced, limit={"5/5": 24, "30/30": 4, "1d": 0}[priced.grid] if setting.limit else 0)
        is_priced = setting.clock == "wall" and random.random() < 0.85
        settings.append(priced if is_priced else setting)
    return tuple(settings)


def _with_slots(sign: str, configuration: Configuration) -> Configuration:
    """Let streams with equal slots release blocks of a curve or, with `^`, the peak of a day's power."""
    settings = []
    for setting in configuration:
        grid = setting.grid.replace("/", sign) if sign == "~" else _PEAK_GRID
        fits = setting.space == "linf" and (sign == "~" or setting.kind == "power")
        settings.append(replace(setting, grid=grid) if fits else setting)
    return tuple(settings)


def _without_times(configuration: Configuration) -> Configuration:
    return tuple(replace(setting, stamped=int(setting.clock == "wall")) for setting in configuration)


def _draw_network(random: Random) -> Network:
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


def _draw_readings(random: Random, pace: str, end_ms: int) -> Iterator[Event]:
    """Yield all meters' readings, some of them irregular, late, early, repeated, corrected or retained.

    Some messages that are not readings come between them.
    """
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
            if random.random() < 0.12:  # a repetition, or a correction
                other_u = value_u if random.random() < 0.7 else value_u + 1
                yield s.Read(at_ms + random.choice([0, 5, 1000]), meter, sent_ms, other_u)
            if random.random() < 0.04:
                yield s.Junk(at_ms, meter, random.randrange(100))
            silent = random.random() < 0.05
            at_ms += random.randrange(1, 2 * period_ms) + (random.randrange(1000, 6000) if silent else 0)


def _draw_prices(random: Random, pace: Pace, end_ms: int) -> Iterator[Event]:
    """Yield a market's prices: timely, late, repeated, contradictory, beyond the bound, or missing for long.

    Some are too far ahead, and some messages have no prices.
    """
    per_ms, at_ms = pace.tick_ms / TICK_LOOP_MS, random.randrange(0, 1500)
    while at_ms < end_ms:
        quarter = round(at_ms * per_ms) // PRICE_MS
        for _ in range(random.choice([1, 2, 6])):
            quarter += random.choice([-4, 0, 1, 1, 2, 4, 9])
            length = random.choice([1, 1, 2, 4, 20])
            price = s.Price(
                at_ms,
                quarter * PRICE_MS + random.choice([0] * 15 + [1000]),
                (quarter + length) * PRICE_MS,
                random.choice([random.randrange(-(10**5), 5 * 10**5), random.randrange(-(10**6), 10**6)]),
                random.choice([1, 1, 1, 2, 3]),
                int(random.random() < 0.1),
            )
            yield price
            quarter += length * price.rows
            if random.random() < 0.3:  # a repetition, or another value
                again_ms = at_ms + random.choice([0, 5, 400, 2000])
                yield replace(price, at_ms=again_ms, price_u=price.price_u + random.choice([0, 0, 1]))
        if random.random() < 0.1:
            yield s.PriceJunk(at_ms, random.randrange(100))
        if random.random() < 0.05:  # too far ahead
            yield replace(price, from_ms=price.from_ms + 70 * DAY_MS, to_ms=price.to_ms + 70 * DAY_MS)
        at_ms += random.choice([200, 700, 2500, 6000])


def _draw_faults(random: Random, pace: str, end_ms: int, configurations: int) -> Iterator[Event]:
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
        number = random.randrange(configurations)
        if random.random() < 0.75:
            yield s.Stop(at_ms, down_ms, number)
        else:
            yield s.Fail(at_ms, down_ms, number, random.randrange(1, 400))
    for _ in range(random.choice([0, 1, 1, 3])):
        at_ms = random.randrange(0, end_ms)
        down_ms = random.choice([0, 100, 1500])
        side = random.choice(["source", "sink"])
        yield s.Drop(at_ms, side, down_ms, int(random.random() < 0.15), int(random.random() < 0.2))
    yield from _draw_rare_faults(random, end_ms, per_ms)


def _draw_rare_faults(random: Random, end_ms: int, per_ms: float) -> Iterator[Event]:
    def at_ms() -> int:
        """Draw a time within the schedule."""
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
