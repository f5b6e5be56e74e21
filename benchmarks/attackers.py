"""The attackers that learn, compared with the same methods of scikit-learn.

`python -m benchmarks.attackers [--out FILE]`. The attackers guess which of 100 simulated programmes was on,
from 30 noisy means over 10 s each. They are trained on 2,000 windows and queried about another 2,000; the
rate is queries per CPU-second, including training. Both sides get the same windows, and both discriminants
use the same features; the note states how often both sides choose the same class. The simulators RAMP and
richardsonpy contain no attackers to compare with.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.harness import Row, peer, report, run
from meteragent.privacy import LInfLaplace, SeededBits
from simulators.adversary.attackers import NEIGHBOURS, Features, Neighbours
from simulators.adversary.library import programmes
from simulators.adversary.scene import Floats, Integers, Scene

PROGRAMMES, SLOTS, TRIALS = 100, 30, 2000
EPSILON = Fraction(1, 10)

Answer = Callable[[], Floats]
"""A function that trains an attacker, and returns the probability of each class for each queried window."""


def observe(scene: Scene, seed: int) -> tuple[Integers, Integers]:
    """Return released windows, shape (trials, slots), and the class of each."""
    classes = scene.play(TRIALS)
    mechanism = LInfLaplace(EPSILON, 1, SLOTS)
    return mechanism.release(scene.points[classes, 0], bits=SeededBits(seed)), scene.labels[classes]


def discriminants(training: tuple[Integers, Integers], queries: Integers) -> tuple[Answer, Answer]:
    """Return our discriminant and scikit-learn's, each as a function that answers the queries."""
    library, (windows, labels), look = peer("sklearn.discriminant_analysis"), training, Features()._features  # noqa: SLF001

    def ours() -> Floats:
        """Train our attacker, and return its answers."""
        attacker = Features()
        attacker.fit(windows, labels)
        return attacker.predict_proba(queries)

    def theirs() -> Floats:
        """Train scikit-learn's classifier, and return its answers."""
        attacker = library.LinearDiscriminantAnalysis().fit(look(windows), labels)
        return np.asarray(attacker.predict_proba(look(queries)))

    return ours, theirs


def votes(training: tuple[Integers, Integers], queries: Integers) -> tuple[Answer, Answer]:
    """Return our nearest-neighbour classifier and scikit-learn's, each as a function that answers queries."""
    library, (windows, labels) = peer("sklearn.neighbors"), training

    def ours() -> Floats:
        """Train our attacker, and return its answers."""
        attacker = Neighbours()
        attacker.fit(windows, labels)
        return attacker.predict_proba(queries)

    def theirs() -> Floats:
        """Train scikit-learn's classifier, and return its answers."""
        attacker = library.KNeighborsClassifier(NEIGHBOURS, algorithm="brute").fit(windows, labels)
        return np.asarray(attacker.predict_proba(queries))

    return ours, theirs


def row(name: str, against: str, calls: tuple[Answer, Answer]) -> Row:
    """Return a row that compares two calls; the note states the share of windows on which they agree."""
    ours, theirs = calls
    agreement = np.mean(ours().argmax(axis=1) == theirs().argmax(axis=1))
    note = f"the same answer for {100 * agreement:.1f}% of windows"
    return Row(name, against, ours, theirs, None, note, (TRIALS, TRIALS), "windows")


def main() -> None:
    """Run the benchmark, and print its results."""
    scene = programmes(PROGRAMMES, SLOTS, 0)
    training, (queries, _) = observe(scene, 1), observe(scene, 2)
    rows = []
    if peer("sklearn") is not None:
        features, nearest = discriminants(training, queries), votes(training, queries)
        rows = [
            row("attacker: features", "scikit-learn's linear discriminant", features),
            row("attacker: 15 neighbours", "scikit-learn's KNeighborsClassifier", nearest),
        ]
    report(run(rows), ["numpy", "scikit-learn"])


if __name__ == "__main__":
    main()
