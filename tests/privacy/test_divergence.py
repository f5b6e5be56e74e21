"""The dominating pairs' closed forms, and what they dominate (meteragent.privacy.divergence).

"Enumerated" is computed from the laws, outcome by outcome, by the definitions; numbers are THEORY's oracles,
section `domination`, and its tables 5.1 and 7.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.divergence import LatticePair, error_bounds

Floats = NDArray[np.float64]

STEPS = st.fractions(Fraction(1, 1000), 4, max_denominator=1000)
LATTICE = st.builds(LatticePair, STEPS, st.integers(0, 12))


def on_r(loss: Fraction | str, quanta: int = 10**6) -> LatticePair:
    """A lattice so fine that it is the pair of Laplace laws on R, up to the square of a."""
    return LatticePair(Fraction(loss) / quanta, quanta)


EPSILONS = st.floats(-15, 15)
CHANCES = st.floats(0, 1)


def laws(pair: LatticePair) -> tuple[Floats, Floats]:
    """P and Q of the discrete Laplace laws at 0 and at k, all but e^-40 of them."""
    a, reach = float(pair.a), math.ceil(40 / pair.a)
    z = np.arange(-reach, pair.k + reach + 1)
    return math.tanh(a / 2) * np.exp(-a * np.abs(z)), math.tanh(a / 2) * np.exp(-a * np.abs(z - pair.k))


def largest_excess(p: Floats, q: Floats, epsilon: float) -> float:
    """The supremum over events of P(A) - e^epsilon Q(A)."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def most_powerful(p: Floats, q: Floats, false_alarm: float) -> float:
    """P of the event of Q-probability `false_alarm` that has most: by falling P/Q, the last one in part."""
    order = np.argsort(-p / q, kind="stable")
    false, right = (np.append(0, np.cumsum(law[order])) for law in (q, p))
    return float(np.interp(false_alarm, false, right))


# Closed forms -------------------------------------------------------------------------------------


@given(
    a=st.fractions(Fraction(1, 20), 4, max_denominator=100), k=st.integers(0, 8), epsilon=EPSILONS, q=CHANCES
)
@example(a=Fraction(1), k=4, epsilon=2.0, q=0.5)
def test_the_lattice_s_closed_forms_are_the_enumerated_ones(
    a: Fraction, k: int, epsilon: float, q: float
) -> None:
    """TV, risk, delta, the test curve, KL and Renyi's divergence are those of two discrete Laplace laws."""
    pair = LatticePair(a, k)
    at, shifted = laws(pair)
    logs = np.log(at / shifted)
    assert pair.total_variation == pytest.approx(np.abs(at - shifted).sum() / 2, abs=1e-12)
    assert pair.risk == pytest.approx(1 - pair.total_variation, abs=1e-15)
    assert pair.delta(epsilon) == pytest.approx(largest_excess(at, shifted, epsilon), abs=1e-11)
    assert pair.power(q) == pytest.approx(most_powerful(at, shifted, q), abs=1e-9)
    assert pair.kl == pytest.approx((at * logs).sum(), abs=1e-12)
    for order in (1.1, 2.0, 7.5):
        mean = float((at * np.exp((order - 1) * logs)).sum())
        assert pair.rdp(order) == pytest.approx(math.log(mean) / (order - 1), abs=1e-11)


@pytest.mark.parametrize(
    ("loss", "variation", "pure", "kl", "half", "rdp"),
    [
        ("0.1", 0.0487705754993, 0.0499583749579, 0.00483741803596, 0.0246900879717, 0.00964420784034),
        ("0.5", 0.221199216929, 0.244918662404, 0.106530659713, 0.117503097415, 0.200303896174),
        ("1", 0.393469340287, 0.46211715726, 0.367879441171, 0.221199216929, 0.619123629999),
        ("2", 0.632120558829, 0.761594155956, 1.13533528324, 0.393469340287, 1.59577350059),
        ("4", 0.864664716763, 0.964027580076, 3.01831563889, 0.632120558829, 3.59453796399),
    ],
)
def test_the_continuous_pair_is_theory_s(
    loss: str, variation: float, pure: float, kl: float, half: float, rdp: float
) -> None:
    """THEORY 5.1 to 9 digits: TV, KL, delta at X/2, Renyi's divergence of order 2; pure privacy's TV."""
    pair = on_r(loss)
    assert pair.total_variation == pytest.approx(variation, rel=1e-9)
    assert pair.risk == pytest.approx(1 - variation, rel=1e-9)
    assert pair.kl == pair.rdp(1) == pytest.approx(kl, rel=1e-9)
    assert pair.delta(float(pair.loss) / 2) == pytest.approx(half, rel=1e-5)
    assert pair.rdp(2) == pytest.approx(rdp, rel=1e-9)
    assert LatticePair(loss, 1).total_variation == pytest.approx(pure, rel=1e-11)


