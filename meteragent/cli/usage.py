"""The command line: the purpose of each command, its arguments, an example and its exit codes.

This module imports no command, so `--help` is quick and the agent starts without the libraries that other
commands need. A command's module, `meteragent.cli.NAME`, defines `run(options)`. The modules `options` and
`convert_options` declare the arguments of all commands.
"""

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from meteragent.cli import convert_options, options

WIDTH_MAX = 100
"""The maximum width of a help line, in characters."""

CODES = {
    0: "done",
    1: "failed; the message says why",
    2: "the command line is wrong",
    78: "the configuration is refused; the message names each line, key and expected value",
}
"""The meanings of exit codes, unless a command gives a code another meaning."""

_BAD_STORE = "failed: there is no usable store; the message says what to do"


@dataclass(frozen=True, slots=True)
class Command:
    """A command's help text and arguments.

    `example` holds command lines without the program's name, `codes` the exit codes that the command may
    return, and `meanings` those meanings of codes that differ from `CODES`. `declare` adds the arguments.
    """

    sentence: str
    example: str
    declare: Callable[[argparse.ArgumentParser], None]
    codes: tuple[int, ...]
    meanings: dict[int, str]

    @property
    def epilog(self) -> str:
        """The example and the exit codes."""
        rows = [f"  {code:<3}  {self.meanings.get(code) or CODES[code]}" for code in self.codes]
        examples = [f"  meteragent {line}" for line in self.example.splitlines()]
        return "\n".join(["example:", *examples, "", "exit codes:", *rows])


class Format(argparse.RawDescriptionHelpFormatter):
    """A help formatter as wide as the terminal, up to WIDTH_MAX.

    It keeps the line breaks of the description and the epilog.
    """

    def __init__(self, prog: str) -> None:
        width = min(WIDTH_MAX, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=30, width=width)


def parser(version: str) -> argparse.ArgumentParser:
    """Return the parser for all commands; its result holds the command's name in `command`."""
    codes = "\n".join(f"  {code:<3}  {meaning}" for code, meaning in CODES.items())
    program = argparse.ArgumentParser(
        "meteragent",
        description="Add noise to smart-meter readings on your own device; only private numbers leave it.",
        epilog=f"`meteragent COMMAND --help` shows a command's options and example.\n\nexit codes:\n{codes}",
        formatter_class=Format,
    )
    program.add_argument("--version", action="version", version=f"meteragent {version}")
    commands = program.add_subparsers(required=True, metavar="COMMAND", dest="command", title="commands")
    for name, command in COMMANDS.items():
        command.declare(_subparser(commands, name, command))
    return program


def _subparser(parsers: Any, name: str, command: Command) -> argparse.ArgumentParser:
    """Add the parser for a command, or for one of its actions; return the parser."""
    subparser: argparse.ArgumentParser = parsers.add_parser(
        name,
        help=command.sentence,
        description=command.sentence,
        epilog=command.epilog,
        formatter_class=Format,
    )
    return subparser


def _declare_key(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `key`, which are subcommands."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action", title="actions")
    for name, action in _KEY_ACTIONS.items():
        action.declare(_subparser(actions, name, action))


