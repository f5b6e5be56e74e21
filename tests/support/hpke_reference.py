"""HPKE in base mode with a fixed ephemeral key, written from RFC 9180, apart from the library's.

Only DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305, for test vectors.
"""

import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_KEM = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0003))


def _extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    """LabeledExtract of RFC 9180, section 4."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    """LabeledExpand of RFC 9180, section 4, for at most 32 bytes."""
    labeled = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labeled + b"\1", "sha256")[:size]


def seal(ephemeral: bytes, public: bytes, info: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
    """Seal a plaintext: enc and ciphertext."""
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    secret = _expand(_KEM, _extract(_KEM, b"", b"eae_prk", shared), b"shared_secret", enc + public, 32)
    psk_id_hash = _extract(_HPKE, b"", b"psk_id_hash", b"")
    context = b"\0" + psk_id_hash + _extract(_HPKE, b"", b"info_hash", info)
    schedule = _extract(_HPKE, secret, b"secret", b"")
    key = _expand(_HPKE, schedule, b"key", context, 32)
    nonce = _expand(_HPKE, schedule, b"base_nonce", context, 12)
    return enc + ChaCha20Poly1305(key).encrypt(nonce, plaintext, aad)
