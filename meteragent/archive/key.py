"""The key of an archive: a chain of epochs' secrets, the earliest of which can be forgotten.

An epoch is a calendar month or day in UTC. A window belongs to the epoch in which it starts, regardless of
the time of its release. Epoch e has a secret C_e. With HKDF-SHA-256 (RFC 5869; salt: none; info: the parts
below, each preceded by its length in 4 bytes),

    C_(e+1) = HKDF(C_e, "meteragent archive 1", "next")
    tag key, noise key, run key = HKDF(C_e, "meteragent archive 1", "noise 2", tenant, month or day, e)
    id (4 bytes, public) = HKDF(C_e, "meteragent archive 1", "id", tenant, month or day, e)

where the 2 in "noise 2" is the version of `prf_input`, so no key makes tags of two versions.

The file holds the earliest C_e that is kept. The secrets of all later epochs follow from this secret, but no
earlier one does. `forget` replaces this secret with a later one. A window without a key is not released, and
no other key is used instead. No error and no `repr` contains a secret, and a key cannot be pickled.
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
from meteragent.service.whole_file import whole_file
from meteragent.store.generation import sync_folder

EPOCHS: dict[str, Literal["M", "D"]] = {"month": "M", "day": "D"}
"""The possible lengths of an epoch, and numpy's names for them."""

SECRET_BYTES = 32
LOCK = ".lock"
"""The file in a ledger's folder that runs lock."""
_DOMAIN = b"meteragent archive 1"
_LAST = {
    epoch_unit: int(np.datetime64("2199-12-31", unit).astype(int)) for epoch_unit, unit in EPOCHS.items()
}


def hkdf(secret: bytes, *info: bytes, size: int = SECRET_BYTES) -> bytes:
    """Derive `size` bytes by HKDF-SHA-256, no salt (RFC 5869); each part of `info` follows its length."""
    return expand(extract(b"", secret), b"".join(len(part).to_bytes(4, "big") + part for part in info), size)


def extract(salt: bytes, secret: bytes) -> bytes:
    """Extract a pseudorandom key (RFC 5869, 2.2)."""
    return hmac.digest(salt, secret, "sha256")


