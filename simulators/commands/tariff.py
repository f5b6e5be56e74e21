"""Reproduce the theory's figures on tariffs; simulate how often releases identify the cheapest of 4 tariffs.

It first prints the closed forms of THEORY 3.8 and 3.9 next to the published figures, and the ratios of the
errors. It then prints, for simulated homes and (with --data) for real homes, how often releases identify
the cheapest of four example tariffs, the mean loss from wrong choices, how often the sureness is at least
95%, and how often it is at least 95% but the choice is wrong. The tariffs are invented, and the results
depend on the differences between them. The exit code is 1 if a figure or ratio disagrees with the
published one, and 2 if a trace cannot be read.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits
from meteragent.privacy.tail import Term, quantile, tail_probability
from simulators.homes.fleet import Fleet
from simulators.tariffs import example_tariffs, tariff_figures
from simulators.tariffs.example_tariffs import BANDS, TARIFFS
from simulators.tariffs.tariff_figures import DAYS, SLOTS_A_DAY, Figure, Ratio
from simulators.traces.trace import TraceError, load

DIFFERENT, UNUSABLE = 1, 2
REAL_HOMES = ("REFIT_House2", "UKDALE_House2")
SURE = 0.95
_SLOT_MS = 1_800_000
_DAY_MS = SLOTS_A_DAY * _SLOT_MS
_MONDAY_MS = 4 * _DAY_MS
"""The first Monday after the Unix epoch; the epoch was on a Thursday."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Months:
    """The energy in whole Wh and the number of half hours by band, both of shape (months, bands).

    Each row is a month of one home.
    """

    energies_wh: Integers
    slots: Integers

    @classmethod
    def of(cls, watts: Floats, weekday: int) -> "Months":
        """Divide the half hours of homes into bands.

        `watts` has shape (homes, days, 48), and `weekday` is the weekday of day 0: 0 is Monday.
        """
        days = watts.shape[1]
        bands = np.stack([example_tariffs.band_of_slots((weekday + day) % 7) for day in range(days)])
        wh = np.stack([(watts / 2 * (bands == band)).sum(axis=(1, 2)) for band in range(len(BANDS))], axis=1)
        slots = np.bincount(bands.ravel(), minlength=len(BANDS))
        return cls(np.rint(wh).astype(np.int64), np.tile(slots, (len(wh), 1)))

    @property
    def costs_eur(self) -> Floats:
        """The true costs in EUR, shape (months, tariffs)."""
        return costs(self.energies_wh.astype(np.float64))


@dataclass(frozen=True)
class Result:
    """How often a month's release identifies the cheapest of the four tariffs.

    `months` is the number of released months. `right` is the share of months in which the choice is right,
    and `loss_eur` the mean loss per month from wrong choices. `sure` is the share in which the sureness
    (`consume.tariff`) is at least 95%, and `sure_and_wrong` the share in which the choice is wrong
    nevertheless. The last two are None if no sureness was computed.
    """

    homes: str
    released: str
    hidden_wh: int
    months: int
    right: float
    loss_eur: float
    sure: float | None = None
    sure_and_wrong: float | None = None


def costs(energies_wh: Floats) -> Floats:
    """Return costs in EUR, shape (..., tariffs), from energies by band in Wh, shape (..., bands)."""
    fees = np.array([tariff.fee for tariff in TARIFFS])
    return np.asarray(energies_wh @ example_tariffs.prices().T / 1000 + fees)


