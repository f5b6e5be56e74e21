"""Attack a mechanism on a scene: how often is each attacker right, and the worst beside what bounds them all.

Half of the draws train the attackers, the other half are attacked; all of it follows from one seed. An
interval misses its truth with a chance of its share of the alarm (Clopper and Pearson; Bonferroni over the
attackers), so all hold together, and that of the worst too, with a chance of 1 - alarm. An area under the ROC
curve has the interval of Hoeffding for a mean over pairs. A promise is called broken by intervals of its own,
so wide that a true one is with a chance of `SURE` at most.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from meteragent.privacy import SeededBits
from meteragent.privacy.statistics import clopper_pearson
from simulators.adversary import bound
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.base import Informed
from simulators.adversary.mechanism import Rival
from simulators.adversary.named import Unusable, made
from simulators.adversary.scene import Floats, Integers, Scene

ALARM, SURE = 0.05, 1e-6
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class Found:
    """What one attacker did: right `rate` of the trials, in [low, high].

    With or without an event also `auc`, the area under the ROC curve, in [auc_low, auc_high], and `f1`, the
    harmonic mean of precision and recall where the event is what is looked for.
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
class Outcome:
    """All attackers on one mechanism.

    error_w: the root of the mean square of what a slot was off by. bound, auc_bound: what no attacker beats
    if the promise is kept. odds: the largest change of log-odds that was seen, in parts of the promise. None
    where there is no promise, or no bound is known.
    """

    mechanism: str
    epsilon: str | None
    error_w: float
    trials: int
    found: tuple[Found, ...]
    bound: float | None
    auc_bound: float | None
    odds: float | None
    broken: bool

    @property
    def worst(self) -> Found:
        """The attacker that is right most often."""
        return max(self.found, key=lambda one: one.rate)

    def figures(self) -> dict[str, Any]:
        """As data for JSON, which knows no infinite numbers: they are strings."""
        odds = str(self.odds) if self.odds is not None and math.isinf(self.odds) else self.odds
        return {**asdict(self), "odds": odds, "worst": self.worst.attacker}


def measure(
    scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int, alarm: float = ALARM
) -> Outcome:
    """Attack `rival` with each of `attackers`, by "name key=value ..", in so many trials.

    Raises:
        Unusable: an attacker cannot be made, or needs what the mechanism has not; there is none, or there
            are fewer trials than points.
    """
    answers = _answers(scene, rival, attackers, trials, seed)
    off = answers.seen - scene.points[answers.played].reshape(trials, -1)
    bounds = _Bounds.of(scene, rival, answers.seen)
    return Outcome(
        mechanism=rival.name,
        epsilon=None if rival.promise is None else str(rival.promise.epsilon),
        error_w=float(scene.quantum) * float(np.sqrt(np.mean(np.square(off.astype(np.float64))))),
        trials=trials,
        found=tuple(_judged(scene, attackers, answers, alarm)),
        **asdict(bounds),
        broken=bounds.beaten(_judged(scene, attackers, answers, SURE)),
    )


@dataclass(frozen=True)
class _Bounds:
    """As in `Outcome`."""

    bound: float | None
    auc_bound: float | None
    odds: float | None

    @classmethod
    def of(cls, scene: Scene, rival: Rival, seen: Integers) -> Self:
        """Those of what is promised, if anything is."""
        promise = rival.promise
        if promise is None:
            return cls(None, None, None)
        states_law = hasattr(rival.mechanism, "log_mass")
        odds = bound.odds(rival.mechanism, promise, scene, seen) if states_law else None
        return cls(bound.success(promise, scene), bound.area(promise, scene), odds)

    def beaten(self, found: Sequence[Found]) -> bool:
        """Whether the odds change by more than is promised, or an attacker is above its bound for sure."""
        return (
            (self.odds or 0) > 1 + _LAST_DIGITS
            or any(self.bound is not None and one.low > self.bound for one in found)
            or any(self.auc_bound is not None and (one.auc_low or 0) > self.auc_bound for one in found)
        )


