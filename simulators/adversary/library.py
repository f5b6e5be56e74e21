"""Scenes from a seed or real traces: which programme was on, or whether an event happened in a half hour.

A programme is a window of a television set's power in slots of 10 s, from `simulators.homes.television` or
from the real sets of tracebase. Real programmes come from different sets, so their means differ more, and the
programmes are easier to distinguish.

Half hours come from simulated or real homes, with one value per minute. The start of the event is drawn at
random for each home. Whole days of such homes are for the attacks in `hidden` and `register`. Watts are
rounded to whole quanta, floor(x + 1/2), without a dither.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from meteragent.domain.units import MINUTE_MS
from meteragent.report.event import EVENTS, Event
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Integers, Scene, library, with_or_without
from simulators.extras import lacking
from simulators.homes.fleet import Fleet
from simulators.homes.television import library_w

QUANTUM_W = Fraction(1)
SLOT_S, SLOTS_MAX = 10, 2160
DAY_S = 86_400
HALF_HOUR_MIN = 30
EVENING_MIN = 18 * 60 + 30


def quanta(watts: Floats, quantum_w: Fraction = QUANTUM_W) -> Integers:
    """Round power in W to whole quanta, floor(x/q + 1/2)."""
    return np.floor(watts / float(quantum_w) + 0.5).astype(np.int64)


# Programmes ---------------------------------------------------------------------------------------


def programmes(count: int, slots: int, seed: int, times: int = 1, data: Path | None = None) -> Scene:
    """Return the scene that asks which of `count` programmes was on.

    A programme is released as `slots` means over 10 s each, `times` times with fresh noise.

    Raises Unusable if a simulated programme is too long, or if the traces in `data` have too few windows or
    cannot be read.
    """
    if data is None:
        if slots > SLOTS_MAX:
            raise Unusable(f"a programme has at most {SLOTS_MAX} slots of {SLOT_S} s, not {slots}")
        signatures = library_w(seed, count, slots * SLOT_S, SLOT_S)
    else:
        real = _real_programmes(data, slots)
        if len(real) < count:
            raise Unusable(f"{data} has {len(real)} windows of television; {count} are needed (--size)")
        signatures = real[np.random.default_rng([seed, count, slots]).permutation(len(real))[:count]]
    origin = "real" if data else "simulated"
    question = f"Which of {count} {origin} programmes was on? {slots} slots of {SLOT_S} s"
    return library(question + _repetitions(times), quanta(signatures), QUANTUM_W, times)


def _repetitions(times: int) -> str:
    return f", released {times} times" if times > 1 else ""


def _real_programmes(data: Path, slots: int) -> Floats:
    """Load the windows in which the power suggests a television set that is on and shows moving pictures."""
    by_trace = [_load_windows(path, slots) for path in _traces(data, "tracebase", "*TV-*.parquet")]
    windows = np.concatenate([np.empty((0, slots)), *by_trace])
    jumps = np.abs(np.diff(windows, axis=1)).max(axis=1, initial=0)
    is_on = (windows.min(axis=1) > 20) & (windows.max(axis=1) < 400)
    return np.asarray(windows[is_on & (windows.std(axis=1) > 3) & (jumps < 80)])


def _traces(data: Path, folder: str, pattern: str) -> list[Path]:
    """List the traces in a folder of `data`, or `data` itself if it is a file, such as a user's own trace."""
    return [data] if data.is_file() else sorted((data / folder).glob(pattern))


