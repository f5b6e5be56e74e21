"""`meteragent audit CONFIG`: test that the mechanism which a configuration runs keeps its promise."""

import argparse
import re

from meteragent import config
from meteragent.cli import common

_SAMPLES_LEAST = 100
"""With fewer windows an audit sees next to nothing."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `audit`."""
    common.add_config(parser)
    parser.add_argument("--json", action="store_true", help="the same facts as JSON")
    parser.add_argument(
        "--samples",
        metavar="N",
        type=_samples,
        help="windows for each thing that is looked at; by default as many as take a few seconds",
    )


def run(options: argparse.Namespace) -> int:
    """Print the verdict of each mechanism; returns 3 where one breaks its promise."""
    settings = config.load(options.config)
    if common.lacks("scipy", "an audit", "analysis"):
        return common.EXIT_CRASH
    from meteragent.report import audit  # noqa: PLC0415  scipy, which may be missing

    trials = audit.trials(settings, samples=options.samples)
    print(audit.as_json(trials) if options.json else audit.as_text(trials))
    return 0 if all(trial.holds for trial in trials) else common.EXIT_VIOLATED


def _samples(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < _SAMPLES_LEAST:
        raise argparse.ArgumentTypeError(f"a whole number from {_SAMPLES_LEAST} on, not {text!r}")
    return int(text)
