"""Many releases together: never too small, hardly above the truth (meteragent.privacy.divergence.composed).

Numbers are THEORY's oracles, section `composition`. "Enumerated" is the law of the summed loss in exact or
60-digit arithmetic; dp-accounting is another implementation of the same theory.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meteragent.privacy.divergence import Composed, LaplacePair, LatticePair, Pair, rdp_epsilon, zcdp_epsilon

FEW = settings(max_examples=-(-settings().max_examples // 4))
STEPS = st.fractions(Fraction(1, 50), 3, max_denominator=50)
HORIZONS = [  # windows, loss of each, basic, generic zCDP, Laplace's zCDP, RDP, PLD; delta = 1e-6
    (24, "0.1", (2.4, 2.36576, 2.32345, 2.0794, 1.98618)),
    (96, "0.05", (4.8, 2.36576, 2.34442, 2.28756, 2.1444)),
    (96, "0.1", (9.6, 5.10243, 5.00808, 4.86572, 4.58176)),
    (48, "0.5", (24.0, 23.0842, 20.8464, 18.9459, 18.2308)),
    (96, "0.5", (48.0, 36.4047, 32.7065, 30.9176, 29.6285)),
    (365, "0.1", (36.5, 11.0653, 10.8492, 10.7484, 10.1274)),
    (2880, "0.05", (144.0, 16.7275, 16.5562, 16.5333, 15.6055)),
]


def enumerated_delta(pairs: dict[Pair, int], epsilon: float) -> float:
    """Delta of a product of lattice pairs with one a, from the law of the sum of z, in 60 digits."""
    with mpmath.workdps(60):
        (step,) = {pair.a for pair in pairs if isinstance(pair, LatticePair)}
        a = mpmath.mpf(step.numerator) / step.denominator
        law = [mpmath.mpf(1)]
        for k in [int(pair.loss / step) for pair, count in pairs.items() for _ in range(count)]:
            inside = mpmath.tanh(a / 2)
            one = [1 / (1 + mpmath.exp(-a)), *(inside * mpmath.exp(-a * z) for z in range(1, k))]
            one.append(mpmath.exp(-a * k) / (1 + mpmath.exp(-a)))
            convolved = [mpmath.mpf(0)] * (len(law) + k)
            for i, left in enumerate(law):
                for z, right in enumerate(one):
                    convolved[i + z] += left * right
            law = convolved
        losses = [a * (len(law) - 1 - 2 * z) for z in range(len(law))]
        terms = (p * (1 - mpmath.exp(epsilon - x)) for p, x in zip(law, losses, strict=True) if x > epsilon)
        return float(mpmath.fsum(terms))


@pytest.mark.parametrize(("count", "loss", "figures"), HORIZONS)
def test_long_horizons_are_theory_s_table(count: int, loss: str, figures: tuple[float, ...]) -> None:
    """THEORY 5.2: basic, zCDP, RDP and PLD; the table's own PLD is up to 4e-4 too large, never too small."""
    basic, generic, zcdp, rdp, pld = figures
    composed = Composed({LaplacePair(loss): count})
    epsilons = {figure.method: figure.epsilon for figure in composed.figures(1e-6)}
    assert epsilons["basic"] == pytest.approx(basic, rel=1e-12)
    assert zcdp_epsilon(count * float(loss) ** 2 / 2, 1e-6) == pytest.approx(generic, rel=1e-5)
    assert epsilons["zcdp"] == pytest.approx(zcdp, rel=1e-5)
    assert epsilons["rdp"] == pytest.approx(rdp, rel=5e-5)
    assert pld * (1 - 4e-4) < epsilons["pld"] < pld
    assert composed.best(1e-6) == (epsilons["pld"], 1e-6, "pld")


