"""`meteragent schema`: the JSON Schema of the configuration."""

import argparse
import json

from meteragent import config


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing: it takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the schema."""
    print(json.dumps(config.schema(), indent=2))
    return 0
