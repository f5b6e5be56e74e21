"""What an attacker is: anything that learns from released windows with their classes, and then names classes.

The two methods are those of a scikit-learn classifier, so each of these is an attacker as it stands:

    python -m simulators attack programmes --attack "sklearn.ensemble:RandomForestClassifier n_estimators=100"
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from simulators.adversary.scene import Floats, Integers, Scene


class Releases(Protocol):
    """What is attacked: `meteragent.privacy`'s mechanisms, and anybody's with these two methods.

    Windows are integers in quanta of shape (..., n).
    """

    def release(self, windows: Any, *, bits: Any = None) -> NDArray[Any]:
        """The windows with fresh noise."""
        ...

    def log_mass(self, outputs: Any, point: Any) -> Floats:
        """The log of the probability of each of `outputs` where `point`, one window, is released."""
        ...


class Attacker(Protocol):
    """Says which class a released window was of.

    `windows` are as they left: whole quanta of shape (trials, m n), the m windows of a trial side by side.
    """

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn from windows that left, and the class of each. All classes occur."""
        ...

    def predict_proba(self, windows: Integers) -> Floats:
        """How likely each class is, (trials, C), the columns in the order of the classes."""
        ...


@runtime_checkable
class Informed(Attacker, Protocol):
    """An attacker that knows the law of the mechanism and the points that may have been played."""

    def know(self, mechanism: Releases, scene: Scene) -> None:
        """Told before `fit`."""
        ...


def log_masses(mechanism: Releases, scene: Scene, windows: Integers) -> Floats:
    """The log of P(windows | point) of each trial and each point, (trials, K): its m windows are independent.

    What all points share says nothing, so windows in which they do not differ are left out.
    """
    seen = windows.reshape(len(windows), scene.windows, scene.slots)
    differ = np.flatnonzero((scene.points != scene.points[0]).any(axis=(0, 2)))
    found = np.zeros((len(seen), len(scene.points)))
    for number, point in enumerate(scene.points):
        for window in differ:
            found[:, number] += mechanism.log_mass(seen[:, window], point[window])
    return found
