"""The store of an operator: what survives, what is refused, what is erased."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from meteragent.crowd.machine import RowKey
from meteragent.domain.errors import StoreError, StoreInUse, StoreLost, StoreRestored
from meteragent.operators.desk import LedgerLine
from meteragent.operators.store import Store, read_ledger
from tests.support.stores import altering

GROUP = bytes(range(32))
ROWS: dict[RowKey, bytes | None] = {
    RowKey("secret", 20_000): b"s" * 32,
    RowKey("mark", 0, "serial"): b"1",
    RowKey("report", 1800, "home"): b"report",
}


def opened(path: Path, role: str = "leader", group_id: bytes = GROUP) -> Store:
    """Open a store."""
    return Store.open(path / "leader.db", role, group_id)


def copied(folder: Path, target: Path) -> Path:
    """Copy a folder as a backup does."""
    shutil.copytree(folder, target)
    return target


def test_rows_survive(tmp_path: Path) -> None:
    """What is committed is there after a restart, and what is deleted is not."""
    with opened(tmp_path) as store:
        store.commit_step(ROWS)
        store.commit_step({RowKey("report", 1800, "home"): None, RowKey("closed", 1800): b"x"})
    with opened(tmp_path) as store:
        assert store.read_rows() == {
            RowKey("secret", 20_000): b"s" * 32,
            RowKey("mark", 0, "serial"): b"1",
            RowKey("closed", 1800): b"x",
        }


def test_after_any_error_nothing_is_written(tmp_path: Path) -> None:
    """The machine is ahead of the store even if the step's lines could not be formed."""

    def lines() -> Iterator[LedgerLine]:
        """Fail like a mistake of the caller."""
        raise KeyError
        yield

    with opened(tmp_path) as store:
        store.commit_step(ROWS)
        with pytest.raises(KeyError):
            store.commit_step({RowKey("mark", 0, "serial"): b"2"}, lines())
        with pytest.raises(StoreError, match="an earlier transaction failed"):
            store.commit_step({RowKey("mark", 0, "serial"): b"2"})
    with opened(tmp_path) as store:
        assert store.read_rows() == ROWS


def test_files_are_the_owners(tmp_path: Path) -> None:
    """No other user can read the secrets."""
    with opened(tmp_path) as store:
        store.commit_step(ROWS)
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """A store is open once."""
    with opened(tmp_path), pytest.raises(StoreInUse, match="another operator has the store open"):
        opened(tmp_path)


@pytest.mark.parametrize(("role", "group_id"), [("helper", GROUP), ("leader", bytes(32))])
def test_another_role_or_group_is_refused(tmp_path: Path, role: str, group_id: bytes) -> None:
    """A store belongs to one operator of one group."""
    opened(tmp_path).close()
    with pytest.raises(StoreError, match="another group, or of the other role"):
        opened(tmp_path, role, group_id)


def test_a_restored_folder_is_refused(tmp_path: Path) -> None:
    """A backup of all files is refused, even one of the newest state, because it is in other inodes."""
    live = tmp_path / "live"
    live.mkdir()
    with opened(live) as store:
        store.commit_step(ROWS)
    backup = copied(live, tmp_path / "backup")
    shutil.rmtree(live)
    copied(backup, live)
    with pytest.raises(StoreRestored, match="restored from a backup, or moved; if it is the newest"):
        opened(live)


@pytest.mark.parametrize("table", ["closed", "answer", "batch", "request", "secret", "mark"])
def test_an_old_database_is_refused(tmp_path: Path, table: str) -> None:
    """A copy of the database from before a commit is refused, unless only reports were committed since."""
    store = opened(tmp_path)
    store.commit_step(ROWS)
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith(".gen")}
    store.commit_step({RowKey(table, 1800): b"x"})
    store._resources.close()  # without a new generation, as after kill -9
    for name, content in old.items():  # in place: nothing but the generation file tells that it is old
        (tmp_path / name).write_bytes(content)
    with pytest.raises(StoreRestored, match="before the last records"):
        opened(tmp_path)


def test_an_old_database_of_reports_alone_is_accepted(tmp_path: Path) -> None:
    """Commits of reports are not counted: reports are delivered again, and nothing has left."""
    store = opened(tmp_path)
    store.commit_step(ROWS)
    old = (tmp_path / "leader.db").read_bytes()
    store.commit_step({RowKey("report", 1800, "other"): b"report"})
    store._resources.close()
    (tmp_path / "leader.db").write_bytes(old)
    with opened(tmp_path) as store:
        assert store.read_rows() == ROWS


def test_a_killed_store_is_accepted(tmp_path: Path) -> None:
    """A store that was not closed opens again."""
    store = opened(tmp_path)
    store.commit_step(ROWS)
    store._resources.close()  # without a new generation, as after kill -9
    with opened(tmp_path) as store:
        assert store.read_rows() == ROWS


