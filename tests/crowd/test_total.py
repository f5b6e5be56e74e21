"""The published total: its error, its record and its descriptor."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import signal, stats

from meteragent.crowd.error import crowd_half_width, crowd_sd
from meteragent.crowd.total import ASSUMES, TotalFormat
from meteragent.privacy.mechanism.laplace import LInfLaplace
from tests.support.crowd import SLOT_S, make_group


def exact_coverage(a: float, homes: int, half: float, fraction: float) -> float:
    """Return P(|z + z' + sum of (B - f)| <= half), in quanta, by convolution."""
    reach = math.ceil(45 / a)
    k = np.arange(-reach, reach + 1)
    draw = np.tanh(a / 2) * np.exp(-a * np.abs(k))
    draws = signal.fftconvolve(draw, draw)
    ones = stats.binom.pmf(np.arange(homes + 1), homes, fraction)
    law = signal.fftconvolve(draws, ones)
    errors = np.arange(law.size) - 2 * reach - homes * fraction
    return float(law[np.abs(errors) <= half + 1e-9].sum())


@pytest.mark.parametrize("a", ["1/220", "1/20", "1/4", "1", "2", "4", "16"])
@pytest.mark.parametrize("homes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9])
def test_the_interval_covers_for_every_load(a: str, homes: int, fraction: float) -> None:
    """The half width covers at least 95% for loads on, between and beside lattice points."""
    noise = LInfLaplace(a, 1, 1)
    assert exact_coverage(float(noise.a), homes, crowd_half_width(noise, homes), fraction) >= 0.95


@pytest.mark.parametrize(("a", "homes"), [("1/220", 2), ("1/220", 1000), ("1/20", 10)])
def test_the_interval_is_not_wider_than_needed(a: str, homes: int) -> None:
    """Where noise dominates, the worst load is covered by at most 95.5%."""
    noise = LInfLaplace(a, 1, 1)
    assert exact_coverage(float(noise.a), homes, crowd_half_width(noise, homes), 0.5) <= 0.955


@pytest.mark.parametrize("a", ["1/220", "1", "8"])
def test_the_deviation_is_that_of_two_draws_and_the_dithers(a: str) -> None:
    """Var z by its sum, and 1/6 for each home."""
    noise = LInfLaplace(a, "0.5", 1)
    k = np.arange(-20_000, 20_001)
    variance = float(np.sum(np.tanh(float(noise.a) / 2) * np.exp(-float(noise.a) * np.abs(k)) * k**2.0))
    assert crowd_sd(noise, 12) == pytest.approx(0.5 * math.sqrt(2 * variance + 2), rel=1e-9)


def test_a_record_is_exact() -> None:
    """The value is a decimal, never rounded."""
    format_ = TotalFormat(make_group())
    record = format_.encode_record(SLOT_S, -(2**60) - 1, 10)
    assert f'"value":-{2**59}.5,'.encode() in record
    fields = json.loads(record)
    assert fields["d"] == format_.descriptor_id
    assert list(fields) == ["v", "group", "t", "for", "homes", "value", "unit", "sd", "ci95", "d"]


def test_the_descriptor_states_what_it_assumes() -> None:
    """The promise is computational, and void if both operators collude."""
    facts = json.loads(TotalFormat(make_group()).encode_descriptor())
    assert facts["mechanism"] == "two-operator-laplace"
    assert facts["assumes"] == list(ASSUMES)
    assert "without noise" in facts["if_both_collude"]
    assert Fraction(facts["epsilon"]) * Fraction(facts["hides_wh"]) == Fraction(facts["level"])


def test_plausibility_allows_for_the_noise() -> None:
    """The limits are those of the homes' range and 16/a + 2 quanta, with 1/a = 220."""
    format_ = TotalFormat(make_group())
    edge = 10 * 20_000 + 3522
    assert format_.is_plausible(edge, 10)
    assert not format_.is_plausible(edge + 1, 10)
    assert format_.is_plausible(-10 * 10_000 - 3522, 10)
    assert not format_.is_plausible(-10 * 10_000 - 3523, 10)


def test_plausibility_of_large_sums_is_exact() -> None:
    """Floats near 2^60 are 128 apart, so that one quantum of noise would make an honest total implausible."""
    homes, highest = 2**20 - 1, 2**40 - 64
    format_ = TotalFormat(
        make_group(quantum_wh="1", level="2", hide_wh="1", lowest_wh=str(-highest), highest_wh=str(highest))
    )
    for side in (-1, 1):
        assert all(format_.is_plausible(side * (homes * highest + quanta), homes) for quanta in range(11))
        assert not format_.is_plausible(side * (homes * highest + 11), homes)


def margin(a: Fraction) -> int:
    """Return the largest number of quanta beyond the range that is plausible, by bisection."""
    group = make_group(quantum_wh="1", hide_wh="1", level="1")
    format_ = TotalFormat(group)
    format_.noise = LInfLaplace(a, 1, 1)
    low, high = 0, 1 << 42
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if format_.is_plausible(10 * 10_000 + middle, 10) else (low, middle)
    return low


def beyond(a: float, k: int) -> float:
    """Return P(z + z' >= k) for k > 0, in closed form."""
    ratio, complement = math.exp(-a), -math.expm1(-a)
    tail = ratio**k / complement * (k + ratio / complement + 1 / math.tanh(a))
    return math.tanh(a / 2) ** 2 * tail


def worst_chance(margin_of: Callable[[Fraction], int]) -> float:
    """Return the largest chance that a total of homes at one end of the range is implausible, over a."""
    grid = np.concatenate([np.geomspace(2.0**-36, 16, 400), np.linspace(0.5, 16, 1551), [5.553]])
    return max(beyond(float(a), margin_of(Fraction(float(a))) + 1) for a in grid)


def test_an_honest_total_is_hardly_ever_implausible() -> None:
    """Below 10^-6 at each end of the range, for every a that a group can have."""
    assert worst_chance(margin) < 1e-6


def test_8_deviations_would_refuse_honest_totals() -> None:
    """At a = 5.553 they are just below one quantum; two draws have a deviation of 1 / sinh(a / 2) quanta."""
    assert worst_chance(lambda a: math.floor(8 / math.sinh(float(a) / 2))) > 1e-3
