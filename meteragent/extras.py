"""Optional parts: the modules that an extra installs, and the command that installs the extra.

Until a version is on a package index, its extras are installed from a clone: `pip install '.[page]'`. After
that, they are installed by name: `pip install 'meteragent[page]'` or `'meteragent-simulators[sim]'`. Which
command applies depends on where this installation came from. If meteragent was installed as a Debian package,
its extras are Debian packages, too, as far as such packages exist.
"""

import importlib.metadata
import importlib.util
from pathlib import Path

from meteragent import __version__

MODULES = {
    "analysis": ("scipy",),
    "page": ("starlette", "uvicorn"),
    "completion": ("argcomplete",),
    "collect": ("psycopg",),
    "collect-nats": ("nats",),
    "collect-kafka": ("confluent_kafka",),
    "collect-parquet": ("pyarrow",),
    "archive": ("pyarrow", "cryptography", "tqdm"),
    "tables": ("deltalake", "pyiceberg"),
    "crowd": ("cryptography",),
    "spark": ("pyspark",),
}
"""The modules that each extra installs, by the names under which they are imported."""

DEBIAN_EXTRAS = ("analysis", "page")
"""The extras whose modules exist as Debian packages, named after the modules."""

SIMULATORS = "meteragent-simulators"
_FOLDERS = {"meteragent": "'.[{}]'", SIMULATORS: ". './simulators[{}]'"}


def missing_module(extra: str) -> str | None:
    """Return the first module of an extra that is not installed; None if all are."""
    return next((name for name in MODULES[extra] if importlib.util.find_spec(name) is None), None)


def hint(extra: str, distribution: str = "meteragent") -> str:
    """Return the command that installs an extra of a distribution."""
    if is_debian() and distribution == "meteragent" and extra in DEBIAN_EXTRAS:
        return " ".join(["apt install", *(f"python3-{name}" for name in MODULES[extra])])
    if is_from_index() and not is_debian():
        return f"pip install '{distribution}[{extra}]=={__version__}'"
    return f"pip install {_FOLDERS[distribution].format(extra)} in a clone of the repository"


def is_debian() -> bool:
    """Return whether this is the Debian package, which is installed in its own folder."""
    return Path(__file__).is_relative_to("/usr/lib/python3/dist-packages")


def is_from_index() -> bool:
    """Return whether meteragent came from a package index: other installations record a source (PEP 610)."""
    try:
        record = importlib.metadata.distribution("meteragent").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # used from a clone without an installation
        return False
    return record is None
