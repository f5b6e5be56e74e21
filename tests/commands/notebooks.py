"""`python -m tests.commands.notebooks`: execute the notebooks of the documentation, and store their outputs.

A notebook keeps the names of our modules that its kernel imported, and a digest of its code and of these
modules, without their docstrings and comments. `tests/house/test_notebooks.py` refuses a notebook whose
digest is another: then what it shows may no longer be what it computes.
"""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from meteragent import __version__

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
KEY = "meteragent"
_OURS = """
import json, sys
print(json.dumps(sorted(m for m in sys.modules if m.partition(".")[0] in ("meteragent", "simulators"))))
"""
_ABSOLUTE = re.compile(r"(?<![\w./])/(?:home|root|tmp|usr|opt|var|work|Users)/")


def digest(notebook: dict[str, Any], modules: Iterable[str]) -> str:
    """Return the digest of a notebook's code, of our version, and of the code of modules."""
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = [f"{name}\n{bare(source_of(name).read_text('utf-8'))}" for name in sorted(modules)]
    return hashlib.sha256("\0".join([__version__, *code, *sources]).encode()).hexdigest()


def source_of(module: str) -> Path:
    """Return the file of a module of ours; one that is gone is an empty file of the same folder."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def bare(source: str) -> str:
    """Return the lines of a module without docstrings, comment lines and empty lines."""
    lines = source.splitlines()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [""] * ((text.end_lineno or 0) - text.lineno + 1)
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def absolute_paths(notebook: dict[str, Any]) -> list[str]:
    """Return the texts of outputs that show an absolute path."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    parts = [(output, *output.get("data", {}).items()) for output in outputs]
    texts = ["".join(output.get("text", "")) for output, *_ in parts]
    texts += ["".join(text) for _, *items in parts for kind, text in items if kind.startswith("text/")]
    return [text for text in texts if _ABSOLUTE.search(text)]


def execute(path: Path) -> None:
    """Execute a notebook in a new kernel, and write it with its outputs and its digest.

    Raises:
        CellExecutionError: a cell failed.  ValueError: an output shows an absolute path.
    """
    nbformat: Any = import_module("nbformat")  # only this command needs the group notebooks
    client: Any = import_module("nbclient")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(_OURS))
    kernel = {"metadata": {"path": str(ROOT)}}
    client.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=kernel).execute()
    modules = json.loads(notebook.cells.pop().outputs[0].text)
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "alt"}
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        KEY: {"digest": digest(notebook, modules), "modules": modules},
    }
    if texts := absolute_paths(notebook):
        raise ValueError(f"{path.name} shows an absolute path: {texts[0][:200]}")
    nbformat.write(notebook, path)


def main() -> int:
    """Execute all notebooks, or those named in the arguments; return the exit code."""
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for name in names:
        execute(FOLDER / f"{name}.ipynb")
        print(f"{name}: executed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
