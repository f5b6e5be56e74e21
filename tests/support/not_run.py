"""Report tests that cannot run: a test that lacks a part fails with NOT RUN.

The test is skipped instead if the environment variable MISSING_OK names the part:
``MISSING_OK="data mosquitto"``.
"""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.uses import assert_marked

ROOT = Path(__file__).resolve().parents[2]


def may_be_missing(part: str) -> bool:
    """Return whether MISSING_OK names the part."""
    return part in os.environ.get("MISSING_OK", "").replace(",", " ").split()


def not_run(part: str, reason: str) -> NoReturn:
    """Skip the running test if MISSING_OK names the part, else fail it."""
    text = f"NOT RUN: {reason} (MISSING_OK={part} accepts that)"
    if may_be_missing(part):
        pytest.skip(text)
    pytest.fail(text, pytrace=False)


def data_folder() -> Path:
    """Return the folder of real load traces, which METERAGENT_DATA names; the test has the mark `data`."""
    assert_marked("data", "reads real load traces")
    folder = os.environ.get("METERAGENT_DATA")
    if not folder or not Path(folder).is_dir():
        not_run("data", "real load traces: set METERAGENT_DATA to their folder")
    return Path(folder).resolve()
