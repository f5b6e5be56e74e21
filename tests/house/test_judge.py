"""The judge of the simulation is apart from what it judges: contracts see imports, and tests the rest."""

import ast
import tomllib
from pathlib import Path

from tests.support.not_run import ROOT

SIMTEST = ROOT / "simulators/simtest"
OF_TERMS = {"shape", "terms"}
"""Attributes of the agent's that lead to its kinds of windows."""


def judges() -> list[Path]:
    """Return the files of the judge: those below the folders that the contracts list."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = {module for contract in contracts for module in contract.get("source_modules", ())}
    folders = [folder for folder in SIMTEST.iterdir() if f"simulators.simtest.{folder.name}" in listed]
    return [path for folder in folders for path in folder.glob("*.py")]


def test_the_judge_is_listed() -> None:
    """Judge, model and brokers are in the contracts."""
    assert {path.parent.name for path in judges()} == {"judge", "model", "mqtt"}


def test_the_judge_asks_no_terms() -> None:
    """No module of the judge takes terms or a kind of window out of what it judges."""
    for path in judges():
        nodes = ast.walk(ast.parse(path.read_text()))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not names & OF_TERMS, path
