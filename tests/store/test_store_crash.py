"""The store when the process or the power ends at any moment."""

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.domain.errors import StoreRestored
from meteragent.store import (
    Store,
    commands,
    generation,
    ledger,
    meta_value,
    outbox,
    read_only,
    restore_at,
    wal,
)
from simulators.simtest.store.disk import settle
from simulators.simtest.store.power import Files, Moment, Recorder
from tests.support.stores import (
    LENGTH_MS,
    TERMS,
    closing,
    crash_points,
    in_memory,
    open_store,
    opening,
    persist,
)

pytestmark = pytest.mark.slow("ends a store at every step of its writing, again and again")

ROOT = Path(__file__).resolve().parents[2]
PAGE_BYTES = 4096


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder whose store was started and cleanly stopped twice; beside it a copy from before."""
    with in_memory() as parent:
        folder = parent / "base"
        folder.mkdir()
        with open_store(folder / "db") as store:
            persist(store, opening(0, "m"))
        shutil.copy(folder / "db", parent / "stale")
        with open_store(folder / "db") as store:
            persist(store, opening(1, "m"))
        yield folder


def work(path: Path) -> None:
    """A whole run of an agent: start, one window, clean stop."""
    with open_store(path, now_ms=7, floor_ms=5 * LENGTH_MS) as store:
        k = max(store.snapshot("main").marks.get("m", 0), store.floor_ms) // LENGTH_MS
        persist(store, opening(k, "m"))


def test_crash_of_a_run(base: Path) -> None:
    """A store is accepted whenever its last run ended, and what was in it is still there."""
    points = crash_points(base, base.parent, lambda: work(base / "db"))
    assert len(points) > 10
    for point in points:
        with open_store(point / "db") as store:
            assert store.snapshot("main").marks["m"] in {2 * LENGTH_MS, 3 * LENGTH_MS}
            assert not store.damage


def test_crash_of_a_run_and_a_stale_copy(base: Path) -> None:
    """Whenever the last run ended, a copy from before the last clean stop is refused."""
    for point in crash_points(base, base.parent, lambda: work(base / "db")):
        for file in point.glob("db-*"):
            file.unlink()
        shutil.copy(base.parent / "stale", point / "db")
        with pytest.raises(StoreRestored, match="--restored-at"):
            open_store(point / "db")


def test_crash_after_a_crash(base: Path) -> None:
    """A run that follows a crash between a generation and its file may end anywhere as well."""
    first = crash_points(base, base.parent, lambda: work(base / "db"))
    torn = [point for point in first if generations(point)[0] != generations(point)[1]]
    assert len(torn) > 1
    for folder in torn:
        copies = folder.with_suffix(".copies")
        copies.mkdir()
        for point in crash_points(folder, copies, lambda path=folder / "db": work(path)):  # type: ignore[misc]
            open_store(point / "db").close()


def generations(folder: Path) -> tuple[str, str]:
    """What the store says and what its generation file says."""
    with read_only(folder / "db") as reader:
        known = generation.read_generation(folder / "db")
        return str(meta_value(reader, "generation")), known.name if known else ""


def test_crash_of_the_first_run(tmp_path: Path) -> None:
    """Whenever its first run ended, a store is accepted, and at work never without its generation file."""
    folder = tmp_path / "base"
    folder.mkdir()
    for point in crash_points(folder, tmp_path, lambda: work(folder / "db")):
        copy = point.with_suffix(".copy")
        with open_store(point / "db") as store:
            assert not store.damage
            assert store.floor_ms == 0
            assert store.snapshot("main").marks.get("m", 0) in {0, LENGTH_MS}
            shutil.copytree(point, copy)
        (copy / "db.gen").unlink()
        with pytest.raises(StoreRestored):
            open_store(copy / "db")


@pytest.mark.parametrize("generation", [True, False])
def test_crash_while_a_corrupt_store_is_set_aside(base: Path, generation: bool) -> None:
    """However setting aside is interrupted, the store that follows keeps the floor of the loss."""
    (base / "db").write_bytes(b"no database at all")
    if not generation:
        (base / "db.gen").unlink()
    for point in crash_points(base, base.parent, lambda: work(base / "db")):
        work(point / "db")
        with open_store(point / "db") as store:
            assert store.floor_ms == 5 * LENGTH_MS
            assert ledger.unknown_before_ms(store.connection) == 7
            assert list(point.glob("db.corrupt-7*"))


@pytest.mark.parametrize("generation", [True, False])
def test_crash_while_a_restored_store_is_taken_in(base: Path, generation: bool) -> None:
    """A restored store is refused until nothing can open before the time that was given."""
    shutil.copy(base.parent / "stale", base / "db")
    if not generation:
        (base / "db.gen").unlink()
    at_ms, taken_in = 9 * LENGTH_MS, 0
    for point in crash_points(base, base.parent, lambda: restore_at(base / "db", at_ms=at_ms, now_ms=0)):
        try:
            store = open_store(point / "db")
        except StoreRestored:
            assert not taken_in
            continue
        taken_in += 1
        with store:
            known = store.snapshot("main")
            assert known.marks["m"] == known.floor_ms == at_ms
            assert not known.states
    assert taken_in > 1


def test_kill_9(tmp_path: Path) -> None:
    """After kill -9 at a random moment all that was reported is there, in whole transactions."""
    path, seed = tmp_path / "db", random.Random(1)
    code = (
        f"import pathlib; from tests.support import stores; stores.keep_writing(pathlib.Path({str(path)!r}))"
    )
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as child:
            assert child.stdout
            for _ in range(seed.randrange(1, 8)):
                reported = int(child.stdout.readline())
            child.kill()
        with open_store(path) as store:
            check_whole(store, reported)


def check_whole(store: Store, reported: int) -> None:
    """Window `reported` was closed, and mark, charge, state and record of every window agree."""
    known = store.snapshot("main")
    opened = known.marks["m"] // LENGTH_MS
    records = [row.payload for row in outbox.pending_rows(store.connection, "main", 2**62, 10_000)]
    spent = sum(row.epsilon_per_w for row in commands.day_charges(store.connection))
    assert opened > reported
    assert spent == opened * TERMS.epsilon_per_w
    assert len(known.states["m"].windows) == opened - len(records)
    assert records == [b"record %d" % k for k in range(len(records))]


# --- power cuts --------------------------------------------------------------------------------


class Unmoved(NamedTuple):
    """A store with six commits that a reader keeps in the WAL; the WAL's size and `.gen` after each."""

    folder: Path
    sizes: list[int]
    generations: list[bytes]


