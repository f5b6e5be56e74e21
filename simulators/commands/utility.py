"""Measure the utility of private numbers: their errors, promised and measured, on simulated homes.

The rows are one number, a day and a month of one home; the mean of a feeder's homes in a slot; and the
largest such mean of a day, as `meteragent.consume.peak` estimates it and as the private means show it. Homes
are simulated as in `generate`, with a preset's noise. The exit code is 2 if the preset, the number of homes
or days, or the plot file cannot be used.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from meteragent import config
from meteragent.consume import Descriptor, Record, Series, peak
from meteragent.domain.grid import format_duration
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits
from meteragent.privacy.totals import Part, half_width_of_total
from meteragent.wire.descriptor import TermsDescriptor, describe_terms
from simulators.adversary import hidden
from simulators.adversary.library import quanta
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Integers
from simulators.extras import lacking
from simulators.homes.fleet import Fleet
from simulators.utility.row import COVERAGE, MONTH_DAYS, Row

UNUSABLE = 2
FEEDERS = (1, 10, 100, 1000)
PEAK_DAYS, PEAKS = 7, 100
"""Peaks are estimated for at most `PEAK_DAYS` days and at most `PEAKS` feeders of each size, because each
estimate takes a while."""


def dithered(noise: LInfLaplace) -> DitheredLaplace:
    """Return the mechanism as an agent runs it, for windows in thousandths of a quantum."""
    return DitheredLaplace(noise.epsilon, noise.quantum, noise.n, noise.quantum / 1000)


@dataclass(frozen=True, eq=False)
class Street:
    """Homes and their releases: slot means in W and released quanta, both of shape (homes, days, slots)."""

    described: TermsDescriptor
    true_w: Floats
    released: Integers

    @classmethod
    def of(cls, preset: str, homes: int, days: int, seed: int) -> Self:
        """Simulate homes under a preset.

        Raises Unusable in the same cases as `hidden.stream_of`.
        """
        described = describe_terms(config.terms(hidden.stream_of(preset)))
        noise, bits = dithered(described.terms.mechanism), SeededBits(seed)
        fleet = Fleet(seed, range(homes))
        true_w, released = [], []
        for day in fleet.days(0, days, described.terms.step_ms // 1000):
            watts = day.watts.astype(np.float64)
            windows = quanta(watts, noise.step).reshape(homes, -1, noise.n)
            true_w.append(watts)
            released.append(noise.release(windows, bits=bits).reshape(homes, -1))
        return cls(described, np.stack(true_w, axis=1), np.stack(released, axis=1))

    @property
    def private_w(self) -> Floats:
        """The released numbers in W."""
        return np.asarray(self.released * float(self.described.terms.mechanism.quantum))

    def promised(self, homes: int, days: int | None) -> float:
        """Return the promised 95% half-width of the mean over `homes` homes.

        If `days` is None, it is for a slot, in W; otherwise it is for the energy of `days` days, in kWh.
        """
        noise, terms = self.described.terms.mechanism, self.described.terms
        if days is None:
            return half_width_of_total([Part(noise, 1, homes, 1 / homes, terms.rounding)], COVERAGE)
        windows = homes * days * DAY_MS // terms.length_ms
        part = Part(noise, noise.n, windows, self.kwh / homes, terms.rounding)
        return half_width_of_total([part], COVERAGE)

    @property
    def kwh(self) -> float:
        """The energy of 1 W over a slot, in kWh."""
        return self.described.terms.step_ms / HOUR_MS / 1000

    @cached_property
    def descriptor(self) -> Descriptor:
        """The descriptor of all numbers."""
        return Descriptor.parse(self.described.encode_message("home", 0))

    def series(self, home: int, day: int) -> Series:
        """Return a home's day as a receiver gets it; day 0 begins at the Unix epoch."""
        step_ms, quantum, terms = self.descriptor.step_ms, self.descriptor.mechanism.quantum, self.descriptor
        deviation = float(terms.facts["sd"])
        records = (
            Record(f"home-{home}", start_ms, step_ms, value * quantum, terms.unit, deviation, terms.id)
            for start_ms, value in zip(
                range(day * DAY_MS, (day + 1) * DAY_MS, step_ms),
                self.released[home, day].tolist(),
                strict=True,
            )
        )
        return Series.of(records, {terms.id: terms})


def report(street: Street) -> Iterator[Row]:
    """Yield all rows, for feeders no larger than the number of homes, and for complete months."""
    homes, days, _ = street.true_w.shape
    slot = format_duration(street.described.terms.step_ms)
    yield from _one_home(street, slot)
    sizes = [size for size in FEEDERS if size <= homes]
    true, errors = street.true_w, street.private_w - street.true_w
    for size in sizes:
        feeders = _means(true, size), _means(errors, size)
        yield Row.of(f"feeder, {slot}", size, "W", *feeders, street.promised(size, None))
    received = [[street.series(home, day) for home in range(homes)] for day in range(min(days, PEAK_DAYS))]
    for size in sizes:
        yield from _peaks(street, received, size, slot)