@pytest.mark.parametrize(
    ("pairs", "epsilon"),
    [
        ({LatticePair(Fraction(1, 2), 1): 3}, 0.7),
        ({LatticePair(Fraction(1, 2), 1): 12}, 5.0),
        ({LatticePair(1, 3): 2, LatticePair(1, 2): 1}, 3.0),
        ({LatticePair(Fraction(1, 10), 1): 30, LatticePair(Fraction(1, 10), 4): 5}, 2.5),
        ({LatticePair(Fraction(1, 10), 7): 20}, 12.5),
        ({LatticePair(5, 1): 4}, 13.0),
    ],
)
def test_with_one_a_delta_is_the_enumerated_one(pairs: dict[Pair, int], epsilon: float) -> None:
    """A product of lattice pairs with one a is composed without any error of discretisation."""
    exact, composed = enumerated_delta(pairs, epsilon), Composed(pairs)
    assert composed.delta(epsilon) == pytest.approx(exact, rel=1e-8)
    assert composed.delta(epsilon) >= exact * (1 - 1e-13)
    assert composed.epsilon(exact) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("pairs", "epsilon"),
    [
        *(
            ({LatticePair("1/2", 3): 2, LatticePair("3/4", 2): 4, LatticePair(3, 1): 1}, epsilon)
            for epsilon in (0.0, 1.0, 3.5, 9.0, 11.99)
        ),
        # Steps far smaller than the grid's cells:
        ({LatticePair("1/3", 2): 1, LatticePair(2, 2): 2, LatticePair("1/1000", 3): 3}, 4.98),
        ({LatticePair("1/3", 2): 1, LatticePair(2, 2): 2, LatticePair("1/1000", 3): 3}, 8.64),
    ],
)
def test_different_quanta_are_never_below_the_truth(pairs: dict[Pair, int], epsilon: float) -> None:
    """Pairs whose losses share no grid: above the law of all sums of losses by less than 1e-3 of delta."""
    with mpmath.workdps(40):
        law = {Fraction(0): mpmath.mpf(1)}
        for pair in [pair for pair, count in pairs.items() for _ in range(count)]:
            assert isinstance(pair, LatticePair)
            one = [(pair.a * (pair.k - 2 * z), mass) for z, mass in enumerate(pair.masses())]
            summed: dict[Fraction, mpmath.mpf] = {}
            for (loss, mass), (more, other) in ((x, y) for x in law.items() for y in one):
                summed[loss + more] = summed.get(loss + more, mpmath.mpf(0)) + mass * other
            law = summed
        exact = float(sum(p * (1 - mpmath.exp(epsilon - float(x))) for x, p in law.items() if x > epsilon))
    bound = Composed(pairs).delta(epsilon)
    assert exact * (1 - 1e-12) <= bound <= exact * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(
    ("epsilon", "text"), [(0.25, "exact"), ("1/4", "a Fraction"), (Decimal(1), "a Fraction")]
)
def test_charges_are_fractions(epsilon: Any, text: str) -> None:
    """A text beside the Fraction of the same number would be counted once; a float is not an epsilon."""
    with pytest.raises(TypeError, match=rf"epsilon must be {text}.*write Fraction\('"):
        Composed.at_radius({epsilon: 3}, 220)


@pytest.mark.parametrize(
    ("quantum", "count"), [("1/10", 48), ("1/10", 17_520), ("1/100", 48), ("1/1200", 48)]
)
def test_a_fine_quantum_is_little_more_than_its_limit(quantum: str, count: int) -> None:
    """A lattice so fine that several quanta share a cell costs what its limit costs, to 1e-5, and not less.

    Two of its figures may be wrong by 1e-6 each, so "not less" is to that.
    """
    lattice, limit = (
        Composed.at_radius({Fraction(1, 220): count}, 220, q).epsilon(1e-6) for q in (quantum, None)
    )
    assert limit * (1 - 1e-6) < lattice < limit * (1 + 1e-5)


