"""Load curves as finitely many numbers, and back (THEORY 4).

A projection maps a curve to its values at given times. It is 1-Lipschitz from the sup norm to d_inf, as block
means are, so a mechanism for windows becomes a mechanism for curves. `reconstruct` maps numbers to a curve.
"""

from meteragent.privacy.curve.functionals import Projection
from meteragent.privacy.curve.reconstruction import Kind, reconstruct

__all__ = ["Kind", "Projection", "reconstruct"]