def test_a_lost_store_is_refused_until_its_files_are_removed(tmp_path: Path) -> None:
    """An operator does not start over by itself; the error says how to."""
    opened(tmp_path).close()
    (tmp_path / "leader.db").unlink()
    with pytest.raises(StoreLost, match="starts over with new keys"):
        opened(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    with opened(tmp_path) as store:
        assert store.read_rows() == {}


def test_a_renamed_folder_is_accepted(tmp_path: Path) -> None:
    """On one disk, a store that was renamed with its files is the only one there is."""
    live = tmp_path / "live"
    live.mkdir()
    with opened(live) as store:
        store.commit_step(ROWS)
    live.rename(tmp_path / "other")
    with opened(tmp_path / "other") as store:
        assert store.read_rows() == ROWS


def test_a_store_without_its_generation_is_refused(tmp_path: Path) -> None:
    """A database alone could be any copy."""
    opened(tmp_path).close()
    (tmp_path / "leader.db.gen").unlink()
    with pytest.raises(StoreRestored, match="starts over with new keys"):
        opened(tmp_path)


def test_a_corrupt_store_is_refused(tmp_path: Path) -> None:
    """It is not repaired; the error says how to start over."""
    with opened(tmp_path) as store:
        store.commit_step(ROWS)
    with (tmp_path / "leader.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4000)
    with pytest.raises(StoreLost, match="starts over with new keys"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("table", "column"), [("meta", "value"), ("secret", "value"), ("row", "value"), ("ledger", "homes")]
)
def test_a_row_that_has_changed_is_refused(tmp_path: Path, table: str, column: str) -> None:
    """A number, secret or report with another bit is neither used nor shown; the error names its table."""
    path, day = tmp_path / "leader.db", RowKey("secret", 3)
    with opened(tmp_path) as store:
        store.commit_step(ROWS | {day: bytes(32)}, [LedgerLine(0, 5, "total", 7)])
    with altering(path) as connection:
        query = f"UPDATE {table} SET {column} = CAST(CAST({column} AS BLOB) || x'01' AS TEXT)"
        assert connection.execute(query).rowcount > 0
    for use in (lambda: opened(tmp_path), lambda: read_ledger(path)):
        with pytest.raises(StoreLost, match=f"a row of the table {table} is corrupt"):
            use()


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """Nothing of another program's file is changed."""
    connection = sqlite3.connect(tmp_path / "leader.db")
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(StoreError, match="not the store of a crowd's operator"):
        opened(tmp_path)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    """The folder is not created."""
    with pytest.raises(StoreError, match="its folder does not exist"):
        opened(tmp_path / "no")


def test_a_destroyed_secret_is_nowhere(tmp_path: Path) -> None:
    """A deleted day secret is neither in the database nor in its log, also while the store is open."""
    secret = bytes(range(100, 132))
    with opened(tmp_path) as store:
        store.commit_step({RowKey("secret", day): bytes([day]) * 32 for day in range(8)})
        store.commit_step({RowKey("secret", 20): secret})
        assert secret in (tmp_path / "leader.db").read_bytes()
        store.commit_step({RowKey("secret", 20): None})
        assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())


def test_an_erasure_that_a_reader_prevents_is_tried_again(tmp_path: Path) -> None:
    """A secret that is deleted while another program reads the log is erased at a later tick."""
    secret = bytes(range(100, 132))

    def holders() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if secret in path.read_bytes()]

    with opened(tmp_path) as store:
        store.commit_step({RowKey("secret", 20): secret})
        uri = f"file:{tmp_path / 'leader.db'}?mode=ro"
        reader = sqlite3.connect(uri, uri=True, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ledger").fetchone()
        store.commit_step({RowKey("secret", 20): None})
        store.commit_step({})
        assert holders() != []
        reader.close()
        store.commit_step({})
        assert holders() == []


def test_the_ledger_has_a_slot_once(tmp_path: Path) -> None:
    """A second line for a slot is refused with its rows, and the store writes nothing more."""
    line = LedgerLine(1800, 3700, "total", 100)
    with opened(tmp_path) as store:
        store.commit_step({RowKey("closed", 1800): b"x"}, [line])
        with pytest.raises(StoreError):
            store.commit_step({RowKey("closed", 1800): b"y"}, [line])
        with pytest.raises(StoreError, match="an earlier transaction failed"):
            store.commit_step({RowKey("closed", 3600): b"z"})
        store._failed = True
    assert read_ledger(tmp_path / "leader.db") == [line]


def test_a_ledger_without_a_store(tmp_path: Path) -> None:
    """There is nothing to show."""
    with pytest.raises(StoreError, match="there is no store yet"):
        read_ledger(tmp_path / "leader.db")
