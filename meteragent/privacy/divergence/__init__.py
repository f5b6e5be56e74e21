"""How well releases can be distinguished: dominating pairs (THEORY 5.1, 7).

For example, two load curves are 220 W apart in a window of level 1 at 220 W, on whole watts. For any test
that distinguishes them, the chances of a false alarm and of a miss sum to at least `risk`. With a false-alarm
probability of 0.05, the power of the test is at most `power(0.05)`:

    >>> from meteragent.privacy import LatticePair, error_bounds
    >>> pair = LatticePair("1/220", 220)
    >>> pair.loss, round(pair.risk, 4), round(pair.power(0.05), 4)
    (Fraction(1, 1), 0.6065, 0.1359)
    >>> [round(bound, 4) for bound in error_bounds(1)]
    [0.2929, 0.5193, 0.5379, 0.6065]

Many windows: the product of their pairs dominates any adaptive sequence of releases, and Renyi divergences
add up. For the least epsilon at a delta, give them to an accountant, such as dp-accounting, which composes
the lattice pair itself, too: its discrete Laplace mechanism with the parameter a and the sensitivity k.

    >>> [round(17520 * pair.rdp(order)) for order in (1.5, 2, 4)]
    [8986, 10847, 14256]
"""

from meteragent.privacy.divergence.pair import ErrorBounds, LatticePair, error_bounds

__all__ = ["ErrorBounds", "LatticePair", "error_bounds"]
