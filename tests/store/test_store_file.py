"""The store as files: who may open it, and what is done with one that is not as it should be."""

import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from meteragent.domain.errors import StoreError, StoreInUse, StoreLost, StoreRestored
from meteragent.store import commands, ledger, outbox, read_only, restore_at, schema
from tests.support.stores import LENGTH_MS, altering, bytes_on_disk, open_store, opening, persist, sending

ROOT = Path(__file__).resolve().parents[2]
PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has worked and was stopped: 40 meters, 400 records."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, opening(0, *(f"m{i}" for i in range(40))))
        persist(store, sending(*range(400)))
    return path


def names(path: Path) -> set[str]:
    """The files beside a store."""
    return {file.name for file in path.parent.iterdir()}


# --- opening -----------------------------------------------------------------------------------


def test_folder_must_exist(tmp_path: Path) -> None:
    """A store is not made in a folder that does not exist; the error names the path."""
    with pytest.raises(StoreError, match="absent/db"):
        open_store(tmp_path / "absent" / "db")


def test_folder_cannot_be_a_store(tmp_path: Path) -> None:
    """What the system refuses is a StoreError that names the path."""
    (tmp_path / "db").mkdir()
    with pytest.raises(StoreError, match="db"):
        open_store(tmp_path / "db")


def test_modes(tmp_path: Path) -> None:
    """Every file of the store is for its owner only, at work and at rest, also one that was not."""
    path = tmp_path / "db"
    for _ in range(2):
        with open_store(path) as store:
            persist(store, sending(0))
            assert names(path) == {"db", "db-wal", "db-shm", "db.lock", "db.gen"}
            assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
        path.chmod(0o644)


@pytest.mark.slow("starts processes")
def test_second_agent(tmp_path: Path) -> None:
    """A second agent is refused at once, also from another process and by another name of the file.

    Nor does it help to remove the lock file, or to bring a copy of the generation file to another folder.
    """
    (tmp_path / "link").symlink_to("db")
    (tmp_path / "other").mkdir()
    with open_store(tmp_path / "db"):
        for name in ("hard", "other/db"):
            (tmp_path / name).hardlink_to(tmp_path / "db")
            shutil.copy(tmp_path / "db.gen", tmp_path / f"{name}.gen")
        for name in ("db", "link", "hard", "other/db", "db"):
            if name == "other/db":
                (tmp_path / "db.lock").unlink()
            with pytest.raises(StoreInUse):
                open_store(tmp_path / name)
            code = f"from tests.support.stores import *; open_store(Path({str(tmp_path / name)!r}))"
            other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
            assert b"StoreInUse" in other.stderr
    open_store(tmp_path / "link").close()


def test_refused_store_is_not_held(path: Path) -> None:
    """Whoever is refused leaves no lock behind."""
    path.with_name("db.gen").unlink()
    for _ in range(2):
        with pytest.raises(StoreRestored):
            open_store(path)


def test_blank_file_is_a_new_store(tmp_path: Path) -> None:
    """An empty file without a generation is where a new store begins."""
    (tmp_path / "db").touch()
    with open_store(tmp_path / "db", floor_ms=9) as store:
        assert not store.damage
        assert store.floor_ms == 0
        assert ledger.unknown_before_ms(store.connection) is None


def test_database_of_another_program(tmp_path: Path) -> None:
    """A database of another program is refused and left as it is."""
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        connection.execute("CREATE TABLE states (x)")
    before = (tmp_path / "db").read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(tmp_path / "db")
    assert (tmp_path / "db").read_bytes() == before
    assert names(tmp_path / "db") == {"db", "db.lock"}


def test_reading_beside_the_agent(tmp_path: Path) -> None:
    """Another connection reads while the agent writes, and cannot write."""
    path = tmp_path / "db"
    with pytest.raises(StoreError, match="no store"), read_only(path):
        pass
    with open_store(path) as store, read_only(path) as reader:
        persist(store, opening(0, "m"))
        assert [row.windows for row in commands.day_charges(reader)] == [1]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM charge")
    with read_only(path) as reader:
        assert [row.windows for row in commands.day_charges(reader)] == [1]


def test_reading_after_a_kill(path: Path, tmp_path: Path) -> None:
    """What is only in the WAL of a killed agent is read as well."""
    killed = tmp_path / "killed"
    killed.mkdir()
    with open_store(path) as store:
        persist(store, sending(1000))
        for name in ("db", "db-wal", "db.gen"):
            shutil.copy(tmp_path / name, killed)
    with read_only(killed / "db") as reader:
        assert outbox.queue_depth(reader, "main") == 401


