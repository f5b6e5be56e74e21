"""The values of a curve at given times: a finite projection (Holohan 2014, Theorem 3 and Example 4)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meteragent.privacy.exact import Exact, rational
from meteragent.privacy.metric import Metric, chebyshev
from meteragent.privacy.space import Curve, Curves


@dataclass(frozen=True, init=False)
class Projection:
    """The query for a curve's values at finitely many times; its sensitivity from the sup norm to d_inf is 1.

    The sets of curves whose values at such times lie in given sets are the cylinder sets. They are an algebra
    that generates the events of C([0, T]) (Holohan 2014, Example 4). So a mechanism that releases curves
    keeps its promise if and only if its image under every projection does (Theorem 3; for any metric, THEORY
    4.1). Raises TypeError if a number is not exact; ValueError if `duration_s` is not positive, there is no
    time, or a time is outside [0, T].
    """

    domain: Curves
    times_s: tuple[Fraction, ...]

    def __init__(self, duration_s: Exact, times_s: Sequence[Exact]) -> None:
        object.__setattr__(self, "domain", Curves(duration_s))
        object.__setattr__(self, "times_s", tuple(rational("time_s", t) for t in times_s))
        if not self.times_s or not all(0 <= t <= self.domain.duration_s for t in self.times_s):
            raise ValueError(f"a projection needs times in [0, {self.domain.duration_s}]")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """Return the curve's values at the times."""
        return tuple(curve(t) for t in self.times_s)

    @property
    def k(self) -> int:
        """The number of values."""
        return len(self.times_s)

    def image(self, law: Mapping[Curve, Any]) -> dict[tuple[Fraction, ...], Any]:
        """Return the distribution of a random curve's values, given that of the curve, {curve: chance}."""
        probabilities: defaultdict[tuple[Fraction, ...], Any] = defaultdict(int)
        for curve, probability in law.items():
            probabilities[self(curve)] += probability
        return dict(probabilities)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """The sensitivity, 1: no value changes by more than the curve does in the sup norm."""
        return Fraction(1)
