"""Generate the table of commands in `docs/commands.md`: `python -m tests.commands.commands_table`."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from meteragent.cli.exit_codes import EXIT_CODES
from meteragent.cli.usage import make_parser
from tests.support.not_run import ROOT

PAGE: Path = ROOT / "docs" / "commands.md"
BEGIN, END = "<!-- commands: begin -->\n", "<!-- commands end -->\n"
GUIDES = {
    "run": "[install](install.md)",
    "check": "[choosing](choosing.md)",
    "audit": "[test the promise](choosing.md#test-the-promise)",
    "ledger": "[restore](operate.md#back-up-and-restore), [move](operate.md#move-the-store)",
    "receivers": "[sharing](sharing.md)",
    "health": "[signs](signs.md)",
    "plan": "[plan backwards](choosing.md#plan-backwards), [nested streams](tariffs.md#nested-streams)",
    "init": "[solar panels](solar.md)",
    "profile": "[profiles](profiles.md)",
    "collect": "[collect](collect.md)",
    "crowd": "[operators](crowd-operators.md)",
    "sanitise": "[archives](../meteragent/archive/README.md)",
    "convert": "[formats](formats.md)",
    "key": "[the key](../meteragent/archive/README.md#the-key)",
    "schema": "[contract](contracts.md)",
}
"""The pages that explain a command."""


def commands() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield each command, or each action of one that has actions: its words, its purpose and its parser."""
    yield from _actions("", make_parser("0"))


def _actions(
    words: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            purposes = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                deeper = list(_actions(f"{words} {name}", inner))
                yield from deeper or [(f"{words} {name}".strip(), purposes[name], inner)]


def row(words: str, purpose: str, parser: argparse.ArgumentParser) -> str:
    """Return the row of a command: how it is called, what it does, its options, its guide, its exit codes."""
    arguments = [_shown(action) for action in parser._actions if not action.option_strings]
    options = [f"`{action.option_strings[-1]}`" for action in parser._actions if action.option_strings]
    listed = ", ".join(option for option in options if option != "`--help`")
    does = f"{purpose} {listed}".replace("|", "\\|").strip()
    call = " ".join(["meteragent", words, *arguments])
    return f"| `{call}` | {does} | {GUIDES.get(words.partition(' ')[0], '')} | {exit_codes(parser)} |"


def _shown(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    name = metavar if isinstance(metavar, str) else " ".join(metavar)
    return f"[{name}]" if action.nargs in {"?", "*"} else name


def exit_codes(parser: argparse.ArgumentParser) -> str:
    """Return the exit codes of a command, with the meaning of those that other commands do not share."""
    lines = re.findall(r"^  (\d+) +(.*)$", (parser.epilog or "").partition("exit codes:")[2], re.MULTILINE)
    shared = set(map(str, EXIT_CODES))
    return ", ".join(
        code if code in shared else f"{code} {meaning}" for code, meaning in lines if code != "2"
    )


def renewed(text: str) -> str:
    """Return the page with its table generated again."""
    rows = "\n".join(row(*command) for command in commands())
    head, _, tail = text.partition(BEGIN)
    table = f"\n| command | does, and its options | guide | exit codes |\n|---|---|---|---|\n{rows}\n\n"
    return head + BEGIN + table + END + tail.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
