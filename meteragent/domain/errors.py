"""Every error of the agent, sorted by whose fault it is.

    MeteragentError
    +-- ConfigError          the operator: a configuration that cannot keep its promise
        +-- ConfigErrors     several at once
    +-- PayloadError         the meter: a message that is not a reading
    +-- RecordError          the sender: a message that is not a record, or contradicts another
    +-- LinkError            the network: a broker that refuses or cannot be reached
    +-- StoreError           the device: the file that holds the ledger
        +-- StoreInUse       another agent has it open
        +-- StoreRestored    it is older than records that have already left
        +-- StoreMoved       it has the marks of other meters than the agent would use it for
        +-- StoreLost        it is missing or corrupt, and its clock cannot be guessed
    +-- PageError            the device: the address of the local page is taken
    +-- ArchiveError         the operator: an archive, its output or its ledger that cannot be used
        +-- ArchiveInUse     another run has the ledger open
    +-- KeyRefused           the operator: an archive's key is not the required one
        +-- KeyMissing       its file cannot be used
        +-- KeyForgotten     it begins after the window
        +-- KeyRotated       the window was released under another key

No error ever holds a key, a reading, a payload or anything computed from one, so its text may be logged.
"""

import re

_WITH_PASSWORD = re.compile(r"://\S*@")
_FOUND_MAX = 200
"""The largest number of characters of a value that an error repeats."""


class MeteragentError(Exception):
    """The root of all errors of this package."""


class ConfigError(MeteragentError):
    """A refused configuration: the key, its value, and the expected value.

    `key` is the path in the file, such as ``privacy.radius``; it is empty if the whole file is refused.
    `meant` is the value that was probably intended. `file` and `line` are the position, as far as it is
    known. An address with a password is never repeated, whichever key it was written to.
    """

    def __init__(self, key: str, value: str, expected: str, *, meant: str | None = None) -> None:
        value = "an address" if _WITH_PASSWORD.search(value) else value
        value = value if len(value) <= _FOUND_MAX else f"{value[:_FOUND_MAX]} .."
        if meant is None:
            right = f"expected {expected}"
        else:
            right = f"did you mean {meant}?" + ("" if meant == expected else f" Expected {expected}")
        name = "an address" if _WITH_PASSWORD.search(key) else key
        self.text = f"{name}: found {value}; {right}".removeprefix(": ")
        super().__init__(self.text)
        self.key = key
        self.found = value
        self.expected = expected
        self.meant = meant
        self.file: str | None = None
        self.line: int | None = None

    @property
    def errors(self) -> tuple["ConfigError", ...]:
        """All that is refused, one error each: here this one alone."""
        return (self,)

    def under(self, prefix: str) -> "ConfigError":
        """Return the same error of a key with a prefix."""
        return ConfigError(prefix + self.key, self.found, self.expected, meant=self.meant)

    @property
    def place(self) -> str:
        """Where it is: the file, the line or both, with a colon and a space; empty where neither is known."""
        if self.file is None:
            return "" if self.line is None else f"line {self.line}: "
        return f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "

    def __str__(self) -> str:
        return self.place + self.text


class ConfigErrors(ConfigError):
    """Several refusals of one configuration, in the order of their lines; `key` and texts are the first's."""

    def __init__(self, first: ConfigError, *others: ConfigError) -> None:
        super().__init__(first.key, first.found, first.expected, meant=first.meant)
        self.line, self._errors = first.line, (first, *others)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """All that is refused, one error each."""
        return self._errors

    def __str__(self) -> str:
        return "\n".join(map(str, self._errors))


class PayloadError(MeteragentError):
    """A message that is not a reading; `reason` is the name of the counter that counts it.

    Raise it outside the handler of a parser's exception: that exception holds the payload and would stay in
    `__context__`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecordError(MeteragentError):
    """A received message that is neither record nor descriptor, or does not agree with earlier messages."""


class LinkError(MeteragentError):
    """A broker that cannot be reached, or that refused the connection, a subscription or a publication."""


class StoreError(MeteragentError):
    """A store, the file of ledger and outbox, that cannot be used as it is."""


class StoreInUse(StoreError):
    """A store that another agent has open: two agents would add noise to one interval twice."""


class StoreRestored(StoreError):
    """A store that is an old copy: it does not know the records that have left since."""


class StoreMoved(StoreError):
    """A store with another shard than configured: the marks of the new meters are in other stores."""


class StoreLost(StoreError):
    """A missing or corrupt store, for which no safe time to continue from is known."""


class PageError(MeteragentError):
    """The local page cannot be served: another program listens at its address."""


class ArchiveError(MeteragentError):
    """An archive that cannot be released as it is, because of its input, its output folder or its ledger."""


class ArchiveInUse(ArchiveError):
    """A ledger that another run has open: two runs would release one interval twice."""


class KeyRefused(MeteragentError):
    """A wrong key for an archive: nothing is released, because noise under another key would be different."""


class KeyMissing(KeyRefused):
    """A key file that is missing, unreadable, readable by everybody, or not a key."""


class KeyForgotten(KeyRefused):
    """A window whose epoch has no key, because it was forgotten or the key never went that far back."""


class KeyRotated(KeyRefused):
    """A window that was released under another key: a second release would have different noise."""
