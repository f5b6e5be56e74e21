"""The texts that `check`, the statement, `plan` and the local page share: one file for each language.

Placeholders are written ``{name}``; Python and the page's script fill them in by the same rule. A translation
is another file beside `en.json` with the same keys.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGE = "en"

_FOLDER = Path(__file__).parent / "texts"


@cache
def texts(language: str = LANGUAGE) -> Mapping[str, str]:
    """Read all texts of a language, by key."""
    text_by_key: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text("utf-8"))
    return text_by_key


def say(key: str, **values: object) -> str:
    """Return a text with its placeholders filled in.

    Raises:
        KeyError: there is no such text, or one of its placeholders has no value.
    """
    return texts()[key].format(**values)
