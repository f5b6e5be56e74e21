"""What several commands need: exit codes, the argument CONFIG, the time, and hints for extras."""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

EXIT_CRASH = 1
EXIT_USAGE = 2
EXIT_VIOLATED = 3
EXIT_CONFIG = 78
EXIT_INTERRUPTED = 130


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the argument CONFIG."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="the configuration file (TOML)")


def now_ms() -> int:
    """Return the wall clock's time."""
    return time.time_ns() // 1_000_000


def lacks(module: str, purpose: str, extra: str) -> bool:
    """Return whether an optional package is missing; if so, say which extra has it."""
    missing = importlib.util.find_spec(module) is None
    if missing:
        print(f"meteragent: {purpose} needs the extra: pip install 'meteragent[{extra}]'", file=sys.stderr)
    return missing
