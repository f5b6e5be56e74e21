"""What `check` says an attacker can at most achieve, no attacker beats (meteragent.privacy.inference).

"The optimal test" is computed here from the densities themselves, outcome by outcome; the simulated
attackers see windows drawn by the mechanism. Of m right-or-wrong answers the rate is above its chance by
3/sqrt(m) with a probability below e^-18 = 2e-8 (Hoeffding), which is the false alarm; seeds are fixed.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy import LInfLaplace, SeededBits, discrete_laplace
from meteragent.privacy.inference import success_bound

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def laplace(a: Fraction | float, n: int = 1) -> LInfLaplace:
    """A mechanism with quantum 1."""
    return LInfLaplace(Fraction(a), Fraction(1), n)


def best_test(one: Floats, other: Floats, times: int) -> float:
    """The chance of the optimal test to be right: every outcome goes to the law that makes it likelier."""
    p, q = np.ones(1), np.ones(1)
    for _ in range(times):
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return float(np.maximum(p, q).sum() / 2)


def pair(a: float, k: int, reach: int) -> tuple[Floats, Floats]:
    """Discrete Laplace at 0 and at k, outcome by outcome on -reach .. k + reach."""
    z = np.arange(-reach, k + reach + 1)
    return math.tanh(a / 2) * np.exp(-a * np.abs(z)), math.tanh(a / 2) * np.exp(-a * np.abs(z - k))


def merged(a: float, ks: list[int]) -> float:
    """The optimal test on a product of pairs: what is at most 0, or at least k, tells the same."""
    loss, mass = 0.0, np.ones(1)
    for k in ks:
        z = np.arange(k + 1)
        outcomes = math.tanh(a / 2) * np.exp(-a * z)
        outcomes[0], outcomes[-1] = 1 / (1 + math.exp(-a)), math.exp(-a * k) / (1 + math.exp(-a))
        loss, mass = loss + a * k, np.convolve(mass, outcomes)
    losses = loss - 2 * a * np.arange(mass.size)
    return float(1 + mass @ -np.expm1(-np.maximum(losses, 0))) / 2


# Against enumeration ------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("a", [Fraction(1), Fraction(5, 2)])
def test_one_slot_s_optimal_test_attains_the_bound(a: Fraction, k: int, times: int) -> None:
    """For n = 1 the bound is the optimal test's chance, and not below it, outcome by outcome."""
    best = best_test(*pair(float(a), k, reach=math.ceil(24 / a)), times)
    bound = success_bound(laplace(a), [Fraction(k)], times)
    assert best <= bound + 1e-12
    assert bound == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("k", range(1, 7))
def test_four_windows_are_enumerated_too(k: int) -> None:
    """The same for four windows, over the 7^4 outcomes at most that tell anything."""
    a = 0.5
    below, above = 1 / (1 + math.exp(-a)), math.exp(-a * k) / (1 + math.exp(-a))
    one = np.array([below, *(math.tanh(a / 2) * math.exp(-a * z) for z in range(1, k)), above])
    bound = success_bound(laplace(Fraction(1, 2)), [Fraction(k)], 4)
    assert bound == pytest.approx(best_test(one, one[::-1], 4), abs=1e-9)


def box(a: float, shift: tuple[int, int], reach: int) -> tuple[Floats, Floats]:
    """The l_inf law of two slots at 0 and at `shift`, on a box that holds all but e^-20 or so of both."""
    u, v = np.meshgrid(*(np.arange(-reach, reach + 1),) * 2)
    one = np.exp(-a * np.maximum(np.abs(u), np.abs(v)))
    other = np.exp(-a * np.maximum(np.abs(u - shift[0]), np.abs(v - shift[1])))
    return (one / one.sum()).ravel(), (other / one.sum()).ravel()


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("times", [1, 2])
def test_no_shift_of_a_window_of_two_beats_the_bound(k: int, times: int) -> None:
    """For n = 2, in no direction at d_inf = k is the optimal test better; at even k, once, one attains it."""
    bound = success_bound(laplace(Fraction(3, 2), 2), [Fraction(k)], times)
    shifts = [(u, v) for u, v in itertools.product(range(-k, k + 1), repeat=2) if max(abs(u), abs(v)) == k]
    best = max(best_test(*box(1.5, shift, reach=12 + k), times) for shift in shifts)
    assert best <= bound + 1e-7
    if k % 2 == 0 and times == 1:
        assert best == pytest.approx(bound, abs=1e-7)


@pytest.mark.parametrize(
    ("radius", "distances", "times"),
    [
        (220, [220], 1),
        (220, [220], 14),
        (220, [57, 100, 3], 10),
        (600, [100], 30),
        (220, [12] * 336, 3),
        (7, [1, 2, 3, 4, 5], 2),
    ],
)
def test_presets_agree_with_the_convolution_of_losses(radius: int, distances: list[int], times: int) -> None:
    """An event of several windows, on several days, is as visible as the law of its summed losses says."""
    bound = success_bound(laplace(Fraction(1, radius)), [Fraction(d) for d in distances], times)
    exact = merged(1 / radius, distances * times)
    assert exact - 1e-11 <= bound <= exact + 1e-8


