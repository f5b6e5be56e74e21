"""The generation file of the next commit with records, which is written before that commit."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meteragent.domain.errors import StoreError
from meteragent.store import generation, meta_value, restore_at
from simulators.simtest.store.disk import write_files
from tests.store.test_store_generation import content, counted
from tests.support.stores import LENGTH_MS, open_store, opening, persist, sending


def descriptors() -> int:
    """How many descriptors are open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_next_file_is_ready_before_its_commit(tmp_path: Path) -> None:
    """What `prepare` writes is the generation file once a commit with records has returned, not before."""
    path, new = tmp_path / "db", tmp_path / "db.gen.new"
    with open_store(path) as store:
        persist(store, sending(0))
        before = content(path)["db.gen"]
        store.prepare_generation()
        prepared = new.read_bytes()
        inode = new.stat().st_ino
        persist(store, opening(0, "m"))
        store.prepare_generation()
        assert content(path)["db.gen"] == before
        assert (new.stat().st_ino, new.read_bytes()) == (inode, prepared)
        assert counted(path) == 1
        persist(store, sending(1))
        assert content(path)["db.gen"] == prepared
        assert (tmp_path / "db.gen").stat().st_ino == inode
        assert counted(path) == 2
        assert not new.exists()
    open_store(path).close()


def test_what_was_prepared_for_another_generation_is_not_used(tmp_path: Path) -> None:
    """A crash leaves the prepared file behind: the next start, a stop and a restore write their own."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, sending(0))
        store.prepare_generation()
        write_files(
            content(path) | {"db.gen.new": (tmp_path / "db.gen.new").read_bytes()}, tmp_path / "killed"
        )
    assert not (tmp_path / "db.gen.new").exists()
    open_store(path).close()
    killed = tmp_path / "killed" / "db"
    with open_store(killed) as store:
        assert counted(killed) == meta_value(store.connection, "releases") == 1
        store.prepare_generation()
        (tmp_path / "killed" / "db.gen.new").unlink()
        persist(store, sending(1))
        assert counted(killed) == meta_value(store.connection, "releases") == 2
    restore_at(killed, at_ms=LENGTH_MS, now_ms=0)
    open_store(killed).close()


def test_a_file_that_cannot_be_prepared_is_written_with_its_commit(tmp_path: Path) -> None:
    """What keeps `prepare` from writing, such as a full disk, stops nothing unless it lasts."""
    path, new = tmp_path / "db", tmp_path / "db.gen.new"
    with open_store(path) as store:
        new.mkdir()
        store.prepare_generation()
        new.rmdir()
        persist(store, sending(0))
        assert counted(path) == 1
        new.mkdir()
        store.prepare_generation()
        with pytest.raises(StoreError, match=r"directory|permitted"):
            persist(store, sending(1))
        new.rmdir()
    assert counted(path) == 1
    with open_store(path) as store:
        assert counted(path) == meta_value(store.connection, "releases") == 2


def test_preparing_keeps_no_descriptor(tmp_path: Path) -> None:
    """However many commits there were, few files are open, and none of them when the store is closed."""
    before = descriptors()
    with open_store(tmp_path / "db") as store:
        persist(store, sending(0))
        once = descriptors()
        for k in range(1, 20):
            store.prepare_generation()
            persist(store, sending(k))
        assert descriptors() <= once + 2
    assert descriptors() == before


def test_files_that_other_threads_prepare(tmp_path: Path) -> None:
    """While another thread prepares, each commit is counted once, in a file that is in place."""
    path = tmp_path / "db"
    with open_store(path) as store, ThreadPoolExecutor(1) as beside:
        for k in range(200):
            preparing = [beside.submit(store.prepare_generation) for _ in range(3)]
            persist(store, sending(k))
            known = generation.read_generation(path)
            assert known
            assert known.releases == meta_value(store.connection, "releases") == k + 1
            assert generation.is_in_place(path, known)
            for item in preparing:
                item.result()
