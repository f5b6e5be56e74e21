"""The API reference and `help()`: every public name is explained in a screen, and signatures are readable."""

import importlib.util
import inspect
import pydoc
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.not_run import ROOT

SCREEN, WIDTH = 40, 80
"""The most lines of a docstring and of what `help()` says of a function, and a terminal's columns."""
INTERNAL = ("dtype[", "ndarray[tuple", "_typing")
"""Parts of what numpy's types stand for."""


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
    internal = (*INTERNAL, "._", "<object", " at 0x", "<class")
    assert [(name, text) for name, text in signatures.items() if any(part in text for part in internal)] == []


@pytest.mark.parametrize("package", REFERENCE.PACKAGES)
def test_help_names_types_as_the_source_does(package: str) -> None:
    """`help()` says `ArrayLike` or `Floats`, not what these stand for in numpy."""
    texts = {name: pydoc.render_doc(member) for name, member in NAMES if name.startswith(package)}
    assert [(name, part) for name, text in texts.items() for part in INTERNAL if part in text] == []


def explained(name: str, member: Any) -> Iterator[tuple[str, Any]]:
    """Yield a function, or the public methods of a class, by name."""
    if inspect.isroutine(member):
        yield name, member
    elif inspect.isclass(member):
        for label, value in vars(member).items():
            function = getattr(value, "__func__", value)
            if not label.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{label}", function


def test_help_fits_a_screen() -> None:
    """`help()` of a function or method fits a screen, with its signature in lines of a terminal."""
    functions = dict(pair for name, member in NAMES for pair in explained(name, member))
    assert len(functions) > 300
    for name, function in functions.items():
        text = pydoc.plain(pydoc.render_doc(function))
        lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
        assert len(lines) <= SCREEN, name
