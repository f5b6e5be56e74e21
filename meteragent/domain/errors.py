"""The errors of this package, grouped by the party at fault.

    MeteragentError
    +-- ConfigError          the operator: a configuration that cannot keep its promise
        +-- ConfigErrors     several errors in one configuration
    +-- PayloadError         the meter: a message that is not a reading
    +-- RecordError          the sender: a message that is not a record, or that contradicts another message
    +-- LinkError            the network: a broker that refuses or cannot be reached
    +-- DatabaseError        the receiver's database: it refuses what `collect` needs
    +-- StoreError           the device: the file that holds the ledger
        +-- StoreInUse       another agent has the store open
        +-- StoreRestored    the store is, or may be, older than records that were already sent
        +-- StoreMoved       the store has the marks of meters other than the configured ones
        +-- StoreLost        the store is missing, corrupt or new; the time of the last release is unknown
    +-- PageError            the device: the address of the local page is taken
    +-- FormatError          the operator: a file of another system that cannot be read or written
    +-- ArchiveError         the operator: an archive, its output or its ledger that cannot be used
        +-- ArchiveInUse     another run has the ledger open
    +-- ChecksRefused        the operator: an archive that may not be what its configuration says
    +-- KeyRefused           the operator: an archive's key is not the required one
        +-- KeyMissing       the key file cannot be used
        +-- KeyForgotten     the window's epoch has no key
        +-- KeyRotated       the window was released under another key

No error contains a secret key, a reading, a payload or anything computed from them: all may be logged.
"""

import re

_WITH_PASSWORD = re.compile(r"://\S*@")
_FOUND_MAX = 200
"""The largest number of characters of a value that an error repeats."""


class MeteragentError(Exception):
    """The root of all errors of this package."""


class ConfigError(MeteragentError):
    """A refused configuration, with the key, its value and the expected value.

    `key` is the path in the file, such as ``privacy.radius``; it is empty if the whole file is refused.
    `meant` is the value that was probably intended, if any. `text` is the message without file and line: the
    key, followed by the argument `text` or else by the value found and the value expected. An address with a
    password is never repeated.
    """

    def __init__(
        self, key: str, value: str, expected: str, *, meant: str | None = None, text: str | None = None
    ) -> None:
        value = "an address" if _WITH_PASSWORD.search(value) else value
        value = value if len(value) <= _FOUND_MAX else f"{value[:_FOUND_MAX]} .."
        if meant is None:
            advice = f"expected {expected}"
        else:
            advice = f"did you mean {meant}?" + ("" if meant == expected else f" Expected {expected}")
        name = "an address" if _WITH_PASSWORD.search(key) else key
        message = f"found {value}; {advice}" if text is None else text
        self.text = f"{name}: {message}" if name else message
        super().__init__(self.text)
        self.key, self.found, self.expected, self.meant = key, value, expected, meant
        self.file: str | None = None
        self.line: int | None = None

    @property
    def errors(self) -> tuple["ConfigError", ...]:
        """The refusals that this error holds: only this error itself."""
        return (self,)

    def with_key(self, key: str) -> "ConfigError":
        """Return an error with the same values and expectation, under another key."""
        return ConfigError(key, self.found, self.expected, meant=self.meant)

    @property
    def location_text(self) -> str:
        """The file, the line, or both, followed by a colon and a space; empty if neither is known."""
        if self.file is None:
            return "" if self.line is None else f"line {self.line}: "
        return f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "

    def __str__(self) -> str:
        return self.location_text + self.text


class ConfigErrors(ConfigError):
    """Several refusals; `key`, `found`, `expected`, `meant` and `line` are those of the first."""

    def __init__(self, error: ConfigError, *further_errors: ConfigError) -> None:
        super().__init__(error.key, error.found, error.expected, meant=error.meant)
        self.line, self._errors = error.line, (error, *further_errors)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """One error for each refusal."""
        return self._errors

    def __str__(self) -> str:
        return "\n".join(map(str, self._errors))


class PayloadError(MeteragentError):
    """A message that is not a reading; `reason` is the name of the counter to increase.

    Raise it outside the handler of a parser's exception: `__context__` would otherwise keep the payload.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecordError(MeteragentError):
    """A received message that is neither a record nor a descriptor, or that contradicts earlier messages."""


class LinkError(MeteragentError):
    """A broker or database that was lost, or refused a request; `code` names the problem to report."""

    code = ""

    def __init__(self, text: str = "", code: str = "") -> None:
        super().__init__(text)
        self.code = code or self.code


class DatabaseError(MeteragentError):
    """A database that refuses what `collect` needs: a permission, a version, a setting or a table."""


class FormatError(MeteragentError):
    """A file that is not in the expected format, or values that a format cannot hold."""


class StoreError(MeteragentError):
    """A store (the file of the ledger and the outbox) that cannot be used as it is."""


class StoreInUse(StoreError):
    """A store that another agent has open; two agents would add noise to the same interval twice."""


class StoreRestored(StoreError):
    """A store that is, or may be, an old copy, which lacks the records that were sent after it was made."""


class StoreMoved(StoreError):
    """A store of a shard that is not the configured one, whose marks are in other stores."""


class StoreLost(StoreError):
    """A missing, corrupt or new store: the time from which releases may safely continue is unknown."""


class PageError(MeteragentError):
    """An address of the local page on which another program is already listening."""


class ArchiveError(MeteragentError):
    """An archive that cannot be released: its input, its output folder or its ledger cannot be used."""


class ArchiveInUse(ArchiveError):
    """A ledger that another run has open; two runs would release the same interval twice."""


class ChecksRefused(MeteragentError):
    """Readings that are probably not what the configuration says; nothing is charged or released."""


class KeyRefused(MeteragentError):
    """A wrong key for an archive; nothing is released, because another key would give different noise."""


class KeyMissing(KeyRefused):
    """A key file that is missing, unreadable, readable by everybody, or not a key."""


class KeyForgotten(KeyRefused):
    """A window whose epoch has no key: the key was forgotten, or the window precedes the first epoch."""


class KeyRotated(KeyRefused):
    """A window that was released under another key, so a second release would have different noise."""
