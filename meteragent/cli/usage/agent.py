"""The commands around the running agent: `run`, `ledger`, `export` and `health`."""

import argparse

from meteragent.cli.usage.command import JSON, Command, add_config, add_log_level, add_options, parsed_by


def run(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    add_config(parser)
    text = "show on this terminal what would be sent, in slots of a few seconds; send and write nothing"
    add_options(parser.add_argument_group("rehearsal"), ("--rehearse", None, text))
    add_log_level(parser)


def ledger(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `ledger`."""
    add_config(parser)
    add_options(parser.add_argument_group("output"), ("--meter", "M", "show only this meter"), JSON)
    text = "make a restored store usable: nothing before TIME (RFC 3339, or `now`) is released again"
    add_options(
        parser.add_argument_group("a store that was restored or moved").add_mutually_exclusive_group(),
        ("--restored-at", "TIME", text),
        ("--moved", None, "accept a store that you moved together with the files beside it"),
        parse=parsed_by("ledger", "parse_time_ms"),
    )


def export(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `export`."""
    add_config(parser)
    text = "add a non-negative column with each day's (or longer window's) energy, but biased single slots"
    add_options(
        parser.add_argument_group("output"),
        ("--csv", None, "print CSV (the default)"),
        ("--nonnegative", None, text),
    )


def health(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `health`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    form = output.add_mutually_exclusive_group()
    add_options(form, JSON, ("--metrics", None, "print the figures for Prometheus"))
    add_options(output, ("--meters", None, "of an agent: list what has arrived of each meter and phase, too"))


_BAD_STORE = "failed: there is no usable store; the message says what to do"


COMMANDS = {
    "run": Command(
        "run home.toml\nrun home.toml --rehearse",
        run,
        {
            0: "stopped by SIGTERM or Ctrl-C",
            1: "crashed, or the store is in use, restored, moved or lost",
        },
    ),
    "ledger": Command("ledger home.toml --meter kitchen", ledger, {1: _BAD_STORE}),
    "export": Command("export home.toml > private.csv", export, {1: _BAD_STORE}),
    "health": Command(
        "health home.toml\nhealth leader.toml --metrics",
        health,
        {0: "all is well, or nothing has arrived yet", 1: "there is a problem, or no service answers"},
    ),
}
