"""Nothing is left out in silence: a test whose part is missing says NOT RUN.

It fails the run unless the environment variable MISSING_OK names the part: ``MISSING_OK="data mosquitto"``.
"""

import os
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]


def missing_ok(part: str) -> bool:
    """Whether the user has said that this part may be missing."""
    return part in os.environ.get("MISSING_OK", "").replace(",", " ").split()


def not_run(part: str, why: str) -> NoReturn:
    """End the test that runs: skipped if MISSING_OK names the part, failed otherwise."""
    text = f"NOT RUN: {why} (MISSING_OK={part} accepts that)"
    if missing_ok(part):
        pytest.skip(text)
    pytest.fail(text, pytrace=False)


def data_folder() -> Path:
    """The folder of real load traces: METERAGENT_DATA, or ../shared/data where it exists."""
    named = os.environ.get("METERAGENT_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        not_run("data", "real load traces: set METERAGENT_DATA to their folder")
    return folder
