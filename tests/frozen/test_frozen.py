"""What leaves is what left before; `python -m tests.commands.frozen` changes that on purpose."""

import pytest

from tests.commands.frozen import FOLDER
from tests.support.frozen import files


@pytest.mark.slow("each file takes a second or two")
@pytest.mark.parametrize("name", files.groups())
def test_what_leaves_is_what_left_before(name: str) -> None:
    """Each kind of windows, metric and readings gives the messages and texts in its files."""
    for file, text in files.contents(name).items():
        assert text == (FOLDER / file).read_text(encoding="utf-8"), file


def test_each_file_has_its_cases() -> None:
    """No file is left of cases that are gone."""
    names = {path.name.split(".")[0] for path in FOLDER.glob("*.json")}
    assert names == set(files.groups())
