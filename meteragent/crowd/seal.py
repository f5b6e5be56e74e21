"""Sealing with HPKE (RFC 9180), signing with Ed25519, and the keys of a day (crowd.md 5 and 6)."""

import hashlib
import sys

from meteragent.crowd.codec import number, opaque
from meteragent.crowd.group import ROLES
from meteragent.crowd.message import KEY_ID_BYTES


def check_platform(word_max: int = sys.maxsize) -> None:
    """Check that the platform has 64 bits: `cryptography` 50 with HPKE is not built for 32 bits.

    Raises:
        ImportError: it does not.
    """
    if word_max < 1 << 32:
        raise ImportError("a crowd needs a 64-bit system: HPKE (cryptography 50) is not available on 32 bits")


check_platform()
try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    reason = "a crowd needs cryptography 50 or newer, from the extra 'crowd'"
    raise ModuleNotFoundError(reason, name="cryptography") from None

SECRET_BYTES = 32
PAD, SHARE, TOTAL = 1, 2, 3
"""Purposes of sealed numbers: to the helper, to the leader, from the helper to the leader."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_DOMAIN = b"meteragent crowd 1"


def info(purpose: int, group_id: bytes, slot_s: int, key_id: bytes, subject: bytes) -> bytes:
    """Return the `info` of HPKE, which binds a sealed number to its place."""
    return _DOMAIN + number(purpose, 1) + group_id + number(slot_s, 8) + key_id + opaque(subject)


def key_id(public: bytes) -> bytes:
    """Return the id of a public key."""
    return hashlib.sha256(_DOMAIN + b" key" + public).digest()[:KEY_ID_BYTES]


def seal(value: int, public: bytes, info_: bytes) -> bytes:
    """Seal a number below 2^64 to a public key; 56 bytes.

    The ephemeral key comes from the library, which reads the operating system's generator.

    Raises:
        ValueError: the public key has the wrong length or no contribution (a point of small order).
    """
    return _SUITE.encrypt(number(value, 8), X25519PublicKey.from_public_bytes(public), info_)


def is_usable(public: bytes) -> bool:
    """Return whether something can be sealed to a public key: not to a point of small order."""
    try:
        seal(0, public, _DOMAIN)
    except ValueError:
        return False
    return True


class DayKeys:
    """The keys of one operator, group and day, which follow from one secret.

    The secret is not part of the representation.
    """

    def __init__(self, secret: bytes, role: str, group_id: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a day secret has {SECRET_BYTES} bytes")
        context = number(ROLES.index(role) + 1, 1) + group_id
        self._private = X25519PrivateKey.from_private_bytes(_derive(secret, b" hpke" + context))
        self.public = self._private.public_key().public_bytes_raw()
        self.id = key_id(self.public)
        self.noise = _derive(secret, b" noise" + context)

    def open(self, sealed: bytes, info_: bytes) -> int | None:
        """Open a sealed number; return None if it was not sealed to this key for this place."""
        try:
            return int.from_bytes(_SUITE.decrypt(sealed, self._private, info_), "big")
        except (InvalidTag, ValueError):
            return None


class Identity:
    """The Ed25519 key of an operator; its 32 bytes are not part of the representation."""

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, body: bytes) -> bytes:
        """Sign the body of a message."""
        return self._private.sign(_DOMAIN + b" signed" + body)


def is_signed(public: bytes, body: bytes, signature: bytes) -> bool:
    """Return whether an identity has signed a body."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _DOMAIN + b" signed" + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def _derive(secret: bytes, label: bytes) -> bytes:
    """Derive 32 bytes by HKDF-SHA256 without a salt (RFC 5869)."""
    return HKDF(hashes.SHA256(), 32, None, _DOMAIN + label).derive(secret)
