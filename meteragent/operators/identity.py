"""The file of an operator's identity (its Ed25519 key), which `meteragent crowd key new` creates."""

import os
import re
import stat
from pathlib import Path

from meteragent.crowd.seal import SECRET_BYTES, Identity
from meteragent.domain.errors import KeyMissing
from meteragent.service.whole_file import whole_file

_HEAD = "meteragent crowd identity 1"
_FILE = re.compile(rf"{_HEAD}\n([0-9a-f]{{64}})\n", re.ASCII)
_CURE = "make one with `meteragent crowd key new FILE`"


def create(path: Path) -> Identity:
    """Create an identity and a file that only its owner can read. Raises OSError, also if the file exists."""
    secret = os.urandom(SECRET_BYTES)
    with whole_file(path, is_new=True, mode=0o600) as file:
        file.write(f"{_HEAD}\n{secret.hex()}\n".encode("ascii"))
    return Identity(secret)


def load(path: Path) -> Identity:
    """Return the identity in a file. Raises KeyMissing if it has none, or if every user can read the file."""
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(200)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise KeyMissing(f"{path}: {reason}; {_CURE}") from None
    match = _FILE.fullmatch(data.decode("latin-1"))
    if match is None:
        raise KeyMissing(f"{path}: not an identity of a crowd's operator; {_CURE}")
    if mode & stat.S_IROTH:
        raise KeyMissing(f"{path}: every user can read it; set its mode to 600")
    return Identity(bytes.fromhex(match[1]))
