"""Payload -> Reading: one module per wire format, each with one decoder.

A decoder takes the payload's bytes and returns a Reading in the stream's unit, or raises
PayloadError with the name of the counter that counts it. It never logs and never chains the
parser's exception, which would hold the payload.
"""

from collections.abc import Callable

from meteragent.reading import Reading

Decoder = Callable[[bytes], Reading]
