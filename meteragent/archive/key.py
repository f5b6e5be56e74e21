"""The key of an archive: a chain of epochs, of which the past can be forgotten.

An epoch is a calendar month or day in UTC; a window belongs to that of its start, never of the clock. Epoch e
has a secret C_e, and with HKDF-SHA-256 (RFC 5869; salt: none; info: the parts below, each with its length)

    C_(e+1) = HKDF(C_e, "meteragent archive 1", "next")
    tag key, noise key, run key = HKDF(C_e, "meteragent archive 1", "noise 2", tenant, month or day, e)
    id (4 bytes, public) = HKDF(C_e, "meteragent archive 1", "id", tenant, month or day, e)

where 2 is the version of `label`: one key never makes tags in two ways.

The file holds the first C_e that is kept: all later epochs follow from it, no earlier one does. `forget`
moves it on. What has no key is not released: never is another key taken instead. No error and no `repr` holds
a secret, and a key does not pickle.
"""

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.errors import KeyForgotten, KeyMissing, KeyRefused

EPOCHS: dict[str, Literal["M", "D"]] = {"month": "M", "day": "D"}
"""How long an epoch may be, and numpy's name for it."""

SECRET_BYTES = 32
_DOMAIN = b"meteragent archive 1"
_LAST = {every: int(np.datetime64("2199-12-31", unit).astype(int)) for every, unit in EPOCHS.items()}


def hkdf(secret: bytes, *info: bytes, size: int = SECRET_BYTES) -> bytes:
    """HKDF-SHA-256 without a salt (RFC 5869), its info being parts, each after its length in 4 bytes."""
    return expand(extract(b"", secret), b"".join(len(part).to_bytes(4, "big") + part for part in info), size)


def extract(salt: bytes, secret: bytes) -> bytes:
    """RFC 5869, 2.2."""
    return hmac.digest(salt, secret, "sha256")


