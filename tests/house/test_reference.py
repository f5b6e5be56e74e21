"""The API reference: every public name is explained in a screen, and signatures are readable."""

import importlib.util
import inspect
from typing import Any

import pytest

from tests.support.not_run import ROOT

SCREEN = 40
"""The most lines of a docstring: with its signature it fits a screen."""


def reference() -> Any:
    """Import docs/reference.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = reference()
NAMES = [
    (f"{module}.{name}", member)
    for package in REFERENCE.PACKAGES
    for module, members in REFERENCE.public_names(importlib.import_module(package)).items()
    for name, member in members.items()
]


def test_there_are_names() -> None:
    """The reference has hundreds of names, each once."""
    assert len({name for name, _ in NAMES}) == len(NAMES) > 250


@pytest.mark.parametrize("package", REFERENCE.PACKAGES)
def test_a_name_is_explained_in_a_screen(package: str) -> None:
    """Each public name has a docstring of at most a screen."""
    names = [(name, inspect.getdoc(member)) for name, member in NAMES if name.startswith(package)]
    assert names
    assert [name for name, text in names if not text or len(text.splitlines()) > SCREEN] == []


@pytest.mark.parametrize("package", REFERENCE.PACKAGES)
def test_no_signature_spells_out_an_internal_type(package: str) -> None:
    """An array is `ndarray[int64]` in the reference, whatever numpy calls it; nothing private is named."""
    signatures = {name: REFERENCE.signature(member) for name, member in NAMES if name.startswith(package)}
    internal = ("dtype[", "ndarray[tuple", "_typing", "._", "<object", " at 0x", "<class")
    assert [(name, text) for name, text in signatures.items() if any(part in text for part in internal)] == []
