"""Releases that claim to dither and do not, or wrongly: the audit refuses each, by the check named for it.

ALARM is the chance that an honest one is refused by one run; seeds are fixed, so a run repeats. A dither that
is wrong within a quantum is refused however large the noise is; one that is too large by a part of a quantum,
which is a bias and no leak, where the noise is not much larger than a quantum. (One step too much of 10^12 no
draws can show: `test_dithered` counts.) The test at the end computes from the wrong laws how likely a control
is missed: below MISS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy import Bits, DitheredLaplace, LInfLaplace, SeededBits, SystemBits, below_array
from meteragent.privacy.audit import audit
from meteragent.privacy.conformance import conform
from meteragent.privacy.statistics import binomial_p
from tests.support.mechanism_contract import MetricDrawn

ALARM, MISS, SAMPLES = 1e-9, 1e-6, 6000
STEPS = 8
Integers = NDArray[np.int64]
Dither = Callable[[Integers, Bits], Integers]
"""What is added to windows before floor(./L), from the noise and the bits."""

ROUNDING, BESIDE, FRACTIONS = "dither: rounding up", "dither: beside the noise", "dither: at fractions"


@dataclass(frozen=True)
class Wrong:
    """A release floor((z L + u + S)/L) with another u, and noise of `percent` of the scale."""

    said: DitheredLaplace
    dither: Dither
    percent: int = 100

    def release(self, windows: Any, *, bits: Bits | None = None) -> Integers:
        """Windows with noise."""
        rows, source, said = np.asarray(windows), bits or SystemBits(), self.said
        noise = LInfLaplace(said.epsilon * 100 / self.percent, said.quantum, said.n)
        z = noise.release(np.zeros(rows.shape, int), bits=source)
        return np.asarray(z + (self.dither(z, source) + rows) // STEPS)


def right(z: Integers, bits: Bits) -> Integers:
    """Uniform on {0 .. L-1}."""
    return below_array(STEPS, z.size, bits).reshape(z.shape)


def half_up(z: Integers, _: Bits) -> Integers:
    """L/2 for ever: half-up rounding."""
    return np.full(z.shape, STEPS // 2)


def none(z: Integers, _: Bits) -> Integers:
    """None: rounded down."""
    return np.zeros_like(z)


def small(z: Integers, bits: Bits) -> Integers:
    """In the wrong unit: uniform on a part of a quantum that is finer than the windows."""
    return right(z, bits) // STEPS


def half_of_it(z: Integers, bits: Bits) -> Integers:
    """Uniform on half a quantum."""
    return right(z, bits) // 2


def of_the_noise(z: Integers, bits: Bits) -> Integers:
    """Uniform, but large where the noise is."""
    below = np.sort(right(z, bits), axis=0)
    return np.take_along_axis(below, np.argsort(np.argsort(z, axis=0), axis=0), axis=0)


def on_top(z: Integers, bits: Bits) -> Integers:
    """Half-up rounding kept: half a quantum too much."""
    return right(z, bits) + STEPS // 2


def one_for_all(z: Integers, bits: Bits) -> Integers:
    """One draw for all windows of a batch."""
    return np.full(z.shape, int(below_array(STEPS, 1, bits)[0]))


CONTROLS: dict[str, tuple[Dither, str]] = {
    "half-up": (half_up, ROUNDING),
    "none": (none, ROUNDING),
    "wrong unit": (small, ROUNDING),
    "half of a quantum": (half_of_it, ROUNDING),
    "one for all": (one_for_all, ROUNDING),
    "made from the noise": (of_the_noise, BESIDE),
}


def drawn(a: Fraction, n: int, dither: Dither, percent: int = 100) -> MetricDrawn:
    """What says that it is the dithered mechanism, and draws otherwise."""
    said = DitheredLaplace(a, 1, n, Fraction(1, STEPS))
    return MetricDrawn(said, Wrong(said, dither, percent))


def failed(mechanism: Any, samples: int = SAMPLES) -> set[str]:
    """The checks that the audit fails."""
    found = audit(mechanism, samples=samples, false_alarm=ALARM, bits=SeededBits(21))
    return {check.name for check in found.checks if not check.passed}


@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("a", [Fraction(1, 220), Fraction(1)])
@pytest.mark.parametrize("name", CONTROLS)
def test_a_wrong_dither_is_refused(name: str, a: Fraction, n: int) -> None:
    """However large the noise is, by draws at fractions of a quantum; the suite refuses it too."""
    dither, caught = CONTROLS[name]
    assert caught in failed(drawn(a, n, dither))
    assert not conform(drawn(a, n, dither), tight=False, samples=SAMPLES, bits=SeededBits(22)).conforms


@pytest.mark.parametrize("a", [Fraction(1), Fraction(1, 5)])
def test_half_a_quantum_too_much_is_refused_where_noise_is_small(a: Fraction) -> None:
    """Half-up rounding kept on top of the dither shifts the mean by half a quantum."""
    assert FRACTIONS in failed(drawn(a, 1, on_top), 20_000)


@pytest.mark.parametrize("percent", [90, 110])
@pytest.mark.parametrize("n", [1, 6])
def test_another_scale_is_refused(percent: int, n: int) -> None:
    """Noise of 90 or 110 per cent of the scale, dithered well."""
    assert "law: its scale" in failed(drawn(Fraction(1, 10), n, right, percent), 12_000)


@pytest.mark.parametrize("a", [Fraction(1, 220), Fraction(1, 5), Fraction(1), Fraction(100)])
@pytest.mark.parametrize("n", [1, 6])
def test_the_right_dither_passes(a: Fraction, n: int) -> None:
    """The release by hand, and the library's, pass the audit and the suite, coarse and fine."""
    assert not failed(drawn(a, n, right))
    library = DitheredLaplace(a, 1, n, Fraction(1, STEPS))
    assert not failed(library)
    report = conform(library, tight=False, samples=SAMPLES // 2, false_alarm=ALARM, bits=SeededBits(23))
    assert report.conforms, report.table()


def test_a_law_that_is_not_the_mixture_is_refused() -> None:
    """What says that it dithers, and states the law of half-up rounding, is refused before a draw is made."""

    @dataclass(frozen=True)
    class HalfUp(MetricDrawn):
        def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
            noise: LInfLaplace = self.stated_mechanism.noise
            return noise.log_mass(outputs, (2 * np.asarray(point) + STEPS) // (2 * STEPS))

    assert {"dither: stated law", "density ratio"} <= failed(HalfUp(*vars_of(drawn(Fraction(1), 1, half_up))))


def vars_of(one: MetricDrawn) -> tuple[Any, Any]:
    """What says and what draws."""
    return one.stated_mechanism, one.drawn_mechanism


# How likely a control is missed ---------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "at"), [(0.0, 0.75), (0.5, 0.75), (1.0, 0.5), (0.375, 0.25)])
def test_a_wrong_chance_is_hardly_ever_missed(wrong: float, at: float) -> None:
    """Of 2,000 draws that round up with another chance, the exact test refuses all but MISS.

    Chances are those of no dither, half of it and half-up at the fraction where each is farthest off, and of
    one step more in eight.
    """
    k = np.arange(SAMPLES // 3 + 1)
    refused = 3 * binomial_p(k, SAMPLES // 3, at) <= ALARM / 2 / 13
    missed = stats.binom.pmf(k, SAMPLES // 3, wrong)[~refused].sum()
    assert missed < MISS
    assert stats.binom.pmf(k, SAMPLES // 3, at)[refused].sum() <= ALARM / 2 / 13 / 3
