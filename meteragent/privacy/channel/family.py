"""Family C: queries for which the usual noise already gives a stronger promise.

Theory of operation
-------------------
A query f has sensitivity Delta_d, the least c with |f(x) - f(x')| <= c d(x, x'), and Laplace noise of scale
Delta_d/epsilon on its answers is epsilon-d-private (Chatzikokolakis 2013, Definition 4, Fact 5, Fact 7).
Let d' <= d; for example, the normalised d_1 is at most d_h. Epsilon-d'-privacy is a stronger promise
(Proposition 1), and in general needs more noise, because Delta_d' >= Delta_d. For queries with Delta_d' =
Delta_d it does not: the noise that gives epsilon-d-privacy is already epsilon-d'-private. These queries are
the family C of d and d'. Propositions 4 and 5 treat special cases; the form here for any two metrics, and its
converse, are ours. Proof of the converse: the loss of Laplace noise between answers y and y' is
epsilon |y - y'|/Delta_d, and it is attained. So if Delta_d' > Delta_d, some x, x' have a loss above
epsilon d'(x, x'). The same noise gives the stronger notion only for the queries in C. Discrete Laplace and
the truncated geometric mechanism attain the same loss on their lattice, so the converse holds for them, too.

With n rows in a set V of numbers of width w, sum and average are in C for d_h and d_1/w. So are minimum,
maximum and percentiles; these are also in C for d_h and d_inf/w, but sum and average are not if n > 1. A
count of the rows above a threshold is in C only if every value of V above the threshold is w apart from every
other value of V.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from meteragent.privacy.metric import Metric, absolute, domination


def same_noise(
    query: Callable[[Any], Any], points: Sequence[Hashable], metric: Metric, stronger: Metric
) -> bool:
    """Return whether a query with numeric answers is in C, that is, has equal sensitivity for both metrics.

    The points are a finite set; the result is exact where distances are Fractions.

    Raises:
        ValueError: `stronger` is above `metric` somewhere, so that its promise is not stronger.
    """
    if domination(points, stronger, metric) > 1:
        raise ValueError("the metric of the stronger promise must nowhere exceed the other metric")

    def change(x: Any, y: Any) -> Any:
        """Return the distance between the answers."""
        return absolute(query(x), query(y))

    return domination(points, change, stronger) == domination(points, change, metric)
