"""The arguments of `convert`, declared without importing the libraries that a conversion needs."""

import argparse
from pathlib import Path


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `convert`."""
    parser.add_argument(
        "input",
        metavar="IN",
        type=Path,
        help="an output folder of `sanitise`, a dataset of `collect`, or a file: CSV or Green Button",
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="a file that does not exist yet")
    parser.add_argument_group("format").add_argument(
        "--to",
        required=True,
        choices=("csv", "csv-semicolon", "green-button", "meter-readings", "aiida", "readings"),
        help="the format to write; readings means a Parquet file for `sanitise`",
    )
    parser.add_argument_group("dataset").add_argument(
        "--stream",
        metavar="NAME",
        default="main",
        help="the stream to read from a dataset of `collect`; default: %(default)s",
    )