def expand(key: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869, 2.3, for a size of at most 255 * 32."""
    made = block = b""
    for count in range(1, -(-size // hashlib.sha256().digest_size) + 1):
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        made += block
    return made[:size]


@dataclass(frozen=True, slots=True)
class EpochKey:
    """The keys of one epoch: of windows' tags, of their noise, of names of runs; only `id` may be shown."""

    id: str
    tenant: str
    tag: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    run: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not sent to other processes: send the name of its file")


class Key:
    """The keys of a tenant's windows from epoch `first` on (months or days since 1970-01-01).

    Raises:
        ValueError: an epoch is neither "month" nor "day", or the secret has not 32 bytes.
    """

    def __init__(self, tenant: str, every: str, first: int, secret: bytes) -> None:
        if every not in EPOCHS or len(secret) != SECRET_BYTES:
            raise ValueError(f"an epoch is one of {', '.join(EPOCHS)}; a secret has {SECRET_BYTES} bytes")
        self.tenant, self.every, self.first = tenant, every, first
        self._secrets = {first: secret}  # and of those after it, as far as they were asked for
        self._made: dict[int, EpochKey] = {}

    def __repr__(self) -> str:
        return f"Key(tenant={self.tenant!r}, from {self.begins})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not sent to other processes: send the name of its file")

    @property
    def begins(self) -> str:
        """The first epoch that has a key: 2026-01, or 2026-01-31."""
        return self._name(self.first)

    def epochs(self, starts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The epoch of each window, by its start: as many, int64."""
        unit = EPOCHS[self.every]
        return starts_ms.astype("M8[ms]").astype(f"M8[{unit}]").astype(np.int64)

    def at(self, start_ms: int) -> EpochKey:
        """The key of a window that starts then.

        Raises:
            KeyForgotten: its epoch has none.  KeyRefused: it starts after 2199.
        """
        return self.epoch(self._index(start_ms))

    def epoch(self, index: int) -> EpochKey:
        """The key of an epoch, as `epochs` numbers it.

        Raises:
            KeyForgotten: it has none.  KeyRefused: it is after 2199.
        """
        if index not in self._made:
            self._made[index] = self._derived(index)
        return self._made[index]

    def _derived(self, index: int) -> EpochKey:
        whose = self.tenant.encode(), self.every.encode(), b"%d" % index
        secret = self._secret(index)
        keys = hkdf(secret, _DOMAIN, b"noise 2", *whose, size=3 * SECRET_BYTES)
        name = hkdf(secret, _DOMAIN, b"id", *whose, size=4).hex()
        tag, noise, run = (keys[at : at + SECRET_BYTES] for at in range(0, len(keys), SECRET_BYTES))
        return EpochKey(name, self.tenant, tag, noise, run)

    def _secret(self, index: int) -> bytes:
        if index < self.first:
            raise KeyForgotten(
                f"windows of {self._name(index)} have no key: this one begins with {self.begins}, by `--from`"
                " or because what was before is forgotten"
            )
        if index > _LAST[self.every]:
            raise KeyRefused(f"windows of {self._name(index)} have no key: is that when they started?")
        known = index
        while known not in self._secrets:
            known -= 1
        for at in range(known, index):  # by number, so that threads that do the same do no harm
            self._secrets[at + 1] = hkdf(self._secrets[at], _DOMAIN, b"next")
        return self._secrets[index]

    def without(self, before_ms: int) -> "Key":
        """The key from the epoch that holds a time on: what came before cannot be made from it."""
        index = max(self.first, self._index(before_ms))
        return Key(self.tenant, self.every, index, self._secret(index))

    @classmethod
    def load(cls, path: Path) -> "Key":
        """The key in a file that `create` has written.

        Raises:
            KeyMissing: it cannot be read, everybody on the machine can read it, or it is no key.
        """
        try:
            with path.open("rb") as file:
                mode, text = os.fstat(file.fileno()).st_mode, file.read(_LONGEST + 1)
        except OSError as error:
            raise KeyMissing(f"{path}: {(error.strerror or 'an error').lower()}") from None
        if mode & stat.S_IROTH:
            raise KeyMissing(f"{path}: everybody on this machine can read the key: chmod 600")
        found = _parsed(text) if len(text) <= _LONGEST else None
        if found is None:
            raise KeyMissing(f"{path}: not a key of `meteragent key new`")
        return found

    def text(self) -> str:
        """What its file holds: the first secret too."""
        return _FILE.format(self=self, secret=self._secrets[self.first].hex())

    def _index(self, time_ms: int) -> int:
        return int(self.epochs(np.array([time_ms], np.int64))[0])

    def _name(self, index: int) -> str:
        return str(np.datetime64(index, EPOCHS[self.every]))


_FILE = """\
# A key of meteragent for archives. Who has it can take the noise off every release from `begins` on.
tenant = "{self.tenant}"
epoch = "{self.every}"
begins = "{self.begins}"
secret = "{secret}"
"""
_TENANT = r"[A-Za-z0-9._-]{1,64}"
_FORM = re.compile(
    rf'(?:#.*\n\s*)*tenant = "({_TENANT})"\s+epoch = "(month|day)"\s+'
    r'begins = "(\d{4}-\d\d(?:-\d\d)?)"\s+secret = "([0-9a-f]{64})"\s*',
    re.ASCII,
)
_LONGEST = 1 << 12
"""What is longer is no key's file."""


def check_tenant(tenant: str) -> str:
    """A tenant's name, if it can be one.

    Raises:
        ValueError: it is not 1 to 64 letters, digits, dots, hyphens and underscores.
    """
    if not re.fullmatch(_TENANT, tenant, re.ASCII):
        raise ValueError("a tenant has 1 to 64 letters, digits, dots, hyphens or underscores")
    return tenant


def _parsed(text: bytes) -> Key | None:
    """What a file holds; None if it is no key."""
    found = _FORM.fullmatch(text.decode("ascii", "replace"))
    if found is None:
        return None
    tenant, every, begins, secret = found.groups()
    try:
        first = int(np.datetime64(begins, EPOCHS[every]).astype(int))
    except ValueError:  # there is no such month or day
        return None
    key = Key(tenant, every, first, bytes.fromhex(secret))
    return key if key.begins == begins else None


def create(
    path: Path,
    tenant: str,
    every: str = "month",
    begin: date = date(1970, 1, 1),
    entropy: Callable[[int], bytes] = os.urandom,
) -> Key:
    """A new key for windows from the epoch of `begin` on: on disk, readable by its owner only.

    Raises:
        ValueError: the tenant's name or the epoch cannot be one.
        OSError: the file cannot be made, or there is one already.
    """
    check_tenant(tenant)
    first = int(np.datetime64(begin, EPOCHS[every]).astype(int))
    key = Key(tenant, every, first, entropy(SECRET_BYTES))
    _write(os.open(path, _NEW_FILE, 0o600), key)
    _sync_folder(path)
    return key


def forget(path: Path, before_ms: int) -> Key:
    """Move a file's key on to the epoch that holds a time; what was before is gone from the file for ever.

    A new file takes its place, with its owner and mode, then the old one's bytes are overwritten. Backups,
    and file systems that keep old blocks (snapshots, flash, copy on write), may have them still.

    Raises:
        KeyRefused: there is no key in the file, or the time is after 2199.  OSError: it cannot be written.
    """
    key, there = Key.load(path).without(before_ms), path.resolve()
    new = there.with_name(f"{there.name}.new")
    with there.open("r+b") as old:
        was = os.fstat(old.fileno())
        new.unlink(missing_ok=True)  # of a run that was cut short
        descriptor = os.open(new, _NEW_FILE, 0o600)
        os.fchown(descriptor, was.st_uid, was.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(was.st_mode))
        _write(descriptor, key)
        new.replace(there)
        _sync_folder(there)
        old.write(bytes(was.st_size))
        old.flush()
        os.fsync(old.fileno())
    return key


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def _write(descriptor: int, key: Key) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.text().encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
