"""Archives that are refused: inputs, outputs, keys and ledgers that cannot be used; nothing is released."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from meteragent.archive import layout, manifest, run
from meteragent.archive.ledger import Ledger
from meteragent.archive.preview import preview
from meteragent.archive.run import sanitise_archive
from meteragent.cli import main
from meteragent.domain.errors import (
    ArchiveError,
    ArchiveInUse,
    ConfigError,
    KeyForgotten,
    KeyMissing,
    KeyRefused,
)
from tests.support.archives import (
    DAY_MS,
    KEY,
    QUARTERS,
    SPRING_MS,
    WIDE,
    Place,
    policy,
    save,
    silent,
    wide_rows,
)

SECRET = 31_415


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def test_another_run_is_not_mixed_in(place: Place) -> None:
    """Another input, configuration or key into the same output is refused, and nothing is changed."""
    path = save(place.folder / "in.parquet", wide_rows(2, 4))
    place.sanitise(path)
    before = place.files()
    with pytest.raises(ArchiveError, match=r"out\.parquet: belongs to another run"):
        place.sanitise(path, privacy="level = 0.5")
    assert place.files() == before
    save(path, wide_rows(2, 4, seed=1))
    with pytest.raises(ArchiveError, match="the input, the configuration or the key has changed"):
        place.sanitise(path)
    save(path, wide_rows(2, 4))
    (place.folder / "archive.key").write_text(other_key(7))
    with pytest.raises(ArchiveError, match="another run"):
        place.sanitise(path)


def other_key(byte: int) -> str:
    """The file of another key."""
    return type(KEY)("test", "month", 0, bytes([byte]) * 32).text()


def test_an_output_is_not_put_over_something_else(place: Place) -> None:
    """A folder with other things, a file, the input itself: refused."""
    path = save(place.folder / "in.parquet", wide_rows(1, 1))
    (place.folder / "other").mkdir()
    (place.folder / "other" / "letter").write_text("")
    for out in ("other", "archive.key"):
        with pytest.raises(ArchiveError, match="is not an output"):
            place.sanitise(path, out)
    (place.folder / "link").symlink_to(path)
    beside = save(place.folder / "x.ledger.parquet", wide_rows(1, 1))
    for taken, out in ((path, "in.parquet"), (path, "in.parquet/out"), (path, "link"), (beside, "x.parquet")):
        with pytest.raises(ArchiveError, match="lies inside the input or contains it"):
            place.sanitise(taken, out)
    with pytest.raises(
        ArchiveError, match="lies inside the input or contains it"
    ):  # its ledger would be an input too
        sanitise_archive(place.policy(), place.folder, place.folder.parent / "out.parquet", silent)
    assert place.ledger() == []


def test_a_key_has_one_ledger_by_whatever_name(place: Place) -> None:
    """Through a link the ledger is the same one; a second one, for a key that has one, is refused."""
    path = save(place.folder / "in.parquet", wide_rows(2, 3))
    place.sanitise(path)
    (place.folder / "link.key").symlink_to("archive.key")
    linked = policy(place.folder / "link.key", window=QUARTERS, privacy="preset = 'street'")
    result = sanitise_archive(linked, path, place.folder / "other.parquet", silent)
    assert (result.admission.released_windows, result.admission.refused_windows) == (0, 6)
    other = f"ledger = '{place.folder / 'other'}'"
    with pytest.raises(ConfigError, match="the key has its ledger there"):
        place.policy(archive=other)
    (place.folder / "archive.key.ledger").rename(place.folder / "other")
    moved = place.policy(archive=other, privacy="preset = 'street'")
    assert (
        sanitise_archive(moved, path, place.folder / "third.parquet", silent).admission.refused_windows == 6
    )


@pytest.mark.parametrize("lost", ["moved", "emptied", "unmounted"])
@pytest.mark.parametrize("is_used", [True, False])
def test_a_key_without_its_ledger_is_refused(tmp_path: Path, lost: str, *, is_used: bool) -> None:
    """A key is made with its ledger; without that, neither a run nor a preview begins a second one."""
    assert main(["key", "new", str(tmp_path / "k9"), "--tenant", "acme"]) == 0
    path, ledger = save(tmp_path / "in.parquet", wide_rows(2, 3)), tmp_path / "k9.ledger"
    own, street = (
        policy(tmp_path / "k9", window=QUARTERS, privacy=words) for words in ("", "preset = 'street'")
    )
    if is_used:
        sanitise_archive(own, path, tmp_path / "out", silent)
    ledger.rename(tmp_path / "lost")
    if lost != "moved":
        ledger.mkdir()
    if lost == "emptied":
        (ledger / "run=1").mkdir()
    for perform in (sanitise_archive, preview):
        with pytest.raises(KeyRefused, match="ledger is missing"):
            perform(street, path, tmp_path / "again", silent)
    assert not (tmp_path / "again").exists()
    shutil.rmtree(ledger, ignore_errors=True)
    (tmp_path / "lost").rename(ledger)
    result = sanitise_archive(street, path, tmp_path / "again", silent)
    assert result.admission.refused_windows == 6 * is_used


def test_another_version_does_not_go_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that were cut in another way are not mixed: removed, they are made again the same."""
    path = save(place.folder / "in.parquet", wide_rows(1, 1))
    place.sanitise(path)
    monkeypatch.setattr(manifest, "CUT", [1, 2, 3])
    with pytest.raises(ArchiveError, match="another version"):
        place.sanitise(path)


