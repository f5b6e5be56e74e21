"""Metric spaces: the points of a mechanism, the distances between them, and the pairs that a test should try.

A space has `metric(x, y)`, a `diameter` (which may be infinite), `x in space`, and `pairs()`, which yields
pairs of points that a test of a mechanism should try, each in both orders. A small space other than
`WithNull` yields all its pairs. A finite space that is small enough to be listed has `points`; other spaces
do not have this attribute.
"""

from meteragent.privacy.space.base import Space, list_points
from meteragent.privacy.space.curves import Curve, Curves, polyline, steps
from meteragent.privacy.space.databases import Databases, WithNull
from meteragent.privacy.space.finite import Categories, Finite, Subsets
from meteragent.privacy.space.lattice import Numbers, Windows

__all__ = ["Categories", "Curve", "Curves", "Databases", "Finite", "Numbers", "Space", "Subsets", "Windows"]
__all__ += ["WithNull", "list_points", "polyline", "steps"]
