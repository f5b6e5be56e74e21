"""What no attacker beats on a scene, if a mechanism keeps the promise it makes.

* A library of N points: `certificate`, the linear program over all mechanisms as private (or the proof by
  hand where N is too large for it). m windows of n slots are one window of m n slots at m times epsilon:
  the losses of windows add, and none is farther apart than all slots together.
* With or without an event: `success_bound`. In each window the event moves no load by more than the largest
  d_inf, so each pair is dominated by the same discrete Laplace pairs. Their power B is concave, so the mean
  over loads, which is what an attacker has who does not know the load, is dominated too. The area under the
  ROC curve is at most that under B.

The odds need no attacker: |ln P(z | x)/P(z | x')| over outputs z that were seen, and those that are points.
"""

import numpy as np

from meteragent.privacy import LatticePair, LInfLaplace, success_bound
from meteragent.privacy.certificate import Library, certify, mixture
from simulators.adversary.base import Releases, log_masses
from simulators.adversary.scene import Integers, Scene

CERTIFIED = 20
"""So many points take the linear program a second; more have the proof by hand."""
_ROC_STEPS = 1000
_OUTPUTS = 500


def success(promise: LInfLaplace, scene: Scene) -> float | None:
    """The most often that anybody is right if the mechanism is as private as `promise`; None: not known."""
    if scene.paired:
        moved = np.abs(np.subtract(*np.split(scene.points, 2))).max(axis=(0, 2))
        return success_bound(promise, [k * promise.quantum for k in moved.tolist()])
    if scene.classes < len(scene.points):
        return None
    signatures = Library(scene.points.reshape(len(scene.points), -1))
    whole = LInfLaplace(promise.epsilon * scene.windows, promise.quantum, signatures.signatures.shape[1])
    if scene.classes > CERTIFIED:
        return mixture(whole, signatures).bound
    return min(1.0, certify(whole, signatures).bound)


def area(promise: LInfLaplace, scene: Scene) -> float | None:
    """The largest area under the ROC curve, with or without an event; None: there are more classes."""
    if not scene.paired:
        return None
    moved = np.abs(np.subtract(*np.split(scene.points, 2))).max(axis=(0, 2))
    pair = LatticePair(promise.a, int(moved.sum()))
    # The middle of a step: not below the mean of a concave function over it.
    return float(np.mean([pair.power((i + 0.5) / _ROC_STEPS) for i in range(_ROC_STEPS)]))


def odds(mechanism: Releases, promise: LInfLaplace, scene: Scene, windows: Integers) -> float:
    """The largest change of log-odds between two points, in parts of what is promised: above 1 it is broken.

    The promise is epsilon d_inf, added up over the m windows.
    """
    outputs = np.concatenate([scene.points.reshape(len(scene.points), -1), windows[:_OUTPUTS]])
    logs, allowed = log_masses(mechanism, scene, outputs), float(promise.a) * scene.distances()
    worst = 0.0
    for number, own in enumerate(logs.T):
        apart = allowed[number] > 0
        # An output that neither point can give says nothing.
        given = np.isfinite(np.maximum(own[:, np.newaxis], logs[:, apart]))
        with np.errstate(invalid="ignore"):
            change = np.abs(own[:, np.newaxis] - logs[:, apart]) / allowed[number, apart]
        worst = max(worst, float(np.max(change, where=given, initial=0.0)))
    return worst
