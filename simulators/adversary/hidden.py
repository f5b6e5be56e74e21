"""Test the figures of `meteragent check`: attackers try to detect each event of its table in homes' releases.

In half of the trials, the home has the event. An attacker may know the home's load without the event, the
time at which the event would begin, and the distribution of the mechanism's noise. All attackers are trained
on released windows, and are given every window that the event touches, on every day it happens. `check`
states an upper limit on the success rate of such attackers in per cent. Events begin at the start of the slot
that contains 18:00.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import format_duration
from meteragent.domain.presets import PRESETS
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MINUTE_MS
from meteragent.privacy.statistics import clopper_pearson
from meteragent.report import guarantee
from meteragent.report.event import Event
from simulators.adversary.library import quanta
from simulators.adversary.measure import ALARM, SURE, rights
from simulators.adversary.mechanism import Rival
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Integers, Scene, with_or_without

DAYS = max(guarantee.REPETITIONS) + 1
"""The number of days needed from each home: an event on the last evening may end on the next day."""
_BEGINS_MIN = 18 * 60
_STREAM = """
source = {{ topic = "meters/{{meter}}/power", kind = "power", unit = "W" }}
window = {{ {zone} }}
privacy = {{ preset = {preset} }}
sink = {{ topic = "private/{{meter}}/power" }}
"""


@dataclass(frozen=True)
class Row:
    """An event on `days` days: `check` claims that no attacker is right more than `claimed` % of the time.

    The attacker `worst` was right in a fraction `rate` of trials; [low, high] contains the true rate with a
    probability of at least 95%, for all attackers together. If `is_confirmed` is false, the attackers refute
    `check`. If the claim is true, this happens with a probability of at most `SURE`.
    """

    event: str
    days: int
    claimed: int
    worst: str
    rate: float
    low: float
    high: float
    is_confirmed: bool

    @classmethod
    def of(cls, event: str, days: int, claimed: int, hits: Mapping[str, int], trials: int) -> Self:
        """Make a row from the number of right answers of each attacker in `trials` trials."""
        worst = max(hits, key=lambda name: hits[name])
        low, high = clopper_pearson(hits[worst], trials, ALARM / len(hits))
        surely, _ = clopper_pearson(hits[worst], trials, SURE / len(hits))
        rate = hits[worst] / trials
        return cls(event, days, claimed, worst, rate, float(low), float(high), bool(100 * surely <= claimed))

    def figures(self) -> dict[str, Any]:
        """Return the row as data for JSON."""
        return {"said" if name == "claimed" else name: value for name, value in asdict(self).items()}


def stream_of(preset: str) -> config.Stream:
    """Return a stream with the given preset.

    Raises Unusable if `parsed` does, if windows have bands or do not divide a day, or if slots are not whole
    minutes.
    """
    stream = parsed(preset)
    terms = config.terms(stream)
    if terms.places or DAY_MS % terms.length_ms or terms.step_ms % MINUTE_MS:
        raise Unusable(f"only windows that divide a day are tested, not {format_duration(terms.length_ms)}")
    return stream


def parsed(preset: str) -> config.Stream:
    """Return a stream with the given preset, in UTC if its windows are days or months.

    Raises Unusable if the preset is unknown, or needs more settings, as `peak` and `tariff` do.
    """
    zone = 'timezone = "UTC"' if preset in PRESETS and PRESETS[preset].has_calendar else ""
    try:
        return config.parse(_STREAM.format(zone=zone, preset=json.dumps(preset))).stream[0]
    except ConfigError as error:
        raise Unusable(str(error)) from None


def confirm(
    stream: config.Stream, loads: Floats, attackers: Sequence[str], trials: int, seed: int
) -> list[Row]:
    """Try to detect each event of `check`'s table in `trials` trials, and report the best attacker.

    `loads` holds the power of homes by the minute in W and has shape (homes, DAYS, 1440). The trials are
    divided evenly among the homes; each home gets an even number of them, at least two. Raises Unusable in
    the same cases as `measure`.
    """
    terms = config.terms(stream)
    noise = Rival(stream.privacy.preset or stream.name, terms.mechanism, None)
    trials_each = max(2, 2 * (trials // (2 * len(loads))))
    rows = []
    for event, percent, _ in guarantee.compute_guarantee(stream).exposures:
        for days, claimed in percent.items():
            hits = np.zeros(len(attackers), np.int64)
            for home, load in enumerate(loads):
                home_seed = int(np.random.SeedSequence([seed, home]).generate_state(1)[0])
                hits += rights(_scene(event, days, terms, load), noise, attackers, trials_each, home_seed)
            by_attacker = dict(zip(attackers, hits.tolist(), strict=True))
            rows.append(Row.of(event.name, days, claimed, by_attacker, trials_each * len(loads)))
    return rows


def _scene(event: Event, days: int, terms: Terms, load: Floats) -> Scene:
    """Make the scene of one home with or without the event on `days` days.

    The scene contains only the windows that the event touches.
    """
    begins = _BEGINS_MIN // (terms.step_ms // MINUTE_MS) * (terms.step_ms // MINUTE_MS)
    minutes = load.ravel().copy()
    plain = _windows(minutes, terms)
    for day in range(days):
        start = begins + day * 1440
        minutes[start : start + event.duration_ms // MINUTE_MS] += event.power_w
    shift = _windows(minutes, terms) - plain
    touched_windows = shift.any(axis=1)
    return with_or_without(
        event.name, plain[np.newaxis, touched_windows], shift[np.newaxis, touched_windows], terms.quantum
    )


def _windows(minutes: Floats, terms: Terms) -> Integers:
    """Return the slot values in quanta, (windows, n), of a load by the minute in W."""
    means = minutes.reshape(-1, terms.step_ms // MINUTE_MS).mean(axis=1)
    return quanta(means, Fraction(terms.quantum)).reshape(-1, terms.n)


def table(rows: Sequence[Row], preset: str, homes: str, trials: int, seed: int) -> str:
    """Format the rows as a Markdown table with a heading."""
    lines = [
        f"Preset {preset}, {homes}, {trials:,} trials a row, seed {seed}: right guesses in %.",
        "",
        "| event | on days | `check` says at most | best attacker | measured (95%) |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        interval = f"{100 * row.rate:.1f} ({100 * row.low:.1f} to {100 * row.high:.1f})"
        mark = "" if row.is_confirmed else " **more than claimed**"
        lines.append(f"| {row.event} | {row.days} | {row.claimed} | {row.worst} | {interval}{mark} |")
    return "\n".join(lines)
