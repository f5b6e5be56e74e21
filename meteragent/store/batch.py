"""Many rows as one parameter of one statement, which SQLite runs without the interpreter.

Row by row, the store's thread would ask for the interpreter lock after each row, and wait for the core to
release it.
"""

import json
import re
from typing import Any

from meteragent.domain.errors import StoreError

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def batch(rows: Any) -> str:
    """Encode rows, or a mapping of names to values, as JSON for SQLite's `json_each`.

    Raises StoreError for a string with a NUL, at which SQLite's JSON would end. No MQTT topic holds one.
    """
    text = json.dumps(rows)
    if "\\u0000" in text and _NUL.search(text):
        raise StoreError("a name with a NUL cannot be stored")
    return text
