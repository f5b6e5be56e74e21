"""Optional parts: the modules that an extra brings, and the command that installs it.

Before a version is on a package index its extras are installed from a clone, `pip install '.[page]'`; from
then on by name, `pip install 'meteragent[page]'` or `'meteragent-simulators[sim]'`. How this installation
came here says which of the two exists.
"""

import importlib.metadata
import importlib.util

from meteragent import __version__

MODULES = {
    "analysis": ("scipy", "matplotlib"),
    "page": ("starlette", "uvicorn"),
    "archive": ("pyarrow", "cryptography", "tqdm"),
    "spark": ("pyspark",),
}
"""What each extra brings that is imported by name."""

SIMULATORS = "meteragent-simulators"
_FOLDERS = {"meteragent": "'.[{}]'", SIMULATORS: ". './simulators[{}]'"}


def missing(extra: str) -> str | None:
    """Return the first module of an extra that is not installed; None if all are."""
    return next((name for name in MODULES[extra] if importlib.util.find_spec(name) is None), None)


def hint(extra: str, distribution: str = "meteragent") -> str:
    """Return the command that installs an extra."""
    if is_published():
        return f"pip install '{distribution}[{extra}]=={__version__}'"
    return f"pip install {_FOLDERS[distribution].format(extra)} in a clone of the repository"


def is_published() -> bool:
    """Return whether this came from a package index: what did has no record of its address (PEP 610)."""
    try:
        record = importlib.metadata.distribution("meteragent").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # used from a clone without an installation
        return False
    return record is None
