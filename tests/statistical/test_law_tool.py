"""The tool that tests the law of a running agent: right noise passes, each kind of wrong noise does not."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.privacy import SeededBits, sampling
from simulators.long_run import LongRun
from tests.commands import law

WINDOWS, METERS = 20_000, 200
Integers = NDArray[np.int64]


def right(n: int, remainder: Fraction, seed: int, epsilon: Fraction = law.EPSILON) -> Integers:
    """Return windows as they must leave: noise, and a dither in each slot."""
    z = np.asarray(sampling.windows(n, epsilon, WINDOWS, SeededBits(seed)))
    dither = np.random.default_rng(seed).random((WINDOWS, n)) < float(remainder)
    return z + dither


def least(n: int, remainder: Fraction, windows: Integers) -> float:
    """Return the least p-value of all tests of windows."""
    counts = Counter(map(tuple, windows.tolist()))
    meters = [[tuple(w) for w in meter] for meter in windows.reshape(METERS, -1, n).tolist()]
    return min(one.p for one in law.tests_of(n, remainder, counts, law.pairs(meters)))


@pytest.mark.parametrize("n", law.SLOTS)
@pytest.mark.parametrize("remainder", law.REMAINDERS)
def test_right_noise_passes(n: int, remainder: Fraction) -> None:
    """Exact noise with its dither is rejected by one of the tests with a chance of ALARM."""
    assert least(n, remainder, right(n, remainder, 10 + n)) > law.ALARM


def shifted(windows: Integers) -> Integers:
    """No dither: what should be 1 in a quarter of all slots is 0 in all."""
    return windows - (np.random.default_rng(1).random(windows.shape) < 0.25)


def repeated(windows: Integers) -> Integers:
    """One window in ten of a meter is the one before it again."""
    again = windows.copy()
    again[1::10] = again[0::10]
    return again


def clipped(windows: Integers) -> Integers:
    """The noise never exceeds five of its scale."""
    return np.clip(windows, -5 * law.RADIUS, 5 * law.RADIUS)


def signed(windows: Integers) -> Integers:
    """Three of twenty that are negative have lost their sign."""
    lost = np.random.default_rng(2).random(windows.shape) < 0.15
    return np.where(lost, np.abs(windows), windows)


@pytest.mark.parametrize("n", law.SLOTS)
@pytest.mark.parametrize("wrong", [shifted, repeated, clipped, signed])
def test_wrong_noise_is_found(n: int, wrong: Callable[[Integers], Integers]) -> None:
    """A dither that is missing, windows that come again, noise that is cut off or lost its sign are found."""
    threshold = law.ALARM / 16
    assert least(n, Fraction(1, 4), wrong(right(n, Fraction(1, 4), 20 + n))) < threshold


@pytest.mark.parametrize("n", law.SLOTS)
@pytest.mark.parametrize("percent", [90, 110])
def test_another_scale_is_found(n: int, percent: int) -> None:
    """Noise a tenth too small or too large is found in 20,000 windows."""
    wrong = right(n, Fraction(0), 30 + n, law.EPSILON * Fraction(100, percent))
    assert least(n, Fraction(0), wrong) < law.ALARM / 16


def test_the_slots_of_a_window_share_their_radius() -> None:
    """The joint law detects slots that are each correct but independent of each other."""
    windows = right(2, Fraction(0), 40)
    windows[:, 1] = right(2, Fraction(0), 41)[:, 1]
    assert least(2, Fraction(0), windows) < law.ALARM / 16


@pytest.mark.parametrize("f", law.REMAINDERS)
def test_the_law_is_that_of_the_definition(f: Fraction) -> None:
    """P(w) is the sum over dithers d of P(d) e^(-epsilon max|w - d|) / Z, and all of it is 1."""
    found, epsilon = law.law(2, f), float(law.EPSILON)
    z = sum((4 * r * 2 if r else 1) * np.exp(-epsilon * r) for r in range(law.TOP + 1))
    chance = {0: 1 - float(f), 1: float(f)}
    for w in [(0, 0), (1, 0), (-3, 5), (17, 17)]:
        exact = sum(
            chance[d] * chance[e] * np.exp(-epsilon * max(abs(w[0] - d), abs(w[1] - e))) / z
            for d in (0, 1)
            for e in (0, 1)
        )
        assert found[w[0] + law.TOP, w[1] + law.TOP] == pytest.approx(exact, rel=1e-9)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_parts_are_judged_together(capsys: pytest.CaptureFixture[str]) -> None:
    """The totals are of all parts of the log, and a test below its threshold is a failure."""
    for percent, passes in ((100, True), (92, False)):
        with LongRun(None, "law", ()) as log:
            for seed in range(4):
                groups = {}
                for n in law.SLOTS:
                    for at, remainder in enumerate(law.REMAINDERS):
                        epsilon = law.EPSILON * Fraction(100, percent)
                        windows = right(n, remainder, 8 * seed + 4 * n + at, epsilon)[:8000]
                        counts = Counter(map(tuple, windows.tolist()))
                        values = [[*window, count] for window, count in counts.items()]
                        groups[f"{n} {at}"] = {"windows": 8000, "counts": values, "pairs": law.pairs([])}
                log.append({"groups": groups})
            assert law.totals(log) == passes
        told = capsys.readouterr().out
        assert "n = 2, f = 1/4: 32000 windows" in told
        assert ("FAILED" in told) != passes