@pytest.mark.parametrize(("count", "loss"), [(24, 0.1), (96, 0.5), (30, 1.0)])
def test_another_implementation_agrees(count: int, loss: float) -> None:
    """dp-accounting's Laplace mechanism, composed: its PLD, upper and lower, and its RDP, at delta 1e-6."""
    pairs: dict[Pair, int] = {LaplacePair(Fraction(str(loss))): count}
    peers = [
        privacy_loss_distribution.from_laplace_mechanism(
            1 / loss,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-3,
            use_connect_dots=pessimistic,
        ).self_compose(count)
        for pessimistic in (False, True)
    ]
    low, high = (peer.get_epsilon_for_delta(1e-6) for peer in peers)
    ours = Composed(pairs).epsilon(1e-6)
    assert low <= ours <= high * (1 + 2e-5)
    orders = [1.5, 2.0, 4.0, 8.0, 16.0, 32.0]
    rdp = [count * LaplacePair(Fraction(str(loss))).rdp(order) for order in orders]
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, rdp, 1e-6)
    assert min(map(rdp_epsilon, orders, rdp, [1e-6] * 6)) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(("a", "k", "count"), [(0.1, 1, 200), (0.5, 2, 40), (0.05, 7, 100)])
def test_another_implementation_agrees_on_the_lattice(a: float, k: int, count: int) -> None:
    """dp-accounting's discrete Laplace mechanism on a grid that a divides: the same epsilon, to 1e-5."""
    peer = privacy_loss_distribution.from_discrete_laplace_mechanism(
        a, sensitivity=k, value_discretization_interval=a / 5, use_connect_dots=True
    ).self_compose(count)
    ours = Composed({LatticePair(Fraction(str(a)), k): count})
    assert ours.epsilon(1e-6) == pytest.approx(peer.get_epsilon_for_delta(1e-6), rel=1e-5)
    assert ours.delta(2.0) == pytest.approx(peer.get_delta_for_epsilon(2.0), rel=1e-5)


# Properties ---------------------------------------------------------------------------------------


@given(a=STEPS, k=st.integers(1, 8), share=st.floats(0, 1.1))
@example(a=Fraction(40), k=1, share=0.99)
def test_one_release_is_its_pair(a: Fraction, k: int, share: float) -> None:
    """Composed once, delta is the pair's own; for the continuous pair hardly above."""
    epsilon = share * float(a * k)
    for pair, slack in ((LatticePair(a, k), 1e-9), (LaplacePair(a * k), 1e-4)):
        delta, composed = pair.delta(epsilon), Composed({pair: 1}).delta(epsilon)
        assert delta * (1 - 1e-12) - 1e-16 <= composed <= delta * (1 + slack) + slack / 100


@FEW
@given(
    pairs=st.dictionaries(
        st.builds(LatticePair, STEPS, st.integers(1, 6)), st.integers(1, 30), min_size=1, max_size=4
    ),
    log_delta=st.floats(-25, -1),
)
def test_figures_are_consistent(pairs: dict[Pair, int], log_delta: float) -> None:
    """PLD is at most RDP, RDP at most zCDP; delta at epsilon(delta) is delta at most; best is the least."""
    composed, delta = Composed(pairs), math.exp(log_delta)
    basic, zcdp, rdp, pld = composed.figures(delta)
    assert pld.epsilon <= min(rdp.epsilon, basic.epsilon)
    assert rdp.epsilon <= zcdp.epsilon * (1 + 1e-6) + 1e-9
    assert basic.epsilon == float(sum(pair.loss * count for pair, count in pairs.items()))
    assert composed.delta(pld.epsilon) <= delta * (1 + 1e-3) + 1e-13
    assert composed.best(delta).epsilon == min(f.epsilon for f in (basic, zcdp, rdp, pld))
    assert composed.best(delta).delta == (0.0 if composed.best(delta).method == "basic" else delta)


