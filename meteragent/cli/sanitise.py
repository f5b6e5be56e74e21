"""`meteragent sanitise IN OUT --config CONFIG`: release an archive once, or say what would be."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.cli.common import EXIT_CRASH, EXIT_INTERRUPTED
from meteragent.cli.secrecy import forbid_dumps
from meteragent.domain.errors import ConfigError, KeyRefused, MeteragentError
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.units import Kind
from meteragent.report.format import amount
from meteragent.report.wording import windows

_COVERED_LEAST, _COVERED_MOST = 0.9, 1.05
"""Readings that cover less or more of the windows' time probably cover something else than is stated."""
_SMALL = 0.9
"""If more numbers than that are small, they probably are of another unit."""
_ALL = "all windows share time with what was released before"
_ENGINES = {"local": "meteragent.archive.run", "spark": "meteragent.spark"}
_EXTRAS = {"archive": ("pyarrow", "cryptography", "tqdm"), "spark": ("pyspark",)}


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("input", metavar="IN.parquet", type=Path, help="a file, or a folder of files")
    parser.add_argument("output", metavar="OUT.parquet", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--config", metavar="CONFIG", type=Path, required=True, help="with an [archive]")
    parser.add_argument("--engine", choices=tuple(_ENGINES), default="local", help="default: local")
    parser.add_argument("--dry-run", action="store_true", help="say what it would do, and write nothing")


def run(options: argparse.Namespace) -> int:
    """Release an archive, or say what would be; returns the exit code. Raises ConfigError."""
    if options.dry_run and options.engine != "local":
        print("meteragent: --dry-run is for --engine local, which accounts the same", file=sys.stderr)
        return EXIT_CRASH
    policy = Policy.of(config.load(options.config))
    if lacking := _lacking(options.engine):
        print(f"meteragent: sanitise needs the extra: pip install 'meteragent[{lacking}]'", file=sys.stderr)
        return EXIT_CRASH
    forbid_dumps()
    try:
        print(_made(policy, options))
    except (ConfigError, KeyRefused):
        raise
    except MeteragentError as error:
        print(f"meteragent: {error}", file=sys.stderr)
        return EXIT_CRASH
    except KeyboardInterrupt:
        stopped = "nothing was written" if options.dry_run else "the same command goes on where it was"
        print(f"meteragent: stopped: {stopped}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _made(policy: Policy, options: argparse.Namespace) -> str:
    """Do what was asked; what is said of it. What that needs is not on the agent's path."""
    if options.dry_run:
        dry = importlib.import_module("meteragent.archive.dry")
        return foreseen(dry.look(policy, options.input, options.output, show))
    engine = importlib.import_module(_ENGINES[options.engine])
    return told(engine.sanitise_archive(policy, options.input, options.output, show))


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
    found = done.account
    lines = [
        f"{done.out}: {_windows(done)} released, run {found.run}",
        f"  refused        {found.refused:,} windows that share time with what was released before",
        *_numbers(done),
        *_terms(done),
        f"  ledger         {done.ledger}; this run's: {done.beside}",
    ]
    if not found.released:
        lines.append(f"nothing was released: {_ALL}")
    return "\n".join(lines)


def foreseen(look: Any) -> str:
    """What a run would do (`archive.dry.Look`), likewise."""
    found, counts = look.account, look.counts
    lines = [
        f"{look.out}: {_windows(look)} would be released, run {found.run}",
        f"  refused        {found.refused:,} windows that share time with what was released before",
        *_counted(counts),
        *_covered(look, found.released + found.refused),
        *_small(look),
        *_terms(look),
        f"  ledger         {look.ledger}",
        f"dry run, nothing was written: {_next(look)}",
    ]
    return "\n".join(lines)


def _next(look: Any) -> str:
    """What the same command would do without --dry-run."""
    if look.complete:
        return "this run is complete already"
    if look.debited:
        return "the ledger has this run already, which would go on, or be made again, the same"
    return (
        f"the ledger would get {_windows(look)}"
        if look.account.released
        else f"nothing would be released: {_ALL}"
    )


def _windows(done: Any) -> str:
    numbers = "1 number" if done.policy.usual.n == 1 else f"{done.policy.usual.n} numbers"
    return f"{done.account.released:,} windows of {numbers}"


def _terms(done: Any) -> list[str]:
    """Say the promise, the error, and the keys."""
    usual = done.policy.usual
    promise = f"{usual.epsilon} per {usual.unit} in each of the {windows(usual)}: level {exact(usual.level)}"
    return [
        f"  epsilon        {promise}",
        f"  a number       {amount(usual.sd, usual.unit)} of noise (one standard deviation)",
        *([f"  keys           {', '.join(sorted(done.account.keys))}"] if done.account.keys else []),
    ]


def _numbers(done: Any) -> list[str]:
    """What was found in the input, where the engine counts it."""
    if done.kept and not done.made:
        return [f"  numbers        complete already: {done.kept} parts were there, and none was missing"]
    if done.counts is None:
        return []
    lines = _counted(done.counts)
    if done.kept:
        return [
            *lines,
            f"                 ({done.kept} parts were there already and are not counted in that)",
        ]
    released, refused = done.account.released, done.account.refused
    return [*lines, *_covered(done, released if done.form == "wide" else released + refused)]


def _counted(counts: Any) -> list[str]:
    return [f"  numbers        {counts.numbers:,} read: {counts.gap:,} gaps, {counts.clamped:,} clamped"]


def _covered(done: Any, windows: int) -> list[str]:
    """What the numbers of so many windows were taken for."""
    return _rows(done, windows) if done.form == "wide" else _readings(done, windows)


def _rows(done: Any, rows: int) -> list[str]:
    """What a number of a row was taken for."""
    numbers = done.counts.numbers
    if not rows or numbers % rows:
        return []
    each_s = done.policy.usual.length_ms * rows / numbers / 1000
    return [f"                 {numbers // rows} in a row, each of {each_s:g} s"]


def _readings(done: Any, windows: int) -> list[str]:
    """Whether readings speak for the time of the windows, if what each covers is stated as it is."""
    policy = done.policy
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


def _small(look: Any) -> list[str]:
    """Whether numbers look as if they were of another unit, such as kW for W."""
    usual, numbers = look.policy.usual, look.counts.numbers - look.counts.gap
    if look.small <= _SMALL * numbers:
        return []
    share = f"{look.small / numbers:.0%}"
    return [f"  Look:          {share} are less than a thousandth of window.range: are they {usual.unit}?"]
