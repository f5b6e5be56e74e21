"""The pages of the tutorials: their blocks, and whether a program printed what they show."""

import re
from functools import cached_property
from pathlib import Path

from tests.support.not_run import ROOT

PROGRAM = ".venv/bin/meteragent "
_FIGURE = re.compile(r"[-−]?\d[\d.,:]*")


class Tutorial:
    """A page of the documentation, by its path."""

    def __init__(self, path: str) -> None:
        self.text = (ROOT / path).read_text("utf-8")

    def blocks(self, language: str) -> list[str]:
        """Return the fenced blocks of a language, in order."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    @cached_property
    def lines(self) -> list[str]:
        """The lines that a reader types into a shell, in order."""
        return [line for text in self.blocks("sh") for line in text.splitlines()]

    def commands(self, program: str = PROGRAM) -> list[str]:
        """Return what follows a program on the lines that begin with it."""
        return [line.removeprefix(program) for line in self.lines if line.startswith(program)]


def shape(text: str) -> list[str]:
    """Return the lines of a text without blanks, with # for each figure."""
    return [_FIGURE.sub("#", " ".join(line.split())) for line in text.splitlines() if line.strip()]


def assert_printed(excerpt: str, output: str) -> None:
    """Check that each line of an excerpt is in an output, in this order, up to its figures."""
    lines = iter(shape(output))
    missing = [line for line in shape(excerpt) if line not in lines]
    assert not missing, f"{missing} not in {output}"


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, "utf-8")
    return path
