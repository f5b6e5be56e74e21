"""The errors that `check` states of a month's cost are those of what leaves, on simulated homes.

Windows of the product are drawn, filled with the energy of simulated homes and closed; four example tariffs
price what leaves. False alarms have a chance of 1e-6 each. A scale 10% off is 9 standard errors away, and is
missed with a chance of 1e-5 at most.
"""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent import config
from meteragent.core.noise import Noise
from meteragent.core.window import Window
from meteragent.domain.grid import parse_time
from meteragent.domain.units import MICRO
from meteragent.privacy import SeededBits
from meteragent.report import whole
from meteragent.report.guarantee import TariffErrors
from simulators.homes.fleet import Fleet
from simulators.tariffs import example_tariffs
from tests.support.configurations import written
from tests.support.tariffs import POWER

Floats = NDArray[np.float64]
JUNE_MS = parse_time("2026-06-01T00:00:00Z")
"""The start of a month of 30 days, on a Monday."""
HOMES, WINDOWS = 40, 200
SE = 4.9
"""A normal number is further off than this many standard errors with a chance of 1e-6."""
COARSE = "hide = '1Wh'\nlevel = 2"
"""A lattice whose quantum is wider than the noise: a third of the variance is the dither's."""


def settings(privacy: str) -> config.Config:
    """A configuration of the four example tariffs, with the bands that they price."""
    text = written(
        privacy=f"preset = 'tariff'\n{privacy}", window="timezone = 'UTC'\nrest = 'night'", source=POWER
    )
    for tariff in example_tariffs.TARIFFS:
        prices = ", ".join(f"{band} = {price}" for band, price in tariff.prices.items())
        name = tariff.name
        text += f"[[tariff]]\nname = '{name}'\nprices = {{ {prices} }}\nfee = {tariff.fee}\n"
    return config.parse(text.replace("[[tariff]]", example_tariffs.CONFIGURATION + "[[tariff]]", 1))


@functools.cache
def promised(privacy: str) -> TariffErrors:
    """What `check` states before the run."""
    known = settings(privacy)
    errors = whole.compute_whole_guarantee(known, known.stream[0], ()).tariffs
    assert errors is not None
    return errors


@functools.cache
def energies_mwh() -> NDArray[np.int64]:
    """The energy of each band in a month of simulated homes, in whole mWh: (homes, bands)."""
    total = np.zeros((HOMES, len(example_tariffs.BANDS)))
    for number, day in enumerate(Fleet(5, range(HOMES)).days(0, 30, 1800)):
        places = example_tariffs.band_of_slots(number % 7)
        for band in range(len(example_tariffs.BANDS)):
            total[:, band] += day.watts[:, places == band].sum(axis=1) / 2
    return np.asarray(np.rint(1000 * total), np.int64)


@functools.cache
def errors_eur(privacy: str) -> Floats:
    """The errors of the costs of all tariffs, of what leaves of many months: (months, tariffs)."""
    known = settings(privacy)
    terms = config.schedule(known.stream[0]).terms_at(JUNE_MS)
    noise, places = Noise(SeededBits(17)), [example_tariffs.BANDS.index(band.name) for band in terms.places]
    rows = []
    for home in energies_mwh().tolist():
        for _ in range(WINDOWS):
            window = Window(JUNE_MS, terms, terms.id, (), "m1")
            window.open_first_slot(noise, JUNE_MS)
            row = [0.0] * len(places)
            for slot_index, place in enumerate(places):
                # An accumulator of power counts in uW ms: 1 mWh is 1000 uW over an hour.
                window.slots[slot_index] += home[place] * MICRO // 1000 * 3_600_000
                exact_wh = Fraction(home[place], 1000)
                row[place] = float(window.close_slot(slot_index) * terms.quantum - exact_wh)
            rows.append(row)
    return np.asarray(np.array(rows) @ example_tariffs.prices().T / 1000)


def is_sd(errors: Floats, sd: float, excess: float) -> bool:
    """Whether a sample has this standard deviation; `excess` is that of its law's kurtosis."""
    return abs(float(np.std(errors)) / sd - 1) < SE * math.sqrt((2 + excess) / 4 / len(errors))


def excess_kurtosis(prices: Floats) -> float:
    """The excess kurtosis of a weighted sum of Laplace numbers: 3 sum w^4 / (sum w^2)^2."""
    return float(3 * np.sum(prices**4) / np.sum(prices**2) ** 2)


@pytest.mark.parametrize("privacy", ["", COARSE])
def test_the_error_of_a_month_s_cost_is_that_promised(privacy: str) -> None:
    """Mean 0, the stated standard deviation, and 95% inside, for each tariff; the dither is included."""
    errors = errors_eur(privacy)
    for number, cost in enumerate(promised(privacy).costs):
        assert cost.tariff == example_tariffs.TARIFFS[number].name
        mine = errors[:, number]
        assert abs(float(mine.mean())) < SE * cost.sd / math.sqrt(len(mine))
        assert is_sd(mine, cost.sd, excess_kurtosis(example_tariffs.prices()[number]))
        inside = float(np.mean(np.abs(mine) <= cost.ci95))
        assert inside > 0.95 - SE * math.sqrt(0.95 * 0.05 / len(mine))
        if not privacy:  # at a fine lattice, intervals are no wider than needed
            assert inside < 0.95 + SE * math.sqrt(0.95 * 0.05 / len(mine))


@pytest.mark.parametrize("level", ["'10/11'", "1.1"])
def test_a_scale_ten_per_cent_off_is_rejected(level: str) -> None:
    """What leaves at another level does not have the errors promised for level 1."""
    errors = errors_eur(f"level = {level}")
    for number, cost in enumerate(promised("").costs):
        assert not is_sd(errors[:, number], cost.sd, excess_kurtosis(example_tariffs.prices()[number]))


def test_without_the_dither_a_coarse_lattice_would_not_fit() -> None:
    """The check above sees the dither: without it, the stated error would be rejected."""
    cost = promised(COARSE).costs[0]
    a = 2.0
    noise_alone = math.sqrt(2) * math.exp(-a / 2) / -math.expm1(-a)
    without = cost.sd * noise_alone / math.sqrt(noise_alone**2 + 1 / 6)
    assert not is_sd(errors_eur(COARSE)[:, 0], without, excess_kurtosis(example_tariffs.prices()[0]))


def test_a_recognised_is_recognised() -> None:
    """A difference as large as stated has the right sign and p <= 5% in 95% of months, at a fine lattice.

    Half of it is the quantile of 5%; the released difference is below it in 5% of months.
    """
    errors = errors_eur("")
    names = [tariff.name for tariff in example_tariffs.TARIFFS]
    for pair in promised("").pairs:
        first, second = map(names.index, pair.tariffs)
        difference = errors[:, first] - errors[:, second]
        share = float(np.mean(difference + pair.recognised >= pair.recognised / 2))
        assert abs(share - 0.95) < SE * math.sqrt(0.95 * 0.05 / len(errors))
