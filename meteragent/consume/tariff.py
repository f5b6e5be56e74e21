"""The cost of a home's energy under tariffs, with intervals, computed from the energy in each band.

    flat = Tariff("flat", {"day": 0.30, "night": 0.30}, fee=9.5)
    night = Tariff("night", {"day": 0.34, "night": 0.22}, fee=11)
    tariff_cost(home, flat, month_ms)                     # Estimate in EUR
    choice = compare_tariffs(home, [flat, night], month_ms)
    choice.cheapest, choice.sureness                      # 'night', 0.97

A cost is the fees plus the sum of the slot values weighted by their prices. The slot values have independent
noise. The interval of a cost is exact in the sense of `privacy.totals`. The cost of several windows needs the
energy of every band in every window.

Energy whose band is unknown (the band `unknown` of a register) has a known price only if the tariff has a
price for this band. Otherwise the price lies between the lowest and the highest of the tariff's prices, and
the interval covers the intervals for all prices in that range. So it contains the cost with at least the
stated probability, whatever the price is. The value is then the middle of the interval.

How reliable the comparison is
------------------------------
`cheapest` is the tariff with the lowest estimated cost. The p-value of each other tariff assumes that this
tariff costs no more than `cheapest`. For all loads for which that is true, the p-value is an upper bound on
the probability that noise makes the released difference of the two costs at least as large as observed
(THEORY 3.9). `sureness` is 1 minus the sum of the p-values, or 0 if that is negative. The probability that
`cheapest` is wrong and the sureness is nevertheless at least 1 - p is at most p for two tariffs, and at most
(k - 1) p for k tariffs. If another tariff costs the same as `cheapest` at every load, the two cannot be
distinguished, and the sureness is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meteragent.consume.series import Estimate, Floats, Series, parts_of
from meteragent.domain.shapes import Space
from meteragent.domain.tariff import Tariff, price_difference
from meteragent.privacy.accuracy import require_coverage
from meteragent.privacy.tail import Term, tail_probability
from meteragent.privacy.totals import half_width_of_total, sd_of_total


@dataclass(frozen=True)
class TariffChoice:
    """The cost under each tariff by its name, the cheapest tariff, and every other tariff's p-value."""

    costs: Mapping[str, Estimate]
    cheapest: str
    p_values: Mapping[str, float]

    @property
    def sureness(self) -> float:
        """One minus the sum of the p-values, or 0 if that is negative (see the module's docstring)."""
        return max(0.0, 1 - sum(self.p_values.values()))


def tariff_cost(
    series: Series, tariff: Tariff, start_ms: int, end_ms: int | None = None, coverage: float = 0.95
) -> Estimate:
    """Estimate the cost of the energy of all windows from `start_ms` to `end_ms`.

    If `end_ms` is None, only the window that starts at `start_ms` is used. A window of one local month is
    charged one fee. Any other window is charged in proportion to its length, with one fee per 30.4375 days.
    Raises ValueError if there is no such window, or a record is missing; the slots are not energies of bands;
    a band has no price; or coverage is not between 0 and 1.
    """
    return _estimate_cost(_select_windows(series, start_ms, end_ms), tariff, coverage)


def compare_tariffs(
    series: Series,
    tariffs: Sequence[Tariff],
    start_ms: int,
    end_ms: int | None = None,
    coverage: float = 0.95,
) -> TariffChoice:
    """Compare the costs of the same energy under several tariffs.

    The energy is that of all windows from `start_ms` to `end_ms`, as in `tariff_cost`. Raises ValueError if
    there are fewer than two tariffs, or two have the same name or different currencies; or as in
    `tariff_cost`.
    """
    names = [tariff.name for tariff in tariffs]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError("a comparison needs at least two tariffs with different names")
    if len({tariff.currency for tariff in tariffs}) > 1:
        raise ValueError("a comparison needs tariffs in the same currency")
    windows = _select_windows(series, start_ms, end_ms)
    costs = {tariff.name: _estimate_cost(windows, tariff, coverage) for tariff in tariffs}
    cheapest = min(tariffs, key=lambda tariff: costs[tariff.name].value)
    p_values = {
        tariff.name: _p_value(windows, tariff, cheapest) for tariff in tariffs if tariff is not cheapest
    }
    return TariffChoice(costs, cheapest.name, p_values)


def _select_windows(series: Series, start_ms: int, end_ms: int | None) -> Series:
    """Select the windows from `start_ms` to `end_ms`; if that is None, only the window at `start_ms`."""
    if end_ms is None:
        end_ms = int(series.of_window(start_ms).end_ms[-1])
    windows = series.between(start_ms, end_ms)
    for record in windows.records:
        windows.descriptor_of(record).require_kind("energies that a tariff prices", Space.BANDS)
    return windows


def _estimate_cost(windows: Series, tariff: Tariff, coverage: float) -> Estimate:
    """Estimate a cost; the energy of an unknown band may have any price in the tariff's range."""
    require_coverage(coverage)
    prices = np.array([tariff.price_range(record.band or "") for record in windows.records])
    costs = prices * (windows.kwh_per_unit * windows.values)[:, np.newaxis]
    fees = _sum_fees(windows, tariff)
    low, high = float(costs.min(axis=1).sum()) + fees, float(costs.max(axis=1).sum()) + fees
    noisy_windows, weights = _weighted_records(windows, prices)
    parts = list(parts_of(noisy_windows, weights))
    half = half_width_of_total(parts, coverage) if parts else 0.0
    deviation = sd_of_total(parts) if parts else 0.0
    return Estimate((low + high) / 2, deviation, low - half, high + half, coverage, tariff.currency)


def _sum_fees(windows: Series, tariff: Tariff) -> float:
    starts = {record.time_ms: windows.descriptor_of(record) for record in windows.records}
    return sum(
        tariff.fee_for_window(
            terms.length_ms, is_month=terms.calendar_in(terms.timezone or "UTC").unit == "1mo"
        )
        for terms in starts.values()
    )


def _weighted_records(windows: Series, prices: Floats) -> tuple[Series, Floats]:
    """Return the records whose price may differ from 0, and the largest absolute weight of each record.

    `prices`, shape (records, 2), holds the ends of each record's price range. Noise is symmetric, with a
    density that decreases away from 0, so a larger weight widens the distribution of the sum. An interval for
    the largest weight is thus wide enough for each price in the range.
    """
    weights = np.abs(prices).max(axis=1) * windows.kwh_per_unit
    records = tuple(
        record for record, weight in zip(windows.records, weights.tolist(), strict=True) if weight
    )
    return replace(windows, records=records), weights[weights != 0]


def _p_value(windows: Series, tariff: Tariff, cheapest: Tariff) -> float:
    """Return the p-value of `tariff` against `cheapest` (see the module's docstring).

    If a band has no known price, the difference of the prices is only known to lie in a range. The smallest
    difference of the costs and the largest noise in that range are then used.
    """
    prices = np.array([price_difference(tariff, cheapest, record.band or "") for record in windows.records])
    released_difference = (prices * (windows.kwh_per_unit * windows.values)[:, np.newaxis]).min(axis=1).sum()
    difference = float(released_difference) + _sum_fees(windows, tariff) - _sum_fees(windows, cheapest)
    parts = parts_of(*_weighted_records(windows, prices))  # in l1, each slot is a part with one weight
    terms = [Term(part.mechanism, part.weights[0], part.windows, part.rounding) for part in parts]
    is_range = bool((prices[:, 0] != prices[:, 1]).any())
    if not terms or (is_range and difference <= 0):
        return 0.0 if difference > 0 else 1.0
    return tail_probability(terms, difference)