def _one_home(street: Street, slot: str) -> Iterator[Row]:
    """Yield the rows of one home: a number, a day, and a month."""
    true, errors = street.true_w, street.private_w - street.true_w
    yield Row.of(f"a home, {slot}", 1, "W", true, errors, street.promised(1, None))
    for period, days in (("day", 1), ("month", MONTH_DAYS)):
        if count := true.shape[1] // days:
            energies = _sums(true, days, count) * street.kwh, _sums(errors, days, count) * street.kwh
            yield Row.of(f"a home, {period}", 1, "kWh", *energies, street.promised(1, days))


def _sums(watts: Floats, days: int, count: int) -> Floats:
    """Return the sums over `count` stretches of `days` days, shape (homes, count)."""
    return np.asarray(watts[:, : count * days].reshape(len(watts), count, -1).sum(axis=2))


def _means(watts: Floats, size: int) -> Floats:
    """Return the means of disjoint feeders of `size` homes each, shape (feeders, days, slots)."""
    feeders = len(watts) // size
    return np.asarray(watts[: feeders * size].reshape(feeders, size, *watts.shape[1:]).mean(axis=1))


def _peaks(street: Street, received: Sequence[Sequence[Series]], size: int, slot: str) -> Iterator[Row]:
    """Yield a row for the estimated peaks and, for comparison, a row for the largest private means."""
    true = _means(street.true_w, size).max(axis=2)[:PEAKS, : len(received)]
    peaks = [
        [
            peak(homes[feeder * size : (feeder + 1) * size], day * DAY_MS, (day + 1) * DAY_MS, COVERAGE)
            for day, homes in enumerate(received)
        ]
        for feeder in range(len(true))
    ]

    def figure(name: str) -> Floats:
        """Return the named figure of each estimate, shape (feeders, days)."""
        return np.array([[getattr(estimate, name) for estimate in feeder] for feeder in peaks])

    low, high = figure("low"), figure("high")
    errors, raw = figure("value") - true, figure("highest") - true
    half = float((high - low).mean() / 2)
    coverage = float(np.mean((low <= true) & (true <= high)))
    yield replace(Row.of(f"peak, {slot}", size, "W", true, errors, half), held=coverage)
    yield replace(Row.of(f"largest mean, {slot}", size, "W", true, raw, half), promised=None, held=None)


def table(rows: Sequence[Row]) -> str:
    """Format the rows in Markdown: the bounds on 95% of the errors, also in percent of the use."""
    lines = [
        "| what | homes | promised ± | measured ± | of use | truth inside | bias | numbers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        promised = "-" if row.promised is None else f"{row.promised:,.3g} {row.unit}"
        inside = "-" if row.held is None else f"{100 * row.held:.1f}%"
        lines.append(
            f"| {row.quantity} | {row.homes:,} | {promised} | {row.measured:,.3g} {row.unit} | "
            f"{100 * row.measured / row.use:.2g}% | {inside} | {row.bias:+.2g} {row.unit} | {row.count:,} |"
        )
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    """Print a table or JSON, and draw the rows if the arguments name a plot; return the exit code."""
    preset, homes, days, seed = arguments.preset, arguments.homes, arguments.days, arguments.seed
    try:
        rows = list(report(Street.of(preset, homes, days, seed)))
        if arguments.plot is not None:
            _draw(rows, f"Preset {preset}, homes: {homes:,}, days: {days}", arguments.plot)
    except (Unusable, OSError) as error:
        print(f"utility: {error}", file=sys.stderr)
        return UNUSABLE
    setting = {"preset": preset, "homes": homes, "days": days, "seed": seed}
    if arguments.json:
        print(
            json.dumps({**setting, "coverage": COVERAGE, "rows": [row.figures() for row in rows]}, indent=2)
        )
    else:
        print(f"Preset {preset}, simulated homes: {homes:,}, days: {days}, seed {seed}.")
        print("Bounds on 95% of the errors:\n")
        print(table(rows))
    return 0


def _draw(rows: Sequence[Row], title: str, path: Path) -> None:
    try:
        from simulators.utility.picture import draw  # noqa: PLC0415 (it needs matplotlib)
    except ModuleNotFoundError as error:
        raise Unusable(f"a plot: {lacking(error, 'analysis')}") from None
    try:
        draw(rows, title, path)
    except ValueError as error:
        raise Unusable(str(error)) from None
