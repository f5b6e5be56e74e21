"""Family C: the queries for which the usual noise already keeps a stronger promise.

Theory of operation
-------------------
The sensitivity Delta_d of a query f is the least c with |f(x) - f(x')| <= c d(x, x'). Laplace noise of scale
Delta_d/epsilon on the query's answers is epsilon-d-private (Chatzikokolakis 2013, Definition 4, Fact 5, Fact
7). Let d' <= d; for example, the normalised d_1 is at most d_h. Epsilon-d'-privacy is a stronger promise
(Proposition 1) and in general needs more noise, because Delta_d' >= Delta_d. A query with Delta_d' = Delta_d
needs no more noise: the noise that makes its answers epsilon-d-private also makes them epsilon-d'-private.
These queries are the family C of d and d'. Propositions 4 and 5 treat special cases. The statement for any
two metrics and its converse are ours: the same noise keeps the stronger promise only for the queries in C.
Proof of the converse: the loss of Laplace noise between answers y and y' is epsilon |y - y'|/Delta_d, and it
is attained. So if Delta_d' > Delta_d, some x, x' have a loss above epsilon d'(x, x'). Discrete Laplace noise
and the truncated geometric mechanism attain the same loss on their lattice, so the converse holds for them,
too.

For n rows with values in a set V of width w, sum and average are in C for d_h and d_1/w. So are minimum,
maximum and percentiles. These are also in C for d_h and d_inf/w, but sum and average are not if n > 1. A
count of the rows above a threshold is in C only if each value of V above the threshold is w apart from each
value that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from meteragent.privacy.metric import Metric, absolute, domination


def same_noise(
    query: Callable[[Any], Any], points: Sequence[Hashable], metric: Metric, stronger: Metric
) -> bool:
    """Return whether a query with numeric answers is in C: whether its sensitivity is the same for both.

    `points` is the finite set of the query's arguments. The result is exact for exact answers and distances.

    Raises:
        ValueError: `stronger` exceeds `metric` for some pair, so its promise is not stronger.
    """
    if domination(points, stronger, metric) > 1:
        raise ValueError("the metric of the stronger promise must nowhere exceed the other metric")

    def change(x: Any, y: Any) -> Any:
        """Return the distance between the answers for x and y."""
        return absolute(query(x), query(y))

    return domination(points, change, stronger) == domination(points, change, metric)
