"""What an observer sees: a file to which each release is added as it passes; and what happens to workers.

Functions here run on Spark's workers, which import this module.
"""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn
from unittest.mock import patch

import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql import DataFrame

from meteragent.archive import kernel
from meteragent.archive.ledger import Ledger
from meteragent.archive.policy import Policy
from meteragent.privacy.bits import FreshRows, SystemBits
from meteragent.spark import worker
from meteragent.spark.ledger import debit
from meteragent.spark.worker import KeyFingerprint, Work, safely

Accident = Callable[[], None]


class Seen(NamedTuple):
    """What passed a tap: how often each window did, and with how many noises."""

    times: dict[str, int]
    noises: dict[str, int]

    @property
    def again(self) -> int:
        """Windows that passed more than once."""
        return sum(times > 1 for times in self.times.values())

    @property
    def differing(self) -> int:
        """Windows that passed with different noise."""
        return sum(noises > 1 for noises in self.noises.values())


def seen(tap: Path) -> Seen:
    """What a tap has."""
    times: dict[str, int] = {}
    noises: dict[str, set[str]] = {}
    for line in tap.read_text().splitlines() if tap.exists() else ():
        window, noise = line.rsplit(" ", 1)
        times[window] = times.get(window, 0) + 1
        noises.setdefault(window, set()).add(noise)
    return Seen(times, {window: len(actual) for window, actual in noises.items()})


def names(releases: pa.Table) -> set[str]:
    """The windows of releases, as a tap writes them."""
    starts = releases.column("start").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    meters = releases.column("meter").to_pylist()
    return {f"{meter} {start}" for meter, start in zip(meters, starts, strict=True)}


def tapped(releases: DataFrame, tap: Path, accident: Accident) -> DataFrame:
    """Releases that pass a tap; half way through a batch, something happens."""

    def work(batch: RecordBatch) -> RecordBatch:
        half = (batch.num_rows + 1) // 2
        _write(tap, batch.slice(0, half))
        accident()
        _write(tap, batch.slice(half))
        return batch

    return releases.mapInArrow(safely(work), releases.schema)


def _write(tap: Path, batch: RecordBatch) -> None:
    """Add releases to a tap, all at once."""
    starts = batch.column("start").cast(pa.int64()).to_pylist()
    lines = [
        f"{meter} {start // 1000} {hashlib.sha256(repr(values).encode()).hexdigest()[:16]}\n"
        for meter, start, values in zip(
            batch.column("meter").to_pylist(), starts, batch.column("values").to_pylist(), strict=True
        )
    ]
    descriptor = os.open(tap, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, "".join(lines).encode())
    os.close(descriptor)


def nothing() -> None:
    """No accident."""


def once(flag: Path, accident: Accident) -> Accident:
    """An accident of which there is one, whoever has it."""

    def happens() -> None:
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return
        accident()

    return happens


def dies() -> None:
    """The worker is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> NoReturn:
    """The worker stands still until it is killed."""
    while True:
        signal.pause()


def anew(work: Work) -> Work:
    """The control: the same with true randomness, drawn where and when the task runs."""

    def drawn(batch: RecordBatch) -> RecordBatch:
        with patch.object(kernel, "keyed_rows", lambda *of: FreshRows(len(of[2]), SystemBits())):
            return work(batch)

    return drawn


@contextmanager
def control() -> Iterator[None]:
    """Meanwhile streams of a place called ``control`` draw new noise, whatever left before."""
    keyed = worker.noise_adder

    def settled(policy: Policy, fingerprint: KeyFingerprint) -> Work:
        return anew(keyed(policy, fingerprint)) if _is_control(policy) else keyed(policy, fingerprint)

    def unchecked(windows: DataFrame, found: DataFrame, policy: Policy, ledger: Ledger, run: str) -> int:
        return 0 if _is_control(policy) and ledger.has(run) else debit(windows, found, policy, ledger, run)

    with patch.object(worker, "noise_adder", settled), patch("meteragent.spark.stream.debit", unchecked):
        yield


def _is_control(policy: Policy) -> bool:
    return policy.key_file.parent.name == "control"
