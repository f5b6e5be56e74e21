"""The pages of the tutorials: their blocks, and whether a program printed what they show."""

import re
from functools import cached_property
from pathlib import Path

from tests.support.not_run import ROOT

PROGRAM = ".venv/bin/meteragent "
_ID = re.compile(r"\b[0-9a-f]{8,}\b")
_FIGURE = re.compile(_ID.pattern + r"|[-−]?\d[\d.,:]*")


class Tutorial:
    """A page of the documentation, by its path."""

    def __init__(self, path: str) -> None:
        self.text = (ROOT / path).read_text("utf-8")

    def blocks(self, language: str) -> list[str]:
        """Return the fenced blocks of a language, in order."""
        return [text for name, text in self.all_blocks if name == language]

    @cached_property
    def all_blocks(self) -> list[tuple[str, str]]:
        """The language and the text of each fenced block, in order."""
        return re.findall(r"^```(\w+)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    @cached_property
    def lines(self) -> list[str]:
        """The lines that a reader types into a shell, in order."""
        return [line for text in self.blocks("sh") for line in text.splitlines()]

    def commands(self, program: str = PROGRAM) -> list[str]:
        """Return what follows a program on the lines that begin with it."""
        return [line.removeprefix(program) for line in self.lines if line.startswith(program)]


def shape(text: str, *, keeps_figures: bool = False) -> list[str]:
    """Return the lines of a text without blanks, with # for each id and, unless kept, for each figure."""
    pattern = _ID if keeps_figures else _FIGURE
    return [pattern.sub("#", " ".join(line.split())) for line in text.splitlines() if line.strip()]


def assert_printed(excerpt: str, output: str, *, keeps_figures: bool = False) -> None:
    """Check that each line of an excerpt is in an output, in this order, with or without its figures."""
    lines = iter(shape(output, keeps_figures=keeps_figures))
    missing = [line for line in shape(excerpt, keeps_figures=keeps_figures) if line not in lines]
    assert not missing, f"{missing} not in {output}"


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, "utf-8")
    return path
