"""Copies of a store that are brought back: which are refused, by what, and what a power cut does to that."""

import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError, StoreInUse, StoreRestored
from meteragent.store import Store, generation, meta_value, outbox, restore_at, schema
from meteragent.store.commands import accept_moved
from simulators.simtest.store.disk import write_files
from simulators.simtest.store.power import Moment, Recorder
from tests.support.stores import LENGTH_MS, closing, in_memory, open_store, opening, persist, sending


def counted(path: Path) -> int:
    """How many commits with records the generation file counts."""
    known = generation.read_generation(path)
    assert known is not None
    return known.releases


def content(path: Path) -> dict[str, bytes]:
    """What a store at rest consists of."""
    return {name: path.with_name(name).read_bytes() for name in ("db", "db.gen")}


def test_each_commit_with_records_is_counted(tmp_path: Path) -> None:
    """The number is raised once for each commit that holds records, by no other, also in the store."""
    with open_store(tmp_path / "db") as store:
        for number, commit in enumerate([sending(0), sending(*range(9)), closing(0, "m")], 1):
            persist(store, opening(number, f"m{number}"))
            persist(store, commit)
            assert counted(store.path) == meta_value(store.connection, "releases") == number
    with open_store(tmp_path / "db") as store:
        assert counted(store.path) == meta_value(store.connection, "releases") == 3


def test_a_rollback_is_not_counted(tmp_path: Path) -> None:
    """A transaction that is rolled back counts nothing, nor does the next one for it."""
    with open_store(tmp_path / "db") as store:
        wrong = opening(0, "m")
        wrong.outgoing += closing(0, "m").outgoing
        wrong.marks.clear()
        with pytest.raises(StoreError, match="twice"):
            persist(store, wrong)
        persist(store, opening(0, "m"))
        assert counted(store.path) == meta_value(store.connection, "releases") == 0


def test_a_copy_made_while_it_ran(tmp_path: Path) -> None:
    """A copy of the file alone is refused once records have left since, and does no harm before that."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, opening(0, "m"))
        copy = path.read_bytes()
        persist(store, opening(0, "other"))
        write_files({"db": copy, "db.gen": path.with_name("db.gen").read_bytes()}, tmp_path / "before")
        persist(store, closing(0, "m"))
        write_files({"db": copy, "db.gen": path.with_name("db.gen").read_bytes()}, tmp_path / "after")
    with pytest.raises(StoreRestored, match=r"before the last records left.*--restored-at"):
        open_store(tmp_path / "after" / "db")
    open_store(tmp_path / "before" / "db").close()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_folder_that_was_put_back(in_place: bool, tmp_path: Path) -> None:
    """Files that are put back together are refused, into the files of now or in their stead, until told."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, sending(0))
    old = content(path)
    for k in range(2):
        with open_store(path) as store:
            persist(store, sending(k))
    for name, text in old.items():
        if not in_place:
            path.with_name(name).unlink()
        path.with_name(name).write_bytes(text)
    for _ in range(2):
        with pytest.raises(StoreRestored, match=r"--restored-at.*--moved"):
            open_store(path)
    restore_at(path, at_ms=LENGTH_MS, now_ms=0)
    with open_store(path) as store:
        assert store.floor_ms == LENGTH_MS


def test_a_store_that_was_moved(tmp_path: Path) -> None:
    """`moved` accepts a store with its files in a new place and changes nothing but what names the place."""
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "m"))
        persist(store, sending(0))
        key = store.claim_key
    (tmp_path / "new").mkdir()
    for name in ("db", "db.gen"):
        shutil.copy(tmp_path / name, tmp_path / "new" / name)
    path = tmp_path / "new" / "db"
    with pytest.raises(StoreRestored, match=r"restored from a backup, or moved; .*--restored-at.*--moved"):
        open_store(path)
    before, known = path.read_bytes(), generation.read_generation(path)
    assert accept_moved(path)
    assert not accept_moved(path)
    after = generation.read_generation(path)
    assert path.read_bytes() == before
    assert known
    assert after
    assert after._replace(inode=known.inode) == known
    with open_store(path) as store:
        assert store.snapshot("main").marks == {"m": LENGTH_MS}
        assert store.claim_key == key


