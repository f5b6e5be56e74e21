"""From which level on `meteragent run` logs."""

import subprocess
import sys
from pathlib import Path

import pytest

from meteragent.cli import main
from tests.support.configurations import written
from tests.support.not_run import ROOT

PROGRAM = """
import logging, sys
from meteragent import cli
from meteragent.agent.service import Agent

async def run(_):
    for logger in ("meteragent", "meteragent.mqtt.session", "another.package"):
        for level in ("DEBUG", "INFO", "WARNING", "ERROR"):
            logging.getLogger(logger).log(getattr(logging, level), "%s", logger)

Agent.run = run
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command in a process of its own, whose log it sets up, with an agent that only logs."""


@pytest.mark.parametrize(
    ("options", "ours", "others"),
    [
        ([], ["INFO", "WARNING", "ERROR"], ["INFO", "WARNING", "ERROR"]),
        (["--log-level", "debug"], ["DEBUG", "INFO", "WARNING", "ERROR"], ["INFO", "WARNING", "ERROR"]),
        (["--log-level", "info"], ["INFO", "WARNING", "ERROR"], ["INFO", "WARNING", "ERROR"]),
        (["--log-level", "warning"], ["WARNING", "ERROR"], ["WARNING", "ERROR"]),
        (["--log-level", "error"], ["ERROR"], ["ERROR"]),
    ],
)
def test_the_log_begins_at_a_level(
    tmp_path: Path, options: list[str], ours: list[str], others: list[str]
) -> None:
    """`run` logs from info on, or from `--log-level` on; of other packages never what is below info."""
    path = tmp_path / "home.toml"
    path.write_text(written())
    command = [sys.executable, "-c", PROGRAM, "run", str(path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    expected = {"meteragent": ours, "meteragent.mqtt.session": ours, "another.package": others}
    lines = [f"{level} {logger}" for logger, levels in expected.items() for level in levels]
    assert done.stderr.splitlines() == lines
    assert done.stdout == ""


def test_a_level_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is not a level ends with 2 and lists the levels."""
    with pytest.raises(SystemExit) as left:
        main(["run", "home.toml", "--log-level", "trace"])
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert all(level in told for level in ("trace", "debug", "info", "warning", "error"))
