"""`meteragent export CONFIG`: what already left, as a table."""

import argparse
import os
import sys

from meteragent import config
from meteragent.cli import common
from meteragent.store import read_only
from meteragent.tools import export


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `export`."""
    common.add_config(parser)
    parser.add_argument("--csv", action="store_true", required=True, help="as CSV, to standard output")
    parser.add_argument(
        "--nonnegative",
        action="store_true",
        help="one more column: no value below zero, every day's energy kept (biased for single slots)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the table to standard output."""
    write = export.write_nonnegative if options.nonnegative else export.write
    with read_only(config.load(options.config).store.path) as connection:
        try:
            raised = write(connection, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has enough, such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    if raised:
        print(f"{raised} days or windows have a negative total: they are zero there", file=sys.stderr)
    return 0
