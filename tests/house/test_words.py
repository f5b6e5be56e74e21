"""The words of the pages: whoever adds removes."""

import pytest

from tests.commands.words import is_for_users, names, page, sentences, word_count
from tests.support.not_run import ROOT

PAGES = {name: page(ROOT / name) for name in names()}
WORDS_MAX = 104_300
"""The words of all pages that are written by hand: this number may only fall."""
USER_WORDS_MAX = 38_700
"""Likewise, of the pages for users."""
LONG_SENTENCES_MAX = 60
"""The sentences of more than 25 words on pages for users: this number may only fall."""
PAGE_WORDS_MAX = {"README.md": 1_200, "CHANGELOG.md": 1_500}


def test_the_pages_do_not_grow() -> None:
    """All pages, and those for users, have no more words by hand than stated."""
    assert sum(counts.words for counts in PAGES.values()) <= WORDS_MAX
    assert sum(counts.words for name, counts in PAGES.items() if is_for_users(name)) <= USER_WORDS_MAX


def test_a_user_reads_a_sentence_once() -> None:
    """The pages for users have no more long sentences than stated."""
    counts = [counts.long_sentences for name, counts in PAGES.items() if is_for_users(name)]
    assert sum(counts) <= LONG_SENTENCES_MAX


@pytest.mark.parametrize("name", PAGE_WORDS_MAX)
def test_a_page_is_as_short_as_stated(name: str) -> None:
    """A newcomer reads all of the README, and whoever updates all of the changes."""
    assert PAGES[name].words <= PAGE_WORDS_MAX[name]


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("One two. Three four five.", [2, 3]),
        ("# A heading\n\nOne `two three` four.\n", [3]),
        ("- One two\n- Three\n\n| a | table |\n", [2, 1]),
        ("See [the other page](page.md), by Li et al. in 2013.", [10]),
        ("<!-- bench: goals -->\nOne two.\n<!-- bench end -->\nThree.", [1]),
        ("```sh\nmeteragent run\n```\nOne.", [1]),
    ],
)
def test_sentences_are_those_of_the_prose(text: str, lengths: list[int]) -> None:
    """Headings, tables, blocks and generated parts have none; code is one word."""
    assert [word_count(sentence) for sentence in sentences(text)] == lengths
