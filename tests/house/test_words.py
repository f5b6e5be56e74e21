"""The words of the pages: anyone who adds removes."""

import re

import pytest

from tests.commands.language import AVOIDED_IN_PAGES
from tests.commands.words import CHANGELOG, is_for_users, names, page, sentences, word_count
from tests.support.budgets import assert_within
from tests.support.not_run import ROOT

PAGES = {name: page(ROOT / name) for name in names()}
WORDS_MAX = 72_150
"""The words of all pages that are written by hand, without the changelog: CONTRIBUTING.md, Budgets."""
USER_WORDS_MAX = 26_862
"""Likewise, of the pages for users."""
PAGE_WORDS_MAX = {"README.md": 1_000, CHANGELOG: 1_500}


def test_the_pages_do_not_grow() -> None:
    """All pages without the changelog, and those for users, have no more words by hand than stated."""
    words = sum(counts.words for name, counts in PAGES.items() if name != CHANGELOG)
    user_words = sum(counts.words for name, counts in PAGES.items() if is_for_users(name))
    assert_within("WORDS_MAX (words by hand of all pages)", words, WORDS_MAX)
    assert_within("USER_WORDS_MAX (words by hand of the pages for users)", user_words, USER_WORDS_MAX)


def test_a_user_reads_a_sentence_once() -> None:
    """No page for users has a sentence of more than 25 words."""
    assert not [name for name, counts in PAGES.items() if is_for_users(name) and counts.long_sentences]


@pytest.mark.parametrize("name", PAGE_WORDS_MAX)
def test_a_page_is_as_short_as_stated(name: str) -> None:
    """A newcomer reads all of the README, and anyone who updates all of the changes."""
    assert_within(f"PAGE_WORDS_MAX (words by hand of {name})", PAGES[name].words, PAGE_WORDS_MAX[name])


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


@pytest.mark.parametrize(
    ("text", "is_avoided"),
    [
        ("the file beside the store", True),
        ("Whoever has it reads it.", True),
        ("an event counts as two", True),
        ("such readings do not count", True),
        ("110 Wh in all, over a day", True),
        ("no number leaves before its time", True),
        ("`beside`, and a list of counts", False),
        ("in all bands, the counts of each", False),
        ("it leaves room for others", False),
    ],
)
def test_words_to_avoid_are_found(text: str, *, is_avoided: bool) -> None:
    """They are found in any case; what only looks like one is not."""
    assert any(re.search(pattern, text) for pattern in AVOIDED_IN_PAGES) is is_avoided
