"""Validate Green Button feeds by the published schema: ``python -m tests.commands.green_button espi.xsd``.

The schema is NAESB's, under the Apache License 2.0; it is not part of this repository. Without the schema, or
without the package xmlschema, the command prints NOT RUN, which is not a failure.
"""

import argparse
import importlib
import sys
import warnings
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path
from typing import Any

from meteragent.formats.entry import Entry
from meteragent.formats.green_button import ATOM, write

HALF_HOUR_MS = 1_800_000
NOON_MS = 1_795_176_000_000


def entries() -> list[Entry]:
    """Return values of two meters: both units, both qualities, negative ones, over two days."""
    rows = []
    for slot in range(60):
        start_ms = NOON_MS + slot * HALF_HOUR_MS
        times = start_ms, start_ms + HALF_HOUR_MS
        rows.append(Entry("m1", *times, Fraction(slot - 30, 1000), "kWh", "estimated", 0.044, "", "1a2b3c4d"))
        rows.append(Entry("m2", *times, Fraction(slot, 2), "W"))
    return rows


def errors(schema: Any, feed: ET.Element) -> list[str]:
    """Return what is wrong with the resources of a feed."""
    contents = [content[0] for content in feed.iter(f"{ATOM}content")]
    return [error.reason or "" for content in contents for error in schema.iter_errors(content)]


def main() -> int:
    """Read the arguments, and validate; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schema", type=Path, metavar="espi.xsd")
    options = parser.parse_args()
    try:
        xmlschema = importlib.import_module("xmlschema")
    except ImportError:
        print("NOT RUN: the package xmlschema is not installed")
        return 0
    if not options.schema.is_file():
        print(f"NOT RUN: no schema at {options.schema}")
        return 0
    with warnings.catch_warnings(action="ignore"):  # the schema of Atom is not beside it, and not needed
        schema = xmlschema.XMLSchema(options.schema)
    feed = ET.fromstring(write(entries(), NOON_MS))
    wrong = errors(schema, feed)
    print(
        f"{len(list(feed.iter(f'{ATOM}content')))} resources by version {schema.version}: {wrong or 'valid'}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
