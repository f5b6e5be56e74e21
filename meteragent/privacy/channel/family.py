"""Family C: the queries for which the usual noise already keeps a stronger promise.

The sensitivity Delta_d of a query f is the least c with |f(x) - f(x')| <= c d(x, x'). Laplace noise of scale
Delta_d/epsilon on its answers is epsilon-d-private (Chatzikokolakis 2013, Definition 4, Facts 5 and 7). Let
d' <= d; for example, the normalised d_1 is at most the Hamming distance d_h. If Delta_d' = Delta_d, the noise
that makes answers epsilon-d-private also makes them epsilon-d'-private, which is a stronger promise
(Proposition 1). These queries are the family C of d and d'. Propositions 4 and 5 treat special cases; the
statement for any two metrics and its converse are ours: the loss epsilon |y - y'|/Delta_d between answers y
and y' is attained, so if Delta_d' > Delta_d, some x, x' have a loss above epsilon d'(x, x').

For n rows with values in a set V of width w, sum, average, minimum, maximum and percentiles are in C for d_h
and d_1/w. For d_h and d_inf/w, sum and average are not in C if n > 1. A count of the rows above a threshold
is in C only if each value of V above the threshold is at the distance w from each value of V that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from meteragent.privacy.metric import Metric, absolute, domination


def has_same_noise(
    query: Callable[[Any], Any], points: Sequence[Hashable], metric: Metric, stronger: Metric
) -> bool:
    """Return whether a query with numeric answers is in C: whether both sensitivities are equal.

    `points` is the finite set of the query's arguments. The result is exact for exact answers and distances.
    Raises ValueError if `stronger` exceeds `metric` for some pair: its promise is then not stronger.
    """
    if domination(points, stronger, metric) > 1:
        raise ValueError("the metric of the stronger promise must nowhere exceed the other metric")

    def change(x: Any, y: Any) -> Any:
        """Return the distance between the answers for x and y."""
        return absolute(query(x), query(y))

    return domination(points, change, stronger) == domination(points, change, metric)
