"""Many rows as one parameter of a single statement, which SQLite runs without the interpreter lock.

With one statement for each row, the store's thread would need the interpreter lock after each row, and would
wait for the core to release it.
"""

import json
import re
from typing import Any

from meteragent.domain.errors import StoreError

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def batch(rows: Any) -> str:
    """Return rows, or a mapping of names to values, as JSON for SQLite's `json_each`.

    Raises StoreError for a string that contains a NUL, because SQLite would end the JSON text there. No MQTT
    topic contains a NUL.
    """
    text = json.dumps(rows)
    if "\\u0000" in text and _NUL.search(text):
        raise StoreError("a name with a NUL cannot be stored")
    return text
