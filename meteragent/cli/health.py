"""The `health` command: show the state of the running agent."""

import argparse
import os
import sys

from meteragent import config
from meteragent.agent import metrics, watch
from meteragent.cli import common


def run(options: argparse.Namespace) -> int:
    """Print the agent's report; return 1 if there is a problem or no agent answers."""
    path = config.load(options.config).store.path
    answer = watch.ask(path)
    if answer is None:
        exists = os.access(path, os.F_OK)
        reason = "it runs as another user, or not at all" if exists else "the store does not exist yet"
        print(f"meteragent: no agent answers for the store {path.absolute()}: {reason}.", file=sys.stderr)
        print(f"Start the agent: meteragent run {options.config}", file=sys.stderr)
        return common.EXIT_CRASH
    vitals = metrics.from_json(answer)
    print(answer if options.json else metrics.as_text(vitals))
    return common.EXIT_CRASH if vitals.problems else 0
