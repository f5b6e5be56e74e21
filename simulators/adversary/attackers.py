"""The attackers that test a claim of privacy, and what each of them knows.

| name | method | knows |
|---|---|---|
| bayes | the class with the largest posterior: no attacker is right more often | distribution, all points |
| correlation | the largest normalised correlation with a signature (Greveler 2012) | all points |
| averaging | the signature nearest to the mean of the m windows: noise averages out | all points |
| edges | the largest rise, fall, and rise followed by a fall (Hart 1992) | released windows |
| features | a linear discriminant on nine features of a window | released windows |
| neighbours | a vote of the 15 nearest released windows | released windows |

The last three learn only from released windows, which attackers can make by releasing windows of their own;
`averaging` learns the size of the noise from such windows. All attackers use only numpy; a stronger attacker,
such as a random forest, is given as `package.module:Name`. No attacker beats `bayes` if `bayes` knows the
distribution of the mechanism's output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from simulators.adversary.base import Attacker, Releases, log_masses
from simulators.adversary.scene import Floats, Integers, Scene

NEIGHBOURS = 15
_RIDGE = 1e-6  # keeps variances above 0, so that no division fails if a feature is constant


# Attackers that know the signatures ---------------------------------------------------------------


class _InformedAttacker:
    """An attacker that knows the mechanism and the scene; it needs no training unless it overrides `fit`."""

    mechanism: Releases
    scene: Scene

    def know(self, mechanism: Releases, scene: Scene) -> None:
        """Keep the mechanism and the scene."""
        self.mechanism, self.scene = mechanism, scene

    def fit(self, windows: Integers, labels: Integers) -> object:  # noqa: ARG002
        """Return the attacker unchanged, since there is nothing more to learn."""
        return self


class Bayes(_InformedAttacker):
    """The best possible attacker that knows the mechanism and the scene.

    It sums P(windows | point) over the points of each class and normalises. If the points are equally likely,
    no attacker is expected to be right more often.
    """

    def predict_proba(self, windows: Integers) -> Floats:
        """Return the posterior of each class for equally likely points."""
        return _posterior(log_masses(self.mechanism, self.scene, windows), self.scene)


class Correlation(_InformedAttacker):
    """An attacker that prefers the signature that correlates best with the windows (Greveler et al. 2012)."""

    def predict_proba(self, windows: Integers) -> Floats:
        """Return 1 + the best correlation with a signature of each class, normalised to a sum of 1."""
        points = self.scene.points.reshape(len(self.scene.points), -1)
        correlation = _unit(windows) @ _unit(points).T
        score = 1 + np.transpose([correlation[:, members].max(axis=1) for members in _members(self.scene)])
        return _normalise(np.maximum(score, 0))


class Averaging(_InformedAttacker):
    """An attacker that compares the mean of a trial's m windows with that of each point, by least squares.

    If a window is released m times with fresh noise, the noise averages out to sd/sqrt(m).
    """

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn the variance of the means around their points."""
        squares = np.transpose(
            [self._squares(windows)[:, members].min(axis=1) for members in _members(self.scene)]
        )
        of_true_class = squares[np.arange(len(labels)), labels]
        self._variance = max(float(of_true_class.mean()) / self.scene.slots, _RIDGE)
        return self

    def predict_proba(self, windows: Integers) -> Floats:
        """Return the posterior of each class, assuming normal noise on the means."""
        return _posterior(-self._squares(windows) / (2 * self._variance), self.scene)

    def _squares(self, windows: Integers) -> Floats:
        """Return the squared distances between the mean windows of trials and of points, (trials, K)."""
        means = windows.reshape(len(windows), self.scene.windows, -1).mean(axis=1)
        return squared_distances(means, self.scene.points.mean(axis=1))


def _members(scene: Scene) -> list[NDArray[np.bool_]]:
    """Return, for each class, a mask of its points."""
    return [scene.labels == label for label in range(scene.classes)]


def _posterior(logs: Floats, scene: Scene) -> Floats:
    """Return the posterior of each class, (trials, C), from the log masses of the points, (trials, K).

    If no point is possible, all classes get equal shares.
    """
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - np.where(np.isfinite(top), top, 0))
    return _normalise(np.transpose([weights[:, members].sum(axis=1) for members in _members(scene)]))


def _normalise(weights: Floats) -> Floats:
    """Scale each row to a sum of 1; a row of zeros gets equal shares."""
    total = weights.sum(axis=1, keepdims=True)
    share = np.divide(weights, total, out=np.full_like(weights, 1 / weights.shape[1]), where=total > 0)
    return np.asarray(share)


