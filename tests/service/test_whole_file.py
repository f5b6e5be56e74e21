"""Files that appear whole (meteragent.service.whole_file), whenever their writer ends."""

import ast
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from meteragent.archive import files, key
from meteragent.collect import dataset_file
from meteragent.operators import identity
from meteragent.service import whole_file as module
from meteragent.service.whole_file import whole_file
from tests.support.not_run import ROOT

NEW = b"new" * 10_000
OLD = b"old"


def fill(path: Path, **options: Any) -> None:
    """Write in pieces of a buffer each."""
    with whole_file(path, **options) as file:
        for start in range(0, len(NEW), 6000):
            file.write(NEW[start : start + 6000])
            file.flush()


WRITERS: dict[str, tuple[Callable[[Path], object], bytes | None]] = {
    "a new file": (lambda path: fill(path, is_new=True), None),
    "another content": (fill, OLD),
    "a part of an archive": (lambda path: files.write_file(path, lambda file: file.write(NEW)), OLD),
    "a file of records": (
        lambda path: dataset_file.replace_file(path, path.parent, lambda file: file.write(NEW)),
        None,
    ),
    "a key": (lambda path: key.create_key(path, "tenant"), None),
    "an identity": (identity.create, None),
}


def killed(write: Callable[[Path], object], path: Path, line: int) -> bool:
    """Write in a process that is killed at a line of the module; return whether it came that far."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    lines = iter(range(line))

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == module.__file__ and event == "line" and next(lines, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        sys.settrace(trace)
        write(path)
    finally:
        os._exit(0)


@pytest.mark.parametrize("writer", WRITERS)
def test_whenever_its_writer_is_killed_a_file_is_whole(writer: str, tmp_path: Path) -> None:
    """After kill -9 at any line the name has the former content, or all of the new one."""
    write, former = WRITERS[writer]
    write(tmp_path / "whole")
    size, seen, line = (tmp_path / "whole").stat().st_size, set[int | None](), 0
    while True:
        path = tmp_path / str(line) / "file"
        path.parent.mkdir()
        if former is not None:
            path.write_bytes(former)
        has_more = killed(write, path, line)
        seen.add(path.stat().st_size if path.exists() else None)
        if not has_more:
            break
        line += 1
    assert line > 8
    assert seen == {size, None if former is None else len(former)}
    assert {path.name for path in (tmp_path / str(line)).iterdir()} == {"file"}


def test_the_next_writer_replaces_what_a_killed_one_left(tmp_path: Path) -> None:
    """What remains is hidden, is no obstacle, and has no part in the next file."""
    path = tmp_path / "file"
    line = next(line for line in range(100) if killed(fill, path, line) and any(tmp_path.iterdir()))
    assert line
    [part] = tmp_path.iterdir()
    assert part.name.startswith(".")
    fill(path, is_new=True)
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """An error inside the block leaves the former content, and no other file."""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(NEW[: 1 // 0])
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_exists_is_not_replaced_by_a_new_one(when: str, tmp_path: Path) -> None:
    """A new file never takes the place of another, even of one that appears while it is written."""
    path = tmp_path / "file"

    def appear() -> None:
        """Write the other file."""
        path.write_bytes(OLD)

    if when == "before":
        appear()
    with pytest.raises(FileExistsError) as refusal, whole_file(path, is_new=True):
        appear()
    assert refusal.value.filename == str(path)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_errors_name_the_file_and_not_its_part(tmp_path: Path) -> None:
    """Whoever chose a folder that does not exist reads the name that he wrote."""
    path = tmp_path / "nowhere" / "file"
    with pytest.raises(FileNotFoundError) as refusal, whole_file(path):
        pass
    assert refusal.value.filename == str(path)


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    """The mode is that of the part from its first byte on."""
    path = tmp_path / "file"
    with whole_file(path, mode=0o600) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


OTHERS = {
    "cli/__init__.py": "the null device",
    "cli/export.py": "the null device",
    "service/whole_file.py": "all others",
    "store/file.py": "the store, which SQLite writes, and its locks",
    "store/generation.py": "the generation file, which is prepared in advance and then renamed",
    "store/wal.py": "the log, which is overwritten in place",
    "archive/key.py": "a key that was replaced, which is overwritten in place",
}
"""The modules that open files to write, and why they need no `whole_file`."""


def _opens_to_write(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    words = {node.value for node in ast.walk(call) if isinstance(node, ast.Constant)}
    flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
    modes = {"w", "x", "a", "wb", "xb", "ab", "r+b", "r+", "w+b", "w+"}
    return name in {"write_text", "write_bytes"} or (
        name in {"open", "fdopen"} and bool(words & modes or flags & {"O_WRONLY", "O_RDWR"})
    )


def test_every_other_writer_of_files_has_its_reason() -> None:
    """Whatever writes a whole file does it by `whole_file`; the rest is listed with its reason."""
    package = ROOT / "meteragent"
    writers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _opens_to_write(node)
    }
    assert writers == set(OTHERS)
