"""The errors of tariff costs and comparisons, computed before anything is released (law 8).

The noise of a cost is the sum of the bands' independent noises, each times the band's price. Energy whose
band is unknown has the tariff's largest price if the tariff states no other (`consume.tariff`). The errors do
not include the uncertainty about this price, because the amount of such energy is not known in advance.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

from meteragent import config
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.tariff import Tariff, price_difference
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNIT_FACTOR
from meteragent.privacy.tail import Term, quantile
from meteragent.privacy.totals import Weighted, half_width_of_total, sd_of_total
from meteragent.report.format import amount_text
from meteragent.report.guarantee import Guarantee, TariffCost, TariffErrors, TariffPair
from meteragent.report.language import say
from meteragent.report.wording import with_half_width
from meteragent.wire.number import shorten

P_VALUE_MAX = 0.05
"""The largest p-value of a recognised difference, and the chance that the stated difference is missed."""


def tariff_errors(stream: config.Stream, terms: Terms, tariffs: Sequence[Tariff]) -> TariffErrors | None:
    """Return the errors of the costs in an ordinary month of a stream; None if there are no tariffs."""
    if not tariffs:
        return None
    month = config.ordinary_month(stream)
    is_priced = all(UNKNOWN_BAND in tariff.prices for tariff in tariffs)
    has_unknown = UNKNOWN_BAND in month.counts and not is_priced
    return TariffErrors(
        tariffs[0].currency,
        month.windows,
        has_unknown,
        tuple(_cost_error(tariff, terms, month) for tariff in tariffs),
        tuple(_tariff_pair(tariff, second, terms, month) for tariff, second in combinations(tariffs, 2)),
    )


def _cost_error(tariff: Tariff, terms: Terms, month: config.MonthWindows) -> TariffCost:
    weights = _weighted_counts(tariff.price_range, terms, month)
    parts = [Weighted(terms.mechanism, (weight,), windows, terms.rounding) for weight, windows in weights]
    if not parts:
        return TariffCost(tariff.name, 0.0, 0.0)
    return TariffCost(tariff.name, shorten(sd_of_total(parts)), shorten(half_width_of_total(parts)))


def _tariff_pair(tariff: Tariff, second: Tariff, terms: Terms, month: config.MonthWindows) -> TariffPair:
    """Return the recognised difference: twice a quantile of the noise, for its p-value and for a miss."""
    weights = _weighted_counts(partial(price_difference, tariff, second), terms, month)
    noise = [Term(terms.mechanism, weight, windows, terms.rounding) for weight, windows in weights]
    recognised = 2 * quantile(noise, P_VALUE_MAX) if noise else 0.0
    return TariffPair((tariff.name, second.name), shorten(recognised))


def _weighted_counts(
    prices: Callable[[str], tuple[float, float]], terms: Terms, month: config.MonthWindows
) -> Iterator[tuple[float, int]]:
    """Yield (largest absolute price, number of windows) for each band whose price is not 0."""
    kwh = UNIT_FACTOR[terms.value_unit] / 1000
    for band, windows in month.counts.items():
        weight = max(map(abs, prices(band))) * kwh
        if weight:
            yield weight, windows


# Text ---------------------------------------------------------------------------------------------


def tariff_lines(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return labels and sizes: each tariff's error in a month, and each pair's recognised difference."""
    errors = guarantee.tariffs
    if errors is None:
        return []
    rows = []
    for cost in errors.costs:
        sizes = (amount_text(size, errors.currency) for size in (cost.sd, cost.ci95))
        rows.append((say("tariff.cost", tariff=cost.tariff), with_half_width(*sizes)))
    for (first, second), recognised in errors.pairs:
        text = say("tariff.recognised", difference=amount_text(recognised, errors.currency))
        rows.append((say("tariff.pair", one=first, other=second), text))
    return rows


def tariff_notes(guarantee: Guarantee) -> list[str]:
    """Explain the month, the word "distinguishable", and the effect of energy in an unknown band, if any."""
    errors = guarantee.tariffs
    if errors is None:
        return []
    notes = [say({1: "tariff.month", 4: "tariff.weeks"}.get(errors.windows, "tariff.days"))]
    if errors.pairs:
        notes.append(say("tariff.means", percent=round(100 * (1 - P_VALUE_MAX))))
    return [*notes, say("tariff.unknown")] if errors.has_unknown else notes
