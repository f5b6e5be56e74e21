"""Exact integer samplers that draw from a source of random bits passed in by the caller.

A privacy proof is about one distribution, and a draw must have exactly this distribution. A sampler that
rounds probabilities (any floating-point sampler) breaks the proof in the last bits, which an attacker
examines first. Three rules keep the samplers exact.

1. No floating-point number decides a draw. Every comparison is between integers.
2. A uniform number U in [0, 1) is never rounded. Its bits are revealed from the top, and certified bounds on
   the probability p are refined, until they decide U < p: with probability 1, and nearly always at once.
3. No random bit is used twice.

The time that a draw takes depends on the draw and on its parameters. This time depends on data only if
the parameters do, as the probabilities of the exponential mechanism do. Draw when a window opens, not while
a value is released (THEORY 2.4 on timing).
"""

from meteragent.privacy.bits import Bits, FreshRows, RowBits, SecretBits, SeededBits, SystemBits
from meteragent.privacy.bulk import BulkBits, source_of
from meteragent.privacy.exact import SCALE_LIMIT, check_parameters
from meteragent.privacy.sampling.alias import AliasTable, alias_table
from meteragent.privacy.sampling.bernoulli import bernoulli, choice
from meteragent.privacy.sampling.geometric import discrete_laplace, geometric
from meteragent.privacy.sampling.noise_bound import noise_bound
from meteragent.privacy.sampling.planar import check_planar, planar_laplace
from meteragent.privacy.sampling.rows import row_windows
from meteragent.privacy.sampling.uniform import below, below_array, uniform, uniform_rows
from meteragent.privacy.sampling.windows import noise_bounds, windows

__all__ = ["SCALE_LIMIT", "AliasTable", "Bits", "BulkBits", "FreshRows", "RowBits", "SecretBits"]
__all__ += ["SeededBits", "SystemBits", "alias_table", "below", "below_array", "bernoulli"]
__all__ += ["check_parameters", "check_planar", "choice", "discrete_laplace", "geometric", "noise_bound"]
__all__ += ["noise_bounds", "planar_laplace", "row_windows", "source_of", "uniform", "uniform_rows"]
__all__ += ["windows"]
