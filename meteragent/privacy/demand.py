"""Names of a package that are loaded when they are first asked for (PEP 562).

A gateway needs one mechanism of many. The stub beside the package's `__init__.py` says which module each name
is from: type checkers read it, and so does this, so that it is written once.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def on_demand(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """What a package's `__getattr__`, `__dir__` and `__all__` are, by the imports in its stub."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: sorted(homes), sorted(homes)
