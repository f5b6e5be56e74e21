"""Attack a mechanism on a scene: measure how often each attacker is right, and the bounds on all attackers.

Half of all draws train the attackers, and the other half are attacked; everything follows from one seed. The
intervals of rates are Clopper-Pearson intervals, with a Bonferroni correction over the attackers, so all
intervals, including that of the worst attacker, hold together with a probability of at least 1 - alarm. The
same is true of the intervals for the area under the ROC curve, which are Hoeffding's, for a mean over pairs.
Separate, wider intervals decide whether a promise is broken: a true promise is called broken with a
probability of at most `SURE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from meteragent.privacy import SeededBits
from meteragent.privacy.statistics import clopper_pearson
from meteragent.privacy.table import Columns
from simulators.adversary import bound
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.base import Informed
from simulators.adversary.mechanism import Rival
from simulators.adversary.named import Unusable, make
from simulators.adversary.scene import Floats, Integers, Scene

ALARM, SURE = 0.05, 1e-6
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class AttackResult:
    """The result of one attacker, right in a fraction `rate` of the trials, with the interval [low, high].

    `auc` is the area under the ROC curve, with the interval [auc_low, auc_high], and `f1` the harmonic mean
    of precision and recall for class 1. These four fields are None if there are more than two classes.
    """

    attacker: str
    rate: float
    low: float
    high: float
    auc: float | None = None
    auc_low: float | None = None
    auc_high: float | None = None
    f1: float | None = None


@dataclass(frozen=True)
class Outcome(Columns):
    """The results of all attackers on one mechanism.

    `error_w` is the root mean square error of a slot. No attacker's rate exceeds `bound`, and no area under
    the ROC curve exceeds `auc_bound`, if the promise is kept. `odds` is the largest observed change in
    log-odds, relative to the promise. These three are None if there is no promise or if they are not known.
    `is_broken` states whether the attacks or the odds refute the promise.
    """

    mechanism: str
    epsilon: str | None
    error_w: float
    trials: int
    results: tuple[AttackResult, ...]
    bound: float | None
    auc_bound: float | None
    odds: float | None
    is_broken: bool

    @property
    def worst(self) -> AttackResult:
        """The attacker that is right most often."""
        return max(self.results, key=lambda result: result.rate)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of a table with a row for each attacker.

        The columns are the mechanism, its error, the bound, and the fields of `AttackResult`.
        """
        rows = [asdict(result) for result in self.results]
        common = {"mechanism": self.mechanism, "error_w": self.error_w, "bound": self.bound}
        return {name: [{**common, **row}[name] for row in rows] for name in (*common, *rows[0])}

    def figures(self) -> dict[str, Any]:
        """Return the outcome and the name of the worst attacker as data for JSON.

        Infinite odds become a string, as JSON has no infinity.
        """
        odds = str(self.odds) if self.odds is not None and math.isinf(self.odds) else self.odds
        data = {"found" if name == "results" else name: value for name, value in asdict(self).items()}
        return {**data, "odds": odds, "worst": self.worst.attacker}


def measure(
    scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int, alarm: float = ALARM
) -> Outcome:
    """Attack `rival` with each of `attackers`, given as "name key=value ..", in `trials` trials.

    Raises Unusable if an attacker cannot be constructed or needs something that the mechanism lacks, if there
    is no attacker, if there are more points than trials, if `release` fails or returns an array of another
    shape, or if an attacker returns an array of another shape or numbers that are not finite.
    """
    answers = _ask(scene, rival, attackers, trials, seed)
    error = answers.outputs - scene.points[answers.played].reshape(trials, -1)
    bounds = _Bounds.of(scene, rival, answers.outputs)
    return Outcome(
        mechanism=rival.name,
        epsilon=None if rival.promise is None else str(rival.promise.epsilon),
        error_w=float(scene.quantum) * float(np.sqrt(np.mean(np.square(error.astype(np.float64))))),
        trials=trials,
        results=tuple(_judge(scene, attackers, answers, alarm)),
        **asdict(bounds),
        is_broken=bounds.is_beaten(_judge(scene, attackers, answers, SURE)),
    )


@dataclass(frozen=True)
class _Bounds:
    """The bounds of an `Outcome`."""

    bound: float | None
    auc_bound: float | None
    odds: float | None

    @classmethod
    def of(cls, scene: Scene, rival: Rival, outputs: Integers) -> Self:
        """Compute the bounds that follow from the rival's promise; all are None if there is no promise.

        The odds are also None if the mechanism does not state its distribution (`log_mass`).
        """
        promise = rival.promise
        if promise is None:
            return cls(None, None, None)
        has_log_mass = hasattr(rival.mechanism, "log_mass")
        odds = bound.odds(rival.mechanism, promise, scene, outputs) if has_log_mass else None
        return cls(bound.success(promise, scene), bound.area(promise, scene), odds)

    def is_beaten(self, results: Sequence[AttackResult]) -> bool:
        """Return whether the odds change more than promised, or an attacker's interval is above a bound."""
        return (
            (self.odds or 0) > 1 + _LAST_DIGITS
            or any(self.bound is not None and result.low > self.bound for result in results)
            or any(
                self.auc_bound is not None and (result.auc_low or 0) > self.auc_bound for result in results
            )
        )


