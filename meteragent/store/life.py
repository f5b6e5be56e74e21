"""An open store: its transactions, the erasure of its log, and its generations.

The agent's store and those of a crowd's operators have this in common (rules 2 and 3 of `meteragent.store`).
The table `meta` of these stores must contain the keys `generation`, `previous` and `releases`.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from meteragent.domain.errors import StoreError, StoreInUse
from meteragent.store import disk, file, generation, wal
from meteragent.store.examine import meta_value
from meteragent.store.generation import Generation


class OpenStore:
    """An open store, closed by `close` or at the end of a `with` block.

    `is_erased` is False while the WAL may contain old accumulators or deleted secrets, for example because
    another program reads the file; every later transaction tries again to erase it. Each transaction stores
    the result of `boot_note` for the next process (`meteragent.service.boot_clock`).
    """

    SERVICE: ClassVar[str]
    """The name, in error messages, of the program that opens such a store."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.is_erased = False
        self.boot_note: Callable[[], str] = str
        self._resources = ExitStack()
        self._failed = False
        self._erase_due = False
        self._generation = generation.read_generation(path) or Generation.begin("")
        self._generation_file = generation.GenerationWriter(path)
        self._has_rotated = False
        self._has_records = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; unless a write has failed, earlier copies are refused from now on."""
        try:
            if not self._failed:
                self._rotate_generation(is_stopped=True)
                self.erase_log()
        finally:
            self._resources.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: fsync it, and move it into the file on return; roll it back if the body raises.

        A transaction in the WAL alone would be undone by one flipped bit there, and nothing would show it.
        After a device error the store refuses all writes, because the content of the file is unknown until
        the store is opened again. Raises StoreError if this or an earlier transaction cannot be written.
        """
        with self.unerased_transaction() as tx:
            yield tx
            self.is_erased = False
        self.erase_log()

    @contextmanager
    def unerased_transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction like `transaction`, but leave it to the caller to erase the WAL."""
        if self._erase_due:  # the caller has not erased the WAL
            self.erase_log()
        if self._failed:
            reason = "an earlier transaction failed" if disk.has_room(self.path) else disk.DISK_FULL
            raise StoreError(f"{self.path}: {reason}")
        tx, committed = self.connection, False
        with file.raise_device_errors(self.path):
            try:
                tx.execute("BEGIN IMMEDIATE")
                self._check_generation()
                if note := self.boot_note():
                    put_meta(tx, boot=note)
                yield tx
                tx.execute("COMMIT")
                committed = True
                wal.confirm_commit(tx, self.path)
                if self._has_records:  # count the commit before its records are sent (rule 3)
                    self._has_records = False
                    self._generation = self._generation._replace(releases=meta_value(tx, "releases"))
                    self._generation_file.replace(self._generation)
            except BaseException as error:
                self._failed = committed or isinstance(error, sqlite3.Error | OSError | StoreInUse)
                self._has_records = False
                self._forget_cache()
                with suppress(sqlite3.Error):  # the first error is the one to report
                    tx.execute("ROLLBACK")
                raise

    def erase_log(self) -> None:
        """Move the WAL into the file and erase it, if it may contain old values (rule 2)."""
        self._erase_due = False
        if self.is_erased or self._failed:
            return
        with file.raise_device_errors(self.path):
            try:
                self.is_erased = wal.erase_log(self.connection, self.path)
            except (OSError, sqlite3.Error, StoreError):
                self._failed = True
                raise

    def prepare_generation(self) -> None:
        """Write in advance the generation file for the next commit with records; ignore device errors."""
        if not self._failed:
            with suppress(OSError):
                current = self._generation
                self._generation_file.prepare(current._replace(releases=current.releases + 1))

    def _forget_cache(self) -> None:
        """Forget what memory says about the file, because a transaction is rolled back."""

    def _count_records(self, tx: sqlite3.Connection) -> None:
        """Count a commit with records, in the transaction and in the generation file (rule 3)."""
        self._has_records = True
        put_meta(tx, releases=meta_value(tx, "releases") + 1)

    def _start(self, change: Callable[[sqlite3.Connection], None] | None = None) -> None:
        """Start the first generation of this process; `change` runs before, in the same transaction."""
        if not self._generation.name:
            # Both generations of a new store are "", which a missing file would match. A second rotation
            # names both of them, so that from here on a missing file is refused.
            self._rotate_generation(change)
        self._rotate_generation(change)

    def _rotate_generation(
        self, change: Callable[[sqlite3.Connection], None] | None = None, *, is_stopped: bool = False
    ) -> None:
        """Start a new generation (rule 3); `change` runs before, in the same transaction."""
        previous = self._generation
        name, releases = os.urandom(16).hex(), max(previous.releases, meta_value(self.connection, "releases"))
        with self.transaction() as tx:
            if change is not None:
                change(tx)
                self.is_erased = False
            put_meta(tx, previous=previous.name, generation=name, releases=releases)
        self._generation = Generation(name, previous.claim_key, releases, is_stopped=is_stopped)
        self._has_rotated = True
        self._generation_file.replace(self._generation)

    def _check_generation(self) -> None:
        """Refuse to write if another process has opened the store in the meantime (rule 3)."""
        if self._has_rotated and meta_value(self.connection, "generation") != self._generation.name:
            another = f"another {self.SERVICE}"
            raise StoreInUse(f"{self.path}: {another} has opened it, although this one holds its lock")


def put_meta(tx: sqlite3.Connection, **values: Any) -> None:
    """Set values of the table `meta`."""
    tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
