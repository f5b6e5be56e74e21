"""The measurements of `benchmarks.archive`, which need pyarrow and cryptography.

`sanitise` is compared with a plain program. That program reads the same Parquet file, adds floating-point
noise of the same standard deviation to each number, rounds the sums, and writes the columns of its input. It
compresses with zstd, and uses either pyarrow's fastest options or its defaults. The plain program has no
ledger, key, digest or clamp, and its promise is weaker: with the same standard deviation, its level for a
window of n = 96 values is 2.4 times ours. Growth is the CPU time per reading of the larger archive, divided
by that of the smaller archive. Memory is the peak memory of one process.
"""

import contextlib
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import harness
from benchmarks.harness import Result, Row
from meteragent import config
from meteragent.archive.files import COMPRESSION
from meteragent.archive.key import create_key, create_ledger
from meteragent.archive.policy import Policy
from meteragent.archive.run import RunResult, sanitise_archive

N = 96
DAYS = 364
FIRST_MS = 1_735_689_600_000
DAY_MS = 86_400_000
QUARTER_MS = 900_000
WINDOWS = 100_000
NOISE_W = 24_770 / 2**0.5  # the Laplace scale with the standard deviation of the exact noise
SIZES, FULL = (10**6, 10**7), (10**7, 10**8)
"""Each pair holds the numbers of readings in the smaller and in the larger archive."""
MEMORY_MIB = 512
SPARK_CPU_MAX = 4
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
    """Write `windows` rows, one per home and day, ordered by home.

    A row holds 96 quarter-hourly means in W, gamma-distributed, as int32.
    """
    schema = pa.schema([("meter", pa.string()), ("time", _TIME), ("value", pa.list_(pa.int32()))])
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["meter"]) as writer:
        for start in range(0, windows, _BATCH):
            indices = np.arange(start, min(start + _BATCH, windows))
            values = rng.gamma(1.2, 300, indices.size * N).astype(np.int32)
            columns = [
                pa.array([f"m{home:07}" for home in (indices // DAYS).tolist()]),
                pa.array(FIRST_MS + DAY_MS * (indices % DAYS)).cast(_TIME),
                pa.ListArray.from_arrays(np.arange(indices.size + 1, dtype=np.int32) * N, values),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def long(path: Path, readings: int) -> None:
    """Write a row per reading, ordered by home: quarter-hourly means in W, gamma-distributed, as doubles."""
    schema = pa.schema([("meter", pa.string()), ("time", _TIME), ("value", pa.float64())])
    rng, per_home = np.random.default_rng(0), DAYS * N
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["meter"]) as writer:
        for start in range(0, readings, 10 * per_home):
            indices = np.arange(start, min(start + 10 * per_home, readings))
            names = pa.array(
                [f"m{home:07}" for home in range(indices[0] // per_home, indices[-1] // per_home + 1)]
            )
            columns = [
                names.take(pa.array(indices // per_home - indices[0] // per_home)),
                pa.array(FIRST_MS + QUARTER_MS * (indices % per_home)).cast(_TIME),
                pa.array(rng.gamma(1.2, 300, indices.size).round(1)),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


@contextlib.contextmanager
def _quiet(text: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    del text, total, unit
    yield lambda _: None


def ours(folder: Path, path: Path, run: Callable[..., RunResult] = sanitise_archive) -> None:
    """Sanitise the archive at `path` with `run`, after deleting the ledger and output of earlier runs.

    Raises AssertionError if a window is refused or nothing is written.
    """
    for ledger_path in folder.glob("*.ledger*"):
        shutil.rmtree(ledger_path) if ledger_path.is_dir() else ledger_path.unlink()
    shutil.rmtree(folder / "out.parquet", ignore_errors=True)
    policy = Policy.of(config.parse(CONFIG.format(folder=folder)))
    result = run(policy, path, folder / "out.parquet", _quiet)
    if result.admission.refused_windows or not result.new_parts:
        raise AssertionError("the run is incomplete")


FASTEST: dict[str, Any] = {
    "use_dictionary": ["meter"],
    "write_statistics": ["meter", "time"],
    "column_encoding": {"value.list.element": "PLAIN"},
}
"""The options with which pyarrow writes noisy values fastest.

Noisy values rarely repeat, so a dictionary does not help, and neither do their minimum and maximum. The
fastest encoding, by a small margin, is plain 32-bit numbers compressed with zstd. Delta encoding, as in our
output, and byte-stream splitting make files about a tenth smaller but take longer.
"""


def plain(folder: Path, path: Path, options: dict[str, Any]) -> None:
    """Read an archive, add noise and write the result, batch by batch, as a short script would."""
    rng, out_path = np.random.default_rng(), folder / "plain.parquet"
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(out_path, file.schema_arrow, compression=COMPRESSION, **options) as writer,
    ):
        for batch in file.iter_batches(_BATCH):
            values = batch.column("value").flatten().to_numpy()
            noisy = np.rint(values + rng.laplace(scale=NOISE_W, size=values.size)).astype(np.int32)
            lists = pa.ListArray.from_arrays(batch.column("value").offsets, noisy)
            columns = [batch.column("meter"), batch.column("time"), lists]
            writer.write_batch(pa.record_batch(columns, schema=file.schema_arrow))


def _peak_mib(folder: Path, path: Path, report: Any) -> None:
    ours(folder, path)
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage may report the parent's peak
    report.put(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")))


def peak_mib(folder: Path, path: Path) -> float:
    """Return the peak memory of a new process that sanitises a file, in MiB."""
    context = multiprocessing.get_context("spawn")
    report: Any = context.Queue()
    process = context.Process(target=_peak_mib, args=(folder, path, report))
    process.start()
    peak: float = report.get()
    process.join()
    return peak


def growth(
    folder: Path, name: str, make: Callable[[Path, int], None], sizes: tuple[int, int], rounds: int
) -> list[Result]:
    """Compare the CPU time per reading at both sizes in each round, and measure memory at the larger size."""
    paths = [folder / f"{name}{size}.parquet" for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        make(path, size)
    per_row_ns, memory = [], []
    for _ in range(rounds):
        durations_s = [harness.seconds(partial(ours, folder, path), 1) for path in paths]
        small_ns, large_ns = (1e9 * s / size for s, size in zip(durations_s, sizes, strict=True))
        per_row_ns.append((large_ns, small_ns))
        memory.append(peak_mib(folder, paths[-1]))
    for path in paths:
        path.unlink()
    return [
        harness.compare(
            f"archive, {name}: CPU time, {sizes[1]:,} readings",
            f"{sizes[0]:,} readings x {harness.GROWTH}",
            per_row_ns,
            "{:.0f} and {:.0f} ns of CPU time per reading",
            goal=1,
            allow=partial(mul, harness.GROWTH),
        ),
        Result(
            f"archive, {name}: memory, {sizes[1]:,} readings",
            f"{MEMORY_MIB} MiB",
            tuple(MEMORY_MIB / mib for mib in memory),
            1,
            f"{statistics.median(memory):.0f} MiB",
        ),
    ]


def one_process(folder: Path, path: Path) -> list[Result]:
    """Compare the CPU time of `ours` with that of `plain`, with pyarrow's fastest and default options."""
    peers: tuple[tuple[str, dict[str, Any], float | None], ...] = (
        ("pyarrow + numpy.laplace, no account", FASTEST, 0.7),
        ("the same with pyarrow's defaults", {}, None),
    )
    rows = [
        Row(
            "archive, wide: days of 96 slots, one process",
            against,
            partial(ours, folder, path),
            partial(plain, folder, path, options),
            goal,
            work=(WINDOWS, WINDOWS),
            unit="rows",
        )
        for against, options, goal in peers
    ]
    return harness.run(rows)


def on_spark(folder: Path, path: Path, run: Callable[..., RunResult]) -> Result:
    """Compare Spark on two cores with one process, after a warm-up of both.

    The ratio compares the elapsed times; the note also states the CPU time of all processes.
    """
    spark_run, process_run = partial(ours, folder, path, run), partial(ours, folder, path)
    for warm_up in (spark_run, process_run):
        warm_up()
    clock, cpu_s = [], []
    for _ in range(harness.ROUNDS):
        (theirs_s, theirs_cpu_s), (duration_s, cpu_duration_s) = (
            _durations_s(process_run),
            _durations_s(spark_run),
        )
        clock.append((WINDOWS / duration_s, WINDOWS / theirs_s))
        cpu_s.append((cpu_duration_s, theirs_cpu_s))
    cpu_text = "{:.1f} and {:.1f} s of CPU".format(*map(statistics.median, zip(*cpu_s, strict=True)))
    start_text = "Spark's start, which takes seconds, is not counted"
    text = f"{{:,.0f}} and {{:,.0f}} rows a second; {cpu_text}; {start_text}"
    return harness.compare("archive, wide: Spark on two cores", "one process", clock, text, are_rates=True)


def spark_growth(folder: Path, run: Callable[..., RunResult]) -> Result:
    """Compare the CPU time of all of Spark's processes with that of one process, at the largest size."""
    path = folder / "in.parquet"
    wide(path, FULL[1] // N)
    theirs_s, ours_s = (
        _durations_s(partial(ours, folder, path, engine))[1] for engine in (run, sanitise_archive)
    )
    path.unlink()
    return Result(
        f"archive, wide: CPU time on Spark, {FULL[1]:,} readings",
        f"one process x {SPARK_CPU_MAX}",
        (SPARK_CPU_MAX * ours_s / theirs_s,),
        1,
        f"{theirs_s:.1f} and {ours_s:.1f} s of CPU",
    )


def _durations_s(run: Callable[[], None]) -> tuple[float, float]:
    """Return the elapsed time of `run`, and the CPU time of this process and its descendants, in s."""
    start_s, start_cpu_s = time.perf_counter(), _tree_cpu_s()
    run()
    return time.perf_counter() - start_s, _tree_cpu_s() - start_cpu_s


def _tree_cpu_s() -> float:
    """Return the CPU time of this process and its descendants, in s.

    Processes that have exited count if their parents have waited for them.
    """
    parents, ticks = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process may just have exited
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    tree = {os.getpid()}
    while children := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= children
    return sum(ticks[pid] for pid in tree) / os.sysconf("SC_CLK_TCK")


def measure(
    spark: Callable[[], contextlib.AbstractContextManager[Callable[..., RunResult] | None]], *, is_full: bool
) -> list[Result]:
    """Measure all rows.

    Spark is measured only if `spark` yields a function. The sizes `FULL` are measured only if `is_full` is
    true, and in a single round.
    """
    with tempfile.TemporaryDirectory(dir=harness.ROOT, prefix="bench-") as name:
        folder, path = Path(name), Path(name) / "in.parquet"
        create_key(folder / "archive.key", "bench")
        create_ledger(folder / "archive.key.ledger")
        wide(path, WINDOWS)
        results = one_process(folder, path)
        with spark() as run:
            if run is not None:
                results.append(on_spark(folder, path, run))
                results += [spark_growth(folder, run)] if is_full else []
        plans = [(SIZES, harness.ROUNDS)] + ([(FULL, 1)] if is_full else [])
        for sizes, rounds in plans:
            results += growth(folder, "wide", lambda target, count: wide(target, count // N), sizes, rounds)
            results += growth(folder, "long", long, sizes, rounds)
        return results
