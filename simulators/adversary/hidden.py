"""Whether what `meteragent check` says is hidden, is: each of its events, on homes, before the attackers.

In every trial a home had the event, or had it not, each as likely. The attackers know the home's load without
it, when the event would have begun, the mechanism's law, and have windows that left to learn from; they see
all windows that the event touches, on all days that it happened. That is what `check` bounds as "right in at
most N of 100". Events begin with the slot that 18:00 is in.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import format_duration
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
"""How many days of each home are needed: an event of the last evening may end on the next day."""
_BEGINS_MIN = 18 * 60
_CALENDAR = ("day", "bill", "typical-day")
_STREAM = """
source = {{ topic = "meters/{{meter}}/power", kind = "power", unit = "W" }}
window = {{ {zone} }}
privacy = {{ preset = {preset} }}
sink = {{ topic = "private/{{meter}}/power" }}
"""


@dataclass(frozen=True)
class Row:
    """An event that happened on so many days: right in at most `said` of 100; `worst` was right at `rate`.

    The truth is in [low, high] with a chance of 95 %, for all attackers together. Where not `confirmed`, the
    attackers refute what `check` says; what is true is refuted with a chance of `SURE` at most.
    """

    event: str
    days: int
    said: int
    worst: str
    rate: float
    low: float
    high: float
    confirmed: bool

    @classmethod
    def of(cls, event: str, days: int, said: int, right: Mapping[str, int], trials: int) -> Self:
        """By how often each attacker was right."""
        worst = max(right, key=lambda name: right[name])
        low, high = clopper_pearson(right[worst], trials, ALARM / len(right))
        surely, _ = clopper_pearson(right[worst], trials, SURE / len(right))
        rate = right[worst] / trials
        return cls(event, days, said, worst, rate, float(low), float(high), bool(100 * surely <= said))


def stream_of(preset: str) -> config.Stream:
    """A stream with a preset of windows that divide a day.

    Raises:
        Unusable: there is none such.
    """
    stream = parsed(preset)
    terms = config.terms(stream)
    if terms.bands or DAY_MS % terms.length_ms or terms.step_ms % MINUTE_MS:
        raise Unusable(f"windows that divide a day can be tried, not {format_duration(terms.length_ms)}")
    return stream


def parsed(preset: str) -> config.Stream:
    """Return a stream with a preset, in UTC.

    Raises:
        Unusable: there is none such.
    """
    zone = 'timezone = "UTC"' if preset in _CALENDAR else ""
    try:
        return config.parse(_STREAM.format(zone=zone, preset=json.dumps(preset))).stream[0]
    except ConfigError as error:
        raise Unusable(str(error)) from None


def confirm(
    stream: config.Stream, loads: Floats, attackers: Sequence[str], trials: int, seed: int
) -> list[Row]:
    """The rows of `check`'s table, each beside the best of the attackers, in so many trials.

    `loads` are homes by the minute in W, (homes, DAYS, 1440); the trials are split evenly over them.

    Raises:
        Unusable: an attacker cannot be made.
    """
    terms = config.terms(stream)
    noise = Rival(stream.privacy.preset or stream.name, terms.mechanism, None)
    each = max(2, 2 * (trials // (2 * len(loads))))
    rows = []
    for event, percent in guarantee.of(stream).exposures:
        for days, most in percent.items():
            right = np.zeros(len(attackers), np.int64)
            for home, load in enumerate(loads):
                own_seed = int(np.random.SeedSequence([seed, home]).generate_state(1)[0])
                right += rights(_scene(event, days, terms, load), noise, attackers, each, own_seed)
            named = dict(zip(attackers, right.tolist(), strict=True))
            rows.append(Row.of(event.name, days, most, named, each * len(loads)))
    return rows


def _scene(event: Event, days: int, terms: Terms, load: Floats) -> Scene:
    """One home with and without the event on so many days: the windows that it touches."""
    begins = _BEGINS_MIN // (terms.step_ms // MINUTE_MS) * (terms.step_ms // MINUTE_MS)
    minutes = load.ravel().copy()
    plain = _windows(minutes, terms)
    for day in range(days):
        first = begins + day * 1440
        minutes[first : first + event.duration_ms // MINUTE_MS] += event.power_w
    shift = _windows(minutes, terms) - plain
    touched = shift.any(axis=1)
    return with_or_without(event.name, plain[np.newaxis, touched], shift[np.newaxis, touched], terms.quantum)


def _windows(minutes: Floats, terms: Terms) -> Integers:
    """The slot values in quanta, (windows, n)."""
    means = minutes.reshape(-1, terms.step_ms // MINUTE_MS).mean(axis=1)
    return quanta(means, Fraction(terms.quantum)).reshape(-1, terms.n)


def table(rows: Sequence[Row], preset: str, homes: str, trials: int, seed: int) -> str:
    """The rows as a Markdown table, with what they mean."""
    lines = [
        f"Preset {preset}, {homes}, {trials:,} trials a row, seed {seed}: right in so many of 100 guesses.",
        "",
        "| event | on days | `check` says at most | best attacker | measured (95 %) |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        interval = f"{100 * row.rate:.1f} ({100 * row.low:.1f} to {100 * row.high:.1f})"
        mark = "" if row.confirmed else " **more than said**"
        lines.append(f"| {row.event} | {row.days} | {row.said} | {row.worst} | {interval}{mark} |")
    return "\n".join(lines)
