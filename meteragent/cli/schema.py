"""The command `schema`: print the JSON Schema of the configuration."""

import argparse
import json

from meteragent import config


def run(_: argparse.Namespace) -> int:
    """Print the schema; return the exit code."""
    print(json.dumps(config.schema(), indent=2))
    return 0