def test_two_runs_at_once_are_refused(place: Place) -> None:
    """The second is told that another run has the ledger, and writes nothing."""
    path = save(place.folder / "in.parquet", wide_rows(1, 1))
    with Ledger(place.policy().ledger).lock(), pytest.raises(ArchiveInUse, match="another run"):
        place.sanitise(path)
    assert not (place.folder / "out.parquet").exists()


@pytest.mark.parametrize("what", ["missing", "forgotten", "readable", "another file"])
def test_without_the_key_nothing_is_written(place: Place, what: str) -> None:
    """A key that is not there, or not for some window: nothing leaves, nothing is debited."""
    path, key = save(place.folder / "in.parquet", wide_rows(1, 40)), place.folder / "archive.key"
    if what == "missing":
        key.unlink()
    if what == "forgotten":
        key.write_text(KEY.without(SPRING_MS + 20 * DAY_MS).text())
    if what == "readable":
        key.chmod(0o644)
    if what == "another file":
        key.write_text("[source]\n")
    before = place.files()
    with pytest.raises(KeyForgotten if what == "forgotten" else KeyMissing):
        place.sanitise(path)
    assert place.files() == before


def test_copies_of_a_window_are_an_error(place: Place) -> None:
    """Two rows of one window: which and how many, before anything is released; never a value."""
    rows = [*wide_rows(2, 3), *wide_rows(1, 2, seed=1)]
    with pytest.raises(
        ArchiveError, match=r"windows that appear twice: 2, such as the window of 'm0' at 2026-03-28T00"
    ):
        place.sanitise(save(place.folder / "in.parquet", rows))
    assert place.ledger() == []
    assert not (place.folder / "out.parquet").exists()


LAST = {"meter": "m9", "time": SPRING_MS // DAY_MS * DAY_MS, "value": [SECRET] * 96}
ROWS_THAT_ARE_WRONG: dict[str, dict[str, Any]] = {
    "a number more": {"value": [SECRET] * 97},
    "off the grid": {"time": SPRING_MS + 1},
    "no meter": {"meter": None},
    "an empty name": {"meter": ""},
    "no time": {"time": None},
}
BYTES_THAT_ARE_WRONG: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda _: str(SECRET).encode() * 1000,
    "cut short": lambda content: content[:-500],
    "damaged": lambda content: content[:200] + bytes(700) + content[900:],
}


