"""The commands that run other services: `collect` and `crowd`."""

import argparse
from pathlib import Path

from meteragent.cli.usage.command import (
    JSON,
    NO_CONFIG,
    Command,
    actions_of,
    add_config,
    add_log_level,
    add_options,
)

_CHECK = ("--check", None, "check the configuration and its files")


def collect(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `collect`."""
    add_config(parser)
    group = parser.add_argument_group("instead of collecting").add_mutually_exclusive_group()
    add_options(group, _CHECK, ("--create", None, "create the tables, as their owner"))
    add_log_level(parser)


def crowd_operator(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `crowd leader` and `crowd helper`."""
    add_config(parser)
    add_options(parser.add_argument_group("instead of running"), _CHECK)
    add_log_level(parser)


def crowd_ledger(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `crowd ledger`."""
    add_config(parser)
    add_options(parser.add_argument_group("output"), JSON)


def crowd_key(parser: argparse.ArgumentParser) -> None:
    """Declare the argument `FILE` of `crowd key new` and `crowd key show`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the identity's file")


_STOPPED = {
    0: "stopped by SIGTERM or Ctrl-C",
    1: "crashed, or the store is in use, restored, moved or lost",
}


_NO_IDENTITY = {78: "the file holds no identity, or other users can read it"}
_CROWD_KEY_ACTIONS: dict[str, tuple[str, Command]] = {
    "new": (
        "Create an operator's identity, and show its public key for the group's file.",
        Command("crowd key new leader.key", crowd_key, codes=NO_CONFIG),
    ),
    "show": (
        "Show the public key of an identity, but never the secret.",
        Command("crowd key show leader.key", crowd_key, _NO_IDENTITY),
    ),
}


_CROWD_ACTIONS: dict[str, tuple[str, Command]] = {
    "leader": (
        "Receive the reports of a group's homes, and publish one total for each slot, with noise.",
        Command("crowd leader leader.toml --check\ncrowd leader leader.toml", crowd_operator, _STOPPED),
    ),
    "helper": (
        "Answer the leader's request for each slot once, with noise.",
        Command("crowd helper helper.toml --check\ncrowd helper helper.toml", crowd_operator, _STOPPED),
    ),
    "ledger": (
        "Show what became of each slot: its answer or total with the number of homes, or why there is none.",
        Command(
            "crowd ledger leader.toml",
            crowd_ledger,
            {1: "failed: there is no store yet, or it cannot be read"},
        ),
    ),
    "key": (
        "Create or show an operator's identity.",
        Command(
            "crowd key new leader.key\ncrowd key show leader.key",
            actions_of(_CROWD_KEY_ACTIONS, "key_action"),
            _NO_IDENTITY,
        ),
    ),
}


COMMANDS = {
    "collect": Command(
        "collect collect.toml --check\ncollect collect.toml",
        collect,
        {
            0: "stopped by SIGTERM or Ctrl-C",
            1: "crashed, the database cannot be used, or an extra is missing",
        },
    ),
    "crowd": Command(
        "crowd key new leader.key\ncrowd leader leader.toml",
        actions_of(_CROWD_ACTIONS),
        _STOPPED,
    ),
}
