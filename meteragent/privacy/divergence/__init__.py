"""How well releases can be distinguished: dominating pairs, and their composition over long horizons.

For example, two load curves are 220 W apart in a window of level 1 at 220 W, on whole watts. For any test
that distinguishes them, the chances of a false alarm and of a miss sum to at least `risk`. With a false-alarm
probability of 0.05, the power of the test is at most `power(0.05)`:

    >>> from meteragent.privacy import Composed, LatticePair, error_bounds
    >>> pair = LatticePair("1/220", 220)
    >>> pair.loss, round(pair.risk, 4), round(pair.power(0.05), 4)
    (Fraction(1, 1), 0.6065, 0.1359)
    >>> [round(bound, 4) for bound in error_bounds(1)]
    [0.2929, 0.5193, 0.5379, 0.6065]

In a year, each half-hour window has level 1 at 220 W. For curves that differ by 220 W at all times, compute
the total loss, and epsilon for a delta of one in a million:

    >>> from fractions import Fraction
    >>> year = Composed.at_radius({Fraction(1, 220): 17520}, radius=220, quantum=1)
    >>> year.loss, round(year.epsilon(1e-6))
    (Fraction(17520, 1), 6952)
    >>> [(figure.method, round(figure.epsilon)) for figure in year.figures(1e-6)]
    [('basic', 17520), ('zcdp', 7038), ('rdp', 7002), ('pld', 6952)]

For a day in which the curves differ by 10 W, the loss is much smaller:

    >>> day = Composed.at_radius({Fraction(1, 220): 48}, radius=10, quantum=1)
    >>> round(float(day.loss), 3), round(day.epsilon(1e-6), 3), round(day.delta(1), 4)
    (2.182, 1.305, 0.0001)
"""

from meteragent.privacy.divergence.composed import Composed, Figure, rdp_epsilon, zcdp_epsilon
from meteragent.privacy.divergence.pair import ErrorBounds, LaplacePair, LatticePair, Pair, error_bounds

__all__ = [
    "Composed",
    "ErrorBounds",
    "Figure",
    "LaplacePair",
    "LatticePair",
    "Pair",
    "error_bounds",
    "rdp_epsilon",
    "zcdp_epsilon",
]