@pytest.fixture(scope="module")
def unmoved(tmp_path_factory: pytest.TempPathFactory) -> Unmoved:
    """Six commits, and a copy of the folder beside the database file of later."""
    folder = tmp_path_factory.mktemp("unmoved")
    sizes, generations = [], []
    with open_store(folder / "db") as store, read_only(store.path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchall()
        for k in range(3):
            for commit in (opening(k, "m", accumulators=[10**300]), closing(k, "m")):
                persist(store, commit)
                sizes.append((folder / "db-wal").stat().st_size)
                generations.append((folder / "db.gen").read_bytes())
        shutil.copytree(folder, folder / "copy")
    return Unmoved(folder, sizes, generations)


def after(store: Store) -> int:
    """How many of the six commits are there; they are there in order and whole."""
    known = store.snapshot("main")
    opened = known.marks.get("m", 0) // LENGTH_MS
    closed = len(outbox.pending_rows(store.connection, "main", 2**62, 100))
    assert opened - closed == sum(len(state.windows) for state in known.states.values())
    assert sum(row.windows for row in commands.day_charges(store.connection)) == opened
    return opened + closed


@settings(max_examples=40)
@given(data=st.data())
def test_power_cut_between_fsyncs(unmoved: Unmoved, data: st.DataObject) -> None:
    """A WAL cut at any byte after the last fsync opens at the last whole commit, and at no less."""
    folder, sizes, generations = unmoved
    cut = data.draw(st.integers(sizes[0], sizes[-1]) | st.sampled_from(sizes))
    junk = data.draw(st.binary(max_size=100))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(folder / "copy", copy)
        (copy / "db-shm").unlink()
        log = (copy / "db-wal").read_bytes()
        (copy / "db-wal").write_bytes(log[:cut] + junk)
        (copy / "db.gen").write_bytes(generations[sum(size <= cut for size in sizes) - 1])
        settle(copy)
        with open_store(copy / "db") as store:
            assert after(store) == sum(size <= cut for size in sizes)


@settings(max_examples=40)
@given(data=st.data())
def test_power_cut_while_the_wal_is_moved(unmoved: Unmoved, data: st.DataObject) -> None:
    """With any part of the pages moved into the file, the WAL still holds every commit."""
    folder, sizes, _ = unmoved
    old, new = (folder / "copy" / "db").read_bytes(), (folder / "db").read_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(folder / "copy", copy)
        (copy / "db-shm").unlink()
        pages = bytearray(old.ljust(len(new), b"\0"))
        for at in data.draw(st.sets(st.integers(0, len(new) // PAGE_BYTES - 1))):
            where = slice(at * PAGE_BYTES, (at + 1) * PAGE_BYTES)
            pages[where] = new[where]
        (copy / "db").write_bytes(pages)
        settle(copy)
        with open_store(copy / "db") as store:
            assert after(store) == len(sizes)


# --- power cuts while the WAL is erased ---------------------------------------------------------


def erased_in_another_order(descriptor: int) -> None:
    """Zero the frames before the header, as one might: a mutant."""
    size = os.fstat(descriptor).st_size
    for start, end in ((wal.HEADER_BYTES, size), (0, wal.HEADER_BYTES)):
        os.pwrite(descriptor, bytes(max(0, end - start)), start)
        os.fdatasync(descriptor)


def erased_without_a_sync(descriptor: int) -> None:
    """Zero the log from its beginning to its end, in one go: a mutant."""
    os.pwrite(descriptor, bytes(os.fstat(descriptor).st_size), 0)
    os.fdatasync(descriptor)


def erasing(folder: Path) -> tuple[list[str], list[Moment]]:
    """What a store holds with several commits in its log, and the moments while that is erased."""
    folder.mkdir()
    with open_store(folder / "db") as store:
        with read_only(store.path) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM meta").fetchall()
            for k in range(6):
                persist(store, opening(k, "m", accumulators=[10**300]))
                persist(store, closing(k, "m"))
        assert not store.is_erased
        assert (folder / "db-wal").stat().st_size > 100_000
        expected = list(store.connection.iterdump())
        with Recorder(folder) as recorder:
            store.erase_log()
        assert store.is_erased
    return expected, recorder.moments


def is_whole(files: Files, expected: list[str]) -> bool:
    """Whether SQLite finds in these files what was committed."""
    with in_memory() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        with contextlib.closing(sqlite3.connect(folder / "db")) as connection:
            try:
                [(sound,)] = connection.execute("PRAGMA quick_check(1)")
                return sound == "ok" and list(connection.iterdump()) == expected
            except sqlite3.DatabaseError:
                return False


def cuts(moments: list[Moment]) -> list[Files]:
    """Cut at every moment: each block the first or the last to be written, one alone, and any of them."""
    rng, actual = random.Random(1), dict[tuple[tuple[str, bytes], ...], Files]()
    for moment in moments:
        for block in range(moment.blocks + 1):
            for files in (
                moment.torn(lambda at, block=block: at < block),  # type: ignore[misc]
                moment.torn(lambda at, block=block: at >= block),  # type: ignore[misc]
                moment.torn(lambda at, block=block: at == block),  # type: ignore[misc]
                moment.cut(rng),
            ):
                actual[tuple(files.items())] = files
    return list(actual.values())


def test_power_cut_while_the_wal_is_erased(tmp_path: Path) -> None:
    """Whichever blocks of the log are zeros when the power goes, every commit is there."""
    expected, moments = erasing(tmp_path / "base")
    tried = cuts(moments)
    assert len(tried) > 500
    assert all(is_whole(files, expected) for files in tried)


@pytest.mark.parametrize("mutant", [erased_in_another_order, erased_without_a_sync])
def test_another_order_of_erasing_is_noticed(
    mutant: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sync left out, or the frames zeroed first, some power cut leaves older pages in force."""
    monkeypatch.setattr(wal, "_zero_log", mutant)
    expected, moments = erasing(tmp_path / "base")
    assert not all(is_whole(files, expected) for files in cuts(moments))
