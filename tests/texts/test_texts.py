"""The texts of each language: complete, with the placeholders of English, and printable."""

import re
from string import Formatter

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.domain.units import Kind
from meteragent.texts import LANGUAGES, english_texts, read_texts
from meteragent.tools.discover.words import Direction, Role

ENGLISH = read_texts("en")
TRANSLATIONS = [language for language in LANGUAGES if language != "en"]
PRINTED = (
    *(
        "and",
        "cost.",
        "duration.",
        "event.",
        "guess.",
        "hidden.",
        "hides.",
        "in_all.",
        "near.",
        "next.",
        "number.",
    ),
    *("plan.", "promise.", "receivers.", "share.", "stream.", "tariff.", "warning."),
)
"""Texts that `check` and `plan` print on a terminal, which may not be one of UTF-8."""


def placeholders(text: str) -> set[str]:
    """Return the names in braces."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_translation_is_complete(language: str) -> None:
    """It has the texts of English, each with the same placeholders, and nothing else; it names itself."""
    translated = read_texts(language)
    assert set(translated) == set(ENGLISH)
    assert [key for key in ENGLISH if placeholders(translated[key]) != placeholders(ENGLISH[key])] == []
    assert translated["lang"] == language
    assert all(text.strip() and not re.search(r"[<>&]", text) for text in translated.values())


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_terminal_without_utf_8_can_print_it(language: str) -> None:
    """What commands print has only characters of ISO 8859-15, as a terminal in de_DE@euro has."""
    for key, text in read_texts(language).items():
        if key.startswith(PRINTED):
            text.encode("iso8859-15")


def test_devices_and_quantities_have_their_english_names() -> None:
    """The built-in profiles' titles and the names of quantities are the English texts, so none is missed."""
    assert english_texts("device.") == {name: profile.title for name, profile in PROFILES.items()}
    for prefix, members in (("role", Role), ("direction", Direction)):
        names = {member.name.lower(): str(member) for member in members}
        names.pop("unstated", None)
        assert english_texts(f"init.{prefix}_") == names
    assert english_texts("init.kind_") == {kind: kind.replace("_", " ") for kind in Kind}


def test_texts_are_found_by_the_beginning_of_their_keys() -> None:
    """Only the texts below a prefix are returned, in their order, under the rest of their keys."""
    assert list(english_texts("number.")) == ["decimal", "group", "percent", "times"]
    assert english_texts("number.")["decimal"] == "."
