"""Texts in pages that a program generates, and the sentence with which a test refuses an older one."""

from itertools import takewhile, zip_longest
from pathlib import Path

import pytest

from tests.support.not_run import ROOT


def assert_renewed(path: Path, renewed: str) -> None:
    """Fail with the first line that differs if a file is not as its generator writes it."""
    text = path.read_text("utf-8")
    if text == renewed:
        return
    pairs = zip_longest(text.splitlines(), renewed.splitlines())
    number = 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    pytest.fail(
        f"{path.relative_to(ROOT)}:{number} is not as generated: run `make tables`",
        pytrace=False,
    )
