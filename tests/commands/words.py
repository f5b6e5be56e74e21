"""Count what the pages ask of their readers: `python -m tests.commands.words`.

prints, for each Markdown file, the words by hand and the generated ones, the sentences, those of more than
25 words, and the semicolons; then the sums of the pages for users and of all but the changelog.
`--long PAGE` prints the long sentences of a page.
"""

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.not_run import ROOT

WORDS_MAX = 25
"""The words of a sentence that a user reads once."""
CHANGELOG = "CHANGELOG.md"
"""The page to which each change adds a line: it has a limit of its own."""
OTHERS = (
    *(CHANGELOG, "CONTRIBUTING.md", "SECURITY.md", "benchmarks/", "docs/crowd.md", "docs/decisions.md"),
    *("docs/design.md", "docs/glossary.md", "docs/releasing.md", "docs/theory.md", "meteragent/privacy/"),
    *("proofs/", "simulators/", "tests/"),
)
"""The pages for reviewers, researchers and contributors; all others are for users."""
_BEGIN = (
    r"bench: \w+|brokers: begin|commands: begin|compared(?: \w+)?: begin|meters: begin|printed|signs: \w+|"
    r"the table, made by [\w/.]+"
)
_END_OF = (
    r"bench end|brokers end|commands end|compared(?: \w+)?: end|meters end|printed end|signs end|"
    r"end of the table"
)
_GENERATED = re.compile(rf"^<!-- (?:{_BEGIN}) -->\n.*?^<!-- (?:{_END_OF}) -->\n", re.MULTILINE | re.DOTALL)
"""What a program writes, or prints: `printed` follows the command that prints it."""
_FENCE = re.compile(r"^(?P<fence>```+|:::+).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
_NO_PROSE = re.compile(r"^(?:#.*|\|.*|    .*|<.*|=+|-+)$", re.MULTILINE)
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"\n\s*(?:[-*] |\d+\. )|\n\s*\n")
_END = re.compile(r"(?<!\bet al)(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)[.!?:][)*_\"]*\s+(?=[A-Z0-9`*_(\"\[Ω])")
_WORD = re.compile(r"\S*\w\S*")


class Page(NamedTuple):
    """What a page asks of its reader."""

    words: int
    generated_words: int
    sentences: int
    long_sentences: int
    semicolons: int

    def __add__(self, other: object) -> "Page":
        """Add the counts of another page."""
        assert isinstance(other, Page)
        return Page(*map(sum, zip(self, other, strict=True)))


def names() -> list[str]:
    """Return the names of the Markdown files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).exists())


def is_for_users(name: str) -> bool:
    """Return whether a page is for people who run an agent, or receive its numbers."""
    return not name.startswith(OTHERS)


def by_hand(text: str) -> str:
    """Return a page without its generated parts."""
    return _GENERATED.sub("", text)


def without_code(text: str) -> str:
    """Return a page without its blocks and its code."""
    return _CODE.sub("", _FENCE.sub("", text))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page without its tables and headings; code is one word."""
    prose = _NO_PROSE.sub("", _FENCE.sub("", by_hand(text)))
    prose = _LINK.sub(r"\1", _CODE.sub("`code`", prose))
    for paragraph in _ITEM.split(prose):
        yield from filter(_WORD.search, _END.split(" ".join(paragraph.split())))


def word_count(sentence: str) -> int:
    """Return the number of words that have a letter or digit."""
    return len(_WORD.findall(sentence))


def page(path: Path) -> Page:
    """Return the counts of a page."""
    text = path.read_text("utf-8")
    prose = by_hand(text)
    lengths = [word_count(sentence) for sentence in sentences(text)]
    words = len(prose.split())
    return Page(
        words,
        len(text.split()) - words,
        len(lengths),
        sum(length > WORDS_MAX for length in lengths),
        _CODE.sub("", _FENCE.sub("", prose)).count(";"),
    )


def main() -> None:
    """Print the table, or the long sentences of a page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--long", metavar="PAGE", help="print the sentences of a page that are too long")
    name = parser.parse_args().long
    if name:
        listed = sentences((ROOT / name).read_text("utf-8"))
        print(*(f"{word_count(text):3} {text}" for text in listed if word_count(text) > WORDS_MAX), sep="\n")
        return
    pages = {name: page(ROOT / name) for name in names()}
    row = "{:>8} {:>9} {:>9} {:>9} {:>10}  {}"
    print(row.format("by hand", "generated", "sentences", f"over {WORDS_MAX}", "semicolons", "page"))
    empty = Page(0, 0, 0, 0, 0)
    for name, counts in sorted(pages.items(), key=lambda item: item[1].words):
        print(row.format(*counts, name))
    print(row.format(*sum((pages[name] for name in pages if is_for_users(name)), empty), "pages for users"))
    print(row.format(*sum((pages[name] for name in pages if name != CHANGELOG), empty), "all but changes"))


if __name__ == "__main__":
    main()
