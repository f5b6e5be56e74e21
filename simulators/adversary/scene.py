"""The question for the attackers: which class of load was released with noise?

A scene is a set of equally likely points, each with a class. A point is m windows of n slots in whole quanta;
each window is released separately. There are three kinds of scene:

* a library: each class is one point (which of N programmes was it?);
* with or without: a load, and the same load with an event added (was the kettle on? was somebody home?);
* either of these, repeated: the same window, released several times with fresh noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, init=False, eq=False)
class Scene:
    """Points of m windows of n slots in quanta, shape (K, m, n), with their classes, 0 .. C-1, in `labels`.

    `question` is shown to users; `quantum` is in W. Raises TypeError if points are not integers, and
    ValueError if a shape is wrong, a class has no point, or there are fewer than two classes.
    """

    question: str
    points: Integers
    labels: Integers
    quantum: Fraction

    def __init__(self, question: str, points: ArrayLike, labels: ArrayLike, quantum: Fraction) -> None:
        array, classes = np.asarray(points), np.asarray(labels)
        if array.dtype.kind not in "iu":
            raise TypeError(f"points must be whole quanta, an array of integers, not of {array.dtype}")
        if array.ndim != 3 or 0 in array.shape or classes.shape != array.shape[:1]:
            raise ValueError(f"points must have shape (K, m, n), not {array.shape}, with a label for each")
        if len(distinct := np.unique(classes)) < 2 or distinct.tolist() != list(range(len(distinct))):
            raise ValueError("labels must be 0 .. C-1, each of them used, and at least two")
        for name, value in (("points", array.astype(np.int64)), ("labels", classes.astype(np.int64))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "question", question)
        object.__setattr__(self, "quantum", quantum)

    @property
    def classes(self) -> int:
        """The number C of classes."""
        return int(self.labels.max()) + 1

    @property
    def windows(self) -> int:
        """The number m of windows of a point."""
        return int(self.points.shape[1])

    @property
    def slots(self) -> int:
        """The number n of slots of a window."""
        return int(self.points.shape[2])

    @property
    def guess(self) -> float:
        """The success rate of guessing without data, which is the largest class's fraction of the points."""
        return float(np.bincount(self.labels).max() / self.labels.size)

    @property
    def is_paired(self) -> bool:
        """Whether the first half of the points has class 0, and the second half class 1."""
        half = len(self.points) // 2
        return bool(np.array_equal(self.labels, np.repeat([0, 1], half)))

    def distances(self) -> Integers:
        """Return d_inf between all points, summed over windows, in quanta, shape (K, K)."""
        return np.array([np.abs(self.points - x).max(axis=2).sum(axis=1) for x in self.points])

    def play(self, trials: int) -> Integers:
        """Return the index of each trial's point; the points take turns."""
        return np.arange(trials) % len(self.points)


def library(question: str, signatures: ArrayLike, quantum: Fraction, times: int = 1) -> Scene:
    """Construct a scene: which of N signatures, shape (N, n) in quanta, was released `times` times?"""
    points = np.asarray(signatures)[:, np.newaxis]
    return Scene(question, np.repeat(points, times, axis=1), np.arange(len(points)), quantum)


def with_or_without(question: str, loads: ArrayLike, shift: ArrayLike, quantum: Fraction) -> Scene:
    """Construct a scene: was an event added to `loads`?

    `loads` has shape (loads, m, n). `shift` is added to them; it is also in quanta, and must broadcast to
    their shape.
    """
    plain = np.asarray(loads)
    points = np.concatenate([plain, plain + np.asarray(shift)])
    return Scene(question, points, np.repeat([0, 1], len(plain)), quantum)
