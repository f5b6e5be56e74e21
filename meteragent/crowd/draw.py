"""An operator's noise: a discrete Laplace number determined by a key, the group, the slot and the inputs.

The sampler's bits are a pseudorandom function, under the operator's noise key, of everything that determines
the operator's sum (crowd.md 10). So equal inputs have equal noise, even after a restart. The sampler is the
agent's exact sampler.
"""

import hmac
from fractions import Fraction
from functools import lru_cache

from meteragent.crowd.codec import pack
from meteragent.privacy.keyed import TAG_BYTES, KeyedRows
from meteragent.privacy.sampling import discrete_laplace


@lru_cache
def make_tables(loss: Fraction) -> None:
    """Make the sampler's tables before the first draw, so that a rare draw takes no longer than others."""
    discrete_laplace(8192, loss, KeyedRows(bytes(32), bytes(TAG_BYTES)).stream(0, 0))


def draw_noise(noise_key: bytes, group_id: bytes, slot_s: int, digest: bytes, loss: Fraction) -> int:
    """Draw z with P(z) = tanh(a/2) e^(-a|z|), a = `loss`, for the inputs whose SHA-256 is `digest`."""
    context = b"meteragent crowd 1 draw" + group_id + pack(slot_s, 8) + digest
    draw_key = hmac.digest(noise_key, context, "sha256")
    return int(discrete_laplace(1, loss, KeyedRows(draw_key, bytes(TAG_BYTES)).stream(0, 0))[0])
