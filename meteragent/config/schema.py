"""The configuration's JSON Schema (draft 2020-12), for editors and for programs that write configurations.

The schema accepts every configuration that the agent accepts, except for capitals in the names of weekdays.
It also accepts some that are refused, for example a radius that is not a multiple of the quantum.
"""

import ast
import inspect
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from meteragent.config import model
from meteragent.config.model import Config
from meteragent.config.source import FORMATS
from meteragent.decode.profile_file import NAME
from meteragent.decode.profiles import PROFILES
from meteragent.domain.grid import format_duration
from meteragent.domain.presets import PRESETS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KIB = 1024
_WITH_TOPIC = {"properties": {"sink": {"required": ["topic"]}}}


class _SchemaGenerator(GenerateJsonSchema):
    """A schema generator that converts defaults to JSON; `_key_schema` formats them as people write them."""

    def encode_default(self, dft: Any) -> Any:
        """Encode a default value as JSON; a fraction becomes an integer or a string."""
        if isinstance(dft, BaseModel):
            return {}
        if isinstance(dft, Fraction):
            return int(dft) if dft.denominator == 1 else str(dft)
        if isinstance(dft, tuple):
            return [self.encode_default(element) for element in dft]
        return super().encode_default(dft)


def file_schema() -> dict[str, Any]:
    """Return the schema of a file: the shared tables, and one stream's tables or `[[stream]]` tables."""
    generated = Config.model_json_schema(schema_generator=_SchemaGenerator)
    definitions = generated["$defs"]
    sentences = key_docstrings(inspect.getsource(model))
    for title, table in [("Config", generated), *definitions.items()]:
        if keys := table.get("properties"):
            described = {name: {"description": text} | keys[name] for name, text in sentences[title].items()}
            table["properties"] = {name: _key_schema(key) for name, key in described.items()}
    definitions["Privacy"]["properties"]["preset"]["enum"] = list(PRESETS)
    profile = definitions["Source"]["properties"]["profile"]
    profile["anyOf"] = [{"enum": [*FORMATS, *PROFILES]}, {"pattern": f"^{NAME.pattern}$"}]
    shared = {name: generated["properties"][name] for name in Config.model_fields if name != "stream"}
    stream = definitions["Stream"]
    flat = {
        **stream,
        "title": "One stream",
        "properties": {**stream["properties"], **shared},
        "required": [name for name in stream["required"] if name != "sink"],
        "anyOf": [{"required": ["sink"], **_WITH_TOPIC}, {"required": ["receiver"]}],
    }
    definitions["Sink"]["required"].remove("topic")  # receivers have topics of their own
    definitions["Stream"]["properties"]["sink"] |= {"required": ["topic"]}
    streams = {**generated, "title": "Several streams"}
    del streams["$defs"]
    return {
        "$schema": _DIALECT,
        "title": "meteragent",
        "description": "The configuration of meteragent, a privacy agent for smart-meter streams.",
        "if": {"required": ["stream"]},
        "then": streams,
        "else": flat,
        "$defs": definitions,
    }


def key_docstrings(source: str) -> dict[str, dict[str, str]]:
    """Return keys' docstrings by table and key; pydantic would read them at each start of the agent."""
    tables = dict[str, dict[str, str]]()
    for table in ast.parse(source).body:
        if isinstance(table, ast.ClassDef):
            keys = tables[table.name] = {}
            for base in table.bases:
                keys |= tables.get(ast.unparse(base), {})
            for key, text in pairwise(table.body):
                if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
                    keys[ast.unparse(key.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return tables


def _key_schema(key: dict[str, Any]) -> dict[str, Any]:
    """Return a key's schema without null, which TOML lacks, and with its default as people write it."""
    options = [option for option in key.pop("anyOf", []) if option != {"type": "null"}]
    key |= {"anyOf": options} if len(options) > 1 else {} if not options else options[0]
    key.pop("title", None)
    default, pattern = key.pop("default", None), key.get("pattern", "")
    if isinstance(default, int) and "min" in pattern:
        default = format_duration(default)
    elif isinstance(default, int) and "KiB" in pattern:
        default = f"{default // _KIB}KiB"
    return key if default is None else key | {"default": default}
