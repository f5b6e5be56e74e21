"""The universally optimal mechanism after a query, if there is one (Chatzikokolakis 2013, Theorem 10).

If the answers of a query f are q [0..k] and f is uniformly Delta-sensitive, the truncated geometric mechanism
with epsilon/Delta on the answers is f-epsilon d_X-optimal (Definition 7): no epsilon d_X-private mechanism H
after f is better for a user who remaps outputs optimally, for any prior and any loss that grows with the
distance. (The paper's theorem has Delta d_X; its corollaries show that the epsilon is missing.)
"""

from fractions import Fraction
from itertools import combinations, pairwise

from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.mechanism.response import After
from meteragent.privacy.query import Query


class NotUniform(ValueError):
    """The error raised if Theorem 10 does not apply to a query; its message states what fails."""


def universal_mechanism(query: Query, epsilon: Exact) -> After:
    """Return the truncated geometric mechanism after `query` (Theorem 10).

    A query that is known to be uniformly sensitive may have a space of any size. Raises NotUniform if the
    answers are not q [0..k] for a k >= 1, or no tight chain of expansive links joins two of them; ValueError
    if epsilon is not positive, the sensitivity is not exact, or the space is too large to search.
    """
    level = positive("epsilon", epsilon)
    k = _search_top(query) if query.uniform_to is None else query.uniform_to
    quantum = Fraction(query.metric(0, 1))
    return After(TruncatedGeometric(level / Fraction(query.sensitivity), quantum, k), query)


def _search_top(query: Query) -> int:
    """Return k if the answers are q [0..k] and an expansive link joins each to the next.

    Among numbers, the only tight chain between neighbours is their link; these links form all other chains.
    """
    answers = sorted(query.answers)
    k = len(answers) - 1
    if k < 1 or answers != list(range(k + 1)):
        raise NotUniform(f"the answers must be all of 0 .. k quanta, not {answers}")
    if any(query.metric(y, z) != query.metric(0, 1) * abs(y - z) for y, z in combinations(answers, 2)):
        raise NotUniform("the answers must be as far apart as numbers, quantum |y - z|")
    links = query.expansive_links
    for y, z in pairwise(answers):
        if (y, z) not in links and (z, y) not in links:
            raise NotUniform(f"answers {y} and {z} have no tight {query.sensitivity}-expansive chain")
    return k
