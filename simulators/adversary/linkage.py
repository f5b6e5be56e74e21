"""Test whether a new pseudonym unlinks a home, given its releases before and after the change.

Homes release two months under old pseudonyms and two under new ones. The attackers have all releases, know
the terms, and match each new pseudonym with an old one. No promise about single windows prevents such
matches, because habits repeat from window to window.

A home is represented by a vector of features for each week (the mean of each hour, on working days and on
weekends; for windows of a day, the seven days) or for each month (its bands: means, or the energies of a
tariff). `level` names the old pseudonym with the nearest mean. `habits` names the one with the largest
likelihood ratio of "same home" to "different homes" in a Gaussian model fitted to the old pseudonyms alone:
odd and even weeks (or months) share the part that belongs to the home, and differ by the week and the noise
(probabilistic linear discriminant analysis: Ioffe 2006, section 3). `matching` assigns a different old
pseudonym to each new one so as to maximise the product of all ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from scipy import linalg, optimize

from meteragent import config
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import SHAPES, Bands
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS
from meteragent.privacy import SeededBits
from meteragent.privacy.statistics import clopper_pearson
from meteragent.report.format import energy_text
from simulators.adversary.hidden import parsed
from simulators.adversary.library import quanta
from simulators.adversary.measure import ALARM
from simulators.adversary.scene import Floats, Integers
from simulators.homes.fleet import Fleet
from simulators.tariffs import example_tariffs

ATTACKED = [
    name for name, preset in PRESETS.items() if SHAPES[preset.space].is_additive and preset.slots == 1
]
"""The presets whose values follow a home's energy over time."""
POPULATIONS = 3
"""The number of separate populations of homes to attack."""
MONTHS, MONTH_DAYS = 2, 30
"""The number of months released before the change and again after it, and the number of days in a month."""
DAYS = MONTHS * MONTH_DAYS
ATTACKERS = "level", "habits", "matching"
_STEP_S = 1800
_TARIFF = f"""
source = {{ topic = "meters/{{meter}}/power", kind = "power", unit = "W" }}
privacy = {{ preset = "tariff" }}
sink = {{ topic = "private/{{meter}}/power" }}
[window]
timezone = "UTC"
rest = "night"
{example_tariffs.CONFIGURATION}"""
_WEEKS = DAYS // 7
_LINEAR_W = 50.0
"""A value in W or Wh: features far below it are compared by differences, and those far above it by ratios."""
_SHRINK = 0.5
"""The weight of the assumption that the features of a week vary independently of one another."""
_MIN_BETWEEN = 0.3
"""Directions are left out if the variance between homes is at most this multiple of the variance within
homes; the best direction always stays."""


@dataclass(frozen=True)
class Row:
    """How many of `trials` new pseudonyms each attacker linked correctly.

    `linked` has the numbers with noise, and `raw` those without noise. `control` has the numbers with noise
    if the homes after the change are not those before it, so that hits happen only by chance.
    """

    preset: str
    hides_wh: str
    homes: int
    trials: int
    linked: Mapping[str, int]
    raw: Mapping[str, int]
    control: Mapping[str, int]

    @classmethod
    def of(cls, preset: str, populations: Sequence[Floats], seed: int) -> Self:
        """Attack a preset.

        Each of `populations` holds the half-hourly mean power of homes in W, of shape (homes, 2 DAYS, 48).
        """
        terms = config.terms(stream_of(preset))
        rng, feature_pairs = np.random.default_rng(seed), []
        counts = {kind: dict.fromkeys(ATTACKERS, 0) for kind in ("linked", "raw", "control")}
        for number, watts in enumerate(populations):
            true = windows(watts, terms)
            released = _add_noise(true, terms, seed, number)
            for kind, values in (("linked", released), ("raw", true)):
                old, new = features(values, terms)
                _count(counts[kind], old, new, rng)
            feature_pairs.append(features(released, terms))
        for (old, _), (_, new) in zip(feature_pairs, [*feature_pairs[1:], feature_pairs[0]], strict=True):
            _count(counts["control"], old, new, rng)
        homes = len(populations[0])
        return cls(preset, str(terms.hides_wh), homes, homes * len(populations), **counts)

    def interval(self, hits: Mapping[str, int], attacker: str) -> tuple[float, float, float]:
        """Return an attacker's (rate, low, high); the intervals of all attackers hold together (95%)."""
        low, high = clopper_pearson(hits[attacker], self.trials, ALARM / len(ATTACKERS))
        return hits[attacker] / self.trials, float(low), float(high)


