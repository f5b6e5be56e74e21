"""Payloads of a single number, decoded as the agent decodes them."""

from fractions import Fraction

from meteragent.decode.number import bare
from meteragent.decode.profile import decoder
from meteragent.domain.reading import Reading

_decoder = decoder(bare, Fraction(1), "W")


def decode(payload: bytes) -> Reading:
    """Return the reading in a payload. Raises PayloadError."""
    (reading,) = _decoder(payload)
    return reading
