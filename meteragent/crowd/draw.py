"""An operator's noise: a discrete Laplace number that follows from its key, the slot and its inputs.

The bits are a pseudo-random function of the operator's noise key over everything that determines its sum
(crowd.md 8), so equal sums have equal noise after any restart. The sampler is the exact one of the agent.
"""

import hmac
from fractions import Fraction
from functools import lru_cache

from meteragent.crowd.codec import number
from meteragent.privacy.keyed import TAG_BYTES, KeyedRows
from meteragent.privacy.sampling import discrete_laplace


@lru_cache
def make_tables(loss: Fraction) -> None:
    """Make the sampler's tables before the first draw, also those for draws that need more bits.

    One draw in some hundred does, and the first of them would take 0.5 ms longer. Among 8,192 numbers each
    table is needed, unless it is for less than one in 65,536.
    """
    discrete_laplace(8192, loss, KeyedRows(bytes(32), bytes(TAG_BYTES)).stream(0, 0))


def draw(noise_key: bytes, group_id: bytes, slot_s: int, digest: bytes, loss: Fraction) -> int:
    """Draw z with P(z) = tanh(a/2) e^(-a|z|), a = `loss`, for the inputs that `digest` identifies."""
    place = b"meteragent crowd 1 draw" + group_id + number(slot_s, 8) + digest
    draw_key = hmac.digest(noise_key, place, "sha256")
    return int(discrete_laplace(1, loss, KeyedRows(draw_key, bytes(TAG_BYTES)).stream(0, 0))[0])