def simulated(homes: int, seed: int) -> Months:
    """Simulate homes for a 30-day month that begins on a Monday."""
    days = [day.watts for day in Fleet(seed, range(homes)).days(0, DAYS, _SLOT_MS // 1000)]
    return Months.of(np.stack(days, axis=1).astype(np.float64), 0)


def real(folder: Path) -> Iterator[Months]:
    """Yield each complete 30-day month of each real home as `Months` with one row.

    A half hour without readings gets the home's mean power in that half hour of the day. Raises TraceError
    if a trace cannot be read.
    """
    for name in REAL_HOMES:
        trace = load(folder / "homes" / f"{name}.parquet", "Time", "Aggregate")
        first_ms = -(-int(trace.times_ms[0]) // _DAY_MS) * _DAY_MS
        slot = (trace.times_ms - first_ms) // _SLOT_MS
        count = (int(slot[-1]) + 1) // (SLOTS_A_DAY * DAYS) * SLOTS_A_DAY * DAYS
        is_in_month = (slot >= 0) & (slot < count)
        readings = np.bincount(slot[is_in_month], minlength=count)
        sums = np.bincount(slot[is_in_month], trace.watts[is_in_month], count)
        means = np.where(readings, sums / np.maximum(readings, 1), np.nan).reshape(-1, SLOTS_A_DAY)
        means = np.where(np.isnan(means), np.nanmean(means, axis=0), means)
        for month, watts in enumerate(means.reshape(-1, 1, DAYS, SLOTS_A_DAY)):
            weekday = (first_ms + month * DAYS * _DAY_MS - _MONDAY_MS) // _DAY_MS % 7
            yield Months.of(watts, weekday)


def results(name: str, months: Months, draws: int, seed: int) -> Iterator[Result]:
    """Yield a result for each kind of release and hidden energy, from `draws` releases of each month."""
    repeated = Months(np.repeat(months.energies_wh, draws, axis=0), np.repeat(months.slots, draws, axis=0))
    count, bands = repeated.energies_wh.shape
    bits = SeededBits(seed)
    for hidden_wh in (110, 6000):
        noise = _half_hours(repeated.slots, hidden_wh, seed)
        yield _result((name, "half hours", hidden_wh), repeated, repeated.energies_wh + noise)
    for hidden_wh in (110, 1000, 3000, 6000):
        mechanism = DitheredLaplace(Fraction(1, hidden_wh), 1, 1, Fraction(1, 1000))
        rows = mechanism.release(1000 * repeated.energies_wh.reshape(-1, 1), bits=bits)
        released_wh = np.asarray(rows, np.float64).reshape(count, bands)
        yield _result((name, "five bands", hidden_wh), repeated, released_wh, mechanism.noise)
    for hidden_wh in (1000, 3000, 6000):
        shared = LInfLaplace(Fraction(1, hidden_wh), 1, bands)
        released_wh = np.asarray(shared.release(repeated.energies_wh, bits=bits), np.float64)
        yield _result((name, "five bands, one noise bound", hidden_wh), repeated, released_wh)


def _half_hours(slots: Integers, hidden_wh: int, seed: int) -> Floats:
    """Return the sum of the Laplace noise of `slots` half hours, in Wh: a difference of gamma variables."""
    generator = np.random.default_rng(seed)
    noise = generator.gamma(slots, hidden_wh) - generator.gamma(slots, hidden_wh)
    return np.asarray(noise, np.float64)


def _result(
    name: tuple[str, str, int], months: Months, released_wh: Floats, noise: LInfLaplace | None = None
) -> Result:
    true, released = months.costs_eur, costs(released_wh)
    chosen, rows = released.argmin(axis=1), np.arange(len(true))
    loss = true[rows, chosen] - true.min(axis=1)
    right = loss <= 0
    result = Result(*name, len(true), float(right.mean()), float(loss.mean()))
    if noise is None:
        return result
    sure = surenesses(released, chosen, noise) >= SURE
    return replace(result, sure=float(sure.mean()), sure_and_wrong=float((sure & ~right).mean()))


def surenesses(released: Floats, chosen: Integers, noise: LInfLaplace) -> Floats:
    """Return the sureness of each choice as in `compare_tariffs`, with p-values interpolated on a grid."""
    prices, rows = example_tariffs.prices() / 1000, np.arange(len(released))
    differences = released - released[rows, chosen][:, np.newaxis]
    p_values = np.zeros(len(released))
    for first, second in permutations(range(len(TARIFFS)), 2):
        terms = [Term(noise, float(weight)) for weight in prices[second] - prices[first] if weight]
        rows_of_first = np.flatnonzero(chosen == first)
        grid = np.linspace(0, quantile(terms, 1e-9), 600)  # beyond the grid, the tail is at most 1e-9
        tails = [tail_probability(terms, float(x)) for x in grid]
        p_values[rows_of_first] += np.interp(differences[rows_of_first, second], grid, tails)
    return np.maximum(0, 1 - p_values)


# Output -------------------------------------------------------------------------------------------


def table(rows: Sequence[Result]) -> str:
    """Format results in Markdown."""
    lines = [
        "| homes | released | hides, kWh | right, % | loss, EUR a month | 95% sure, % | sure and wrong, % |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in rows:
        sure_cells = [
            "-" if share is None else f"{100 * share:.2f}" for share in (result.sure, result.sure_and_wrong)
        ]
        cells = (
            result.homes,
            result.released,
            f"{result.hidden_wh / 1000:g}",
            f"{100 * result.right:.1f}",
            f"{result.loss_eur:.3f}",
            *sure_cells,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _print_figures() -> bool:
    """Print the closed forms and the ratios; return whether all agree with the published figures."""
    figures, ratios = list(tariff_figures.figures()), list(tariff_figures.ratios())
    print("| figure | computed | published | agrees |\n|---|---|---|---|")
    for figure in figures:
        print(
            f"| {figure.name} | {figure.computed:.4g} | {figure.printed} | {_verdict(agrees=figure.agrees)} |"
        )
    print(
        "\n| a month's bill, hiding 110 Wh | half hours, EUR | own query, EUR | ratio | published | agrees |"
    )
    print("|---|---|---|---|---|---|")
    for ratio in ratios:
        printed = "-" if ratio.printed is None else f"{ratio.printed:g}"
        print(
            f"| {ratio.name} | {ratio.half_hours_eur:.2f} | {ratio.own_eur:.3f} | {ratio.computed:.1f} | "
            f"{printed} | {_verdict(agrees=ratio.agrees)} |"
        )
    return _are_as_published(figures, ratios)


def _are_as_published(figures: Sequence[Figure], ratios: Sequence[Ratio]) -> bool:
    return all(figure.agrees for figure in figures) and all(ratio.agrees for ratio in ratios)


def _verdict(*, agrees: bool) -> str:
    return "yes" if agrees else "NO"


def run(arguments: argparse.Namespace) -> int:
    """Print figures and results, as tables or JSON.

    Return 1 if a figure or ratio disagrees with the published one, 2 if a trace cannot be read, otherwise 0.
    """
    try:
        rows = list(_results(arguments))
    except TraceError as error:
        print(f"tariff: {error}", file=sys.stderr)
        return UNUSABLE
    if arguments.json:
        figures, ratios = list(tariff_figures.figures()), list(tariff_figures.ratios())
        facts = {
            "seed": arguments.seed,
            "figures": [{**figure._asdict(), "agrees": figure.agrees} for figure in figures],
            "ratios": [
                {**ratio._asdict(), "computed": ratio.computed, "agrees": ratio.agrees} for ratio in ratios
            ],
            "results": [asdict(result) for result in rows],
        }
        print(json.dumps(facts, indent=2))
        return 0 if _are_as_published(figures, ratios) else DIFFERENT
    agrees = _print_figures()
    homes = f"{arguments.homes:,} simulated homes, {arguments.draws} draws each, seed {arguments.seed}"
    print(f"\nThe cheapest of four invented tariffs; {homes}:\n")
    print(table(rows))
    if arguments.data is None:
        print("\nReal homes: NOT RUN; --data names the folder of their traces.")
    return 0 if agrees else DIFFERENT


def _results(arguments: argparse.Namespace) -> Iterator[Result]:
    """Yield the results for simulated homes and, with --data, for at least as many releases of real homes."""
    homes, draws, seed = arguments.homes, arguments.draws, arguments.seed
    months = list(real(arguments.data)) if arguments.data is not None else []
    yield from results("simulated", simulated(homes, seed), draws, seed)
    if months:
        energies_wh, slots = (
            np.concatenate([getattr(month, name) for month in months]) for name in ("energies_wh", "slots")
        )
        yield from results("real", Months(energies_wh, slots), math.ceil(draws * homes / len(slots)), seed)
