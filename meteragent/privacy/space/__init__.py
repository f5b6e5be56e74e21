"""Metric spaces: the points that a mechanism takes, how far apart they are, and which to try.

A space has `metric(x, y)`, a `diameter` (infinite where it is), `x in space`, and `pairs()`: pairs of points
that a test of a mechanism should try, each in both orders; all of them where they are few. A finite space
that is small enough to be listed has `points`; others have no such attribute.
"""

from meteragent.privacy.space.base import FiniteSpace, Space, listed
from meteragent.privacy.space.curves import Curve, Curves, polyline, steps
from meteragent.privacy.space.databases import Databases, WithNull
from meteragent.privacy.space.finite import Categories, Finite, Subsets
from meteragent.privacy.space.lattice import Numbers, Windows

__all__ = [
    "Categories",
    "Curve",
    "Curves",
    "Databases",
    "Finite",
    "FiniteSpace",
    "Numbers",
    "Space",
    "Subsets",
    "Windows",
    "WithNull",
    "listed",
    "polyline",
    "steps",
]