def _unit(rows: Integers) -> Floats:
    """Centre rows and scale them to length 1; a constant row becomes 0."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def squared_distances(rows: Floats, other_rows: Floats) -> Floats:
    """Return the squared Euclidean distance of each pair of rows, (rows, other rows).

    Floats are used; the result is exact for integers if no sum of squares exceeds 2^53.
    """
    middle = np.rint(other_rows.mean(axis=0))  # subtracted so that x @ y loses fewer digits
    x, y = rows - middle, other_rows - middle
    squares = (x**2).sum(axis=1)[:, np.newaxis] + (y**2).sum(axis=1) - 2 * x @ y.T
    return np.asarray(np.maximum(squares, 0), np.float64)


# Attackers that learn from released windows -------------------------------------------------------


class _Discriminant(ABC):
    """Fisher's linear discriminant on features, for equally likely classes of equal covariance."""

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn the mean of each class, and the covariance of the features within the classes."""
        features = self._features(windows)
        self._means = np.array([features[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
        within = features - self._means[labels]
        self._scale = within.std(axis=0) + _RIDGE * (1 + np.abs(self._means).max(axis=0))
        covariance = np.atleast_2d(np.cov((within / self._scale).T, bias=True))
        self._weights = np.linalg.inv(covariance + _RIDGE * np.eye(len(covariance)))
        return self

    def predict_proba(self, windows: Integers) -> Floats:
        """Return the posterior of each class, assuming normally distributed features."""
        features = self._features(windows) / self._scale
        means = self._means / self._scale
        middle = means.mean(axis=0)
        means, features = means - middle, features - middle
        logs = features @ self._weights @ means.T - np.einsum("ci,ij,cj->c", means, self._weights, means) / 2
        return _normalise(np.exp(logs - logs.max(axis=1, keepdims=True)))

    @abstractmethod
    def _features(self, windows: Integers) -> Floats:
        """Return the features of windows, (trials, features)."""


class Features(_Discriminant):
    """The discriminant on nine features of a window.

    They are the mean, sd, minimum, maximum and median of the slots; the largest and the smallest step between
    neighbouring slots, and the mean of the absolute values of all steps; and the autocorrelation at lag 1.
    """

    def _features(self, windows: Integers) -> Floats:
        x = windows.astype(np.float64)
        steps = _steps(windows)
        centred = x - x.mean(axis=1, keepdims=True)
        square = (centred**2).sum(axis=1)
        lagged = (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
        autocorrelation = np.divide(lagged, square, out=np.zeros_like(square), where=square > 0)
        plain = [x.mean(axis=1), x.std(axis=1), x.min(axis=1), x.max(axis=1), np.median(x, axis=1)]
        moving = [steps.max(axis=1), steps.min(axis=1), np.abs(steps).mean(axis=1), autocorrelation]
        return np.transpose(plain + moving)


class Edges(_Discriminant):
    """The discriminant on edges: the largest rise, fall, and rise followed by a fall (Hart 1992).

    Training finds how the three heights differ between the classes. With only one slot, there are no edges,
    and all heights are 0.
    """

    def _features(self, windows: Integers) -> Floats:
        steps = _steps(windows)
        risen = np.maximum.accumulate(np.maximum(steps, 0), axis=1)
        pair = np.minimum(risen, np.maximum(-steps, 0)).max(axis=1)
        return np.transpose([steps.max(axis=1), steps.min(axis=1), pair])


def _steps(windows: Integers) -> Floats:
    """Return the differences between neighbouring slots, or a single 0 if there is only one slot."""
    steps = np.diff(windows, axis=1).astype(np.float64)
    return steps if steps.shape[1] else np.zeros((len(windows), 1))


class Neighbours:
    """An attacker that prefers the most frequent class among the nearest training windows."""

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Keep the windows and their classes."""
        self._windows, self._labels = windows.astype(np.float64), labels
        return self

    def predict_proba(self, windows: Integers) -> Floats:
        """Return the share of each class among the nearest training windows."""
        count = min(NEIGHBOURS, len(self._labels))
        squares = squared_distances(windows.astype(np.float64), self._windows)
        nearest = self._labels[np.argpartition(squares, count - 1, axis=1)[:, :count]]
        classes = np.arange(self._labels.max() + 1)
        return np.asarray((nearest[:, :, np.newaxis] == classes).mean(axis=1), np.float64)


ATTACKERS: Mapping[str, Callable[[], Attacker]] = {
    "bayes": Bayes,
    "correlation": Correlation,
    "averaging": Averaging,
    "edges": Edges,
    "features": Features,
    "neighbours": Neighbours,
}