def test_what_moved_does_not_accept(tmp_path: Path) -> None:
    """An old copy of the file, no store and a store in use are refused by `moved` as by a start."""
    path = tmp_path / "db"
    with pytest.raises(StoreError, match="no store"):
        accept_moved(path)
    assert not path.exists()
    with open_store(path) as store:
        persist(store, sending(0))
        with pytest.raises(StoreInUse):
            accept_moved(path)
    copy = path.read_bytes()
    open_store(path).close()
    path.write_bytes(copy)
    with pytest.raises(StoreRestored):
        accept_moved(path)


@pytest.mark.parametrize("ends", ["runs", "is killed"])
def test_a_store_that_was_not_stopped_has_not_been_moved(ends: str, tmp_path: Path) -> None:
    """A folder that was copied while an agent ran, or after it was killed, is no moved store."""
    path = tmp_path / "new" / "db"
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "m"))
        if ends == "runs":
            persist(store, sending(0))
        path.parent.mkdir()
        for name in ("db", "db-wal", "db.gen"):
            shutil.copy(tmp_path / name, path.with_name(name))
    for attempt in (open_store, accept_moved):
        with pytest.raises(StoreRestored, match="copied while an agent ran, or moved before") as refusal:
            attempt(path)
        assert "--moved" not in str(refusal.value)
    restore_at(path, at_ms=10 * LENGTH_MS, now_ms=0)
    open_store(path).close()


def test_a_moved_store_that_has_run_since_is_accepted_after_its_next_stop(tmp_path: Path) -> None:
    """Whoever starts the moved store after `restore_at`, and stops it, can move it again."""
    path = tmp_path / "new" / "db"
    open_store(tmp_path / "db").close()
    for name in ("db", "db.gen"):
        path.parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / name, path.with_name(name))
    assert accept_moved(path)
    store = open_store(path)
    known = generation.read_generation(path)
    assert known
    assert not known.is_stopped
    store.close()
    known = generation.read_generation(path)
    assert known
    assert known.is_stopped


@pytest.mark.parametrize(("text", "reason"), [(None, "is missing"), ("{", "cannot be read")])
def test_what_is_wrong_with_the_generation_file_is_said(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    """A file that is missing or damaged is not called an old copy of the store."""
    path = tmp_path / "db"
    open_store(path).close()
    generation_file = path.with_name("db.gen")
    generation_file.unlink() if text is None else generation_file.write_text(text)
    with pytest.raises(StoreRestored, match=f"the file .gen next to it {reason}.*--restored-at") as refusal:
        open_store(path)
    assert "copy" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["{}", "{", "a", '{"generation": 1}', "é", '{"generation":"a","releases":"1"}']
)
def test_a_generation_file_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    """A damaged generation file counts as another store's, and `restore_at` replaces it."""
    with open_store(tmp_path / "db") as store:
        persist(store, sending(0))
    for content in (text, schema.seal(text)):
        (tmp_path / "db.gen").write_text(content, "utf-8")
        with pytest.raises(StoreRestored):
            open_store(tmp_path / "db")
    restore_at(tmp_path / "db", at_ms=LENGTH_MS, now_ms=0)
    open_store(tmp_path / "db").close()


def test_the_claim_key(tmp_path: Path) -> None:
    """It is drawn once, differs between stores, and outlives restarts, a restore and a store set aside."""
    path = tmp_path / "db"
    with open_store(path) as store, open_store(tmp_path / "other") as other:
        key = store.claim_key
        assert len(key) == 32
        assert key != other.claim_key
    restore_at(path, at_ms=1, now_ms=0)
    with open_store(path) as store:
        persist(store, sending(0))
        assert store.claim_key == key
    path.write_bytes(b"no database at all")
    with open_store(path) as store:
        assert store.damage
        assert store.claim_key == key
        assert counted(path) == 1
    open_store(path).close()


def test_restoring_counts_on(tmp_path: Path) -> None:
    """A copy that was taken in counts from the higher number, so that another old copy is still refused."""
    path = tmp_path / "db"
    with open_store(path) as store:
        copy = path.read_bytes()
        for k in range(5):
            persist(store, sending(k))
    path.write_bytes(copy)
    restore_at(path, at_ms=LENGTH_MS, now_ms=0)
    with open_store(path) as store:
        assert counted(path) == meta_value(store.connection, "releases") == 5


