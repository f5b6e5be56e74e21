"""Bounds that hold for all attackers of a scene if a mechanism keeps its promise.

* A library of N points: `certify`, a linear program over all mechanisms that keep the promise, or, if N
  exceeds `CERTIFIED`, the smaller program `mixture`. In both programs, m windows of n slots are treated as
  one window of m n slots at m times epsilon, because the losses of windows add up, and the distance in one
  window is at most the distance over all slots.
* With or without an event: `success_bound`. In each window the event changes no load by more than the largest
  d_inf, so the same discrete Laplace pairs dominate every pair. Their power B is concave, so B also bounds
  the mean over loads, which is the power of an attacker that does not know the load. The area under the ROC
  curve is at most the area under B.

The odds need no attacker: they are the largest |ln P(z | x)/P(z | x')|, relative to the promise, over all
pairs of different points x and x', and over all outputs z among the points and up to 500 released outputs.
"""

from __future__ import annotations

import numpy as np

from meteragent.privacy import LatticePair, LInfLaplace, success_bound
from meteragent.privacy.certificate import Library, certify, mixture
from simulators.adversary.base import Releases, log_masses
from simulators.adversary.scene import Integers, Scene

CERTIFIED = 20
"""The largest number of points for which `certify` is used; it then takes about a second."""
_ROC_STEPS = 1000
_OUTPUTS = 500


def success(promise: LInfLaplace, scene: Scene) -> float | None:
    """Return an upper bound on the success rate if `promise` is kept, or None if no bound is known."""
    if scene.is_paired:
        shift = np.abs(np.subtract(*np.split(scene.points, 2))).max(axis=(0, 2))
        return success_bound(promise, [k * promise.quantum for k in shift.tolist()])
    if scene.classes < len(scene.points):
        return None
    signatures = Library(scene.points.reshape(len(scene.points), -1))
    promise_of_all = LInfLaplace(
        promise.epsilon * scene.windows, promise.quantum, signatures.signatures.shape[1]
    )
    if scene.classes > CERTIFIED:
        return mixture(promise_of_all, signatures).bound
    return min(1.0, certify(promise_of_all, signatures).bound)


def area(promise: LInfLaplace, scene: Scene) -> float | None:
    """Return an upper bound on the area under the ROC curve for a paired scene, or None for other scenes."""
    if not scene.is_paired:
        return None
    shift = np.abs(np.subtract(*np.split(scene.points, 2))).max(axis=(0, 2))
    pair = LatticePair(promise.a, int(shift.sum()))
    # The mean of a concave function over a step is at most its value in the middle (Jensen).
    return float(np.mean([pair.power((i + 0.5) / _ROC_STEPS) for i in range(_ROC_STEPS)]))


def odds(mechanism: Releases, promise: LInfLaplace, scene: Scene, windows: Integers) -> float:
    """Return the largest change in log-odds that an output shows between two points, relative to the promise.

    A result above 1 means that the promise (epsilon d_inf, summed over the m windows) is broken. The result
    is infinite if only one of two points can produce an output. `windows` holds released outputs, of which
    the first 500 are used.
    """
    outputs = np.concatenate([scene.points.reshape(len(scene.points), -1), windows[:_OUTPUTS]])
    logs, losses = log_masses(mechanism, scene, outputs), float(promise.a) * scene.distances()
    worst = 0.0
    for number, log in enumerate(logs.T):
        distinct = losses[number] > 0
        # Outputs that neither point can produce are ignored.
        is_possible = np.isfinite(np.maximum(log[:, np.newaxis], logs[:, distinct]))
        with np.errstate(invalid="ignore"):
            change = np.abs(log[:, np.newaxis] - logs[:, distinct]) / losses[number, distinct]
        worst = max(worst, float(np.max(change, where=is_possible, initial=0.0)))
    return worst
