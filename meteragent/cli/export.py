"""The `export` command: print the delivered records that the store still keeps, as CSV."""

import argparse
import os
import sys

from meteragent import config
from meteragent.store import read_only
from meteragent.tools import export


def run(options: argparse.Namespace) -> int:
    """Print the table; return the exit code."""
    write = export.write_nonnegative if options.nonnegative else export.write_records
    with read_only(config.load(options.config).store.path) as connection:
        try:
            raised_count = write(connection, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    if raised_count:
        subject = "1 day or window has" if raised_count == 1 else f"{raised_count} days or windows have"
        print(f"{subject} a negative total, which is shown as zero", file=sys.stderr)
    return 0
