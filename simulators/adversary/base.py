"""The interfaces of mechanisms and attackers, and the log masses of all points.

An attacker is trained on released windows of known class and then predicts classes. Its two methods are those
of scikit-learn's classifiers, so any classifier with `predict_proba` can be an attacker:
    python -m simulators attack programmes --attack "sklearn.ensemble:RandomForestClassifier n_estimators=100"
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from simulators.adversary.scene import Floats, Integers, Scene


class Releases(Protocol):
    """A mechanism to attack: one of `meteragent.privacy`, or any object with these two methods.

    Windows are arrays of whole quanta, of shape (..., n).
    """

    def release(self, windows: Any, *, bits: Any = None) -> NDArray[Any]:
        """Release windows with fresh noise."""
        ...

    def log_mass(self, outputs: Any, point: Any) -> Floats:
        """Return ln of the probability of each output if the window `point` is released."""
        ...


class Attacker(Protocol):
    """A classifier of released windows.

    `windows` holds released windows in whole quanta, shape (trials, m n). Each row has a trial's m windows
    side by side.
    """

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn from released windows and their classes. Every class occurs at least once."""
        ...

    def predict_proba(self, windows: Integers) -> Floats:
        """Return the probability of each class, shape (trials, C), with columns in class order."""
        ...


@runtime_checkable
class Informed(Attacker, Protocol):
    """An attacker that knows the mechanism's distribution and the points of the scene."""

    def know(self, mechanism: Releases, scene: Scene) -> None:
        """Store the mechanism and the scene. This is called before `fit`."""
        ...


def log_masses(mechanism: Releases, scene: Scene, windows: Integers) -> Floats:
    """Return ln P(windows | point) up to a constant for each trial, shape (trials, K).

    The sum runs over those of a trial's m independent windows in which the points differ. Every other window
    would add the same number for all points.
    """
    trials = windows.reshape(len(windows), scene.windows, scene.slots)
    differing = np.flatnonzero((scene.points != scene.points[0]).any(axis=(0, 2)))
    logs = np.zeros((len(trials), len(scene.points)))
    for number, point in enumerate(scene.points):
        for window in differing:
            logs[:, number] += mechanism.log_mass(trials[:, window], point[window])
    return logs