def confirm(homes: int, seed: int) -> list[Row]:
    """Attack each preset of `ATTACKED`; everything follows from the seed."""
    populations = [street(homes, seed, number) for number in range(POPULATIONS)]
    return [Row.of(preset, populations, seed) for preset in ATTACKED]


def street(homes: int, seed: int, number: int) -> Floats:
    """Simulate homes before and after the change, as means of half hours in W: (homes, 2 DAYS, 48)."""
    fleet = Fleet(seed, range(number * homes, (number + 1) * homes))
    days = [day.watts.astype(np.float64) for day in fleet.days(0, 2 * DAYS, _STEP_S)]
    return np.stack(days, axis=1)


def stream_of(preset: str) -> config.Stream:
    """Return a stream with the given preset; `tariff` gets the bands of the example tariffs.

    Raises Unusable if the preset is unknown or needs more settings.
    """
    return config.parse(_TARIFF).stream[0] if preset == "tariff" else parsed(preset)


def windows(watts: Floats, terms: Terms) -> Floats:
    """Return the slot values of all windows in W or Wh, rounded to the lattice: (homes, windows, n)."""
    homes = len(watts)
    if isinstance(terms.shape, Bands):
        days = watts.reshape(homes, -1, MONTH_DAYS, len(watts[0, 0]))
        means = np.stack([_band_energies(days[:, month], month) for month in range(days.shape[1])], axis=1)
        means = means[..., [example_tariffs.BANDS.index(band.name) for band in terms.places]]
    elif terms.places:
        hours = terms.length_ms // terms.n // MONTH_DAYS // (1000 * _STEP_S)
        means = watts.reshape(homes, -1, MONTH_DAYS, terms.n, hours).mean(axis=(2, 4))
    else:
        means = watts.reshape(homes, -1, terms.n, terms.step_ms // (1000 * _STEP_S)).mean(axis=3)
    return np.asarray(quanta(means, Fraction(terms.quantum)) * float(terms.quantum))


def _band_energies(watts: Floats, month: int) -> Floats:
    """Return the energies of the example tariffs' bands in a month, in Wh: (homes, bands)."""
    places = [example_tariffs.band_of_slots((month * MONTH_DAYS + day) % 7) for day in range(MONTH_DAYS)]
    inside = np.array(places)[..., np.newaxis] == np.arange(len(example_tariffs.BANDS))
    return np.asarray(np.einsum("hds,dsb->hb", watts, inside) * _STEP_S / 3600)


def _add_noise(true_w: Floats, terms: Terms, seed: int, number: int) -> Floats:
    """Add the mechanism's noise to slot values in W or Wh."""
    key = np.random.SeedSequence([seed, number]).generate_state(4).tobytes()
    bits = SeededBits(int.from_bytes(key, "little"))
    flat = quanta(true_w, Fraction(terms.quantum)).reshape(-1, terms.slots_per_bound)
    noisy_quanta = np.asarray(terms.mechanism.release(flat, bits=bits))
    return np.asarray(noisy_quanta.reshape(true_w.shape) * float(terms.quantum))


def features(values_w: Floats, terms: Terms) -> tuple[Floats, Floats]:
    """Return the features of each home before and after the change: (homes, weeks or months, features)."""
    half = values_w.shape[1] // 2
    return _features(values_w[:, :half], terms, 0), _features(values_w[:, half:], terms, -DAYS % 7)


def _features(values_w: Floats, terms: Terms, monday: int) -> Floats:
    """Return the features of each week from day `monday` on, or of each month if windows exceed a day."""
    homes, count = values_w.shape[:2]
    if terms.length_ms > DAY_MS:
        return values_w
    days = values_w.reshape(homes, DAYS, count // DAYS)[:, monday : monday + 7 * _WEEKS]
    weeks = days.reshape(homes, _WEEKS, 7, count // DAYS)
    if terms.length_ms == DAY_MS:
        return weeks[..., 0]
    hours = weeks.reshape(homes, _WEEKS, 7, 24, -1).mean(axis=4)
    return np.concatenate([hours[:, :, :5].mean(axis=2), hours[:, :, 5:].mean(axis=2)], axis=2)


def _count(hits: dict[str, int], old: Floats, new: Floats, rng: np.random.Generator) -> None:
    """Count the new pseudonyms, presented in random order, that each attacker links correctly."""
    order = rng.permutation(len(new))
    for name, answers in attack(old, new[order]).items():
        hits[name] += int((answers == order).sum())


def attack(old: Floats, new: Floats) -> dict[str, Integers]:
    """Return the index of the old pseudonym that each attacker names for each new one.

    `old` and `new` are features in W or Wh, (homes, weeks or months, features).
    """
    means = old.mean(axis=(1, 2)), new.mean(axis=(1, 2))
    ratios = log_ratios(np.arcsinh(old / _LINEAR_W), np.arcsinh(new / _LINEAR_W))
    return {
        "level": np.abs(means[1][:, np.newaxis] - means[0]).argmin(axis=1),
        "habits": ratios.argmax(axis=1),
        "matching": optimize.linear_sum_assignment(-ratios)[1],
    }


def log_ratios(old: Floats, new: Floats) -> Floats:
    """Return ln(P(new, old | same home) / (P(new) P(old))) of each pair in the model, shape (new, old).

    In a direction u with between-home variance b and within-home variance 1, the means (x, y) of one home
    have the correlation r = b / (b + 1), so the ratio is the density of correlated normal variables divided
    by the density of independent ones.
    """
    odd, even = (part.mean(axis=1) for part in (old[:, 0::2], old[:, 1::2]))
    odd, even = odd - odd.mean(axis=0), even - even.mean(axis=0)
    shared, difference = odd.T @ even / (len(odd) - 1), (odd - even) / 2
    within = difference.T @ difference / (len(odd) - 1)
    within = (1 - _SHRINK) * within + _SHRINK * np.diag(np.diag(within))
    between, directions = linalg.eigh((shared + shared.T) / 2, within)
    significant = between > min(_MIN_BETWEEN, between.max())
    significant |= between == between.max()
    variance = np.maximum(between[significant], 0) + 1
    centre = old.mean(axis=(0, 1))
    x, y = (
        (part.mean(axis=1) - centre) @ directions[:, significant] / np.sqrt(variance) for part in (old, new)
    )
    r = 1 - 1 / variance
    residual = y[:, np.newaxis] - r * x
    terms = y[:, np.newaxis] ** 2 - residual**2 / (1 - r**2) - np.log1p(-(r**2))
    return np.asarray(terms.sum(axis=2) / 2)


def table(rows: Sequence[Row], seed: int) -> str:
    """Format the rows as a Markdown table with a heading."""
    homes = rows[0].homes
    chance = f"linked in % (by chance {100 / homes:.2g}):"
    lines = [
        f"{MONTHS} months under old pseudonyms and {MONTHS} under new ones: which is whose?",
        f"{POPULATIONS} times {homes} simulated homes, seed {seed}; {chance}",
        "",
        f"| preset | hides | {' | '.join(ATTACKERS)} | worst without noise | worst in the control |",
        "|---|---|" + "---|" * (len(ATTACKERS) + 2),
    ]
    for row in rows:
        cells = [_cell(row, row.linked, name) for name in ATTACKERS]
        cells += [_cell(row, hits, max(hits, key=hits.__getitem__)) for hits in (row.raw, row.control)]
        hides = energy_text(Fraction(row.hides_wh))
        lines.append(f"| `{row.preset}` | {hides} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row, hits: Mapping[str, int], attacker: str) -> str:
    rate, low, high = (100 * share for share in row.interval(hits, attacker))
    return f"{rate:.1f} ({low:.1f} to {high:.1f})"
