"""The `export` command: print the delivered records that the store still keeps, as CSV or JSON."""

import argparse
import os
import sys

from meteragent import config
from meteragent.store import read_only
from meteragent.tools import export


def run(options: argparse.Namespace) -> int:
    """Print the table; return the exit code."""
    write = export.write_lines if options.json else export.write_table
    with read_only(config.load(options.config).store.path) as connection:
        try:
            write(connection, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    return 0
