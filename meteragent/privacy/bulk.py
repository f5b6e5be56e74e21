"""Random bits for many draws at once, from OpenSSL: the default of most mechanisms, never used by the agent.

For large requests, OpenSSL's generator is more than ten times as fast as `os.urandom` (docs/decisions.md says
how to compare them). But its state is in the process and is reseeded only from time to time, so a
resumed copy of the memory, such as a virtual machine's snapshot, draws the same bits again.
"""

import ssl
import threading

from meteragent.privacy.bits import Bits, SystemBits

_SMALL_BYTES = 256
"""The largest request, in bytes, that is served faster from a buffered block of `os.urandom`."""


class BulkBits(SystemBits):
    """`SystemBits`, but OpenSSL's CTR_DRBG with AES-256 (NIST SP 800-90A) for requests above 256 bytes."""

    def _take(self, size: int) -> bytes:
        return ssl.RAND_bytes(size) if size > _SMALL_BYTES else super()._take(size)


_DEFAULT = threading.local()
"""Each thread's source for calls that name no source; a block for each call would be mostly unused."""


def source_of(bits: Bits | None) -> Bits:
    """Return `bits`, or for None `BulkBits`. Raises TypeError if `bits` is no source of random bits."""
    if bits is None:
        if not hasattr(_DEFAULT, "bits"):
            _DEFAULT.bits = BulkBits()
        bits = _DEFAULT.bits
    if not callable(getattr(bits, "integer", None)):
        raise TypeError(
            f"bits is {bits!r}: expected a source of random bits, such as SeededBits(1), or None for the"
            " operating system's"
        )
    return bits
