"""Blocks, commands and configuration in the README and the pages for users."""

import re
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from meteragent import config
from meteragent.domain.terms import Terms
from tests.support.guarantees import facts_of
from tests.support.not_run import ROOT

README, CHOOSING, TARIFFS, SHARING, JOIN, LIBRARY, COMMANDS = PAGES = tuple(
    (ROOT / name).read_text().partition("\n## Debugging\n")[0]  # test_debugging has that section
    for name in (
        "README.md",
        "docs/choosing.md",
        "docs/tariffs.md",
        "docs/sharing.md",
        "docs/join.md",
        "docs/library.md",
        "docs/commands.md",
    )
)
PROGRAM = ".venv/bin/meteragent"
PREPARE = [
    "python3 -m venv .venv",
    ".venv/bin/pip install '.[page]'",
    ".venv/bin/pip install '.[analysis]'",
]
BROKER = "mqtt://127.0.0.1:1883"


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str


BLOCKS = [
    Block(*match)
    for page in PAGES
    for match in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
]


def blocks(language: str) -> list[str]:
    """Return the blocks of a language, in order."""
    return [block.text for block in BLOCKS if block.language == language]


LINES = list(chain.from_iterable(text.splitlines() for text in blocks("sh")))
(HOME,) = blocks("toml")
TRY = (ROOT / "deploy" / "try.toml").read_text()


def shortened(text: str, url: str) -> str:
    """Return a configuration with another broker and with short windows."""
    assert BROKER in text
    text = text.replace(BROKER, url)
    return text.replace('"1min"', '"1s"') if "[window]" in text else f'{text}window.length = "1s"\n'


@cache
def facts(lines: str = "") -> dict[str, Any]:
    """Return the facts that `check` reports on the README's configuration, with `lines` added."""
    return facts_of(config.parse(HOME + lines).stream[0])


def terms(lines: str = "") -> Terms:
    """Return the terms of the README's configuration, with `lines` added."""
    return config.terms(config.parse(HOME + lines).stream[0])
