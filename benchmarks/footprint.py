"""The agent's memory, disk space, imports and start-up time.

`python -m benchmarks.footprint [--out FILE]`. The agent's memory is its peak resident memory from its start
until two readings of every meter have passed, each in a separate slot. The memory of the imports is the
resident memory of a process that does nothing but import the modules. Python's bytecode is cached beforehand,
as after an installation.
"""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.contestants import (
    CONFIG,
    ROOT,
    Contestant,
    agent,
    await_subscription,
    broker,
    forwarder,
    process,
)
from benchmarks.harness import ROUNDS, Result, compare, report
from benchmarks.wire import Paced

LIMITS_MB = {100: 60, 10_000: 150}
READINGS, SPARSE_PER_S, DENSE_PER_S = 2, 100, 2000
FORBIDDEN = ("cryptography", "matplotlib", "pyarrow", "pyspark", "scipy", "starlette", "uvicorn")
PARTS = {
    "Python": "sys",
    "asyncio and OpenSSL": "asyncio, ssl",
    "numpy": "numpy",
    "configuration": "meteragent.config",
    "the rest": "meteragent.agent",
}
"""The parts of the memory, in order; a part is what its modules add to the modules of earlier parts."""

RESIDENT = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS:')))"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def memory() -> list[Result]:
    """Measure the peak resident memory for several numbers of meters, as after a restart of the machine."""
    forget_libraries()
    peaks_mb: dict[int, list[float]] = {meters: [] for meters in LIMITS_MB}
    files: dict[int, list[float]] = {meters: [] for meters in LIMITS_MB}
    for _ in range(ROUNDS):
        for meters in LIMITS_MB:
            peak_mb, files_mb = _memory_mb(meters)
            peaks_mb[meters].append(peak_mb)
            files[meters].append(files_mb)
    fewest, largest = LIMITS_MB
    meter_kb = (median(peaks_mb[largest]) - median(peaks_mb[fewest])) / (largest - fewest) * 1000
    results = []
    for meters, limit_mb in LIMITS_MB.items():
        note = f"{median(peaks_mb[meters]):.1f} MB, {median(files[meters]):.1f} of it libraries' files"
        note += f", {meter_kb:.1f} kB per meter" if meters == largest else ""
        ratios = tuple(limit_mb / peak_mb for peak_mb in peaks_mb[meters])
        results.append(Result(f"memory, {meters:,} meters", f"{limit_mb} MB", ratios, 1.0, note))
    return results


def forget_libraries() -> None:
    """Drop the libraries of this Python environment from the system's cache.

    The libraries are then read again only as far as they are needed. The cache holds a newly installed file
    in large pieces, whose unused parts would be mapped, too.
    """
    for path in Path(sys.prefix, "lib").rglob("*.so*"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _memory_mb(meters: int) -> tuple[float, float]:
    """Return the peak resident memory, and the memory of mapped files after the readings, in MB."""
    per_s = DENSE_PER_S if meters > SPARSE_PER_S else SPARSE_PER_S
    with agent()(1) as running:
        asyncio.run(_readings(Paced(meters, 1), running.source_port, per_s))
        return running.peak_memory_mb, running.mapped_memory_mb


def parts() -> Result:
    """Compare the memory after importing numpy with that after all imports, and break the latter down."""
    names, ratios = list(PARTS.values()), []
    sizes_mb: dict[str, list[float]] = {part: [] for part in PARTS}
    for _ in range(ROUNDS):
        previous_mb = 0.0
        for count, part in enumerate(PARTS, start=1):
            total_mb = _resident_mb(", ".join(names[:count]))
            sizes_mb[part].append(total_mb - previous_mb)
            previous_mb = total_mb
        ratios.append(_resident_mb("numpy") / previous_mb)
    note = ", ".join(f"{part} {median(sizes):.0f}" for part, sizes in sizes_mb.items()) + " MB"
    return Result("memory after all imports", "a process with numpy", tuple(ratios), None, note)


def _resident_mb(modules: str) -> float:
    command = [sys.executable, "-c", f"import {modules}; {RESIDENT}"]
    return int(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout) * 1024 / 1e6


async def _readings(load: Paced, port: int, per_s: int) -> None:
    await load.connect(port, port)
    await load.run(per_s, READINGS * load.meters / per_s)
    load.close()


def start() -> Result:
    """Compare the agent's time from its start to its subscription with the gmqtt forwarder's time."""
    sides = agent(), forwarder("gmqtt")
    durations_s = []
    for _ in range(ROUNDS):
        ours_s, theirs_s = map(_until_subscribed_s, sides)
        durations_s.append((ours_s, theirs_s))
    name = "time to the first subscription"
    return compare(name, "gmqtt, two connections", durations_s, "{:.2f} and {:.2f} s")


def _until_subscribed_s(contestant: Contestant) -> float:
    with contestant(1) as running:
        return running.subscribed_s - running.start_s


def count_imports() -> Result:
    """Count the modules that an agent imports up to its releases; the ratio is 1 if none is forbidden."""
    with ExitStack() as stack:
        running = stack.enter_context(broker())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path, log = folder / "bench.toml", folder / "log"
        path.write_text(CONFIG.format(port=running.port, folder=folder, length="1s", clock="event"))
        command = (sys.executable, "-X", "importtime", "-m", "meteragent", "run", path)
        stack.enter_context(process(*command, log=log))
        await_subscription(running)
        asyncio.run(_readings(Paced(SPARSE_PER_S, 1), running.port, SPARSE_PER_S))
        lines = (line.split("|") for line in log.read_text().splitlines() if line.startswith("import time:"))
        names = {name.strip() for _, _, name in lines} - {"imported package"}
    forbidden = sorted(names & set(FORBIDDEN))
    note = f"{len(names)} modules, forbidden: {', '.join(forbidden) or 'none'}"
    return Result("modules not imported", ", ".join(FORBIDDEN), (float(not forbidden),), 1.0, note)


def disk_space() -> Result:
    """Compare the disk space of the agent and all its dependencies with that of numpy alone."""
    packages, dependencies = {"meteragent"}, set[str]()
    while missing_names := packages - dependencies:
        for name in missing_names:
            dependencies.add(name)
            packages |= set(_requirements(name))
    sizes = {name: _size_mb(name) for name in dependencies - {"meteragent"}}
    ours = (
        sum(path.stat().st_size for path in (ROOT / "meteragent").rglob("*") if path.suffix != ".pyc") / 1e6
    )
    total = ours + sum(sizes.values())
    note = f"{total:.0f} MB, numpy {sizes['numpy']:.0f}, our own {ours:.1f}, without bytecode"
    return Result("installed size, without extras", "numpy alone", (sizes["numpy"] / total,), None, note)


def _requirements(name: str) -> list[str]:
    """Return the lower-case names of the installed packages that a package requires without extras."""
    names = []
    for line in metadata.requires(name) or ():
        match = _REQUIREMENT.match(line)
        if match is not None and "extra ==" not in line:
            with contextlib.suppress(metadata.PackageNotFoundError):  # a marker excludes it on this system
                names.append(metadata.distribution(match[0]).metadata["Name"].lower())
    return names


def _size_mb(name: str) -> float:
    files = metadata.files(name) or ()
    paths = (Path(str(file.locate())) for file in files if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.exists()) / 1e6


def main() -> None:
    """Run the benchmark, and print its results."""
    with agent()(1):
        pass  # caches the bytecode
    results = [*memory(), parts(), start(), disk_space(), count_imports()]
    report(results, ["numpy", "pydantic", "gmqtt"])


if __name__ == "__main__":
    main()