# Against THEORY -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "errors"),
    [("0.1", 0.951229), ("0.5", 0.778801), ("1", 0.606531), ("2", 0.367879), ("4", 0.135335)],
)
@pytest.mark.parametrize("k", [9_999, 10_000])
def test_on_a_fine_lattice_the_errors_are_theory_7_s(loss: str, errors: float, k: int) -> None:
    """As eps q -> 0 the two error probabilities of the best test sum to e^(-eps d/2)."""
    bound = success_bound(laplace(Fraction(loss) / k), [Fraction(k)])
    assert 2 * (1 - bound) == pytest.approx(errors, abs=1e-6)


def test_one_quantum_is_a_randomised_response() -> None:
    """At one quantum and a = 1 the bound is e/(1+e) = 0.731, which 1 - e^(-1/2)/2 = 0.697 would deny."""
    assert success_bound(laplace(1), [Fraction(1)]) == pytest.approx(math.e / (1 + math.e))
    assert success_bound(laplace(1), [Fraction(1)]) > 1 - math.exp(-0.5) / 2 + 0.03


def test_a_distance_between_quanta_counts_as_the_next() -> None:
    """Rounding makes of a distance d at most ceil(d/q) quanta, and that is what the bound takes."""
    mechanism = LInfLaplace(Fraction(1, 3), Fraction(1, 2), 4)
    bounds = [success_bound(mechanism, [Fraction(d)], 2) for d in ("1.1", "1.5", "1.51", "2")]
    assert bounds[0] == bounds[1] < bounds[2] == bounds[3]


def test_what_does_not_differ_cannot_be_told() -> None:
    """Equal shapes are a coin toss, and windows in which nothing differs add nothing."""
    mechanism = laplace(Fraction(1, 220))
    assert success_bound(mechanism, [], 30) == 0.5
    assert success_bound(mechanism, [Fraction(0)] * 5, 30) == 0.5
    event = [Fraction(220), Fraction(40)]
    assert success_bound(mechanism, [*event, Fraction(0)], 7) == success_bound(mechanism, event, 7)


def test_a_bound_is_never_above_one() -> None:
    """Negligible noise, huge distances and many windows are a certainty, not an error."""
    for a in (Fraction(1, 10**6), Fraction(1), Fraction(10**6)):
        assert success_bound(laplace(a), [Fraction(10**12)] * 300, 30) == 1.0


# Properties ---------------------------------------------------------------------------------------

LEVELS = st.fractions(min_value=Fraction(1, 5000), max_value=5, max_denominator=5000)
EVENTS = st.lists(st.integers(0, 400).map(Fraction), min_size=1, max_size=4)
SLACK = 2e-9  # what a bound may be above the pairs' own value


@given(a=LEVELS, event=EVENTS, times=st.integers(1, 40), more=st.integers(0, 60), place=st.integers(0, 3))
def test_a_bound_grows_with_everything(
    a: Fraction, event: list[Fraction], times: int, more: int, place: int
) -> None:
    """More distance in any window, one window more, one day more, or more epsilon: never a smaller bound."""
    mechanism = laplace(a)
    bound = success_bound(mechanism, event, times)
    farther = [d + more * (index == place) for index, d in enumerate(event)]
    assert 0.5 <= bound <= 1
    assert success_bound(mechanism, farther, times) >= bound - SLACK
    assert success_bound(mechanism, [*event, Fraction(more)], times) >= bound - SLACK
    assert success_bound(mechanism, event, times + 1) >= bound - SLACK
    if a >= Fraction(15, 10_000):
        assert success_bound(laplace(a * (1 + Fraction(more, 60))), event, times) >= bound - SLACK


@given(a=LEVELS, event=EVENTS, times=st.integers(1, 20))
def test_a_bound_is_between_the_truth_and_the_simple_bounds(
    a: Fraction, event: list[Fraction], times: int
) -> None:
    """Not below the pairs' own value on this lattice; not above plain eps-DP's 1/(1 + e^-loss)."""
    bound = success_bound(laplace(a), event, times)
    assert bound <= 1 / (1 + math.exp(-float(a * sum(event) * times))) + 1e-12
    assert bound >= merged(float(a), [int(d) for d in event] * times) - 1e-11


@given(a=LEVELS, event=EVENTS, times=st.integers(1, 40))
def test_the_order_of_windows_does_not_matter(a: Fraction, event: list[Fraction], times: int) -> None:
    """An event's windows in any order, and two days or one of twice the windows, are bounded alike."""
    mechanism = laplace(a)
    assert success_bound(mechanism, event[::-1], times) == pytest.approx(
        success_bound(mechanism, event, times), abs=1e-12
    )
    assert success_bound(mechanism, event * 2, times) == pytest.approx(
        success_bound(mechanism, event, 2 * times), abs=1e-12
    )