def rights(scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int) -> Integers:
    """How many of so many trials each attacker was right in, as `measure`; raises the same."""
    answers = _answers(scene, rival, attackers, trials, seed)
    labels = scene.labels[answers.played]
    return np.array([(said.argmax(axis=1) == labels).sum() for said in answers.said])


@dataclass(frozen=True, eq=False)
class _Answers:
    """The point of each trial, what was seen of it, (trials, m n), what each attacker said, (trials, C)."""

    played: Integers
    seen: Integers
    said: list[Floats]


def _answers(scene: Scene, rival: Rival, attackers: Sequence[str], trials: int, seed: int) -> _Answers:
    if trials < len(scene.points) or not attackers:
        raise Unusable(f"{len(scene.points)} points need as many trials at least, and an attacker")
    played = scene.drawn(trials)
    train, test = (_released(scene, rival, played, seed, part) for part in range(2))
    known = train, scene.labels[played]
    said = [_probabilities(name, scene, rival, known, test, seed) for name in attackers]
    return _Answers(played, test, said)


def _released(scene: Scene, rival: Rival, played: Integers, seed: int, part: int) -> Integers:
    """What leaves of the points that were played, (trials, m n)."""
    key = np.random.SeedSequence([seed, part]).generate_state(4).tobytes()
    bits = SeededBits(int.from_bytes(key, "little"))
    noisy = np.asarray(rival.mechanism.release(scene.points[played], bits=bits))
    return noisy.reshape(len(played), -1)


def _probabilities(
    name: str, scene: Scene, rival: Rival, known: tuple[Integers, Integers], test: Integers, seed: int
) -> Floats:
    """What an attacker says of each trial, (trials, C)."""
    attacker = made(name, ATTACKERS, seed=seed, random_state=seed)
    try:
        if isinstance(attacker, Informed):
            attacker.know(rival.mechanism, scene)
        attacker.fit(*known)
        said = np.asarray(attacker.predict_proba(test), np.float64)
    except AttributeError as error:
        raise Unusable(f"{name} cannot attack {rival.name}: {error}") from error
    if said.shape != (len(test), scene.classes) or not np.isfinite(said).all():
        raise Unusable(f"{name} gives a probability for each of {scene.classes} classes, not {said.shape}")
    return said


def _judged(scene: Scene, attackers: Sequence[str], answers: _Answers, alarm: float) -> list[Found]:
    """How right each attacker was, with intervals that hold together."""
    labels, share = scene.labels[answers.played], alarm / len(attackers)
    return [_found(*one, labels, share) for one in zip(attackers, answers.said, strict=True)]


def _found(name: str, said: Floats, labels: Integers, alarm: float) -> Found:
    guesses, trials = said.argmax(axis=1), len(labels)
    right = int((guesses == labels).sum())
    low, high = (float(end) for end in clopper_pearson(right, trials, alarm))
    if said.shape[1] > 2:
        return Found(name, right / trials, low, high)
    auc, positives = area_under_roc(said[:, 1], labels), int(labels.sum())
    margin = math.sqrt(math.log(2 / alarm) / (2 * min(positives, trials - positives)))
    hits = int(((guesses == 1) & (labels == 1)).sum())
    f1 = 2 * hits / (int(guesses.sum()) + positives)
    return Found(name, right / trials, low, high, auc, max(0.0, auc - margin), min(1.0, auc + margin), f1)


def area_under_roc(scores: Floats, labels: Integers) -> float:
    """The chance that a trial of class 1 has a larger score than one of class 0; equal ones count half."""
    ordered, rank = np.unique(scores, return_inverse=True)
    ones = np.bincount(rank[labels == 1], minlength=len(ordered))
    zeros = np.bincount(rank[labels == 0], minlength=len(ordered))
    below = np.cumsum(zeros) - zeros / 2
    return float(ones @ below / (ones.sum() * zeros.sum()))
