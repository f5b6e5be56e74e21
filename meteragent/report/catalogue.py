"""The texts that `check`, the statement, `plan` and the local page share: one file for each language.

Places in a text are written ``{name}``, and Python and the page's script fill them in alike. A translation is
a second file beside `en.json` with the same keys.
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
    known: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text("utf-8"))
    return known


def say(key: str, **places: object) -> str:
    """Return a text with its places filled in.

    Raises:
        KeyError: there is no such text, or one of its places is not given.
    """
    return texts()[key].format(**places)