def test_one_quantum_exceeds_the_continuous_formulas() -> None:
    """At X = 1 and one quantum both TV and KL are 46.2%, where R^n has 39.3 and 36.8%."""
    assert LatticePair(1, 1).total_variation == pytest.approx(0.462117, abs=1e-6)
    assert LatticePair(1, 1).kl == pytest.approx(0.462117, abs=1e-6)


@given(a=STEPS, k=st.integers(1, 12), q=CHANCES)
def test_the_test_curve_is_one_quantum_s_k_times_over(a: Fraction, k: int, q: float) -> None:
    """B of k quanta is the step q -> min(e^a q, 1 - e^-a (1-q)) iterated (THEORY 5.1)."""
    chance = q
    for _ in range(k):
        chance = min(math.exp(a) * chance, 1 - math.exp(-a) * (1 - chance))
    assert LatticePair(a, k).power(q) == pytest.approx(chance, rel=1e-12, abs=1e-12)


@given(loss=st.fractions(Fraction(1, 1000), 10, max_denominator=1000), q=CHANCES)
def test_the_continuous_test_curve_is_neyman_and_pearson_s(loss: Fraction, q: float) -> None:
    """B is q e^X, 1 - e^-X / 4q and 1 - (1-q) e^-X in turn."""
    x = float(loss)
    if q <= math.exp(-x) / 2:
        expected = q * math.exp(x)
    else:
        expected = 1 - math.exp(-x) / (4 * q) if q <= 0.5 else 1 - (1 - q) * math.exp(-x)
    assert on_r(loss).power(q) == pytest.approx(expected, rel=1e-9)


# Properties ---------------------------------------------------------------------------------------


@given(pair=LATTICE, epsilon=EPSILONS, q=CHANCES)
def test_delta_and_the_test_curve_say_the_same(pair: LatticePair, epsilon: float, q: float) -> None:
    """B(q) <= e^epsilon q + delta(epsilon) for all of them, and delta(-e) = 1 - e^-e (1 - delta(e))."""
    assert pair.power(q) <= math.exp(epsilon) * q + pair.delta(epsilon) + 1e-12
    mirrored = 1 - math.exp(-epsilon) * (1 - pair.delta(epsilon))
    assert pair.delta(-epsilon) == pytest.approx(mirrored, rel=1e-9, abs=1e-9)
    assert pair.total_variation == pytest.approx(pair.delta(0), abs=1e-12)
    assert pair.delta(float(pair.loss)) == pytest.approx(0, abs=1e-12)


@given(pair=LATTICE, order=st.floats(1.0001, 1e6), higher=st.floats(1, 100))
def test_the_zcdp_parameter_is_kl(pair: LatticePair, order: float, higher: float) -> None:
    """Renyi's divergence of order alpha is at most alpha KL, at alpha -> 1 no less; it grows, up to X."""
    assert pair.rdp(order) <= order * pair.kl * (1 + 1e-9) + 1e-12
    assert pair.rdp(order) <= pair.rdp(order * higher) + 1e-9
    assert pair.rdp(order) <= pair.rdp(math.inf) + 1e-12 == float(pair.loss) + 1e-12
    assert pair.rdp(1 + 1e-6) == pytest.approx(pair.rdp(1), rel=1e-4, abs=1e-8)


@given(a=STEPS, k=st.integers(1, 12), epsilon=EPSILONS, q=CHANCES)
def test_a_finer_lattice_is_dominated_by_a_coarser(a: Fraction, k: int, epsilon: float, q: float) -> None:
    """A step of 2a is worse than two of a, and both are worse than the limit: by every measure."""
    pairs = [LatticePair(2 * a, k), LatticePair(a, 2 * k), on_r(2 * a * k)]
    for worse, better in itertools.pairwise(pairs):
        assert worse.delta(epsilon) >= better.delta(epsilon) - 1e-12
        assert worse.power(q) >= better.power(q) - 1e-12
        assert worse.kl >= better.kl - 1e-12
        assert worse.rdp(3) >= better.rdp(3) - 1e-12


