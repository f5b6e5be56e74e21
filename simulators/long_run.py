"""The log of a long run: a line for each completed part, so that the run can be stopped and continued.

The first line gives the run's name and a digest of the code. Each further line describes one part as a JSON
object, and is on disk before the next part begins. A line that a crash cut short is dropped. A log from
another version of the code is refused, because the totals would mix the results of two programs.
"""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
Part = dict[str, Any]
STOP_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
"""The signals that stop a run; the part in progress is then lost."""


class OtherLog(Exception):
    """The error for a log that a run cannot continue; the message gives the reason and says what to do."""


def code_digest(folders: Iterable[str]) -> str:
    """Return 16 hex digits of the SHA-256 of the names and contents of all Python files in the folders."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def revision() -> str:
    """Return the checked-out commit (with "-dirty" if files differ from it), or "unknown" if git fails."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - a constant command
    return result.stdout.strip() if result.returncode == 0 else "unknown"


class LongRun:
    """The completed parts of a run, kept in its log, or only in memory if `path` is None."""

    def __init__(self, path: Path | None, name: str, folders: Sequence[str]) -> None:
        self.parts: list[Part] = []
        self._folders = folders
        self._code_digest = code_digest(folders)
        self._path = path
        self._log_fd: int | None = None
        self._header = {"run": name, "code": self._code_digest, "revision": revision()}

    def __enter__(self) -> Self:
        """Lock the log, and read it or start it. Raises OtherLog if this run cannot continue it."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._log_fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                self._read(self._path, self._log_fd)
            except BaseException:
                os.close(self._log_fd)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._log_fd is not None:
            os.close(self._log_fd)

    def _read(self, path: Path, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OtherLog(
                f"{path}: another run is writing this log; wait for it or name another log"
            ) from None
        data = path.read_bytes()
        complete = data[: data.rfind(b"\n") + 1]
        os.truncate(file, len(complete))
        lines = [_parse_line(path, number, line) for number, line in enumerate(complete.splitlines(), 1)]
        if not lines:
            self._write(self._header | {"started": _now()})
            return
        header, *self.parts = lines
        if header.get("run") != self._header["run"]:
            raise OtherLog(f"{path}: this is the log of {header.get('run')!r}; name another log")
        if header.get("code") != self._code_digest:
            raise OtherLog(
                f"{path}: written by a different version of the code (revision {header.get('revision')});"
                " name another log"
            )

    def append(self, part: Part) -> None:
        """Append a completed part and sync it; signals in STOP_SIGNALS are delayed until it is on disk.

        Raises OtherLog if the code has changed since the start, because the part may come from both versions.
        """
        if code_digest(self._folders) != self._code_digest:
            raise OtherLog("the code changed during the run, so this part is not counted; name another log")
        with _delay_signals():
            self._write(part | {"at": _now()})
            self.parts.append(part)
        if _arrived:  # Stopped was lost: finalizers and callbacks of SQLite swallow exceptions
            raise Stopped(signal.Signals(_arrived[0]).name)

    def _write(self, line: Part) -> None:
        if self._log_fd is not None:
            data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            os.write(self._log_fd, data)
            os.fsync(self._log_fd)

    def total(self, key: str) -> int:
        """Return the sum of the count `key` over all parts that have it."""
        return sum(int(part.get(key, 0)) for part in self.parts)


EXIT_STOPPED = 143
"""The exit code of a run that a signal stopped; a shell reports the same code after SIGTERM."""


class Stopped(KeyboardInterrupt):
    """The exception that a signal raises to stop the run.

    It is a KeyboardInterrupt, which event loops re-raise and handlers of failures do not catch.
    """


_arrived: list[int] = []
"""The signals that have arrived since the last `stoppable` began."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped in the main thread if a signal in STOP_SIGNALS arrives, even if it was ignored before."""
    _arrived.clear()

    def stop(number: int, _: object) -> None:
        """Raise Stopped with the signal's name."""
        _arrived.append(number)
        raise Stopped(signal.Signals(number).name)

    with _handle_signals(stop):
        yield


def finish(work: Callable[[], object], report: Callable[[], bool]) -> int:
    """Do the work until it is complete or a signal stops it; then report, and return the exit code.

    `report` prints the results so far, and returns whether they are right.
    """
    is_stopped = False
    try:
        with stoppable():
            work()
    except Stopped:
        is_stopped = True
    is_right = report()
    if is_stopped:
        print("stopped: run the same command to continue")
        return EXIT_STOPPED
    return 0 if is_right else 1


@contextmanager
def _delay_signals() -> Iterator[None]:
    """Delay the first signal in STOP_SIGNALS that arrives, and drop later ones.

    A signal mask would not suffice, because other threads can get the signals.
    """
    signals: list[int] = []
    try:
        with _handle_signals(lambda number, _: signals.append(number)):
            yield
    finally:
        for number in signals[:1]:
            signal.raise_signal(number)


@contextmanager
def _handle_signals(handler: Callable[[int, object], object]) -> Iterator[None]:
    handlers = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, former_handler in handlers.items():
            signal.signal(number, former_handler)


def _parse_line(path: Path, number: int, line: bytes) -> Part:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OtherLog(f"{path}: line {number} is not a JSON object; name another log")
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
