"""Texts in the language of the reader (`meteragent.texts`).

`use_language` sets the language for the code that it encloses. All other texts, and JSON, are in English.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from meteragent.texts import ENGLISH, LANGUAGES, read_texts

_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The variables of POSIX that set the language of messages; the first that is set decides."""
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def use_language(language: str) -> Iterator[None]:
    """Set the language of `say` in this context and in the tasks that are started in it."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def say(key: str, **values: object) -> str:
    """Return a text in the current language, with its placeholders filled in. Raises KeyError."""
    return read_texts(_language.get())[key].format(**values)


def language_of_environment(environment: Mapping[str, str]) -> str:
    """Return the language set in a process's environment, or English if that language has no texts."""
    name = next(filter(None, map(environment.get, _VARIABLES)), "")
    language = name.partition(".")[0].partition("@")[0].partition("_")[0].lower()
    return language if language in LANGUAGES else ENGLISH


def language_of_reader(accept: str) -> str:
    """Return a browser's preferred language (Accept-Language) among `LANGUAGES`; English if it names none."""
    ranges = [_range(item) for item in accept.split(",")]
    choices = [(quality, language) for quality, language in ranges if language in LANGUAGES and quality > 0]
    return max(choices, key=lambda item: item[0], default=(0.0, ENGLISH))[1]


def _range(item: str) -> tuple[float, str]:
    """Return the quality (0 if malformed) and language of an item of Accept-Language: ``de-AT;q=0.8``."""
    name, _, parameter = item.partition(";")
    key, _, number = parameter.strip().partition("=")
    try:
        quality = float(number) if key.strip() == "q" else 1.0
    except ValueError:
        quality = 0.0
    return quality, name.strip().partition("-")[0].lower()