def _declare_profile(parser: argparse.ArgumentParser) -> None:
    """Declare `test`, the only action of `profile`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action", title="actions")
    _PROFILE_TEST.declare(_subparser(actions, "test", _PROFILE_TEST))


def _declare_crowd(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `crowd`, including the actions of `crowd key`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action", title="actions")
    for name, action in _CROWD_ACTIONS.items():
        action.declare(_subparser(actions, name, action))


def _declare_crowd_key(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `crowd key`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="key_action", title="actions")
    for name, action in _CROWD_KEY_ACTIONS.items():
        action.declare(_subparser(actions, name, action))


_CROWD_KEY_ACTIONS = {
    "new": Command(
        "Create an operator's identity, and show its public key for the group's file.",
        "crowd key new leader.key",
        options.crowd_key,
        (0, 1, 2),
        {},
    ),
    "show": Command(
        "Show the public key of an identity, but never the secret.",
        "crowd key show leader.key",
        options.crowd_key,
        (0, 1, 2, 78),
        {78: "the file holds no identity, or other users can read it"},
    ),
}

_OPERATOR_MEANINGS = {
    0: "stopped by SIGTERM or Ctrl-C",
    1: "crashed, or the store is in use, restored, moved or lost",
}

_CROWD_ACTIONS = {
    "leader": Command(
        "Receive the reports of a group's homes, and publish one total for each slot, with noise.",
        "crowd leader leader.toml --check\ncrowd leader leader.toml",
        options.crowd_operator,
        (0, 1, 2, 78),
        _OPERATOR_MEANINGS,
    ),
    "helper": Command(
        "Answer the leader's request for each slot once, with noise.",
        "crowd helper helper.toml --check\ncrowd helper helper.toml",
        options.crowd_operator,
        (0, 1, 2, 78),
        _OPERATOR_MEANINGS,
    ),
    "health": Command(
        "Show the state of a running operator: each problem with its remedy.",
        "crowd health leader.toml\ncrowd health leader.toml --metrics",
        options.crowd_health,
        (0, 1, 2, 78),
        {0: "all is well", 1: "there is a problem, or no operator answers"},
    ),
    "ledger": Command(
        "Show what became of each slot: its answer or total with the number of homes, or why there is none.",
        "crowd ledger leader.toml",
        options.crowd_ledger,
        (0, 1, 2, 78),
        {1: "failed: there is no store yet, or it cannot be read"},
    ),
    "key": Command(
        "Create or show an operator's identity.",
        "crowd key new leader.key\ncrowd key show leader.key",
        _declare_crowd_key,
        (0, 1, 2, 78),
        {78: "the file holds no identity, or other users can read it"},
    ),
}

_PROFILE_TEST = Command(
    "Show what a profile reads and drops in recorded payloads, and what it refuses and why.",
    "profile test profiles/my-meter.toml payloads.txt",
    options.profile_test,
    (0, 1, 2, 78),
    {
        0: "a quantity was read",
        1: "no quantity was read, or a payload file cannot be read",
        78: "the profile is refused; the message names each line, key and expected value",
    },
)

_KEY_ACTIONS = {
    "new": Command(
        "Create a key. Anyone who has its file can remove the noise from releases; see SECURITY.md.",
        "key new archive.key --tenant example --from 2025-01-01",
        options.key_new,
        (0, 1, 2),
        {},
    ),
    "show": Command(
        "Show a key's tenant, its first epoch and today's public id, but never the secret.",
        "key show archive.key",
        options.key_file,
        (0, 1, 2, 78),
        {78: "the file holds no key, or other users can read it"},
    ),
    "forget": Command(
        "Erase the keys of all epochs that end by a date; this file can never release their windows again.",
        "key forget archive.key --before 2026-01-01",
        options.key_forget,
        (0, 1, 2, 78),
        {78: "the file holds no key, or other users can read it"},
    ),
}

COMMANDS = {
    "run": Command(
        "Run the agent until SIGTERM or Ctrl-C.",
        "run home.toml\nrun home.toml --rehearse",
        options.run,
        (0, 1, 2, 78),
        {
            0: "stopped by SIGTERM or Ctrl-C",
            1: "crashed, or the store is in use, restored, moved or lost",
        },
    ),
    "check": Command(
        "Show what a configuration promises, hides and costs, before anything leaves.",
        "check home.toml --event '2000W 30min'",
        options.check,
        (0, 1, 2, 78),
        {},
    ),
    "audit": Command(
        "Test whether a configuration's mechanism keeps its promise.",
        "audit home.toml --samples 100000",
        options.audit,
        (0, 1, 2, 3, 78),
        {1: "failed, perhaps because scipy is missing; the message says why", 3: "a promise is broken"},
    ),
    "ledger": Command(
        "Show the privacy spent per meter, day and stream, or repair a store that was restored or moved.",
        "ledger home.toml --meter kitchen",
        options.ledger,
        (0, 1, 2, 78),
        {1: _BAD_STORE},
    ),
    "export": Command(
        "Print the delivered records that the store still keeps, as CSV.",
        "export home.toml > private.csv",
        options.export,
        (0, 1, 2, 78),
        {1: _BAD_STORE},
    ),
    "health": Command(
        "Show the state of the running agent: each problem with its cause and remedy.",
        "health home.toml",
        options.health,
        (0, 1, 2, 78),
        {0: "all is well", 1: "there is a problem, or no agent answers"},
    ),
    "plan": Command(
        "Find the energy to hide, the numbers to share or the error of a mean, given the other two.",
        "plan --hide kettle --share half-hour --homes 100",
        options.plan,
        (0, 1, 2),
        {1: "failed: --plot needs matplotlib, which is not installed"},
    ),
    "discover": Command(
        "Listen to a broker and propose a configuration for each meter on it.",
        "discover --url mqtt://192.168.1.10 --username me --password-file password",
        options.discover,
        (0, 1, 2),
        {1: "no message arrived, or the broker or a file cannot be used"},
    ),
    "init": Command(
        "Find a meter on a broker, ask what to hide, and write a working configuration.",
        "init --url mqtt://192.168.1.10\ninit --url mqtt://192.168.1.10 --preset street --yes",
        options.init,
        (0, 1, 2, 78, 130),
        {
            1: "failed; the message says why, and nothing was written",
            130: "stopped before the last answer; nothing was written",
        },
    ),
    "tap": Command(
        "Show raw readings next to the records that are sent, live, and only in a terminal.",
        "tap home.toml",
        options.tap,
        (0, 1, 2, 78),
        {0: "stopped by SIGTERM or Ctrl-C", 1: "this is not a terminal, or a broker does not answer"},
    ),
    "redact": Command(
        "Prepare a recorded payload for a bug report: keep its structure, but replace names and numbers.",
        "redact payload.json --profile shelly-gen2-em",
        options.redact,
        (0, 1, 2),
        {1: "failed: the file cannot be read, or is too large"},
    ),
    "profile": Command(
        "Test a profile, which says what a device's messages mean.",
        "profile test profiles/my-meter.toml payloads.txt",
        _declare_profile,
        (0, 1, 2, 78),
        _PROFILE_TEST.meanings,
    ),
    "collect": Command(
        "Receive private records over MQTT, NATS or Kafka, and keep each once in PostgreSQL or Parquet.",
        "collect collect.toml --check\ncollect collect.toml",
        options.collect,
        (0, 1, 2, 78),
        {
            0: "stopped by SIGTERM or Ctrl-C",
            1: "crashed, the database cannot be used, or an extra is missing",
        },
    ),
    "crowd": Command(
        "Run one of the two operators that compute a group's totals; each adds noise to every total.",
        "crowd key new leader.key\ncrowd leader leader.toml",
        _declare_crowd,
        (0, 1, 2, 78),
        _OPERATOR_MEANINGS,
    ),
    "sanitise": Command(
        "Release a Parquet archive, each window once, on this machine or on Spark.",
        "sanitise homes.parquet private.parquet --config archive.toml --dry-run",
        options.sanitise,
        (0, 1, 2, 78, 130),
        {78: "the configuration or the key is refused", 130: "interrupted; the same command resumes the run"},
    ),
    "convert": Command(
        "Write private records as CSV, Green Button or CIM, or prepare files of readings for `sanitise`.",
        "convert private.parquet private.xml --to green-button\n"
        "convert usage.xml homes.parquet --to readings",
        convert_options.declare,
        (0, 1, 2),
        {1: "failed: a format cannot carry a value, or a file cannot be read; the message says why"},
    ),
    "key": Command(
        "Create, show or forget the key from which an archive's noise is derived.",
        "key new archive.key --tenant example --from 2025-01-01 --every month\n"
        "key forget archive.key --before 2026-01-01",
        _declare_key,
        (0, 1, 2, 78),
        {78: "the file holds no key, or other users can read it"},
    ),
    "demo": Command(
        "Run the whole chain on simulated homes, and compare the released numbers with the true ones.",
        "demo --homes 20\ndemo --crowd",
        options.demo,
        (0, 1, 2),
        {2: "the command line is wrong, or the simulators or the extra crowd are not installed"},
    ),
    "schema": Command(
        "Print the JSON Schema of the configuration, or of the messages that are sent.",
        "schema > meteragent.schema.json\nschema record > record.schema.json",
        options.schema,
        (0, 1, 2),
        {},
    ),
}
"""All commands, in the order in which help lists them."""
