"""A Sphinx extension that writes the API reference: a page for each module with public names.

Docstrings are Markdown with Google's sections, a mixture that no extension of Sphinx reads. So `write` turns
them into MyST, with a directive of Sphinx's Python domain for each name. Signatures come from the objects.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import ArrayLike
from sphinx.application import Sphinx

FOLDER = Path(__file__).parent / "api"
# By package, the modules with public names that the package does not export.
PACKAGES = {
    "meteragent.privacy": ("audit", "certificate", "conformance", "optimality"),
    "meteragent.consume": (),
    "simulators": (
        "adversary",
        "homes.appliance",
        "homes.chance",
        "homes.fault",
        "homes.fleet",
        "homes.household",
        "homes.meter",
        "homes.signature",
        "homes.television",
        "traces.dataset",
        "traces.trace",
    ),
}
_FIELDS = {"Args": "param", "Attributes": "ivar", "Raises": "raises"}
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?: {4}.*\n|\n)+)", re.MULTILINE)
_ITEM = re.compile(r"^ {4}([\w., *]+): ", re.MULTILINE)
_HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)
_DOCTEST = re.compile(r"^>>> .*\n(?:.+\n)*", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:  # noqa: ARG001 (Sphinx passes it)
    """Write all pages; leave unchanged pages alone, so that Sphinx does not read them again."""
    FOLDER.mkdir(exist_ok=True)
    texts = {name: text for package in PACKAGES for name, text in pages(package)}
    for path in FOLDER.glob("*.md"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def pages(package: str) -> Iterator[tuple[str, str]]:
    """Yield the page of a package, then one for each module that defines public names of it."""
    root = importlib.import_module(package)
    names = public_names(root)
    contents = ["```{toctree}", ":titlesonly:", *sorted(names), "```"]
    yield package, "\n".join([f"# `{package}`", "", markdown(root), "", *contents, ""])
    for module, members in names.items():
        entries = [
            entry(f"{package if hasattr(root, name) else module}.{name}", member)
            for name, member in sorted(members.items())
        ]
        title = f"# `{module.removeprefix(package + '.')}`"
        yield module, "\n\n".join([title, markdown(importlib.import_module(module)), *entries, ""])


def public_names(root: ModuleType) -> dict[str, dict[str, Any]]:
    """Return the public names of a package, by the module that defines them."""
    names: dict[str, dict[str, Any]] = {}
    for name in getattr(root, "__all__", ()):
        member = getattr(root, name)
        if inspect.isclass(member) or inspect.isroutine(member):
            names.setdefault(member.__module__, {})[name] = member
    for module in PACKAGES[root.__name__]:
        for path in modules_of(f"{root.__name__}.{module}"):
            for name, member in vars(importlib.import_module(path)).items():
                if not name.startswith("_") and getattr(member, "__module__", "") == path and member.__doc__:
                    names.setdefault(path, {})[name] = member
    return names


def modules_of(path: str) -> Iterator[str]:
    """Yield a module and, below a package, all modules that are neither private nor programs."""
    yield path
    for info in pkgutil.iter_modules(getattr(importlib.import_module(path), "__path__", ())):
        if not info.name.startswith("_"):
            yield from modules_of(f"{path}.{info.name}")


def entry(name: str, member: Any) -> str:
    """Return the directive of a class, with its public methods and properties, or of a function."""
    if not inspect.isclass(member):
        return directive("function", name + signature(member), markdown(member), 6)
    parts = [markdown(member)]
    for label, value in vars(member).items():
        is_property = isinstance(value, property | cached_property)
        function = getattr(value, "__func__", value)
        if label.startswith("_") or not function.__doc__ or not (is_property or inspect.isfunction(function)):
            continue
        kind, head = ("property", label) if is_property else ("method", label + signature(function))
        parts.append(directive(kind, head, markdown(function), 4))
    return directive("class", name + signature(member), "\n\n".join(parts), 6)


def directive(kind: str, head: str, body: str, colons: int) -> str:
    """Return a directive of the Python domain; a directive inside another has fewer colons."""
    return f"{':' * colons}{{py:{kind}}} {head}\n{body}\n{':' * colons}"


def signature(member: Any) -> str:
    """Return a signature with names of types only, without their modules; empty if there is none."""
    try:
        text = str(inspect.signature(member, eval_str=True))  # aliases by what they stand for
    except (TypeError, ValueError):
        return ""
    text = text.replace(inspect.formatannotation(ArrayLike), "ArrayLike")
    text = re.sub(r"<function (\w+) at \w+>", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)
    text = re.sub(r"\((?:self|cls)(?:, )?", "(", text, count=1)
    text = re.sub(r"ndarray\[tuple\[[^]]*\], dtype\[(\w+)\]\]", r"ndarray[\1]", text)
    return text.removesuffix(" -> None") if inspect.isclass(member) else text


def markdown(member: Any) -> str:
    """Return a docstring as MyST: sections as field lists, headings in bold, doctests fenced."""
    text = _HEADING.sub(r"**\1**\n", (inspect.getdoc(member) or "") + "\n")
    text = _DOCTEST.sub(lambda match: f"```python\n{match[0]}```\n", text)
    return _SECTION.sub(lambda match: field_list(match[1], match[2]), text).strip()


def field_list(section: str, body: str) -> str:
    """Return the items of a section as a field list."""
    if section not in _FIELDS:
        return f":returns: {' '.join(body.split())}\n"
    items = [" ".join(part.split()) for part in _ITEM.split(body)[1:]]
    names, texts = items[::2], items[1::2]
    return "".join(f":{_FIELDS[section]} {name}: {text}\n" for name, text in zip(names, texts, strict=True))
