"""The notebooks of the documentation show what they compute: outputs are stored, current and portable."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.notebooks import FOLDER, KEY, absolute_paths, bare, digest, source_of

PATHS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """Read a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def test_there_are_notebooks() -> None:
    """The papers' figures and the attack on a mechanism of one's own are there."""
    assert [path.stem for path in PATHS] == ["attack", "papers"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_not_stale(path: Path) -> None:
    """Its code and the modules that it imported are those with which it was executed."""
    notebook = read(path)
    stored = notebook["metadata"][KEY]
    assert all(source_of(module).exists() for module in stored["modules"])
    assert digest(notebook, stored["modules"]) == stored["digest"], (
        f"run `make notebooks`: {path.name} is stale"
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_is_stored_can_be_shown(path: Path) -> None:
    """Every code cell ran in order without an error, pictures have alternative texts, no path is shown."""
    notebook = read(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [(cell, output) for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for _, output in outputs} <= {"stream", "display_data", "execute_result"}
    assert all(output.get("name") != "stderr" for _, output in outputs)
    assert all(
        cell["metadata"].get("alt") for cell, output in outputs if "image/png" in output.get("data", {})
    )
    assert absolute_paths(notebook) == []


def test_a_change_of_code_is_a_change_of_the_digest() -> None:
    """Another cell, module or list of modules is another digest; another text between the cells is not."""
    notebook = read(PATHS[0])
    modules = notebook["metadata"][KEY]["modules"]
    code, text = copy.deepcopy(notebook), copy.deepcopy(notebook)
    next(cell for cell in code["cells"] if cell["cell_type"] == "code")["source"].append("\nx = 1")
    next(cell for cell in text["cells"] if cell["cell_type"] == "markdown")["source"].append("more")
    stored = digest(notebook, modules)
    assert digest(code, modules) != stored
    assert digest(notebook, modules[:-1]) != stored
    assert digest(text, modules) == stored


def test_docstrings_and_comments_do_not_count() -> None:
    """Only code counts: a changed docstring, comment or empty line leaves a notebook current."""
    source = '"""Old."""\nX = 1\n\n# a reason\ndef f():\n    """Old\n    text."""\n    return "# kept"\n'
    assert bare(source) == 'X = 1\ndef f():\n    return "# kept"'
    assert bare(source.replace("Old", "New").replace("a reason", "another")) == bare(source)
    assert bare(source.replace("X = 1", "X = 2")) != bare(source)


def test_an_absolute_path_is_refused() -> None:
    """A folder of a machine is recognised in any text of an output; a link or a ratio is not."""
    cell = {"outputs": [{"text": "File /opt/venv/x.py"}, {"text": "1/40 and docs/opt/x"}]}
    assert absolute_paths({"cells": [cell]}) == ["File /opt/venv/x.py"]