def _load_windows(path: Path, slots: int) -> Floats:
    """Load the windows of a trace that have no gaps, as slot means; a reading holds for at most 30 s."""
    times_s, watts = _load_trace(path)
    grid = np.arange(np.ceil(times_s[0]), times_s[-1])
    latest = np.searchsorted(times_s, grid, side="right") - 1
    by_second = np.where(grid - times_s[latest] <= 30, watts[latest], np.nan)
    complete = by_second[: len(by_second) // (slots * SLOT_S) * slots * SLOT_S]
    means = complete.reshape(-1, slots, SLOT_S).mean(axis=2)
    return np.asarray(means[np.isfinite(means).all(axis=1)])


def _load_trace(path: Path) -> tuple[Floats, Floats]:
    """Load the times in s and the power in W of a trace. Raises Unusable if it cannot be read."""
    try:
        from simulators.traces.dataset import load  # noqa: PLC0415 (it needs pyarrow)
        from simulators.traces.trace import TraceError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Unusable(f"real traces: {lacking(error, 'sim')}") from None
    try:
        trace = load(path)
    except TraceError as error:
        raise Unusable(str(error)) from None
    return trace.times_ms / 1000, np.asarray(trace.watts, np.float64)


# With or without an event -------------------------------------------------------------------------


def event_named(name: str) -> Event:
    """Return the first event in the table of `check` whose name contains `name`.

    Raises Unusable if there is none.
    """
    matches = [event for event in EVENTS if name in event.name]
    if not matches:
        raise Unusable(f"no event is named {name}; choose {', '.join(event.name for event in EVENTS)}")
    return matches[0]


def presence(
    event: Event, homes: int, slots: int, seed: int, times: int = 1, data: Path | None = None
) -> Scene:
    """Return the scene that asks whether the event happened in a half hour of the evening.

    The half hour is released as `slots` means. The attacker does not know the rest of the load: each home
    contributes one point without the event and one with it. An event longer than the half hour fills it.
    Raises Unusable if the number of slots does not divide 30, or if the traces in `data` have too few usable
    days or cannot be read.
    """
    if slots < 1 or HALF_HOUR_MIN % slots:
        raise Unusable(
            f"the number of slots must divide {HALF_HOUR_MIN}: 1, 2, 3, 5, 6, 10, 15 or 30, not {slots}"
        )
    loads = (simulated_days(homes, 1, seed) if data is None else real_days(data, homes))[:, 0]
    half_hour = loads[:, EVENING_MIN : EVENING_MIN + HALF_HOUR_MIN]
    minutes = min(-(-event.duration_ms // MINUTE_MS), HALF_HOUR_MIN)
    draw = np.random.default_rng([seed, homes, slots])
    since_start = (
        np.arange(HALF_HOUR_MIN) - draw.integers(0, HALF_HOUR_MIN - minutes + 1, homes)[:, np.newaxis]
    )
    with_event = half_hour + event.power_w * ((since_start >= 0) & (since_start < minutes))
    base, raised = (
        quanta(load.reshape(homes, slots, -1).mean(axis=2))[:, np.newaxis] for load in (half_hour, with_event)
    )
    numbers = "one mean" if slots == 1 else f"{slots} means"
    population = f"{homes} {'real' if data else 'simulated'} homes"
    question = f"{event.name}, or not, in a half hour that leaves as {numbers}? {population}"
    return with_or_without(
        question + _repetitions(times),
        np.repeat(base, times, axis=1),
        np.repeat(raised - base, times, axis=1),
        QUANTUM_W,
    )


def simulated_days(homes: int, days: int, seed: int) -> Floats:
    """Simulate homes with one value per minute, in W, of shape (homes, days, 1440)."""
    fleet = Fleet(seed, range(homes))
    return np.stack([day.watts.astype(np.float64) for day in fleet.days(0, days, 60)], axis=1)


def real_days(data: Path, count: int, days: int = 1) -> Floats:
    """Load `count` stretches of real homes with one value per minute, in W, of shape (count, days, 1440).

    Only stretches in which more than half of each day was measured are used. Raises Unusable if there are
    fewer than `count` of them, or if a trace cannot be read.
    """
    by_home = []
    for path in _traces(data, "homes", "*.parquet"):
        times_s, watts = _load_trace(path)
        begin_s = times_s[0] + -times_s[0] % DAY_S
        minutes = np.arange(begin_s, times_s[-1] + 1, 60)
        by_minute = watts[np.searchsorted(times_s, minutes, side="right") - 1]
        complete = by_minute[: len(by_minute) // (1440 * days) * 1440 * days]
        by_home.append(complete.reshape(-1, days, 1440))
    stretches = np.concatenate([np.empty((0, days, 1440)), *by_home])
    # The traces have 0 where the meter was silent.
    stretches = stretches[(stretches > 0).mean(axis=2).min(axis=1, initial=1) > 0.5]
    if len(stretches) < count:
        length = "1 day" if days == 1 else f"{days} days"
        raise Unusable(
            f"{data} has {len(stretches)} whole stretches of {length}; {count} are needed (--size)"
        )
    # Spread the choice evenly over all stretches of all homes.
    return np.asarray(stretches[np.linspace(0, len(stretches) - 1, count).astype(int)])
