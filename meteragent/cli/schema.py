"""The `schema` command: print the JSON Schema of the configuration, or of the messages that are sent."""

import argparse
import json

from meteragent.config.schema import file_schema
from meteragent.wire import contract


def run(options: argparse.Namespace) -> int:
    """Print the schema; return the exit code."""
    makers = {"config": file_schema, "asyncapi": contract.asyncapi_document}
    maker = makers.get(options.name)
    content = contract.all_schemas()[options.name] if maker is None else maker()
    print(json.dumps(content, indent=2, ensure_ascii=maker is file_schema))
    return 0
