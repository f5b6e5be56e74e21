"""The commands (DESIGN 5): parse arguments, call, say what happened, exit with the right code.

0   done, or stopped by SIGTERM        2   a command that cannot be run as it was typed
1   crash; store in use or restored    3   a guarantee is violated (audit)
                                      78   bad configuration (EX_CONFIG)
"""

import argparse
import asyncio
import contextlib
import gc
import importlib.util
import json
import logging
import os
import re
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from meteragent import __version__, config
from meteragent.agent import Agent, metrics, synchronised, watch
from meteragent.agent.notify import Notify
from meteragent.cli import admission
from meteragent.cli.secrecy import forbid_dumps
from meteragent.domain import grid
from meteragent.domain.errors import ConfigError, KeyRefused, MeteragentError, StoreError
from meteragent.domain.terms import Terms
from meteragent.report import check, event
from meteragent.store import ledger, moved, read_only, restored_at, terms

EXIT_CRASH = 1
EXIT_VIOLATED = 3
EXIT_CONFIG = 78
_SAFE_TO_SHOW = (MeteragentError, OSError, sqlite3.Error)
"""Exceptions whose text cannot hold a reading; of the others only type and place are shown."""

COLLECT_AFTER = 10_000
"""Objects made and not yet freed before Python looks for cycles: no path of a reading makes any, and to look
through all that is known of many meters takes long."""

_SAMPLES_LEAST = 100
"""With fewer windows an audit sees next to nothing."""

_PLAN = "From any two of what to hide, what to share, how many homes at what error: the third."
_PARTS = (
    ("discover", "Listen to a broker and propose configurations for the meters that it has."),
    ("tap", "Show raw readings beside what left, live, in a terminal only."),
    ("redact", "Make a recorded payload fit for a bug report: shape kept, nothing said."),
    ("sanitise", "Release an archive in Parquet, each window once, here or on Spark."),
    ("key", "Make, show and forget the key that archives' noise comes from."),
    ("demo", "The whole chain with simulated homes, in about a minute."),
)
"""Commands that bring their arguments with them, each a module here: name, what they do."""

_LEVELS = ("debug", "info", "warning", "error")

_SCHEMA = "The JSON Schema of the configuration, for editors and programs."

_Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    _open_standard_streams()
    options = _parser(sys.argv[1:] if arguments is None else arguments).parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        done = command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has had enough: what a verdict would have been is not known
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CRASH
    except ConfigError as error:
        print(f"{options.config}: {error}", file=sys.stderr)
        return EXIT_CONFIG
    except (KeyRefused, StoreError) as error:
        print(f"meteragent: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, KeyRefused) else EXIT_CRASH
    return done


def _open_standard_streams() -> None:
    """Open the null device in place of standard streams that are closed, as by `>&-`.

    Otherwise the next file or socket takes the number of the stream, and what is printed goes there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: the stream's own
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Of these arguments; the parts that a command brings with it are loaded if it may be among them."""
    parser = argparse.ArgumentParser("meteragent", description="Privacy for smart-meter streams.")
    parser.add_argument("--version", action="version", version=f"meteragent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("config", metavar="CONFIG", type=Path, help="the configuration file (TOML)")
        sub.set_defaults(command=command)
        return sub

    running = add("run", _run, "Run the agent until SIGTERM.")
    running.add_argument(
        "--log-level", choices=_LEVELS, default="info", help="the least that is logged; default %(default)s"
    )
    _add_tests(add)
    _add_reports(add)
    _add_others(commands, arguments)
    return parser


def _add_tests(add: _Add) -> None:
    """What looks at a configuration alone."""
    checking = add("check", _check, "Say what a configuration promises, hides and costs.")
    form = checking.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the same facts as JSON")
    form.add_argument(
        "--statement", action="store_true", help="a page for the file of whoever is responsible (Markdown)"
    )
    checking.add_argument(
        "--event",
        metavar="'2000W 30min'",
        type=_event,
        action="append",
        default=[],
        help="one more event of your own; can be given several times",
    )
    auditing = add("audit", _audit, "Test that the mechanism a configuration runs keeps its word.")
    auditing.add_argument("--json", action="store_true", help="the same facts as JSON")
    auditing.add_argument(
        "--samples",
        metavar="N",
        type=_samples,
        help="windows for each thing that is looked at; by default as many as take a few seconds",
    )


def _add_reports(add: _Add) -> None:
    """What asks the store, or the agent that runs with it."""
    spent = add("ledger", _ledger, "Show the privacy spent per meter and period.")
    spent.add_argument("--meter", help="this meter only")
    spent.add_argument("--json", action="store_true", help="the same facts as JSON")
    mending = spent.add_mutually_exclusive_group()
    mending.add_argument(
        "--restored-at",
        metavar="TIME",
        type=_time_or_now_ms,
        help="make a restored store usable: nothing before TIME (RFC 3339, or now) is released again",
    )
    mending.add_argument("--moved", action="store_true", help="accept a store that you have moved")
    left = add("export", _export, "Write what already left, again.")
    left.add_argument("--csv", action="store_true", required=True, help="as CSV, to standard output")
    left.add_argument(
        "--nonnegative",
        action="store_true",
        help="one more column: no value below zero, every day's energy kept (biased for single slots)",
    )
    asking = add("health", _health, "Ask the running agent how it is; 1 when something is wrong.")
    asking.add_argument("--json", action="store_true", help="all figures as JSON")


def _add_others(commands: Any, asked: Sequence[str]) -> None:
    """The commands that bring their arguments with them, or have no configuration."""
    planning = commands.add_parser("plan", help=_PLAN, description=_PLAN)
    planning.set_defaults(command=_plan, refuse=planning.error)
    if "plan" in asked:
        importlib.import_module("meteragent.cli.plan").arguments(planning)
    for name, text in _PARTS:
        sub = commands.add_parser(name, help=text, description=text)
        if name in asked:
            part = importlib.import_module(f"meteragent.cli.{name}")
            part.arguments(sub)
            sub.set_defaults(command=_guarded(part.run))
    describing = commands.add_parser("schema", help=_SCHEMA, description=_SCHEMA)
    describing.set_defaults(command=_schema)


def _lacks(module: str, what: str, extra: str) -> bool:
    """Whether an optional part is missing, which is then said."""
    missing = importlib.util.find_spec(module) is None
    if missing:
        print(f"meteragent: {what} needs the extra: pip install 'meteragent[{extra}]'", file=sys.stderr)
    return missing


def _audit(options: argparse.Namespace) -> int:
    settings = config.load(options.config)
    if _lacks("scipy", "an audit", "analysis"):
        return EXIT_CRASH
    from meteragent.report import audit  # noqa: PLC0415  scipy, which the agent starts without

    found = audit.trials(settings, samples=options.samples)
    print(audit.as_json(found) if options.json else audit.as_text(found))
    return 0 if all(trial.holds for trial in found) else EXIT_VIOLATED


def _samples(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < _SAMPLES_LEAST:
        raise argparse.ArgumentTypeError(f"a whole number from {_SAMPLES_LEAST} on, not {text!r}")
    return int(text)


def _time_ms(text: str) -> int:
    try:
        return grid.parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time_or_now_ms(text: str) -> int:
    return _now_ms() if text == "now" else _time_ms(text)


def _event(text: str) -> event.Event:
    try:
        return event.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _run(options: argparse.Namespace) -> int:
    _log_to_stderr(logging.getLevelNamesMapping()[options.log_level.upper()])
    settings = config.load(options.config)
    if admission.refused(options.config, settings, sys.stderr):
        return EXIT_CONFIG
    forbid_dumps()
    gc.set_threshold(COLLECT_AFTER)

    def facts(stream: config.Stream, others: Fraction) -> dict[str, Any]:
        return check.facts(stream, others=others)

    notify = Notify.of(os.environ, os.getpid())
    agent = Agent(settings, wall_ms=_now_ms, boot=synchronised.boot_clock(), notify=notify, facts=facts)
    try:
        asyncio.run(_until_signalled(agent))
    except Exception as error:  # noqa: BLE001  whatever it is, the process ends with 1
        return _failed(error)
    return 0


def _log_to_stderr(level: int) -> None:
    """Log messages of at least a level; of other packages none below INFO: they might hold anything."""
    logging.basicConfig(level=max(level, logging.INFO), format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("meteragent").setLevel(level)


async def _until_signalled(agent: Agent) -> None:
    running = asyncio.ensure_future(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running


def _guarded(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A command that has payloads in its hands: what it raises is told by `_failed`."""

    def guarded(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  as in _run
            return _failed(error)

    return guarded


def _failed(error: Exception) -> int:
    """Report why the agent ended; the text of an unknown exception might hold a payload."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, (ConfigError, KeyRefused, StoreError)):
        raise first from None
    text = str(first) if isinstance(first, _SAFE_TO_SHOW) else ""
    for frame in traceback.extract_tb(first.__traceback__):
        print(f"  {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
    print(f"meteragent: crash: {type(first).__name__} {text}".rstrip(), file=sys.stderr)
    return EXIT_CRASH


def _health(options: argparse.Namespace) -> int:
    path = config.load(options.config).store.path
    answer = watch.ask(path)
    if answer is None:
        print(f"{path}: no agent runs with this store, or it does not answer", file=sys.stderr)
        return EXIT_CRASH
    found = metrics.from_json(answer)
    print(answer if options.json else metrics.as_text(found))
    return EXIT_CRASH if found.problems else 0


def _check(options: argparse.Namespace) -> int:
    settings = config.load(options.config)
    events = (*event.EVENTS, *options.event)
    if options.statement:
        from meteragent.report import statement  # noqa: PLC0415  the agent runs without it

        print(statement.page(settings, events, _terms(settings.store.path)), end="")
        return EXIT_CONFIG if admission.refused(options.config, settings, sys.stderr) else 0
    known, archived = admission.channels(settings.store.path), settings.archive is not None
    found = [
        check.facts(stream, events, known, config.others_per_day(settings, stream), archived=archived)
        for stream in settings.stream
    ]
    print(check.as_json(found) if options.json else check.as_text(found, settings))
    return EXIT_CONFIG if admission.refused(options.config, settings, sys.stderr) else 0


def _schema(_: argparse.Namespace) -> int:
    print(json.dumps(config.schema(), indent=2))
    return 0


def _plan(options: argparse.Namespace) -> int:
    from meteragent.cli.plan import question  # noqa: PLC0415  the agent runs without it
    from meteragent.report import plan  # noqa: PLC0415  likewise

    try:
        answer = plan.solve(question(options))
    except ValueError as error:
        options.refuse(str(error))
    if options.plot is not None:
        if _lacks("matplotlib", "a picture", "analysis"):
            return EXIT_CRASH
        importlib.import_module("meteragent.report.plan.picture").draw(answer, options.plot)
    print(plan.as_json(answer) if options.json else plan.as_text(answer))
    return 0


def _terms(path: Path) -> dict[str, list[Terms]] | None:
    """The terms that a store knows, by stream; None when there is no store, or it is not ours to read."""
    if not os.access(path, os.R_OK):
        return None
    with read_only(path) as connection:
        return terms(connection)


def _ledger(options: argparse.Namespace) -> int:
    path = config.load(options.config).store.path
    if options.restored_at is not None:
        restored_at(path, at_ms=options.restored_at, now_ms=_now_ms())
        print(f"{path}: nothing before {grid.iso_time(options.restored_at)} is released again")
        return 0
    if options.moved:
        print(f"{path}: " + ("accepted where it is now" if moved(path) else "has not moved: nothing to do"))
        return 0
    with read_only(path) as connection:
        unknown_ms, opened_to_ms = ledger.unknown_before_ms(connection), ledger.opened_to_ms(connection)
        rows = [_spent(row) for row in ledger.report(connection, meter=options.meter)]
    unknown, opened_to = (None if t is None else grid.iso_time(t) for t in (unknown_ms, opened_to_ms))
    if options.json:
        print(json.dumps({"unknown_before": unknown, "opened_to": opened_to, "spent": rows}, indent=2))
        return 0
    if unknown is not None:
        print(f"What was spent before {unknown} is not known: the store was lost or restored.")
    heads = ("METER", "DAY (UTC)", "STREAM", "WINDOWS", "EPSILON (1/W)")
    for row in (heads, *(row.values() for row in rows)):
        print("{:<20} {:<10} {:<12} {:>7}  {}".format(*row))
    return 0


def _export(options: argparse.Namespace) -> int:
    from meteragent.tools import export  # noqa: PLC0415  the agent runs without it

    with read_only(config.load(options.config).store.path) as connection:
        try:
            raised = (export.write_nonnegative if options.nonnegative else export.write)(
                connection, sys.stdout
            )
            sys.stdout.flush()
        except BrokenPipeError:  # who reads has enough, such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    if raised:
        print(f"{raised} days or windows have a negative total: they are zero there", file=sys.stderr)
    return 0


def _spent(row: ledger.Spent) -> dict[str, str | int]:
    names = ("meter", "day", "stream", "windows", "epsilon_per_w")
    day, epsilon = grid.iso_time(row.start_ms)[:10], str(row.epsilon_per_w)
    return dict(zip(names, (row.meter, day, row.channel, row.windows, epsilon), strict=True))
