"""Payloads of a single number, decoded as the agent decodes them."""

from fractions import Fraction

from meteragent.decode.number import read_bare
from meteragent.decode.profile import make_decoder
from meteragent.domain.reading import Reading

_decoder = make_decoder(read_bare, Fraction(1), "W")


def decode(payload: bytes) -> Reading:
    """Return the reading in a payload. Raises PayloadError."""
    (reading,) = _decoder(payload)
    return reading