@pytest.mark.parametrize("radius", [713, 5_000, 22_000, 10**7])
def test_a_lattice_too_fine_costs_little(radius: int) -> None:
    """Below a = 0.0015 the bound lies between the truth and that of 0.003 of loss more in each window."""
    quanta = [radius // 5, radius // 7 + 1]
    bound = success_bound(laplace(Fraction(1, radius)), [Fraction(k) for k in quanta], 5)
    # At a multiple of 1/1400 of the radius the pairs' own value is known from a coarser lattice.
    low = merged(1 / 700, [700 * k // radius for k in quanta] * 5)
    high = merged(1 / 700, [700 * k // radius + 4 for k in quanta] * 5)
    assert low - 1e-6 <= bound <= high


def test_what_cannot_be_meant_is_refused() -> None:
    """A float distance is a TypeError; a negative distance and no occurrence are ValueErrors."""
    with pytest.raises(TypeError, match="distance must be exact"):
        success_bound(laplace(1), [0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="not be negative"):
        success_bound(laplace(1), [Fraction(-1)])
    with pytest.raises(ValueError, match="at least once"):
        success_bound(laplace(1), [Fraction(1)], 0)


# Against simulated attackers ----------------------------------------------------------------------

TRIALS, WINDOWS, N = 6_000, 3, 12
EPSILON, DISTANCE = Fraction(1, 20), 25


def right_answers(score_at_zero: Floats, score_at_shift: Floats) -> float:
    """How often a test by the sum of its scores over windows is right, each shape half of the time.

    A score is ln of how much likelier the shifted shape makes what was seen; a tie is a coin toss.
    """
    zero, shifted = (s.reshape(-1, WINDOWS).sum(axis=1) for s in (score_at_zero, score_at_shift))
    right = (zero < 0).mean() + (shifted > 0).mean() + ((zero == 0).mean() + (shifted == 0).mean()) / 2
    return float(right / 2)


def max_norm_score(seen: Integers, shift: Integers) -> Floats:
    """The log-likelihood ratio of the l_inf mechanism."""
    return np.asarray(float(EPSILON) * (np.abs(seen).max(axis=1) - np.abs(seen - shift).max(axis=1)))


def sum_norm_score(seen: Integers, shift: Integers) -> Floats:
    """The log-likelihood ratio of independent Laplace noise on each reading."""
    return np.asarray(float(EPSILON) * (np.abs(seen).sum(axis=1) - np.abs(seen - shift).sum(axis=1)))


SHIFTS = {
    "a lift of all slots": np.full(N, DISTANCE),
    "up and down": DISTANCE * (-1) ** np.arange(N),
    "half a window": DISTANCE * (np.arange(N) < N // 2),
    "one slot": DISTANCE * (np.arange(N) == 3),
    "a ramp": np.linspace(0, DISTANCE, N).astype(np.int64),
}
MARGIN = 3 / math.sqrt(2 * TRIALS)


@pytest.fixture(scope="module")
def noise() -> Integers:
    """The noise of enough windows for both shapes."""
    zeros = np.zeros((2 * TRIALS * WINDOWS, N), np.int64)
    return laplace(EPSILON, N).release(zeros, bits=SeededBits(1))


@pytest.mark.statistical
@pytest.mark.parametrize("name", SHIFTS)
def test_the_optimal_attacker_does_not_beat_the_bound(name: str, noise: Integers) -> None:
    """On windows that the mechanism drew, the likelihood-ratio test is right no more often than bound."""
    shift = SHIFTS[name].astype(np.int64)
    rate = right_answers(max_norm_score(noise[::2], shift), max_norm_score(noise[1::2] + shift, shift))
    bound = success_bound(laplace(EPSILON, N), [Fraction(DISTANCE)], WINDOWS)
    assert rate <= bound + MARGIN
    if (np.abs(shift) == DISTANCE).all():  # along a sign vector it is attained (THEORY 5.1)
        assert rate >= bound - MARGIN


@pytest.mark.statistical
def test_independent_noise_of_the_same_scale_is_beaten() -> None:
    """Laplace noise of scale 1/eps on each of 12 readings, the trap, lets the attacker beat the bound."""
    shift = SHIFTS["a lift of all slots"].astype(np.int64)
    noise = discrete_laplace(2 * TRIALS * WINDOWS * N, EPSILON, SeededBits(2)).reshape(-1, N)
    rate = right_answers(sum_norm_score(noise[::2], shift), sum_norm_score(noise[1::2] + shift, shift))
    assert rate > success_bound(laplace(EPSILON, N), [Fraction(DISTANCE)], WINDOWS) + MARGIN
