"""The packages that a command needs, and the extra that installs them."""

from meteragent.extras import SIMULATORS, hint

PACKAGES = {
    "demo": {"aiomqtt", "amqtt", "matplotlib", "tqdm"},
    "sim": {"aiomqtt", "pyarrow", "tqdm"},
    "analysis": {"matplotlib", "scipy"},
    "crowd": {"cryptography"},
    "peers": {"opendp", "diffprivlib", "scikit-learn"},
    "spark": {"pyspark"},
}
"""The packages that each extra of pyproject.toml installs."""


def lacking(error: ModuleNotFoundError, extra: str) -> str:
    """Return a message that names the missing module and an extra that installs it, preferably `extra`."""
    package = (error.name or "").partition(".")[0]
    extras = [extra, *(name for name, packages in PACKAGES.items() if package in packages)]
    supplier = next((name for name in extras if package in PACKAGES[name]), extra)
    return f"{error.name} is missing: {hint(supplier, SIMULATORS)}"
