"""Every error of the agent, sorted by whose fault it is.

    MeteragentError
    +-- ConfigError          the operator: a configuration that cannot keep its promise
    +-- PayloadError         the meter: a message that is not a reading
    +-- RecordError          the sender: a message that is not a record, or contradicts another
    +-- LinkError            the network: a broker that refuses or is away
    +-- StoreError           the device: the file that holds the ledger
        +-- StoreInUse       another agent has it open
        +-- StoreRestored    it is older than what has already left
        +-- StoreMoved       it has the marks of other meters than those it would get
        +-- StoreLost        it is gone or corrupt, and its clock cannot be guessed
    +-- ArchiveError         the operator: an archive, its output or its ledger that cannot be used
        +-- ArchiveInUse     another run has the ledger open
    +-- KeyRefused           the operator: an archive's key is not the one that is needed
        +-- KeyMissing       its file cannot be used
        +-- KeyForgotten     it begins after the window
        +-- KeyRotated       the window was released under another

No error ever holds a key, a reading, a payload or anything computed from one: its text may be logged.
"""

import re

_WITH_PASSWORD = re.compile(r"://\S*@")


class MeteragentError(Exception):
    """The root: catch it to catch every error of this package."""


class ConfigError(MeteragentError):
    """A configuration that is refused: the key, what was found and what would be right.

    `key` is the path in the file, such as ``privacy.radius``. An address with a password is never repeated,
    whatever key it was written to.
    """

    def __init__(self, key: str, found: str, expected: str) -> None:
        found = "an address" if _WITH_PASSWORD.search(found) else found
        super().__init__(f"{key}: found {found}; expected {expected}")
        self.key = key
        self.found = found
        self.expected = expected


class PayloadError(MeteragentError):
    """A message that is not a reading; `reason` is the name of the counter that counts it.

    Raise it outside the handler of a parser's exception, which holds the payload and would stay
    in `__context__`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecordError(MeteragentError):
    """What a consumer received is no record, no descriptor, or does not agree with what came before."""


class LinkError(MeteragentError):
    """The broker is away, refused the connection, a subscription or a publication."""


class StoreError(MeteragentError):
    """The file that holds ledger and outbox cannot be used as it is."""


class StoreInUse(StoreError):
    """Another agent holds the store: two agents would noise one interval twice."""


class StoreRestored(StoreError):
    """The store is a copy from before the last start: what left since then is not in it."""


class StoreMoved(StoreError):
    """A fleet was cut otherwise: other stores know what left of the meters that this one would get."""


class StoreLost(StoreError):
    """The store is gone or corrupt and the first safe boundary cannot be known."""


class ArchiveError(MeteragentError):
    """An archive that cannot be released as it is: its input, where its output goes, or its ledger."""


class ArchiveInUse(ArchiveError):
    """Another run holds the key's ledger: two runs would release one interval twice."""


class KeyRefused(MeteragentError):
    """The key of an archive is not the one that is needed: nothing is released, and never with another."""


class KeyMissing(KeyRefused):
    """The key's file is not there, not readable, readable by everybody, or no key."""


class KeyForgotten(KeyRefused):
    """The window's epoch has no key: it was forgotten, or the key never went that far back."""


class KeyRotated(KeyRefused):
    """The window was released under another key: a second release would have other noise."""