@pytest.mark.parametrize("nothing", [LatticePair(1, 0), LatticePair(3, 0)])
def test_no_distance_is_no_divergence(nothing: LatticePair) -> None:
    """Points at distance 0 cannot be told apart by any measure."""
    assert nothing.loss == nothing.total_variation == nothing.kl == nothing.rdp(2) == nothing.delta(0) == 0
    assert nothing.power(0.25) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("count", "loss", "rdp", "pld"),
    [
        (24, "0.1", 2.0794, 1.98618),
        (96, "0.05", 2.28756, 2.1444),
        (96, "0.1", 4.86572, 4.58176),
        (96, "0.5", 30.9176, 29.6285),
        (365, "0.1", 10.7484, 10.1274),
        (2880, "0.05", 16.5333, 15.6055),
    ],
)
def test_long_horizons_by_dp_accounting(count: int, loss: str, rdp: float, pld: float) -> None:
    """THEORY 5.2 by dp-accounting: from the pair's Renyi divergences, and from its loss distribution."""
    pair, orders = on_r(loss), np.geomspace(1.1, 400, 4000).tolist()
    divergences = [count * pair.rdp(order) for order in orders]
    by_rdp, _ = rdp_privacy_accountant.compute_epsilon(orders, divergences, 1e-6)
    assert by_rdp == pytest.approx(rdp, rel=5e-5)
    law = privacy_loss_distribution.from_laplace_mechanism(
        1 / float(loss), value_discretization_interval=1e-3
    )
    assert law.self_compose(count).get_epsilon_for_delta(1e-6) == pytest.approx(pld, rel=4e-4)


@pytest.mark.parametrize(("a", "k"), [(0.1, 1), (0.5, 2), (0.05, 7)])
def test_an_accountant_has_the_same_pair(a: float, k: int) -> None:
    """dp-accounting's discrete Laplace mechanism at a sensitivity of k has the delta of k quanta."""
    peer = privacy_loss_distribution.from_discrete_laplace_mechanism(
        a, sensitivity=k, value_discretization_interval=a / 5, use_connect_dots=True
    )
    for share in (0.1, 0.5, 0.9):
        delta = LatticePair(Fraction(str(a)), k).delta(share * a * k)
        assert peer.get_delta_for_epsilon(share * a * k) == pytest.approx(delta, rel=1e-5)


# What they dominate -------------------------------------------------------------------------------


def window(a: float, shift: tuple[int, ...], reach: int) -> tuple[Floats, Floats]:
    """The l_inf laws of a window at 0 and at `shift`, on a box that leaves next to nothing out."""
    axes = np.meshgrid(*(np.arange(-reach, reach + 1),) * len(shift), indexing="ij")
    one = np.exp(-a * np.max(np.abs(axes), axis=0)).ravel()
    moved = [axis - by for axis, by in zip(axes, shift, strict=True)]
    return one / one.sum(), np.exp(-a * np.max(np.abs(moved), axis=0)).ravel() / one.sum()


SHIFTS = [s for s in itertools.product(range(-3, 4), repeat=2) if max(map(abs, s)) in {2, 3}]


@pytest.mark.parametrize("shift", SHIFTS)
def test_no_shift_of_a_window_of_two_exceeds_the_pair(shift: tuple[int, int]) -> None:
    """For n = 2 every delta and every power of every shift is at most the pair's at k = d_inf quanta."""
    a, k = 1.5, max(map(abs, shift))
    pair, (p, q) = LatticePair(Fraction(3, 2), k), window(a, shift, reach=20)
    for epsilon in np.linspace(-1.5 * k, 1.5 * k, 13):
        assert largest_excess(p, q, epsilon) <= pair.delta(epsilon) + 1e-11
    for chance in np.linspace(0, 1, 21):
        assert most_powerful(p, q, chance) <= pair.power(chance) + 1e-9


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_sign_vector_attains_the_pair_at_each_of_its_losses(signs: tuple[int, int], k: int) -> None:
    """All slots lifted or lowered by k quanta: delta is the pair's at a(k - 2j), so no bound can be better.

    Between these losses the pair's delta is a chord and the window's, which has losses there, is below it:
    it attains every line of the test curve, but not every corner.
    """
    a, pair = 0.75, LatticePair(Fraction(3, 4), k)
    p, q = window(a, (signs[0] * k, signs[1] * k), reach=48)
    for j in range(k + 1):
        epsilon = a * (k - 2 * j)
        assert largest_excess(p, q, epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-9)
        assert largest_excess(p, q, epsilon + a) < pair.delta(epsilon + a) or j == 0


def test_one_coordinate_is_far_from_the_pair() -> None:
    """One slot of six moved by 1/epsilon is told with a TV of 8.3%, all of them with 39% (THEORY 5.1)."""
    a, n, k = 0.02, 6, 50
    largest = np.arange(4000)
    # Given the others' largest |z|, the slot is a law on cubes: P(z_1) = sum over R of P(R)/(2R+1).
    weight = (2 * largest + 1.0) ** n * np.exp(-a * largest)
    slot = np.cumsum((weight / weight.sum() / (2 * largest + 1))[::-1])[::-1]
    law = np.concatenate([slot[:0:-1], slot])
    moved = np.zeros_like(law)
    moved[k:] = law[:-k]
    assert np.abs(law - moved).sum() / 2 < 0.09
    assert LatticePair("0.02", k).total_variation == pytest.approx(0.3935, abs=1e-4)


