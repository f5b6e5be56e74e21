"""`meteragent sanitise IN OUT --config CONFIG`: release an archive once, and say what was done."""

import argparse
import importlib
import importlib.util
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.errors import ConfigError, MeteragentError
from meteragent.grid import format_duration, iso_duration
from meteragent.release import Kind

EXIT_CRASH = 1
EXIT_INTERRUPTED = 130
_COVERED_LEAST, _COVERED_MOST = 0.9, 1.05
"""Readings that cover less or more of the windows' time probably cover something else than is stated."""
_ENGINES = {"local": "meteragent.archive.run", "spark": "meteragent.spark"}
_EXTRAS = {"archive": ("pyarrow", "cryptography", "tqdm"), "spark": ("pyspark",)}


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("input", metavar="IN.parquet", type=Path, help="a file, or a folder of files")
    parser.add_argument("output", metavar="OUT.parquet", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--config", metavar="CONFIG", type=Path, required=True, help="with an [archive]")
    parser.add_argument("--engine", choices=tuple(_ENGINES), default="local", help="default: local")


def run(options: argparse.Namespace) -> int:
    """Release an archive; returns the exit code. Raises ConfigError."""
    policy = Policy.of(config.load(options.config))
    if lacking := _lacking(options.engine):
        print(f"meteragent: sanitise needs the extra: pip install 'meteragent[{lacking}]'", file=sys.stderr)
        return EXIT_CRASH
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))  # no core may hold readings and keys
    engine = importlib.import_module(_ENGINES[options.engine])  # what it needs is not on the agent's path
    try:
        done = engine.sanitise_archive(policy, options.input, options.output, show)
        print(told(done))
    except ConfigError:
        raise
    except MeteragentError as error:
        print(f"meteragent: {error}", file=sys.stderr)
        return EXIT_CRASH
    except KeyboardInterrupt:
        print("meteragent: stopped: the same command goes on where it was", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _lacking(engine: str) -> str | None:
    """The extra of which a package is missing."""
    extras = ["archive", *(["spark"] if engine == "spark" else [])]
    missing = (extra for extra in extras for name in _EXTRAS[extra] if importlib.util.find_spec(name) is None)
    return next(missing, None)


@contextmanager
def show(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Progress on a terminal; nothing elsewhere."""
    from tqdm import tqdm  # noqa: PLC0415  the extra may be missing

    with tqdm(total=total, desc=what, unit=unit, unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update


def told(done: Any) -> str:
    """What was done, for whoever did it (`archive.run.Done`); its counts of numbers are for nobody else."""
    found, usual = done.account, done.policy.usual
    wording = done.policy.wording(usual)
    window = usual.timezone or iso_duration(usual.length_ms)
    numbers = "1 number" if usual.n == 1 else f"{usual.n} numbers"
    lines = [
        f"{done.out}: {found.released:,} windows of {numbers} released, run {found.run}",
        f"  refused        {found.refused:,} windows that share time with what was released before",
        *_numbers(done),
        f"  epsilon        {usual.epsilon} per {usual.unit} and window ({window}): level {usual.level}",
        f"  one number     {wording.sd:.4g} {usual.unit} of noise (one standard deviation)",
        f"  keys           {', '.join(sorted(found.keys))}",
        f"  ledger         {done.ledger}; this run's: {done.beside}",
    ]
    return "\n".join(lines)


def _numbers(done: Any) -> list[str]:
    """What was found in the input, where the engine counts it."""
    counts = done.counts
    if counts is None:
        return []
    lines = [f"  numbers        {counts.numbers:,} read: {counts.gap:,} gaps, {counts.clamped:,} clamped"]
    if done.kept:
        return [
            *lines,
            f"                 ({done.kept} parts were there already and are not counted in that)",
        ]
    return [*lines, *(_rows(done) if done.form == "wide" else _readings(done))]


def _rows(done: Any) -> list[str]:
    """What a number of a row was taken for."""
    rows, numbers = done.account.released, done.counts.numbers
    if not rows or numbers % rows:
        return []
    each_s = done.policy.usual.length_ms * rows / numbers / 1000
    return [f"                 {numbers // rows} in a row, each of {each_s:g} s"]


def _readings(done: Any) -> list[str]:
    """Whether readings speak for the time of the windows, if what each covers is stated as it is."""
    policy, windows = done.policy, done.account.released + done.account.refused
    usual, numbers = policy.usual, done.counts.numbers - done.counts.gap
    covered = numbers * policy.reach_ms / (windows * usual.length_ms) if windows else 1
    energy = usual.kind is Kind.INTERVAL_ENERGY
    by = f"{'source.interval' if energy else 'source.hold'} = {format_duration(policy.reach_ms)!r}"
    if covered < _COVERED_LEAST:
        return [
            f"  Look:          they cover at most {covered:.0%} of the time, by {by}; the rest is window.gap"
        ]
    if energy and covered > _COVERED_MOST:
        return [f"  Look:          they cover {covered:.0%} of the time, by {by}; what overlaps is left out"]
    return []
