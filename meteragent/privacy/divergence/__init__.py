"""How far apart what leaves can be: dominating pairs of laws, and their composition over long horizons."""

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