@given(
    rows=st.lists(st.tuples(*(st.floats(0, 1),) * 4), min_size=5, max_size=5),
    a=st.fractions(Fraction(1, 4), 2, max_denominator=20),
)
def test_any_mechanism_on_a_line_is_dominated(rows: list[tuple[float, ...]], a: Fraction) -> None:
    """Whatever loses at most a per step from 0 to 4 is below the pair 4 quanta apart, by delta and power."""
    points = np.arange(5)
    logs = float(a) * np.array(rows)
    # The largest a-Lipschitz functions below the drawn ones; normalising may add as much again.
    smooth = np.min(logs[:, None, :] + float(a) / 2 * np.abs(points[:, None] - points)[..., None], axis=0)
    law = np.exp(smooth) / np.exp(smooth).sum(axis=1, keepdims=True)
    step = float(np.abs(np.diff(np.log(law), axis=0)).max())
    assume(step > 0)
    assert step <= a + 1e-12
    pair = LatticePair(a, 4)
    for epsilon in np.linspace(-4 * float(a), 4 * float(a), 17):
        assert largest_excess(law[0], law[4], epsilon) <= pair.delta(epsilon) + 1e-12
    for chance in np.linspace(0, 1, 17):
        assert most_powerful(law[0], law[4], chance) <= pair.power(chance) + 1e-12


# What a test can tell -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "pauwels", "pinsker", "pure", "metric"),
    [
        ("0.1", 0.776393, 0.950021, 0.950042, 0.951229),
        ("0.5", 0.500000, 0.752554, 0.755081, 0.778801),
        ("1", 0.292893, 0.519314, 0.537883, 0.606531),
        ("2", 0, 0.127306, 0.238406, 0.367879),
        ("4", 0, 0, 0.035972, 0.135335),
    ],
)
def test_the_table_of_test_bounds(
    loss: str, pauwels: float, pinsker: float, pure: float, metric: float
) -> None:
    """THEORY 7: the two error probabilities of any test sum to at least that."""
    assert error_bounds(loss) == pytest.approx((pauwels, pinsker, pure, metric), abs=1e-6)


@given(loss=st.fractions(Fraction(1, 1000), 40, max_denominator=1000))
def test_each_argument_is_better_than_the_one_before(loss: Fraction) -> None:
    """Pauwels' Proposition 2, Pinsker, pure and metric privacy: each bound is at least the one before."""
    bounds = error_bounds(loss)
    assert list(bounds) == sorted(bounds)
    x = float(loss)
    assert bounds.pure == pytest.approx(1 - math.tanh(x / 2), abs=1e-12)
    assert bounds.pinsker == pytest.approx(max(0, 1 - math.sqrt(x * math.tanh(x / 2) / 2)), abs=1e-12)


@given(a=STEPS, k=st.integers(1, 12))
def test_the_lattice_s_test_bound_lies_between(a: Fraction, k: int) -> None:
    """At k quanta it is e^(-ak/2), for odd k that over cosh(a/2): between pure and metric."""
    x = float(a * k)
    assert LatticePair(a, k).risk == pytest.approx(
        math.exp(-x / 2) / (math.cosh(float(a) / 2) if k % 2 else 1), rel=1e-12
    )
    bounds = error_bounds(a * k)
    assert bounds.pure - 1e-12 <= LatticePair(a, k).risk <= bounds.metric + 1e-12


# What is refused ----------------------------------------------------------------------------------


def test_what_cannot_be_meant_is_refused() -> None:
    """A float parameter is a TypeError; what no pair, chance or order can be is a ValueError."""
    with pytest.raises(TypeError, match="a must be exact"):
        LatticePair(0.5, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a must be positive"):
        LatticePair(0, 1)
    with pytest.raises(ValueError, match="-1 quanta"):
        LatticePair(1, -1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        LatticePair(1, 1).power(1.5)
    with pytest.raises(ValueError, match="at least 1"):
        LatticePair(1, 1).rdp(0.5)


def test_extreme_parameters_are_no_error() -> None:
    """Losses of 10^9 and steps of 10^6 stay finite: a certainty."""
    for pair in (LatticePair(10**6, 1001), LatticePair(10**6, 1), LatticePair(1, 10**9)):
        assert pair.total_variation == pair.delta(0) == pair.power(0.5) == 1
        assert pair.kl == pytest.approx(float(pair.loss), rel=1e-6)
        assert pair.rdp(3) == pytest.approx(float(pair.loss), rel=1e-6)
        assert pair.delta(2 * float(pair.loss)) == 0
