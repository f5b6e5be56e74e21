"""A run over an archive that is killed: a real process, a real SIGKILL, at any step that reaches the disk."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from meteragent.archive import run
from tests.support.archives import Place

SMALL: dict[str, Any] = {"ROW_GROUP_VALUES": 960, "PART_BATCHES": 2, "JOB_ROWS": 250, "JOB_WINDOWS": 25}
"""Batches, parts and jobs of a few rows, so that there are many steps."""

_STEPS: tuple[tuple[Any, str], ...] = (
    (os, "fsync"),
    (Path, "replace"),
    (Path, "rename"),
    (Path, "mkdir"),
    (pq.ParquetWriter, "write_batch"),
    (pq.ParquetWriter, "close"),
)


def small() -> Any:
    """Apply the settings of a victim."""
    return mock.patch.multiple(run, **SMALL)


def victim(folder: Path, path: Path, keys: dict[str, str], kill_at: int, steps: Any) -> None:
    """Release a file in a place; killed before or after a step, or not at all."""

    def at_step() -> None:
        """Count a step; end the process if it is the one."""
        steps.value += 1
        if steps.value == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def stepped(call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call with a step before and after it."""

        def wrapped(*arguments: Any, **named: Any) -> Any:
            """Call between two steps."""
            at_step()
            result = call(*arguments, **named)
            at_step()
            return result

        return wrapped

    for owner, name in _STEPS:
        setattr(owner, name, stepped(getattr(owner, name)))
    with small():
        Place(folder).sanitise(path, **keys)


def peak_kb(folder: Path, path: Path, keys: dict[str, str], result: Any) -> None:
    """Release a file, and put the memory that this took beyond the memory before into `result`."""
    with mock.patch.multiple(
        run, ROW_GROUP_VALUES=1 << 15, PART_BATCHES=2, JOB_ROWS=1 << 15, JOB_WINDOWS=1 << 13
    ):
        before = _status_kb("VmRSS")
        Place(folder).sanitise(path, **keys)
        result.value = _status_kb("VmHWM") - before


def _status_kb(name: str) -> int:
    """What the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Victims:
    """Makes them, quickly: they come from a server that has everything loaded."""

    def __init__(self) -> None:
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.integration.archive_victim"])

    def run(self, folder: Path, path: Path, keys: dict[str, str], kill_at: int = 0) -> tuple[int | None, int]:
        """Run a victim; return its exit code (-9: killed) and the number of steps it took."""
        steps = self._context.Value("i", 0)
        process = self._context.Process(target=victim, args=(folder, path, keys, kill_at, steps))
        process.start()
        process.join()
        return process.exitcode, steps.value

    def peak_kb(self, folder: Path, path: Path, keys: dict[str, str]) -> int:
        """Return the memory that a run takes, in batches and jobs of 2^15 numbers and rows."""
        result = self._context.Value("i", 0)
        process = self._context.Process(target=peak_kb, args=(folder, path, keys, result))
        process.start()
        process.join()
        peak: int = result.value
        return peak
