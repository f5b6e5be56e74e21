"""The page on archives is executed: its configuration, its commands, its program.

`tests/spark/test_recipe.py` has the configuration of its streams.
"""

import re
import shlex
from pathlib import Path

import pytest

from meteragent import cli
from simulators import __main__ as simulators
from tests.support.not_run import ROOT

PAGE = (ROOT / "meteragent" / "archive" / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = {"python -m simulators ": simulators.main, "meteragent ": cli.main}


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block but that of streams runs, in order, in an empty folder; commands end with 0."""
    monkeypatch.chdir(tmp_path)
    assert [language for language, _ in BLOCKS] == ["toml", "sh", "python", "toml"]
    (settings, commands, program, _streams) = (text for _, text in BLOCKS)
    (tmp_path / "archive.toml").write_text(settings)
    for line in commands.splitlines():
        ((start, main),) = ((start, main) for start, main in COMMANDS.items() if line.startswith(start))
        assert main(shlex.split(line.removeprefix(start))) == 0
    exec(program, {})
    assert sorted(path.name for path in tmp_path.iterdir() if "private" in path.name) == [
        "private.ledger.parquet",
        "private.parquet",
    ]
