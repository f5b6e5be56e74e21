"""The commands that pages for operators print, so that trials run them as printed."""

import re
import textwrap
from typing import Final

from tests.support.not_run import ROOT

BLOCK: Final = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
EDITOR: Final = re.compile(r"(?m)^editor .*\n")
"""What a person does, and a trial does instead."""


def blocks(page: str, heading: str) -> list[str]:
    """Return the blocks of commands below a heading of a page, down to the next heading of its level."""
    text = (ROOT / page).read_text(encoding="utf-8")
    level = heading.partition(" ")[0]
    section = text.partition(f"\n{heading}\n")[2]
    if not section:
        raise ValueError(f"{page} has no heading {heading!r}")
    end = re.search(rf"(?m)^#{{1,{len(level)}}} ", BLOCK.sub(blank, section))
    matches = BLOCK.finditer(section[: end.start()] if end else section)
    return [textwrap.dedent(block[2]) for block in matches]


def command(page: str, heading: str, start: str) -> str:
    """Return the one command below a heading that begins with some words, in one line."""
    lines = "".join(blocks(page, heading)).replace("\\\n", " ").splitlines()
    (match,) = (" ".join(line.split()) for line in lines if line.startswith(start))
    return match


def blank(block: re.Match[str]) -> str:
    """Return a block's length in blanks, because comments in it look like headings."""
    return " " * len(block[0])
