"""`meteragent health CONFIG`: how the running agent is."""

import argparse
import sys

from meteragent import config
from meteragent.agent import metrics, watch
from meteragent.cli import common


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `health`."""
    common.add_config(parser)
    parser.add_argument("--json", action="store_true", help="all figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the agent says of itself; returns 1 when something is wrong, or none answers."""
    path = config.load(options.config).store.path
    answer = watch.ask(path)
    if answer is None:
        print(f"{path}: no agent runs with this store, or it does not answer", file=sys.stderr)
        return common.EXIT_CRASH
    vitals = metrics.from_json(answer)
    print(answer if options.json else metrics.as_text(vitals))
    return common.EXIT_CRASH if vitals.problems else 0
