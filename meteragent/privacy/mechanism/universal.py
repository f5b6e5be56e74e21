"""The universally optimal mechanism after a query, if it exists.

See Chatzikokolakis 2013, Definition 7 and Theorem 10.

If the answers are q [0..k] and the query is uniformly Delta-sensitive, the truncated geometric mechanism with
epsilon/Delta on its answers is f-epsilon d_X-optimal: among the epsilon d_X-private mechanisms H after f,
none is better for a user who remaps outputs optimally. This holds for any prior and any loss that grows with
the distance between answers. (The paper has Delta d_X, without the epsilon; the
corollaries show that it is missing.)
"""

from fractions import Fraction
from itertools import combinations

from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.mechanism.response import After
from meteragent.privacy.query import Query


class NotUniform(ValueError):
    """The error raised if Theorem 10 does not apply to a query; its message states what fails."""


def universal_mechanism(query: Query, epsilon: Exact) -> After:
    """Return the truncated geometric mechanism after a query (Theorem 10).

    The mechanism is optimal for every user among the epsilon d_X-private mechanisms H after the query.

    Raises:
        TypeError: epsilon is not exact.
        NotUniform: the answers are not q [0..k], or two answers have no tight chain of expansive links.
        ValueError: epsilon is not above zero, or the space is too large to search.
    """
    level, answers = positive("epsilon", epsilon), query.answers
    k = len(answers) - 1
    if k < 1 or sorted(answers) != list(range(k + 1)):
        raise NotUniform(f"the answers must be all of 0 .. k quanta, not {sorted(answers)}")
    quantum = Fraction(query.metric(0, 1))
    if any(query.metric(y, z) != quantum * abs(y - z) for y, z in combinations(answers, 2)):
        raise NotUniform("the answers must be as far apart as numbers, quantum |y - z|")
    for y, z in combinations(sorted(answers), 2):
        if query.chain(y, z) is None:
            raise NotUniform(f"answers {y} and {z} have no tight {query.sensitivity}-expansive chain")
    return After(TruncatedGeometric(level / Fraction(query.sensitivity), quantum, k), query)
