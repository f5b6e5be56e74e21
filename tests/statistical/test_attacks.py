"""Attackers before mechanisms: nobody beats what is proved, the best reaches its own rate, lies are found.

ALARM is the chance that right software fails one assertion (Clopper and Pearson, or Hoeffding for areas);
there are fewer than 60, and seeds are fixed, so a run repeats. Where something wrong is refuted, MISS bounds
the chance that it is not, by the binomial law at the rate that is computed without drawing.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from meteragent import config
from meteragent.privacy import LInfLaplace
from meteragent.privacy.certificate import Library
from meteragent.privacy.statistics import clopper_pearson
from meteragent.report.event import EVENTS
from meteragent.report.guarantee import REPETITIONS
from simulators.adversary import hidden, library
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import Outcome, measure
from simulators.adversary.mechanism import rival
from simulators.adversary.scene import Scene, with_or_without
from simulators.adversary.scene import library as one_each
from tests.support.best_attack import best_attack

ALARM = MISS = 1e-6
TRIALS = 2000
W = Fraction(1)
ALL = list(ATTACKERS)


def attacked(scene: Scene, mechanism: str, attackers: Sequence[str] = ALL, trials: int = TRIALS) -> Outcome:
    """The outcome, with intervals that all hold but for a chance of ALARM."""
    return measure(scene, rival(mechanism, scene), attackers, trials, 0, ALARM)


# What is proved -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["linf", "independent"])
@pytest.mark.parametrize("epsilon", ["1/200", "1/40", "1/10", "1/4"])
def test_nobody_beats_the_certificate(mechanism: str, epsilon: str) -> None:
    """Of 12 programmes, no attacker is surely right more often than the certificate of a true promise."""
    found = attacked(library.programmes(12, 12, 0), f"{mechanism} epsilon={epsilon}", trials=1200)
    assert found.bound is not None
    assert max(one.low for one in found.results) <= found.bound
    assert found.odds is not None
    assert found.odds <= 1 + 1e-9
    assert not found.is_broken


@pytest.mark.parametrize("mechanism", ["linf", "independent"])
def test_nobody_beats_the_bound_of_an_event(mechanism: str) -> None:
    """Was the television on, in homes of unknown load? Neither rates nor areas are above the bounds."""
    scene = library.presence(library.event_named("TV evening"), 40, 6, 0)
    found = attacked(scene, f"{mechanism} epsilon=1/60")
    assert found.bound is not None
    assert found.auc_bound is not None
    assert max(one.low for one in found.results) <= found.bound < 0.9
    assert max(one.auc_low or 0 for one in found.results) <= found.auc_bound < 0.95
    assert not found.is_broken


def test_a_promise_per_reading_is_refuted() -> None:
    """Scale 1/epsilon on each of 12 readings: the certificate is beaten, the odds change 12 times as much."""
    # Points that differ by the scale of the noise: each reading alone is right with 1 - e^(-1/2)/2 = .697.
    scene = one_each("?", [[0] * 12, [40] * 12], W)
    found = attacked(scene, "per-reading epsilon=1/40", ["bayes"])
    assert found.bound is not None
    assert found.bound == pytest.approx(1 - np.exp(-1 / 2) / 2, abs=1e-3)
    assert found.worst.low > found.bound
    assert found.odds == pytest.approx(12)
    assert found.is_broken
    # A majority of the 12 is right at least so often, and Bayes more often still.
    majority = stats.binom.sf(6, 12, 0.69) + stats.binom.pmf(6, 12, 0.69) / 2
    needed = int(np.flatnonzero(clopper_pearson(np.arange(TRIALS + 1), TRIALS, ALARM)[0] > found.bound)[0])
    assert stats.binom.cdf(needed - 1, TRIALS, majority) < MISS


# What is known without drawing --------------------------------------------------------------------

DISTANCE, MANY = 80, 60_000


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(11, 10), Fraction(10, 11)])
def test_bayes_is_as_good_as_can_be(factor: Fraction) -> None:
    """Of one number at two points, Bayes has the enumerated rate; noise 10% wrong is seen in that rate."""
    scene = one_each("?", [[0], [DISTANCE]], W)
    said = LInfLaplace("1/40", 1, 1)
    exact = best_attack(said, Library(scene.points[:, 0]))
    drawn = LInfLaplace(said.epsilon * factor, 1, 1)
    rate = best_attack(drawn, Library(scene.points[:, 0]))
    found = attacked(scene, f"linf epsilon={drawn.epsilon}", ["bayes"], MANY)
    low, high = clopper_pearson(np.arange(MANY + 1), MANY, ALARM)
    passes = (low <= exact) & (exact <= high)
    assert (found.worst.low <= exact <= found.worst.high) == (factor == 1)
    if factor != 1:
        assert stats.binom.pmf(np.flatnonzero(passes), MANY, rate).sum() < MISS


@pytest.mark.parametrize(
    "signatures", [[[0, 0], [9, 4], [2, 12], [-8, 3]], [[0, 0], [30, 30], [60, 60], [0, 60]]]
)
def test_bayes_on_windows_is_as_good_as_can_be(signatures: list[list[int]]) -> None:
    """Of windows of two slots, its rate is that of the enumerated optimum; all others are not better."""
    scene = one_each("?", signatures, W)
    found = attacked(scene, "linf epsilon=1/20", trials=4000)
    exact = best_attack(LInfLaplace("1/20", 1, 2), Library(scene.points[:, 0]))
    bayes = found.results[ALL.index("bayes")]
    assert bayes.low <= exact <= bayes.high
    assert all(one.low <= exact for one in found.results)


# What is learnt -----------------------------------------------------------------------------------


def test_what_is_released_again_is_learnt() -> None:
    """With fresh noise on the same window 40 times, averaging is right where once it guessed."""
    once, often = (library.programmes(10, 6, 0, times=m) for m in (1, 40))
    low, high = (attacked(scene, "linf epsilon=1/25", ["averaging"], 500) for scene in (once, often))
    assert low.worst.high < high.worst.low
    assert not high.is_broken


def test_a_mean_hides_no_mean() -> None:
    """Means without noise leave programmes recognisable, and have no certificate."""
    found = attacked(library.programmes(20, 12, 0), "average slots=4", trials=400)
    assert found.worst.low > 0.9
    assert found.bound is None


def test_attackers_that_learn_find_what_left() -> None:
    """Trained on noised windows, neighbours, features and edges find a kettle in noise of its own size."""
    scene = with_or_without("?", np.full((1, 1, 10), 200), [[[0, 0, 0, 2000, 2000, 0, 0, 0, 0, 0]]], W)
    found = attacked(scene, "linf epsilon=1/100", ["edges", "features", "neighbours"], 600)
    assert min(one.low for one in found.results) > 0.6
    assert min(one.auc_low or 0 for one in found.results) > 0.6


# What check says ----------------------------------------------------------------------------------


def test_check_is_confirmed() -> None:
    """The best attacker is right no more often than `check` says of each event, and of a kettle as often.

    Each of the 20 rows refutes right software with a chance of ALARM at most; the last line with 5%.
    """
    stream = hidden.stream_of("appliance")
    homes = np.random.default_rng(5).integers(80, 900, (2, hidden.DAYS, 1440)).astype(np.float64)
    rows = {
        (row.event, row.days): row for row in hidden.confirm(stream, homes, ["bayes", "averaging"], 1000, 0)
    }
    assert len(rows) == sum(len(REPETITIONS) if event.is_daily else 1 for event in EVENTS)
    assert all(row.is_confirmed for row in rows.values())
    kettle = rows["a kettle", 1]
    assert kettle.high >= (kettle.claimed - 2) / 100
    assert config.terms(stream).hides_wh == 110
