"""The agent's noise comes from the operating system's source and from nowhere else."""

import ast
from pathlib import Path

import pytest

from tests.support.not_run import ROOT

PACKAGE = ROOT / "meteragent"
GENERATORS = {"random", "secrets", "uuid", "ssl", "hashlib", "numpy.random", "meteragent.privacy.bulk"}
"""Modules from which numbers that look random can be drawn; hashlib makes them from a seed."""
ALLOWED = {
    "wire/descriptor.py": {"hashlib"},  # the id of a descriptor
    "domain/codec.py": {"hashlib"},  # the id of terms
    "domain/identity.py": {"hashlib"},  # pseudonyms and delays, from a key
    "mqtt": {"ssl"},  # TLS
    "agent/page/guard.py": {"hashlib", "secrets"},  # a browser's cookie
    "agent/page/app.py": {"hashlib"},
    "store": {"hashlib"},
    "decode": {"hashlib"},
    "wire/home_assistant.py": {"hashlib"},
}
"""What else they are for on the agent's path, by file or folder."""
ON_THE_PATH = ("agent", "core", "domain", "wire", "store", "mqtt", "decode", "config", "cli/__init__.py")


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, and the packages that they are in."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def files() -> list[Path]:
    """Return the files on the agent's path."""
    roots = [PACKAGE / name for name in ON_THE_PATH]
    return [path for root in roots for path in ([root] if root.suffix else sorted(root.rglob("*.py")))]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_of_the_agent_has_another_generator(path: Path) -> None:
    """No file on the agent's path imports a random generator, except for purposes other than noise."""
    name = str(path.relative_to(PACKAGE))
    allowed = {use for where, uses in ALLOWED.items() if name.startswith(where) for use in uses}
    assert (imported(path) & GENERATORS) <= allowed
    assert "np.random" not in path.read_text()


def test_the_agent_s_bits_are_the_operating_system_s() -> None:
    """`SystemBits` calls os.urandom, and the agent makes its bits of it unless they are given."""
    tree = ast.parse((PACKAGE / "privacy" / "bits.py").read_text())
    (system,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "SystemBits")
    calls = {ast.unparse(node.func) for node in ast.walk(system) if isinstance(node, ast.Call)}
    assert {call for call in calls if "random" in call.lower()} == {"os.urandom"}
    assert not imported(PACKAGE / "privacy" / "bits.py") & {"ssl", "secrets", "random", "numpy.random"}
    assert (
        "bits: SecretBits = field(default_factory=SystemBits)"
        in (PACKAGE / "agent" / "environment.py").read_text()
    )


def test_what_the_pipeline_draws_it_draws_from_bits_that_it_was_given() -> None:
    """Every call of a sampler in the pipeline has the stream's bits as an argument."""
    tree = ast.parse((PACKAGE / "core" / "noise.py").read_text())
    draws = {"draw_noise_bound", "draw_noise_bounds", "draw_slot", "draw_slots", "below", "below_array"}
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in draws
    ]
    assert len(calls) >= 3
    for call in calls:
        owner = ast.unparse(call.func).rpartition(".")[0]
        given = any("bits" in ast.unparse(argument) for argument in call.args)
        # `Window.open_slot` draws nothing: it takes noise and dither as arguments.
        assert owner in {"self", "window"} or given, ast.unparse(call)
