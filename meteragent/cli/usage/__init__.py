"""The command line: the list of commands, and the parser of their arguments.

No command is imported, so `--help` is quick. Of the modules in `GROUPS`, only those needed are imported.
"""

import argparse
import importlib
from typing import Any

from meteragent.cli.exit_codes import EXIT_CODES
from meteragent.cli.usage.command import WIDTH_MAX, HelpFormatter, Parser

__all__ = ["EXIT_CODES", "GROUPS", "WIDTH_MAX", "make_parser"]

COMMANDS = {
    "run": "Run the agent until SIGTERM or Ctrl-C.",
    "check": "Show what a configuration promises, hides and costs, before anything is sent.",
    "audit": "Test whether a configuration's mechanism keeps its promise.",
    "ledger": (
        "Show the privacy spent per meter, day and stream, or repair a store that was restored or moved."
    ),
    "receivers": "List the receivers with their state and cost, or pause, resume or end one.",
    "export": "Print the delivered records that the store still keeps, as CSV or JSON.",
    "health": "Show the state of the running agent, collector or operator: each problem with its remedy.",
    "plan": "Find the energy to hide, the numbers to share or the error of a mean, given the other two.",
    "discover": "Listen to a broker and propose a configuration for each meter on it.",
    "init": "Find a meter on a broker, ask what to hide, and write a working configuration.",
    "tap": "Show raw readings next to the records that are sent, live, and only in a terminal.",
    "redact": (
        "Redact recorded JSON, CSV or P1 for a bug report: keep its structure, replace names and numbers."
    ),
    "profile": "Test a profile, which says what a device's messages mean.",
    "collect": (
        "Receive private records over MQTT, NATS or Kafka, and keep each once in PostgreSQL or Parquet."
    ),
    "crowd": "Run one of the two operators that compute a group's totals; each adds noise to every total.",
    "sanitise": "Release a Parquet archive, each window once, on this machine or on Spark.",
    "convert": (
        "Write private records as CSV, Green Button or CIM, or prepare files of readings for `sanitise`."
    ),
    "key": "Create, show or forget the key from which an archive's noise is derived.",
    "schema": "Print the JSON Schema of the configuration, or of the messages that are sent.",
}
"""All commands, in the order in which help lists them, with their purpose."""
GROUPS = {
    "agent": ("run", "ledger", "receivers", "export", "health"),
    "promise": ("check", "audit", "plan", "schema"),
    "meters": ("discover", "init", "tap", "redact", "profile"),
    "services": ("collect", "crowd"),
    "archives": ("sanitise", "convert", "key"),
}
"""The commands whose arguments each module of this package declares."""


def make_parser(version: str, command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or a parser with the arguments of `command` alone."""
    codes = "\n".join(f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items())
    program = Parser(
        "meteragent",
        description="Add noise to smart-meter readings on your own device; only private numbers leave it.",
        epilog=f"`meteragent COMMAND --help` shows a command's options and example.\n\nexit codes:\n{codes}",
        formatter_class=HelpFormatter,
    )
    program.add_argument("--version", action="version", version=f"meteragent {version}")
    parsers = program.add_subparsers(required=True, metavar="COMMAND", dest="command", title="commands")
    for name, sentence in COMMANDS.items():
        if command in (name, None):
            group = next(group for group, names in GROUPS.items() if name in names)
            module: Any = importlib.import_module(f"{__name__}.{group}")
            module.COMMANDS[name].add_to(parsers, name, sentence)
        else:
            parsers.add_parser(name, help=sentence)
    return program