def broken(place: Place, what: str) -> Path:
    """An input that something is wrong with; it holds SECRET."""
    path, good = place.folder / "in.parquet", wide_rows(1, 3)
    if what in ROWS_THAT_ARE_WRONG:
        return save(path, [*good, LAST | ROWS_THAT_ARE_WRONG[what]])
    save(path, [*good, LAST] if what != "no rows" else [])
    if what in BYTES_THAT_ARE_WRONG:
        path.write_bytes(BYTES_THAT_ARE_WRONG[what](path.read_bytes()))
    if what == "an empty folder":
        path.unlink()
        path.mkdir()
    if what == "a naive time":
        save(path, good, WIDE.set(1, pa.field("time", pa.timestamp("ms"))))
    if what == "texts":
        texts = [row | {"value": [str(SECRET)]} for row in good]
        save(path, texts, WIDE.set(2, pa.field("value", pa.list_(pa.string()))))
    return place.folder / "nothing.parquet" if what == "no file" else path


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("no file", "no such file"),
        ("an empty folder", r"there are no \*\.parquet files"),
        ("garbage", "not a Parquet file"),
        ("cut short", "not a Parquet file"),
        ("damaged", "not a Parquet file"),
        (
            "a number more",
            "rows that are not on the grid of window.length, or have the wrong number of values: 1 of 4",
        ),
        (
            "off the grid",
            (
                "(an ordinary window is 1d long and has 96 slots; starts are in UTC;"
                " local days need window.timezone)"
            ),
        ),
        ("no meter", "column 'meter': rows without a meter name: 1"),
        ("an empty name", "column 'meter': rows without a meter name: 1"),
        ("no time", "column 'time': rows without a time: 1"),
        ("no rows", "no rows"),
        ("a naive time", r"column 'time': found timestamp\[ms\]; expected a timestamp with a time zone"),
        ("texts", "column 'value': found list<.*string>; expected numbers"),
    ],
)
def test_an_input_that_cannot_be_released_is_told(place: Place, what: str, expected: str) -> None:
    """The error says what is wrong and where, holds no value, and nothing is released or debited."""
    path = broken(place, what)
    with pytest.raises(ArchiveError, match=expected) as caught:
        place.sanitise(path)
    told = repr(caught.value) + repr(caught.value.__context__) + repr(caught.value.__cause__)
    assert str(SECRET) not in told
    assert place.ledger() == []
    assert not list(place.folder.glob("out.parquet/part-*.parquet"))


@pytest.mark.parametrize("limit", [2000, 20_000])
def test_a_full_disk_loses_nothing(place: Place, limit: int) -> None:
    """Writing fails, in the ledger or in the output: said, and again with space it goes on to the same."""
    reference = Place.make(place.folder / "reference")
    path = save(place.folder / "in.parquet", wide_rows(9, 40))
    reference.sanitise(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(ArchiveError, match="file too large"):
            place.sanitise(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bool(place.ledger()) == (limit == 20_000)
    assert not list(place.folder.glob("out.parquet/part-*"))
    place.sanitise(path)
    parts = [next(item.folder.glob("out.parquet/part-*")) for item in (place, reference)]
    assert parts[0].name == parts[1].name
    assert parts[0].read_bytes() == parts[1].read_bytes()


def test_an_input_that_changes_is_not_released(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the input file has changed when a part is done, the part is discarded."""
    path = save(place.folder / "in.parquet", wide_rows(2, 4))
    original = layout.read_wide

    def touched(*arguments: Any) -> Any:
        save(path, wide_rows(2, 4, seed=1))
        return original(*arguments)

    monkeypatch.setattr(run, "read_wide", touched)
    with pytest.raises(ArchiveError, match="changed while it was being read"):
        place.sanitise(path)
    assert not list(place.folder.glob("out.parquet/part-*.parquet"))


def test_a_ledger_that_cannot_be_read_stops_all(place: Place) -> None:
    """What another run has released is not known: nothing is released."""
    place.sanitise(save(place.folder / "in.parquet", wide_rows(1, 3)))
    (rows,) = place.folder.glob("archive.key.ledger/run=*/part-*.parquet")
    rows.write_bytes(b"PAR1")
    path = save(place.folder / "other.parquet", wide_rows(1, 3, seed=1))
    with pytest.raises(ArchiveError, match="part-00000"):
        place.sanitise(path, "other.out")
    assert not (place.folder / "other.out").exists()


@pytest.mark.parametrize("gone", ["part-*", "part-00000.*", "part-00007.*", "_parts"])
def test_a_ledger_with_holes_stops_all(place: Place, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A run with missing rows does not count as empty, because its windows would leave again."""
    monkeypatch.setattr(run, "JOB_WINDOWS", 4)
    path = save(place.folder / "in.parquet", wide_rows(6, 3), group=4)
    place.sanitise(path)
    (made,) = place.folder.glob("archive.key.ledger/run=*")
    assert len(list(made.glob("part-*"))) == 8
    for part in made.glob(gone):
        part.unlink()
    with pytest.raises(ArchiveError, match="files of the ledger are missing"):
        place.sanitise(path, "other.parquet", privacy="preset = 'street'")
    assert not (place.folder / "other.parquet").exists()
