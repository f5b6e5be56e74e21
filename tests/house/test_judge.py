"""The judge of the simulation is apart from what it judges: contracts see imports, and tests the rest."""

import ast
import tomllib
from pathlib import Path

from tests.support.not_run import ROOT

SIMTEST = ROOT / "simulators/simtest"
SURROUNDINGS = {
    *("__init__", "agent_process", "configuration", "crowding", "disk", "disk_events", "generator", "loop"),
    *("power", "process_environment"),
    *("runs", "schedule", "sharing", "shrink", "store_versions", "surroundings", "traffic", "traps", "world"),
}
"""The modules that run the agent, and draw, write and shrink its schedules."""
OF_TERMS = {"shape", "terms"}
"""Attributes of the agent's that lead to its kinds of windows."""


def judges() -> dict[str, Path]:
    """Return the files of the judge by the names of their modules, as the contracts list them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    modules = {
        module.removeprefix("simulators.simtest.")
        for contract in contracts
        for module in contract.get("source_modules", ())
        if module.startswith("simulators.simtest.")
    }
    return {module: SIMTEST / f"{module}.py" for module in modules}


def test_each_module_judges_or_is_of_the_surroundings() -> None:
    """No module of the simulation is outside the contracts by mistake."""
    modules = {path.stem for path in SIMTEST.glob("*.py")}
    assert modules == judges().keys() | SURROUNDINGS
    assert not judges().keys() & SURROUNDINGS


def test_the_judge_asks_no_terms() -> None:
    """No module of the judge takes terms or a kind of window out of what it judges."""
    for module, path in judges().items():
        nodes = ast.walk(ast.parse(path.read_text()))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not names & OF_TERMS, module
