"""Many rows as one parameter of one statement: SQLite runs it without the interpreter.

Row by row the store's thread would ask for the interpreter after each, and wait for the core, which has it.
"""

import json
import re
from typing import Any

from meteragent.domain.errors import StoreError

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def batch(rows: Any) -> str:
    """Rows, or names and values, as JSON for SQLite's `json_each`.

    Raises StoreError for a text with a NUL, at which SQLite's JSON would end: no topic of MQTT has one.
    """
    text = json.dumps(rows)
    if "\\u0000" in text and _NUL.search(text):
        raise StoreError("a name with a NUL cannot be stored")
    return text