def rights(scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int) -> Integers:
    """Count the trials in which each attacker is right. Raises Unusable in the same cases as `measure`."""
    answers = _ask(scene, rival, attackers, trials, seed)
    labels = scene.labels[answers.played]
    return np.array(
        [(probabilities.argmax(axis=1) == labels).sum() for probabilities in answers.probabilities]
    )


@dataclass(frozen=True, eq=False)
class _Answers:
    """Each trial's point index, the outputs, (trials, m n), and each attacker's answers, (trials, C)."""

    played: Integers
    outputs: Integers
    probabilities: list[Floats]


def _ask(scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int) -> _Answers:
    if trials < len(scene.points) or not attackers:
        raise Unusable(f"{len(scene.points)} points need at least as many trials, and at least one attacker")
    played = scene.play(trials)
    train, test = (_release(scene, rival, played, seed, part) for part in range(2))
    labelled = train, scene.labels[played]
    probabilities = [_predict(name, scene, rival, labelled, test, seed) for name in attackers]
    return _Answers(played, test, probabilities)


def _release(scene: Scene, rival: Rival, point_indices: Integers, seed: int, part: int) -> Integers:
    """Return the released windows of all trials, (trials, m n), in quanta."""
    key = np.random.SeedSequence([seed, part]).generate_state(4).tobytes()
    bits = SeededBits(int.from_bytes(key, "little"))
    windows = scene.points[point_indices]
    try:
        noisy = np.asarray(rival.mechanism.release(windows, bits=bits))
    except (TypeError, ValueError, IndexError) as error:
        raise Unusable(f"{rival.name}: release fails on windows of shape {windows.shape}: {error}") from error
    if noisy.shape != windows.shape:
        raise Unusable(f"{rival.name}: release must keep the shape {windows.shape}; it returns {noisy.shape}")
    return noisy.reshape(len(point_indices), -1)


def _predict(
    name: str, scene: Scene, rival: Rival, labelled: tuple[Integers, Integers], test: Integers, seed: int
) -> Floats:
    """Train an attacker and return its predictions for each trial, (trials, C)."""
    attacker = make(name, ATTACKERS, seed=seed, random_state=seed)
    try:
        if isinstance(attacker, Informed):
            attacker.know(rival.mechanism, scene)
        attacker.fit(*labelled)
        probabilities = np.asarray(attacker.predict_proba(test), np.float64)
    except AttributeError as error:
        raise Unusable(f"{name} cannot attack {rival.name}: {error}") from error
    if probabilities.shape != (len(test), scene.classes) or not np.isfinite(probabilities).all():
        raise Unusable(
            f"{name} must return a finite probability for each of {scene.classes} classes; it returns an "
            f"array of shape {probabilities.shape}"
        )
    return probabilities


def _judge(scene: Scene, attackers: Sequence[str], answers: _Answers, alarm: float) -> list[AttackResult]:
    """Measure how often each attacker was right, with intervals that hold together."""
    labels, share = scene.labels[answers.played], alarm / len(attackers)
    return [_result(*answer, labels, share) for answer in zip(attackers, answers.probabilities, strict=True)]


def _result(name: str, probabilities: Floats, labels: Integers, alarm: float) -> AttackResult:
    guesses, trials = probabilities.argmax(axis=1), len(labels)
    successes = int((guesses == labels).sum())
    low, high = (float(end) for end in clopper_pearson(successes, trials, alarm))
    if probabilities.shape[1] > 2:
        return AttackResult(name, successes / trials, low, high)
    auc, positives = area_under_roc(probabilities[:, 1], labels), int(labels.sum())
    margin = math.sqrt(math.log(2 / alarm) / (2 * min(positives, trials - positives)))
    hits = int(((guesses == 1) & (labels == 1)).sum())
    f1 = 2 * hits / (int(guesses.sum()) + positives)
    return AttackResult(
        name, successes / trials, low, high, auc, max(0.0, auc - margin), min(1.0, auc + margin), f1
    )


def area_under_roc(scores: Floats, labels: Integers) -> float:
    """Return the probability that a trial of class 1 scores above a trial of class 0; ties count half."""
    ordered, rank = np.unique(scores, return_inverse=True)
    ones = np.bincount(rank[labels == 1], minlength=len(ordered))
    zeros = np.bincount(rank[labels == 0], minlength=len(ordered))
    zeros_below = np.cumsum(zeros) - zeros / 2
    return float(ones @ zeros_below / (ones.sum() * zeros.sum()))
