"""Packages that a command needs, and the extra that installs them."""

from meteragent.extras import SIMULATORS, hint

PACKAGES = {
    "demo": {"aiomqtt", "amqtt", "matplotlib", "tqdm"},
    "sim": {"aiomqtt", "pyarrow", "tqdm"},
    "analysis": {"matplotlib", "scipy"},
    "spark": {"pyspark"},
}
"""The packages that each extra of pyproject.toml installs."""


def lacking(missing: ModuleNotFoundError, extra: str) -> str:
    """Return the sentence that names the missing module and the extra that has it: `extra`, if it does."""
    package = (missing.name or "").partition(".")[0]
    extras = [extra, *(name for name, packages in PACKAGES.items() if package in packages)]
    having = next((name for name in extras if package in PACKAGES[name]), extra)
    return f"{missing.name} is missing: {hint(having, SIMULATORS)}"
