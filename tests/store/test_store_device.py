"""The store and the device below it: reads that fail, locks, and what file systems do with old blocks."""

import errno
import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from meteragent import config as settings
from meteragent.domain.errors import StoreError
from meteragent.store import disk, file
from meteragent.store import examine as meaning
from meteragent.store.disk import Mount, mount_of
from tests.support.guarantees import told_of
from tests.support.stores import open_store, opening, persist


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has worked and was stopped."""
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, *(f"m{i}" for i in range(40))))
    return tmp_path / "db"


def names(path: Path) -> set[str]:
    """The files beside a store."""
    return {actual.name for actual in path.parent.iterdir()}


def test_a_read_that_fails_is_not_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks damaged is looked at again, on a new connection, and used if it is sound then."""
    examine, failures = (
        meaning.examine_content,
        iter([sqlite3.DatabaseError("database disk image is malformed")]),
    )

    def once(connection: sqlite3.Connection) -> None:
        for failure in failures:
            raise failure
        examine(connection)

    monkeypatch.setattr(meaning, "examine_content", once)
    with open_store(path) as store:
        assert not store.damage
        assert len(store.snapshot("main").marks) == 40


def test_what_the_device_says_is_not_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """integrity_check says an error of the device and raises none: the start fails, nothing is renamed."""
    said = "*** in database main ***\nTree 2 page 2: unable to get the page. error code=8458"
    monkeypatch.setattr(file, "INTEGRITY_CHECK", f"SELECT {said!r}".replace("\\n", " "))
    before = names(path)
    for _ in range(2):
        with pytest.raises(StoreError, match="the device cannot read it: error code=8458"):
            open_store(path)
    assert names(path) - {"db-wal", "db-shm"} == before


def test_a_lock_on_another_file_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a network's file system, where flock would shut out SQLite's own locks, the file is not locked."""
    monkeypatch.setattr(file, "mount_of", lambda _: Mount("nfs4", frozenset()))
    path.with_name("hard").hardlink_to(path)
    with open_store(path):
        descriptor = os.open(path.with_name("hard"), os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)


def test_check_says_where_old_blocks_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` warns of a store on a file system that writes elsewhere, and of none that is not there yet."""
    config = settings.parse(
        f'source.topic="m/{{meter}}"\nsource.kind="power"\nsource.unit="W"\nsink.topic="p/{{meter}}"\n'
        f'store.path="{path}"'
    )
    for kind, warns in (("btrfs", True), ("ext4", False)):
        monkeypatch.setattr(disk, "mount_of", lambda _, kind=kind: Mount(kind, frozenset()))
        assert (f"Warning: the store is on {kind}" in told_of(config, ())) is warns
    monkeypatch.setattr(disk, "mount_of", lambda _: Mount("zfs", frozenset()))
    path.unlink()
    assert "Warning: the store is on" not in told_of(config, ())


@pytest.mark.parametrize(
    ("line", "kind", "keeper"),
    [
        ("31 1 254:0 / / rw,relatime - ext4 /dev/vda rw", "ext4", None),
        (
            "31 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,data=journal",
            "ext4",
            "ext4 (data=journal)",
        ),
        ("31 1 0:30 /@ / rw - btrfs /dev/vda rw,ssd", "btrfs", "btrfs"),
        ("31 1 0:30 / /not/here rw - btrfs /dev/vda rw", None, None),
        ("31 1 0:30 / / rw - zfs tank rw", "zfs", "zfs"),
        ("31 1 0:30 / / rw master:2 - xfs /dev/a rw", "xfs", None),
    ],
)
def test_what_a_path_is_on(
    line: str, kind: str | None, keeper: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's table says on which file system a path is; one that keeps old blocks is named with why."""
    (tmp_path / "table").write_text(line + "\n")
    actual = mount_of(tmp_path, tmp_path / "table")
    assert (actual.kind if actual else None) == kind
    monkeypatch.setattr("meteragent.store.disk.mount_of", lambda _path: actual)
    assert disk.block_keeping_file_system(tmp_path) == keeper


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    """Of the mounts above a path the nearest counts, of two on one place the later, blanks and all."""
    place = tmp_path / "a b"
    place.mkdir()
    lines = [
        f"1 0 0:1 / {str(place).replace(' ', chr(92) + '040')} rw - ext4 a rw",
        f"2 0 0:1 / {str(place).replace(' ', chr(92) + '040')} rw - xfs a rw",
        "3 0 0:1 / / rw - btrfs a rw",
    ]
    (tmp_path / "table").write_text("\n".join(lines))
    assert mount_of(place / "db", tmp_path / "table") == Mount("xfs", frozenset({"rw"}))
    assert mount_of(tmp_path, tmp_path / "table") == Mount("btrfs", frozenset({"rw"}))
    assert mount_of(tmp_path, tmp_path / "nothing") is None


def _sqlite_error(kind: int) -> sqlite3.OperationalError:
    """An error as SQLite raises it, with its code."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = kind
    return error


@pytest.mark.parametrize(
    ("error", "has_room", "is_full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True, True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True, True),
        (OSError(errno.EIO, "Input/output error"), False, False),
        (_sqlite_error(sqlite3.SQLITE_FULL), True, True),
        (_sqlite_error(sqlite3.SQLITE_IOERR | 12 << 8), False, True),
        (_sqlite_error(sqlite3.SQLITE_IOERR | 12 << 8), True, False),
        (_sqlite_error(sqlite3.SQLITE_CORRUPT), False, False),
    ],
)
def test_a_full_disk_has_one_name(
    error: OSError | sqlite3.Error, has_room: bool, is_full: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds that nothing can be written, and in whatever words, the store's error is one."""
    monkeypatch.setattr(file, "has_room", lambda _: has_room)
    with pytest.raises(StoreError) as refusal, file.raise_device_errors(path):
        raise error
    assert str(refusal.value) == f"{path}: {disk.DISK_FULL if is_full else error}"


def test_what_follows_a_full_disk_has_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write has failed, further writes name the disk while it is full."""
    with open_store(path) as store:
        with pytest.raises(StoreError), store.transaction():
            raise OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(disk, "has_room", lambda _: False)
        with pytest.raises(StoreError, match=disk.DISK_FULL), store.transaction():
            pass
