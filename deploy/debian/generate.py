"""Write the manual pages and the shell completions from the parser of the commands.

    python3 debian/generate.py FOLDER

FOLDER gets `man/`, with a page for each command, and `completions/`, whose generation needs shtab. The pages
have the date of SOURCE_DATE_EPOCH, or else of today.
"""

import argparse
import datetime as dt
import importlib
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from meteragent import __version__
from meteragent.cli import usage

FILES = {"CONFIG", "FILE", "IN.parquet", "OUT.parquet"}
"""The placeholders in help texts for arguments that a shell completes as paths."""

FOLDERS = {"DIR"}

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  argparse has no public name for it


def write(folder: Path) -> None:
    """Write all pages and completions below a folder."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()
    for kind in ("man", "completions"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, text in pages(parser(), date).items():
        (folder / "man" / f"{name}.1").write_text(text, encoding="utf-8")
    for name, shell in (("meteragent", "bash"), ("_meteragent", "zsh")):
        (folder / "completions" / name).write_text(completion(shell), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    return usage.make_parser(__version__)


# Manual pages ---------------------------------------------------------------------------------------


def pages(program: argparse.ArgumentParser, date: str) -> dict[str, str]:
    """Return the manual pages of a parser and of its subcommands at all depths, by name."""
    children = [child for action in subparsers(program) for child in action.choices.values()]
    texts = {page_name(program): page(program, children, date)}
    for child in children:
        texts |= pages(child, date)
    return texts


def subparsers(program: argparse.ArgumentParser) -> "Iterator[Subparsers]":
    """Yield the actions of a parser that have parsers of their own."""
    for action in program._actions:  # noqa: SLF001  argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  likewise
            yield action


def page_name(program: argparse.ArgumentParser) -> str:
    """Return the name of a command's page, as in `meteragent-key-new`."""
    return program.prog.replace(" ", "-")


def page(program: argparse.ArgumentParser, children: list[argparse.ArgumentParser], date: str) -> str:
    """Return the manual page of one command, in the macros of man(7)."""
    name, sentence = page_name(program), str(program.description)
    short = sentence.partition(". ")[0].partition(": ")[0].rstrip(".")
    lines = [
        f'.TH {quoted(name.upper())} 1 {quoted(date)} {quoted("meteragent " + __version__)} "User Commands"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(short[0].lower() + short[1:])}",
        ".SH SYNOPSIS",
        *synopsis(program),
        ".SH DESCRIPTION",
        roff(sentence),
        *arguments(program),
        *epilog(str(program.epilog)),
        *see_also(program, children),
    ]
    return "\n".join(lines) + "\n"


def synopsis(program: argparse.ArgumentParser) -> list[str]:
    """Return the lines of a usage text, in which the program's name is bold."""
    text = re.sub(r"\s+", " ", program.format_usage().removeprefix("usage: ")).strip()
    return [f"\\fB{roff(program.prog)}\\fR{roff(text.removeprefix(program.prog))}"]


def arguments(program: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the arguments of a command in their groups."""
    formatter = program._get_formatter()  # noqa: SLF001  it alone knows how arguments are shown
    for group in program._action_groups:  # noqa: SLF001  argparse has no public way to them
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]  # noqa: SLF001
        if actions:
            yield f".SH {quoted(str(group.title).upper())}"
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  its choices are the rows
                choices = action._get_subactions()  # noqa: SLF001  likewise
                yield from (line for choice in choices for line in entry(str(choice.dest), str(choice.help)))
            else:
                words = formatter._format_action_invocation(action)  # noqa: SLF001  likewise
                yield from entry(words, formatter._expand_help(action))  # noqa: SLF001  likewise


def entry(words: str, text: str) -> list[str]:
    """Return an indented paragraph under words in bold."""
    return [".TP", f"\\fB{roff(words)}\\fR", roff(text)]


def epilog(text: str) -> Iterator[str]:
    """Yield the examples and exit codes that end a help text; a line like `title:` begins a section."""
    for line in filter(str.strip, text.splitlines()):
        row = re.match(r"  (\d+) +(.*)", line)
        if row:
            yield from entry(row[1], row[2])
        elif line.endswith(":"):
            title = line.removesuffix(":").upper().replace("EXIT CODES", "EXIT STATUS")
            yield f".SH {quoted(title)}"
        else:
            yield from (".PP", f"\\fB{roff(line.strip())}\\fR" if line.startswith("  ") else roff(line))


def see_also(program: argparse.ArgumentParser, children: list[argparse.ArgumentParser]) -> list[str]:
    """Return the references to the pages above and below, and the files."""
    above = [program.prog.rpartition(" ")[0].replace(" ", "-")] if " " in program.prog else []
    names = [f"\\fB{roff(name)}\\fR(1)" for name in [*above, *map(page_name, children)]]
    return [
        *(".SH FILES", *entry("/etc/meteragent/meteragent.toml", "The configuration of the service.")),
        *entry("/var/lib/meteragent", "The ledger, and messages that wait. It outlives the package."),
        *(".SH SEE ALSO", ", ".join(names) or "\\fBmeteragent\\fR(1)"),
    ]


def roff(text: str) -> str:
    """Return text in which the characters that roff would interpret are escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return re.sub(r"(?m)^\.", "\\&.", text)


def quoted(text: str) -> str:
    """Return text as one argument of a macro."""
    return '"' + roff(text).replace('"', "\\(dq") + '"'


# Completions ----------------------------------------------------------------------------------------


def completion(shell: str) -> str:
    """Return the completions of all commands for a shell, in which paths complete as paths."""
    shtab = importlib.import_module("shtab")
    program = parser()
    mark(program, shtab.FILE, shtab.DIRECTORY)
    return str(shtab.complete(program, shell))


def mark(program: argparse.ArgumentParser, file: object, folder: object) -> None:
    """Tell shtab which arguments of a command and of its subcommands are paths."""
    for action in program._actions:  # noqa: SLF001  argparse has no public way to them
        is_file = action.metavar in FILES or str(action.dest).endswith("_file")
        if is_file or action.metavar in FOLDERS:
            action.complete = file if is_file else folder  # type: ignore[attr-defined]  # shtab looks for it
    for action in subparsers(program):
        for child in action.choices.values():
            mark(child, file, folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
