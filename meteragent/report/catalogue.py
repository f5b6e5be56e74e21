"""The texts that `check`, the statement, `plan` and the local page share: one file for each language.

Placeholders are written ``{name}``; Python and the page's script replace them by the same rule. A translation
is another file beside `en.json`. It has the same keys, and one more for each counter, problem and cure;
the English texts of these are in `domain`.

`speaking` sets the language for the code that it encloses. Outside `speaking`, and in JSON, the language is
English.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import PROBLEMS

ENGLISH = "en"

_FOLDER = Path(__file__).parent / "texts"
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""The languages that have a file of texts."""
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The variables of POSIX that set the language of messages; the first that is set decides."""
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@cache
def texts(language: str) -> Mapping[str, str]:
    """Read all texts of a language, by key."""
    text_by_key: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text("utf-8"))
    return text_by_key | _domain_texts() if language == ENGLISH else text_by_key


def _domain_texts() -> dict[str, str]:
    """Return the English texts of counters and problems, by key."""
    counters = {f"counter.{name}": meaning for name, meaning in COUNTERS.items()}
    causes = {f"problem.{code}": meaning.cause for code, meaning in PROBLEMS.items()}
    cures = {f"cure.{code}": meaning.cure for code, meaning in PROBLEMS.items()}
    return counters | causes | cures


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Set the language of `say` inside this context, and in the tasks that are started in it.

    `asyncio.to_thread` passes the language on as well, but a new thread begins in English.
    """
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def say(key: str, **values: object) -> str:
    """Return a text in the current language, with its placeholders filled in.

    Raises KeyError if there is no such text, or one of its placeholders has no value.
    """
    return texts(_language.get())[key].format(**values)


def of_environment(environment: Mapping[str, str]) -> str:
    """Return the language that a process's environment asks for, or English if that language has no texts."""
    name = next(filter(None, map(environment.get, _VARIABLES)), "")
    language = name.partition(".")[0].partition("@")[0].partition("_")[0].lower()
    return language if language in LANGUAGES else ENGLISH


def of_reader(accept: str) -> str:
    """Return a browser's preferred language (Accept-Language) among `LANGUAGES`; English if it names none."""
    ranges = [_range(item) for item in accept.split(",")]
    choices = [(quality, language) for quality, language in ranges if language in LANGUAGES and quality > 0]
    return max(choices, key=lambda item: item[0], default=(0.0, ENGLISH))[1]


def _range(item: str) -> tuple[float, str]:
    """Return the quality and the language of one range of Accept-Language, such as ``de-AT;q=0.8``.

    A malformed quality counts as 0.
    """
    name, _, parameter = item.partition(";")
    key, _, number = parameter.strip().partition("=")
    try:
        quality = float(number) if key.strip() == "q" else 1.0
    except ValueError:
        quality = 0.0
    return quality, name.strip().partition("-")[0].lower()
