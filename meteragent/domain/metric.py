"""The metrics of promises: the distance between two windows, from the distances in their slots."""

from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction


class Metric(StrEnum):
    """The distance between two windows: the largest difference in any slot, or the sum over all slots."""

    LINF = "linf"
    L1 = "l1"

    @property
    def is_sum(self) -> bool:
        """Whether the distances in all slots add up; then each slot has a noise bound of its own."""
        return self is Metric.L1

    def norm(self, distances: Iterable[Fraction]) -> Fraction:
        """Return the distance of two windows, given the distances in those of their slots that differ."""
        return sum(distances, Fraction(0)) if self.is_sum else max(distances, default=Fraction(0))
