"""Sealing with HPKE (RFC 9180), signing with Ed25519, and the keys of each day (crowd.md 8 and 9)."""

import hashlib
import sys

from meteragent.crowd.codec import pack, pack_opaque
from meteragent.crowd.group import ROLES
from meteragent.crowd.message import KEY_ID_BYTES


def check_platform(word_max: int = sys.maxsize) -> None:
    """Raise ImportError on a 32-bit system, for which `cryptography` 50, with HPKE, has no wheels."""
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
"""What is sealed: a pad to the helper, a share to the leader, and the helper's total to the leader."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_DOMAIN = b"meteragent crowd 1"


def seal_info(purpose: int, group_id: bytes, slot_s: int, key_id: bytes, subject: bytes) -> bytes:
    """Return HPKE's `info`, which binds a sealed number to the arguments; a subject is a label or digest."""
    return _DOMAIN + pack(purpose, 1) + group_id + pack(slot_s, 8) + key_id + pack_opaque(subject)


def key_id(public: bytes) -> bytes:
    """Return the id of a public key, 8 bytes."""
    return hashlib.sha256(_DOMAIN + b" key" + public).digest()[:KEY_ID_BYTES]


def seal_number(value: int, public: bytes, info_: bytes) -> bytes:
    """Return a number below 2^64 in sealed form, 56 bytes. Raises ValueError if the key is not usable."""
    return _SUITE.encrypt(pack(value, 8), X25519PublicKey.from_public_bytes(public), info_)


def is_usable(public: bytes) -> bool:
    """Return whether numbers can be sealed to a key: its length is right, and its order is not small."""
    try:
        seal_number(0, public, _DOMAIN)
    except ValueError:
        return False
    return True


class DayKeys:
    """The keys of one operator for one group and day, all derived from one secret; `repr` shows none."""

    def __init__(self, secret: bytes, role: str, group_id: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a day secret has {SECRET_BYTES} bytes")
        context = pack(ROLES.index(role) + 1, 1) + group_id
        self._private = X25519PrivateKey.from_private_bytes(_derive(secret, b" hpke" + context))
        self.public = self._private.public_key().public_bytes_raw()
        self.id = key_id(self.public)
        self.noise = _derive(secret, b" noise" + context)

    def unseal_number(self, sealed: bytes, info_: bytes) -> int | None:
        """Return a sealed number; None if it was not sealed to this key with this `info`."""
        try:
            return int.from_bytes(_SUITE.decrypt(sealed, self._private, info_), "big")
        except (InvalidTag, ValueError):
            return None


class Identity:
    """The Ed25519 key of an operator, 32 bytes; the output of `repr` does not contain the key."""

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, body: bytes) -> bytes:
        """Return the signature of the body of a message, 64 bytes."""
        return self._private.sign(_DOMAIN + b" signed" + body)


def is_signed(public: bytes, body: bytes, signature: bytes) -> bool:
    """Return whether `signature` is the signature of `body` under the identity's public key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _DOMAIN + b" signed" + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def _derive(secret: bytes, label: bytes) -> bytes:
    """Derive 32 bytes by HKDF-SHA256 without a salt (RFC 5869)."""
    return HKDF(hashes.SHA256(), 32, None, _DOMAIN + label).derive(secret)
