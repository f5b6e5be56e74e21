"""The command line: the list of commands, and the parser of their arguments.

This package imports no command, so `--help` is quick. Its modules, one for each group of commands, declare
the arguments, example and exit codes of each command; only the requested command's module is imported, so the
agent starts without those of the others. The command itself is `run(options)` in `meteragent.cli.NAME`.
"""

import argparse
import importlib
from typing import Any

from meteragent.cli.usage.command import CODES, WIDTH_MAX, Format

__all__ = ["CODES", "COMMANDS", "WIDTH_MAX", "parser"]

COMMANDS = {
    "run": ("agent", "Run the agent until SIGTERM or Ctrl-C."),
    "check": ("promise", "Show what a configuration promises, hides and costs, before anything leaves."),
    "audit": ("promise", "Test whether a configuration's mechanism keeps its promise."),
    "ledger": (
        "agent",
        "Show the privacy spent per meter, day and stream, or repair a store that was restored or moved.",
    ),
    "export": ("agent", "Print the delivered records that the store still keeps, as CSV."),
    "health": (
        "agent",
        "Show the state of the running agent, collector or operator: each problem with its remedy.",
    ),
    "plan": (
        "promise",
        "Find the energy to hide, the numbers to share or the error of a mean, given the other two.",
    ),
    "discover": ("meters", "Listen to a broker and propose a configuration for each meter on it."),
    "init": ("meters", "Find a meter on a broker, ask what to hide, and write a working configuration."),
    "tap": ("meters", "Show raw readings next to the records that are sent, live, and only in a terminal."),
    "redact": (
        "meters",
        "Redact recorded JSON, CSV or P1 for a bug report: keep its structure, replace names and numbers.",
    ),
    "profile": ("meters", "Test a profile, which says what a device's messages mean."),
    "collect": (
        "services",
        "Receive private records over MQTT, NATS or Kafka, and keep each once in PostgreSQL or Parquet.",
    ),
    "crowd": (
        "services",
        "Run one of the two operators that compute a group's totals; each adds noise to every total.",
    ),
    "sanitise": ("archives", "Release a Parquet archive, each window once, on this machine or on Spark."),
    "convert": (
        "archives",
        "Write private records as CSV, Green Button or CIM, or prepare files of readings for `sanitise`.",
    ),
    "key": ("archives", "Create, show or forget the key from which an archive's noise is derived."),
    "demo": (
        "promise",
        "Run the whole chain on simulated homes, and compare the released numbers with the true ones.",
    ),
    "schema": ("promise", "Print the JSON Schema of the configuration, or of the messages that are sent."),
}
"""All commands, in the order in which help lists them: the group and the purpose of each."""


def parser(version: str, command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; its result holds the command's name in `command`.

    The parser knows the arguments of `command` alone, or of all commands if `command` is None.
    """
    codes = "\n".join(f"  {code:<3}  {meaning}" for code, meaning in CODES.items())
    program = argparse.ArgumentParser(
        "meteragent",
        description="Add noise to smart-meter readings on your own device; only private numbers leave it.",
        epilog=f"`meteragent COMMAND --help` shows a command's options and example.\n\nexit codes:\n{codes}",
        formatter_class=Format,
    )
    program.add_argument("--version", action="version", version=f"meteragent {version}")
    parsers = program.add_subparsers(required=True, metavar="COMMAND", dest="command", title="commands")
    for name, (group, sentence) in COMMANDS.items():
        if command in (name, None):
            module: Any = importlib.import_module(f"{__name__}.{group}")
            module.COMMANDS[name].add_to(parsers, name, sentence)
        else:
            parsers.add_parser(name, help=sentence)
    return program
