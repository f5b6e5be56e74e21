"""The `audit` command: test whether a configuration's mechanism keeps its promise."""

import argparse
import re
import shutil

from meteragent import config
from meteragent.cli import common, exit_codes
from meteragent.report.format import WIDTH

_SAMPLES_MIN = 100
"""The smallest number of windows; an audit of fewer windows would detect almost nothing."""


def run(options: argparse.Namespace) -> int:
    """Print the verdict on each mechanism; return 0, 3 if one breaks its promise, or 1 without the extra."""
    settings = config.load(options.config)
    if common.report_missing_extra("analysis", "an audit"):
        return exit_codes.EXIT_CRASH
    from meteragent.report import audit  # noqa: PLC0415  scipy, which may be missing

    trials = audit.audit_mechanisms(settings, samples=options.samples)
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    print(audit.as_json(trials) if options.json else audit.as_text(trials, width))
    return 0 if all(trial.holds for trial in trials) else exit_codes.EXIT_VIOLATED


@common.argument
def parse_samples(text: str) -> int:
    """Parse a number of windows."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < _SAMPLES_MIN:
        raise ValueError(f"a whole number of at least {_SAMPLES_MIN}")
    return int(text)
