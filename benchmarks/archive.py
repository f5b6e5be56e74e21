"""Archives: `sanitise` in one process beside plain pyarrow with numpy's Laplace noise that keeps no account.

The plain program reads the same Parquet, adds floating-point noise of the same size to each number, rounds
and writes the same columns with the same compression: no ledger, no key, no digest, no clamp, and a promise
that is weaker by a factor of n. Growth is per reading; memory is a process's peak.
"""

import contextlib
import multiprocessing
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import harness
from benchmarks.harness import Result, Row
from meteragent import config
from meteragent.archive.key import create
from meteragent.archive.policy import Policy
from meteragent.archive.run import OPTIONS, sanitise_archive

N = 96
DAYS = 364
FIRST_MS = 1_735_689_600_000
DAY_MS = 86_400_000
QUARTER_MS = 900_000
WINDOWS = 100_000
NOISE_W = 24_770 / 2**0.5  # the scale that has the same standard deviation
SIZES = (10**6, int(os.environ.get("BENCH_READINGS", "10000000")))
"""Readings; `BENCH_READINGS=100000000` makes the greater one that (half an hour more)."""
MEMORY_MB = 512
_TIME = pa.timestamp("ms", tz="UTC")
_BATCH = 20_000

CONFIG = """
[source]
topic = "meters/{{meter}}/power"
kind = "power"
unit = "W"
[window]
length = "1d"
step = "15min"
[privacy]
hide = "110Wh"
[sink]
topic = "private/{{meter}}/power"
[archive]
key_file = "{folder}/archive.key"
"""


def wide(path: Path, windows: int) -> None:
    """Days of 96 quarters of an hour, home by home: int32, Gamma-distributed watts."""
    kind = pa.schema([("meter", pa.string()), ("time", _TIME), ("value", pa.list_(pa.int32()))])
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, kind, compression="zstd", use_dictionary=["meter"]) as writer:
        for first in range(0, windows, _BATCH):
            at = np.arange(first, min(first + _BATCH, windows))
            values = rng.gamma(1.2, 300, at.size * N).astype(np.int32)
            columns = [
                pa.array([f"m{home:07}" for home in (at // DAYS).tolist()]),
                pa.array(FIRST_MS + DAY_MS * (at % DAYS)).cast(_TIME),
                pa.ListArray.from_arrays(np.arange(at.size + 1, dtype=np.int32) * N, values),
            ]
            writer.write_batch(pa.record_batch(columns, schema=kind))


def long(path: Path, readings: int) -> None:
    """Readings every quarter of an hour, home by home: double."""
    kind = pa.schema([("meter", pa.string()), ("time", _TIME), ("value", pa.float64())])
    rng, each = np.random.default_rng(0), DAYS * N
    with pq.ParquetWriter(path, kind, compression="zstd", use_dictionary=["meter"]) as writer:
        for first in range(0, readings, 10 * each):
            at = np.arange(first, min(first + 10 * each, readings))
            names = pa.array([f"m{home:07}" for home in range(at[0] // each, at[-1] // each + 1)])
            columns = [
                names.take(pa.array(at // each - at[0] // each)),
                pa.array(FIRST_MS + QUARTER_MS * (at % each)).cast(_TIME),
                pa.array(rng.gamma(1.2, 300, at.size).round(1)),
            ]
            writer.write_batch(pa.record_batch(columns, schema=kind))


@contextlib.contextmanager
def _quiet(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    del what, total, unit
    yield lambda _: None


def ours(folder: Path, path: Path) -> None:
    """A run with a key of its own, so that nothing was released before."""
    for old in folder.glob("*.ledger*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.rmtree(folder / "out.parquet", ignore_errors=True)
    policy = Policy.of(config.parse(CONFIG.format(folder=folder)))
    done = sanitise_archive(policy, path, folder / "out.parquet", _quiet)
    if done.account.refused or not done.made:
        raise AssertionError("what is measured must be a whole run")


def plain(folder: Path, path: Path) -> None:
    """Read, noise, write: batch by batch, as a short script would."""
    rng, out = np.random.default_rng(), folder / "plain.parquet"
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(out, file.schema_arrow, compression=OPTIONS["compression"]) as writer,
    ):
        for batch in file.iter_batches(_BATCH):
            values = batch.column("value").flatten().to_numpy()
            noisy = np.rint(values + rng.laplace(scale=NOISE_W, size=values.size)).astype(np.int32)
            lists = pa.ListArray.from_arrays(batch.column("value").offsets, noisy)
            columns = [batch.column("meter"), batch.column("time"), lists]
            writer.write_batch(pa.record_batch(columns, schema=file.schema_arrow))


def _peak_mb(folder: Path, path: Path, report: Any) -> None:
    ours(folder, path)
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage would tell of the parent too
    report.put(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")))


def peak_mb(folder: Path, path: Path) -> float:
    """The memory of a process that releases a file, at most."""
    context = multiprocessing.get_context("spawn")
    report: Any = context.Queue()
    process = context.Process(target=_peak_mb, args=(folder, path, report))
    process.start()
    found: float = report.get()
    process.join()
    return found


def growth(folder: Path, name: str, make: Callable[[Path, int], None], sizes: Sequence[int]) -> list[Result]:
    """CPU time per row at the least and at the greatest size, in as many rounds as all others; and memory."""
    paths = [folder / f"{name}{size}.parquet" for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        make(path, size)
    runs = [partial(ours, folder, path) for path in paths]
    each = [
        [harness.seconds(run, 1) / size for run, size in zip(runs, sizes, strict=True)]
        for _ in range(harness.ROUNDS)
    ]
    memory = [peak_mb(folder, paths[-1]) for _ in range(harness.ROUNDS)]
    least, greatest = (statistics.median(one) * 1e9 for one in zip(*each, strict=True))
    return [
        Result(
            f"archive, {name}: a reading of {sizes[1]:,}",
            f"of {sizes[0]:,}",
            tuple(one / other for one, other in each),
            0.9,
            f"{least:.0f} and {greatest:.0f} ns of CPU a reading",
        ),
        Result(
            f"archive, {name}: memory, {sizes[1]:,} readings",
            f"{MEMORY_MB} MB",
            tuple(MEMORY_MB / one for one in memory),
            1,
            f"{statistics.median(memory):.0f} MB",
        ),
    ]


def main() -> None:
    """Print how fast archives are released."""
    if harness.peer("pyarrow") is None or harness.peer("cryptography") is None:
        harness.report([], ())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create(folder / "archive.key", "bench")
        path = folder / "in.parquet"
        wide(path, WINDOWS)
        row = Row(
            "archive, wide: days of 96, one process",
            "pyarrow + numpy.laplace, no account",
            partial(ours, folder, path),
            partial(plain, folder, path),
            0.7,
            work=(WINDOWS, WINDOWS),
            unit="rows",
        )
        results = harness.run([row])
        results += growth(folder, "wide", lambda path, count: wide(path, count // N), SIZES)
        results += growth(folder, "long", long, SIZES)
    harness.report(results, ("numpy", "pyarrow", "cryptography"))


if __name__ == "__main__":
    main()