# --- damage ------------------------------------------------------------------------------------


def header(path: Path) -> None:
    """The first bytes are no longer SQLite's."""
    path.write_bytes(b"\xff" * 16 + path.read_bytes()[16:])


def page(path: Path) -> None:
    """A page is noise, and is of no state."""
    with altering(path) as connection:
        [(number,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'mark'")
    content, at = bytearray(path.read_bytes()), (number - 1) * PAGE_BYTES
    content[at : at + PAGE_BYTES] = random.Random(3).randbytes(PAGE_BYTES)
    path.write_bytes(content)


def truncated(path: Path) -> None:
    """The second half is missing."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_page(path: Path) -> None:
    """Nothing but the first page is left."""
    path.write_bytes(path.read_bytes()[:PAGE_BYTES])


def empty(path: Path) -> None:
    """Nothing is left."""
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    """It is a text."""
    path.write_text("no database at all, but longer than a header " * 100)


def state(path: Path) -> None:
    """The tables are sound, a state in them is not."""
    with altering(path) as connection:
        connection.execute("UPDATE state SET state = x'7b00' WHERE id = 3")


def definition(path: Path) -> None:
    """A byte of a table's definition is no text."""
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE mark", b"CREATE T\xc1BLE mark"))


def missing(path: Path) -> None:
    """The file is gone, and its generation file is not."""
    path.unlink()


DAMAGES = [header, page, truncated, one_page, empty, foreign, state, definition, missing]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_store_is_set_aside(path: Path, damage: object) -> None:
    """A damaged store is kept under another name; the new one has a floor and does not know the past.

    If the damaged file can be opened its states are blanked, and nothing else of it.
    """
    assert callable(damage)
    damage(path)
    content = path.read_bytes() if path.exists() else None
    with open_store(path, now_ms=77, floor_ms=3 * LENGTH_MS) as store:
        assert store.damage
        assert store.floor_ms == store.snapshot("main").floor_ms == 3 * LENGTH_MS
        assert ledger.unknown_before_ms(store.connection) == 77
        assert store.snapshot("main").marks == {}
        persist(store, opening(3, "m0"))
        assert store.is_blanked is (damage in (page, empty, state, missing))
    if content is not None:
        kept = path.with_name("db.corrupt-77").read_bytes()
        assert len(kept) == len(content)
        if store.is_blanked:
            assert b'"draws":' not in kept
            assert all(after == 0 for before, after in zip(content, kept, strict=True) if before != after)
        else:
            assert kept == content
    with open_store(path, floor_ms=None) as second:
        assert not second.damage
        assert second.floor_ms == 3 * LENGTH_MS
        assert second.snapshot("main").marks == {"m0": 4 * LENGTH_MS}


def test_of_what_was_set_aside_the_newest_are_kept(path: Path) -> None:
    """Stores that go bad again and again do not fill the disk: three are kept, with all their parts."""
    other = path.with_name("db.corrupt-1-notes.txt")
    other.write_text("an operator's")
    for now_ms in (9, 10, 11, 100, 101):
        path.write_bytes(b"no database at all")
        open_store(path, now_ms=now_ms).close()
        path.with_name(f"db.corrupt-{now_ms}-wal").write_bytes(b"its log")
    aside = {actual.name for actual in path.parent.glob("db.corrupt-*")}
    assert aside == {f"db.corrupt-{k}{part}" for k in (11, 100, 101) for part in ("", "-wal")} | {other.name}


@pytest.mark.slow("opens eight damaged stores, each of them thrice")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_store_of_an_event_clock(path: Path, damage: object) -> None:
    """Where no floor can be known a damaged store is an error, and stays where it is."""
    assert callable(damage)
    damage(path)
    before, files = bytes_on_disk(path), names(path)
    for _ in range(2):
        with pytest.raises(StoreLost, match="--restored-at"):
            open_store(path, floor_ms=None)
    assert names(path) == files
    assert bytes_on_disk(path) == before
    restore_at(path, at_ms=5 * LENGTH_MS, now_ms=77)
    with open_store(path, floor_ms=None) as store:
        assert store.floor_ms == ledger.unknown_before_ms(store.connection) == 5 * LENGTH_MS


def test_wal_goes_with_its_store(path: Path) -> None:
    """The WAL of a lost store is set aside: it must not be read into the new one."""
    wal = path.with_name("db-wal")
    with open_store(path) as store:
        persist(store, sending(1000))
        frames = wal.read_bytes()
    missing(path)
    wal.write_bytes(frames)
    with open_store(path, now_ms=5) as store:
        assert store.damage
        assert outbox.queue_depth(store.connection, "main") == 0
    assert path.with_name("db.corrupt-5-wal").read_bytes() == frames


# --- restored copies ---------------------------------------------------------------------------


def test_copies_from_before_a_start_or_a_stop(tmp_path: Path) -> None:
    """Of the copies of a store's life only the last one is accepted."""
    path, copies = tmp_path / "db", []
    for k in range(3):
        with open_store(path) as store:
            persist(store, opening(k, "m"))
            copies.append(path.read_bytes())
        copies.append(path.read_bytes())
    for copy in copies[:-1]:
        path.write_bytes(copy)
        with pytest.raises(StoreRestored):
            open_store(path)
    path.write_bytes(copies[-1])
    open_store(path).close()
    path.write_bytes(copies[-1])
    with pytest.raises(StoreRestored):
        open_store(path)


@pytest.mark.parametrize("text", [None, "", "0" * 32, "é"])
def test_generation_file_of_another_life(path: Path, text: str | None) -> None:
    """A store without its generation file, or with another's, counts as restored."""
    generation = path.with_name("db.gen")
    if text is None:
        generation.unlink()
    else:
        generation.write_text(text, "utf-8")
    with pytest.raises(StoreRestored, match="--restored-at"):
        open_store(path)


def test_restore_at(path: Path) -> None:
    """A restored store opens nothing before the time given; what was undelivered still leaves."""
    path.with_name("db.gen").unlink()
    rows = waiting(path)
    with pytest.raises(StoreError, match="before the newest time in the store"):
        restore_at(path, at_ms=-1, now_ms=0)
    restore_at(path, at_ms=7 * LENGTH_MS, now_ms=0)
    assert waiting(path) == rows
    assert len(rows) == 400
    with open_store(path) as store:
        known = store.snapshot("main")
        assert set(known.marks.values()) == {known.floor_ms} == {7 * LENGTH_MS}
        assert not known.states
        assert ledger.unknown_before_ms(store.connection) == 7 * LENGTH_MS
        assert sum(row.windows for row in commands.day_charges(store.connection)) == 40
        for meter in ("m0", "new"):
            with pytest.raises(StoreError):
                persist(store, opening(6, meter))
            persist(store, opening(7, meter))
        assert store.clock_ms == 7 * LENGTH_MS
    restore_at(path, at_ms=8 * LENGTH_MS, now_ms=0)
    with pytest.raises(StoreError, match="before the newest time in the store"):
        restore_at(path, at_ms=7 * LENGTH_MS - 1, now_ms=0)
    with open_store(path) as store:
        assert set(store.snapshot("main").marks.values()) == {8 * LENGTH_MS}


def test_restore_at_lowers_nothing(path: Path) -> None:
    """A mark or a floor later than the time given stays."""
    with open_store(path) as store:
        persist(store, opening(8, "m1"))
        with store.transaction() as tx:
            tx.execute("UPDATE meta SET value = ? WHERE key = 'clock_ms'", (LENGTH_MS,))
    restore_at(path, at_ms=4 * LENGTH_MS, now_ms=0)
    restore_at(path, at_ms=3 * LENGTH_MS, now_ms=0)
    with open_store(path) as store:
        assert store.floor_ms == store.snapshot("main").marks["m0"] == 4 * LENGTH_MS
        assert store.snapshot("main").marks["m1"] == 9 * LENGTH_MS


def waiting(path: Path) -> list[outbox.WaitingRow]:
    """The undelivered rows."""
    with read_only(path) as reader:
        return outbox.pending_rows(reader, "main", 2**62, 1000)


# --- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, schema.VERSION + 1])
def test_a_store_of_another_version(path: Path, version: int) -> None:
    """A store with another version of the schema is refused by every command and not touched."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes(), path.with_name("db.gen").read_bytes()
    with pytest.raises(StoreError, match="another version of meteragent"):
        open_store(path)
    with pytest.raises(StoreError, match="another version of meteragent"):
        restore_at(path, at_ms=2**50, now_ms=0)
    with pytest.raises(StoreError, match="another version of meteragent"), read_only(path):
        pass
    assert (path.read_bytes(), path.with_name("db.gen").read_bytes()) == before
