"""The write-ahead log between commits: it keeps its blocks, holds zeros, and loses no commit."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from meteragent.domain.errors import StoreError
from meteragent.store import Store, read_only, wal
from meteragent.store.crowd_keys import commit_keys, read_keys
from tests.support.stores import open_store, opening, persist

PAGE_BYTES = 4096


def log_of(store: Store) -> bytes:
    """Return the content of a store's log."""
    return Path(f"{store.path}-wal").read_bytes()


def test_the_log_keeps_its_blocks_and_holds_zeros(tmp_path: Path) -> None:
    """After each commit the log is as long as it was at most, and all zeros."""
    sizes = []
    with open_store(tmp_path / "db") as store:
        for k in range(6):
            persist(store, opening(k, "m", accumulators=[10**300]))
            store.erase_log()
            assert not log_of(store).strip(b"\0")
            sizes.append(len(log_of(store)))
        assert sizes == sorted(sizes)
        assert sizes[0] > 0


def test_a_large_log_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that has grown beyond what most commits write gives its blocks back, as zeros."""
    monkeypatch.setattr(wal, "LARGEST_KEPT_BYTES", PAGE_BYTES)
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "m"))
        store.erase_log()
        assert log_of(store) == b""


def test_a_transaction_is_in_the_database_file_when_it_returns(tmp_path: Path) -> None:
    """A transaction is moved out of the log, where one flipped bit would undo it unnoticed."""
    with open_store(tmp_path / "db") as store:
        store.erase_log()
        commit_keys(store, "group", "leader", 1, b"list")
        assert not log_of(store).strip(b"\0")
        alone = shutil.copy(store.path, tmp_path / "alone")
        with contextlib.closing(sqlite3.connect(f"file:{alone}?immutable=1", uri=True)) as connection:
            assert read_keys(connection, "group") == {"leader": (1, b"list")}


def without_header(store: Store) -> None:
    """Commit, and lose the header of the log, as when SQLite appends to a log that was erased."""
    with contextlib.suppress(sqlite3.OperationalError):
        store.connection.execute("PRAGMA user_version = 77")
    with Path(f"{store.path}-wal").open("r+b") as log:
        log.write(bytes(wal.HEADER_BYTES))


def test_a_commit_behind_a_header_of_zeros_is_moved_at_once(tmp_path: Path) -> None:
    """`confirm` moves such a commit into the database file, which alone survives a crash."""
    with open_store(tmp_path / "db") as store:
        without_header(store)
        wal.confirm_commit(store.connection, store.path)
        alone = shutil.copy(store.path, tmp_path / "alone")
        with contextlib.closing(sqlite3.connect(f"file:{alone}?immutable=1", uri=True)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (77,)


def test_a_commit_that_a_crash_would_lose_is_refused(tmp_path: Path) -> None:
    """While a reader keeps it from being moved, `confirm` raises, and the store writes no more."""
    with open_store(tmp_path / "db") as store, read_only(store.path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchall()
        without_header(store)
        with pytest.raises(StoreError, match="transaction open"):
            wal.confirm_commit(store.connection, store.path)


def test_nothing_is_written_after_a_commit_that_was_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is not confirmed raises, and the one after it is refused."""

    def refuse(connection: sqlite3.Connection, path: Path) -> None:
        raise StoreError(f"{path}: held")

    with open_store(tmp_path / "db") as store:
        with monkeypatch.context() as patched:
            patched.setattr(wal, "confirm_commit", refuse)
            with pytest.raises(StoreError, match="held"):
                persist(store, opening(0, "m"))
        with pytest.raises(StoreError, match="earlier transaction failed"):
            persist(store, opening(1, "m"))


def test_a_commit_of_another_program_is_not_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of another connection after the log was moved survives a crash; the log is erased later."""
    is_moved = wal._is_moved

    def move_then_commit(connection: sqlite3.Connection, mode: str) -> bool:
        moved = is_moved(connection, mode)
        with contextlib.closing(sqlite3.connect(tmp_path / "db")) as another:
            another.execute("PRAGMA user_version = 88")
        return moved

    with open_store(tmp_path / "db") as store:
        store.connection.execute("PRAGMA user_version = 87")
        with monkeypatch.context() as patched:
            patched.setattr(wal, "_is_moved", move_then_commit)
            assert not wal.erase_log(store.connection, store.path)
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for name in ("db", "db-wal"):
            shutil.copy(tmp_path / name, crashed)
        with contextlib.closing(sqlite3.connect(crashed / "db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (88,)
        assert wal.erase_log(store.connection, store.path)
        assert not log_of(store).strip(b"\0")
