"""All texts for users: one file for each language, with the same keys.

Placeholders are written ``{name}``; Python and the page's script replace them by the same rule. A counter or
problem of the agent exists if `en.json` has its text (`domain.counters`, `domain.problem`).
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ENGLISH = "en"

_FOLDER = Path(__file__).parent
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""The languages that have a file of texts."""


@cache
def read_texts(language: str) -> Mapping[str, str]:
    """Read all texts of a language, by key."""
    text_by_key: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text("utf-8"))
    return text_by_key


def english_texts(prefix: str) -> dict[str, str]:
    """Return the English texts whose keys begin with a prefix, by the rest of the key."""
    by_key = read_texts(ENGLISH).items()
    return {key.removeprefix(prefix): text for key, text in by_key if key.startswith(prefix)}