def expand(key: bytes, info: bytes, size: int) -> bytes:
    """Expand a pseudorandom key to `size` bytes, at most 255 * 32 (RFC 5869, 2.3)."""
    output = block = b""
    for count in range(1, -(-size // hashlib.sha256().digest_size) + 1):
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        output += block
    return output[:size]


@dataclass(frozen=True, slots=True)
class EpochKey:
    """One epoch's id, and its three secret keys: for windows' tags, windows' noise and runs' ids."""

    id: str
    tenant: str
    tag: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    run: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled: send the path of its file to the other process")


class Key:
    """A tenant's keys from epoch number `first` on (0: 1970-01-01). Raises ValueError for wrong arguments."""

    def __init__(self, tenant: str, epoch_unit: str, first: int, secret: bytes) -> None:
        if epoch_unit not in EPOCHS or len(secret) != SECRET_BYTES:
            raise ValueError(f"an epoch is one of {', '.join(EPOCHS)}; a secret has {SECRET_BYTES} bytes")
        self.tenant, self.epoch_unit, self.first = tenant, epoch_unit, first
        self._secrets = {first: secret}  # secrets of later epochs are added as needed
        self._epoch_keys: dict[int, EpochKey] = {}

    def __repr__(self) -> str:
        return f"Key(tenant={self.tenant!r}, from {self.first_epoch})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled: send the path of its file to the other process")

    @property
    def first_epoch(self) -> str:
        """The name of the first epoch that has a key, such as 2026-01 or 2026-01-31."""
        return self._name(self.first)

    def epochs(self, starts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the epoch in which each window starts: int64, in the shape of `starts_ms`."""
        unit = EPOCHS[self.epoch_unit]
        return starts_ms.astype("M8[ms]").astype(f"M8[{unit}]").astype(np.int64)

    def at(self, start_ms: int) -> EpochKey:
        """Return the key of a window that starts at `start_ms`. Raises as `epoch` does."""
        return self.epoch(self._epoch_index(start_ms))

    def epoch(self, index: int) -> EpochKey:
        """Return an epoch's key. Raises KeyForgotten if there is none, KeyRefused after 2199."""
        if index in self._epoch_keys:
            return self._epoch_keys[index]
        context = self.tenant.encode(), self.epoch_unit.encode(), b"%d" % index
        secret = self._secret(index)
        keys = hkdf(secret, _DOMAIN, b"noise 2", *context, size=3 * SECRET_BYTES)
        name = hkdf(secret, _DOMAIN, b"id", *context, size=4).hex()
        tag, noise, run = (keys[i : i + SECRET_BYTES] for i in range(0, len(keys), SECRET_BYTES))
        self._epoch_keys[index] = EpochKey(name, self.tenant, tag, noise, run)
        return self._epoch_keys[index]

    def _secret(self, index: int) -> bytes:
        """Return an epoch's secret, derived from the nearest that is cached. Raises as `epoch` does."""
        if index < self.first:
            raise KeyForgotten(
                f"windows of {self._name(index)} have no key: this key begins with {self.first_epoch}, set"
                " by `--from` or by forgetting earlier epochs"
            )
        if index > _LAST[self.epoch_unit]:
            raise KeyRefused(f"windows of {self._name(index)} have no key: check the unit of their times")
        cached_index = index
        while cached_index not in self._secrets:
            cached_index -= 1
        for epoch in range(cached_index, index):  # no lock is needed: threads compute equal values
            self._secrets[epoch + 1] = hkdf(self._secrets[epoch], _DOMAIN, b"next")
        return self._secrets[index]

    def without(self, before_ms: int) -> "Key":
        """Return the key without the epochs before `before_ms`. Raises KeyRefused if it is after 2199."""
        index = max(self.first, self._epoch_index(before_ms))
        return Key(self.tenant, self.epoch_unit, index, self._secret(index))

    @classmethod
    def load(cls, path: Path) -> "Key":
        """Load the key. Raises KeyMissing if the file is unreadable, or readable by all, or holds no key."""
        try:
            with path.open("rb") as file:
                mode, text = os.fstat(file.fileno()).st_mode, file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise KeyMissing(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
        if mode & stat.S_IROTH:
            raise KeyMissing(f"{path}: every user of this machine can read the key: run chmod 600 on it")
        key = _parse_key(text) if len(text) <= _MAX_BYTES else None
        if key is None:
            raise KeyMissing(f"{path}: not a key made by `meteragent key new`: is this the wrong file?")
        return key

    def text(self) -> str:
        """Return the content of the key's file, which includes the first epoch's secret."""
        return _FILE.format(self=self, secret=self._secrets[self.first].hex())

    def _epoch_index(self, time_ms: int) -> int:
        return int(self.epochs(np.array([time_ms], np.int64))[0])

    def _name(self, index: int) -> str:
        """Return an epoch's name, such as 2026-01 or 2026-01-31."""
        return str(np.datetime64(index, EPOCHS[self.epoch_unit]))


_FILE = """\
# A meteragent key for archives. Anyone who has it can remove the noise from all windows from `begins` on.
tenant = "{self.tenant}"
epoch = "{self.epoch_unit}"
begins = "{self.first_epoch}"
secret = "{secret}"
"""
_TENANT = r"[A-Za-z0-9._-]{1,64}"
_FORM = re.compile(
    rf'(?:#.*\n\s*)*tenant = "({_TENANT})"\s+epoch = "(month|day)"\s+'
    r'begins = "(\d{4}-\d\d(?:-\d\d)?)"\s+secret = "([0-9a-f]{64})"\s*',
    re.ASCII,
)
_MAX_BYTES = 1 << 12
"""A longer file is not a key file."""


def check_tenant(tenant: str) -> str:
    """Return a name of 1 to 64 ASCII letters, digits, dots, hyphens, underscores, or raise ValueError."""
    if not re.fullmatch(_TENANT, tenant, re.ASCII):
        raise ValueError("a name of 1 to 64 letters, digits, dots, hyphens or underscores")
    return tenant


def _parse_key(text: bytes) -> Key | None:
    """Parse the content of a key file; return None if it holds no key."""
    match = _FORM.fullmatch(text.decode("ascii", "replace"))
    if match is None:
        return None
    tenant, epoch_unit, begins, secret = match.groups()
    try:
        first = int(np.datetime64(begins, EPOCHS[epoch_unit]).astype(int))
    except ValueError:  # there is no such month or day
        return None
    key = Key(tenant, epoch_unit, first, bytes.fromhex(secret))
    return key if key.first_epoch == begins else None


def ledger_folder(path: Path) -> Path:
    """Return the folder of the ledger of the key in a file, which lies next to the (real) file."""
    target = path.resolve()
    return target.with_name(f"{target.name}.ledger")


def create_ledger(folder: Path) -> None:
    """Create an empty ledger. The file that runs lock shows later that the ledger has not been lost."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / LOCK).touch(mode=0o600)
    sync_folder(folder)
    sync_folder(folder.parent)


def create_key(
    path: Path,
    tenant: str,
    epoch_unit: str = "month",
    begin: date = date(1970, 1, 1),
    entropy: Callable[[int], bytes] = os.urandom,
) -> Key:
    """Create a key for windows from the epoch of `begin` on, in a file that only its owner can read.

    A run also needs its ledger (`create_ledger`). Raises ValueError if the tenant's name is not valid, or
    `epoch_unit` is neither "month" nor "day"; OSError if the file cannot be written, or exists already.
    """
    check_tenant(tenant)
    # An unknown unit is refused by `Key`, before anything is written.
    first = int(np.datetime64(begin, EPOCHS.get(epoch_unit, "D")).astype(int))
    key = Key(tenant, epoch_unit, first, entropy(SECRET_BYTES))
    with whole_file(path, is_new=True, mode=0o600) as file:
        file.write(key.text().encode("ascii"))
    return key


def forget_epochs(path: Path, before_ms: int) -> Key:
    """Erase from a file the keys of all epochs that end by `before_ms`, and return the remaining key.

    A new file with the same owner and mode replaces the old file, whose bytes are then overwritten. Backups,
    and file systems that keep old blocks (snapshots, flash, copy on write), may still hold the erased keys.
    Raises KeyMissing as `Key.load` does; KeyRefused if the time is after 2199; OSError if the file cannot be
    written.
    """
    key, target = Key.load(path).without(before_ms), path.resolve()
    with target.open("r+b") as old_file:
        status = os.fstat(old_file.fileno())
        with whole_file(target, mode=0o600, part=target.with_name(f"{target.name}.new")) as file:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.write(key.text().encode("ascii"))
        old_file.write(bytes(status.st_size))  # this overwrites the old inode's own blocks
        old_file.flush()
        os.fsync(old_file.fileno())
    return key
