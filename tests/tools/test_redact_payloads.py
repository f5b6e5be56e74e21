"""`redact` on the corpus of payloads: they are read as before, and no serial number is left."""

import random

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import FormatError, PayloadError
from meteragent.tools.redact import Redactor
from tests.support.payloads import Payload, payloads

SERIALS = (
    b"31415926535",
    b"0123456789AB",
    b"0123456789ab",
    b"51423977",
    b"70314159",
    b"0a014c4f5800abcdef01",
    b"0101010101010101",
    b"0x00158d0001230123",
)
"""The beginnings of what stands for serial numbers and addresses in the corpus."""


def outcomes(payload: Payload, content: bytes) -> dict[str, str]:
    """How many numbers each stated quantity has, or why it is refused."""
    found = {}
    for name in payload.reads:
        quantity = PROFILES[payload.profile].quantities.get(name)
        if quantity is None:
            continue
        try:
            found[name] = f"{len(quantity.read(content))} numbers"
        except PayloadError as error:
            found[name] = error.reason
    return found


UNKNOWN_FORMATS = {"vzlogger/id.txt", "vzlogger/uuid.txt", "sml2mqtt/server-id.txt"}
"""Payloads of one word."""


@pytest.mark.parametrize("payload", payloads(), ids=str)
def test_a_payload_is_read_as_before_and_has_no_serial(payload: Payload) -> None:
    """With other numbers, a payload has as many or is refused for the same reason; serials are replaced."""
    redactor = Redactor(random.Random(5).randbytes)
    if str(payload) in UNKNOWN_FORMATS:
        with pytest.raises(FormatError):
            redactor.redact_payload(payload.bytes)
        return
    redacted = redactor.redact_payload(payload.bytes)
    assert outcomes(payload, redacted) == outcomes(payload, payload.bytes)
    assert not [serial for serial in SERIALS if serial in redacted]