@FEW
@given(pair=st.builds(LatticePair, STEPS, st.integers(1, 6)), count=st.integers(1, 60))
def test_more_releases_cost_more(pair: LatticePair, count: int) -> None:
    """One release more, or a quantum farther in each: never a smaller epsilon or delta."""
    base = Composed({pair: count})
    for worse in (Composed({pair: count + 1}), Composed({LatticePair(pair.a, pair.k + 1): count})):
        assert worse.epsilon(1e-5) >= base.epsilon(1e-5) * (1 - 1e-6)
        assert worse.delta(1.0) >= base.delta(1.0) * (1 - 1e-6)
        assert worse.rho > base.rho
        assert worse.loss > base.loss


@given(rho=st.floats(0, 1e4), log_delta=st.floats(-40, -0.1))
def test_zcdp_is_converted_below_the_simple_formula(rho: float, log_delta: float) -> None:
    """Never above rho + 2 sqrt(rho ln 1/delta), and it grows with rho."""
    delta = math.exp(log_delta)
    epsilon = zcdp_epsilon(rho, delta)
    assert 0 <= epsilon <= (rho + 2 * math.sqrt(rho * -log_delta)) * (1 + 1e-6) + 1e-9
    assert zcdp_epsilon(2 * rho, delta) >= epsilon * (1 - 1e-6)


# From a ledger ------------------------------------------------------------------------------------


def test_a_ledger_is_composed_at_a_radius() -> None:
    """48 half hours at 1/220 and two days at 1/1000, for curves within 300 W: ceil(300/q) quanta in each."""
    charges = {Fraction(1, 220): 48, Fraction(1, 1000): 2}
    lattice = Composed.at_radius(charges, 300, "0.7")
    assert dict(lattice.pairs) == {LatticePair(Fraction(7, 2200), 429): 48, LatticePair("0.0007", 429): 2}
    limit = Composed.at_radius(charges, 300)
    assert limit.loss == 48 * Fraction(300, 220) + 2 * Fraction(300, 1000)
    assert lattice.loss == limit.loss * Fraction("300.3") / 300
    assert limit.best(1e-6).epsilon < lattice.best(1e-6).epsilon < limit.best(1e-6).epsilon * 1.002


def test_nothing_released_costs_nothing() -> None:
    """No pairs, no windows or no distance: epsilon and delta are 0."""
    for nothing in (Composed({}), Composed({LatticePair(1, 0): 5}), Composed({LaplacePair(3): 0})):
        assert nothing.loss == nothing.rho == nothing.epsilon(1e-6) == nothing.delta(0) == 0
        assert nothing.best(1e-6) == (0.0, 0.0, "basic")


def test_losses_beyond_any_use_are_no_error() -> None:
    """Losses of 10^6, a lattice of 10^7 quanta and 10^5 windows are composed like any other."""
    assert Composed({LaplacePair(10**6): 3}).best(1e-6).epsilon == pytest.approx(3e6)
    fine = Composed({LatticePair(Fraction(1, 10**7), 10**7): 30})
    assert fine.epsilon(1e-6) == pytest.approx(27.77254, abs=1e-3)
    many = Composed({LaplacePair("0.001"): 10**5})
    assert many.best(1e-6).epsilon == pytest.approx(1.3674, abs=1e-3)


def test_what_cannot_be_meant_is_refused() -> None:
    """A negative count, rho or epsilon, a delta outside 0..1, an order of 1 and a float radius."""
    one = Composed({LaplacePair(1): 1})
    with pytest.raises(ValueError, match="must not be negative"):
        Composed({LaplacePair(1): -1})
    with pytest.raises(ValueError, match="epsilon must not be negative"):
        one.delta(-0.1)
    for delta in (0.0, 1.0):
        with pytest.raises(ValueError, match="delta between 0 and 1"):
            one.epsilon(delta)
    with pytest.raises(ValueError, match="rho must not be negative"):
        zcdp_epsilon(-1, 0.5)
    with pytest.raises(ValueError, match="above 1"):
        rdp_epsilon(1, 1, 0.5)
    with pytest.raises(TypeError, match="radius must be exact"):
        Composed.at_radius({}, 0.5)  # type: ignore[arg-type]
