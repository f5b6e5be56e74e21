"""Load curves as finitely many numbers, and back (THEORY 4).

`functionals` maps a curve to numbers. The map is Delta-Lipschitz from the sup norm to d_inf (Delta is 1 for
block means, hat means and projections), which makes a mechanism for windows a mechanism for curves.
`reconstruction` maps numbers to a curve. `resolution` bounds the error for a given number of values.
"""

from meteragent.privacy.curve.functionals import Mean, Means, Projection, block_means, hat_means
from meteragent.privacy.curve.reconstruction import Kind, lebesgue_constant, reconstruct
from meteragent.privacy.curve.resolution import BoundedVariation, Hoelder, best_k, chance_within, error_bound

__all__ = [
    "BoundedVariation",
    "Hoelder",
    "Kind",
    "Mean",
    "Means",
    "Projection",
    "best_k",
    "block_means",
    "chance_within",
    "error_bound",
    "hat_means",
    "lebesgue_constant",
    "reconstruct",
]