def test_two_agents_that_no_lock_keeps_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locks do not hold, the agent that started first can write no more, and says why."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    first = open_store(tmp_path / "db")
    persist(first, opening(0, "m"))
    with open_store(tmp_path / "db") as second:
        for commit in (closing(0, "m"), opening(1, "m"), Commit("main", 5)):
            with pytest.raises(StoreError):
                persist(first, commit)
        first.close()
        persist(second, closing(0, "m"))
    with open_store(tmp_path / "db") as store:
        assert outbox.queue_depth(store.connection, "main") == 1


def test_the_first_agent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is told names the cause: another agent has opened the store."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    first = open_store(tmp_path / "db")
    open_store(tmp_path / "db").close()
    with pytest.raises(StoreInUse, match="another agent has opened it"):
        persist(first, opening(0, "m"))
    first.close()


# --- power cuts --------------------------------------------------------------------------------


def life(path: Path) -> None:
    """A start, records and a stop."""
    with open_store(path) as store:
        k = store.snapshot("main").marks.get("m", 0) // LENGTH_MS
        persist(store, opening(k, "m"))
        persist(store, closing(k, "m"))


def moments(folder: Path) -> list[Moment]:
    """The moments of a store's life that follows another."""
    folder.mkdir()
    life(folder / "db")
    with Recorder(folder) as recorder:
        life(folder / "db")
    return recorder.moments


def refused(at: list[Moment], folder: Path) -> int:
    """After how many of the power cuts with all, or nothing, of what was not synced the store is refused."""
    count = 0
    for number, moment in enumerate(at):
        for part in (True, False):
            for names in (0, 1):
                files = moment.torn(lambda _, part=part: part, names)  # type: ignore[misc]
                where = write_files(files, folder / f"{number}-{part}-{names}")
                try:
                    store = open_store(where / "db")
                except StoreRestored:
                    count += 1
                else:
                    with store:
                        assert not store.damage
                        assert counted(store.path) <= meta_value(store.connection, "releases")
    return count


@pytest.mark.slow("cuts the power at every step")
def test_a_power_cut_leaves_the_store_accepted() -> None:
    """Whenever the power goes, the generation file is whole, names the store and is never ahead."""
    with in_memory() as folder:
        actual = moments(folder / "db")
        assert len(actual) > 20
        assert refused(actual, folder) == 0


class Forgetful:
    """A mutant: the system's calls, without the sync of files that are not folders."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        """Sync folders alone."""
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


@pytest.mark.slow("cuts the power at every step")
def test_a_generation_file_that_is_not_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renamed without a sync of its content it may be empty after a power cut: the test above sees that."""
    monkeypatch.setattr(generation, "os", Forgetful())
    with in_memory() as folder:
        assert refused(moments(folder / "db"), folder) > 0


def test_records_are_counted_before_they_are_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the count cannot be written the commit fails: nobody gets its rows, no other is written."""
    store = open_store(tmp_path / "db")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as device:
        device.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="the disk is full"):
            persist(store, sending(0))
    with pytest.raises(StoreError, match="earlier transaction"):
        persist(store, sending(1))
    store.close()
    with open_store(tmp_path / "db") as second:
        assert outbox.queue_depth(second.connection, "main") == 1
        assert counted(second.path) == 1


def test_no_inode_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system names no inode, and knows no time of birth, a store is still used."""
    monkeypatch.setattr(generation, "inode_of", lambda _: "")
    for _ in range(2):
        with open_store(tmp_path / "db") as store:
            persist(store, sending(0))


@pytest.mark.parametrize("folder", ["/dev/shm", None])
def test_an_inode_is_named_apart(folder: str | None, tmp_path: Path) -> None:
    """Files that follow each other under one name are told apart, though their numbers are used again."""
    where = tmp_path if folder is None or not Path(folder).is_dir() else Path(folder)
    path, seen = where / f"meteragent-{os.getpid()}", set()
    for _ in range(50):
        path.write_bytes(b"")
        with path.open("rb") as opened:
            seen.add(generation.inode_of(opened.fileno()))
        path.unlink()
    assert len(seen) == 50


def test_store_of(tmp_path: Path) -> None:
    """A store is opened by the name of its link as by its own: the generation file stands beside the file."""
    (tmp_path / "link").symlink_to("db")
    open_store(tmp_path / "link").close()
    assert isinstance(generation.read_generation(tmp_path / "db"), generation.Generation)
    with Store.open(tmp_path / "db", now_ms=0, recovery_floor_ms=0) as store:
        assert not store.damage
