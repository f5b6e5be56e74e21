"""Home Assistant from its package, on the Python of a Debian release, in a folder of its own.

Debian's packages are unpacked by `tests.brokers.root`. In that root, `Installation.make` creates an
environment for one version of Home Assistant, with the requirements of the integrations that the checks use,
so that Home Assistant starts without a network.
"""

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.brokers.root import Missing, Root, can_enter
from tests.commands.systems.images import AUTHORITIES, pip_settings

PACKAGES: Final = ("python3", "python3-venv", "python3-dev", "gcc", "ca-certificates")
"""The compiler builds packages that have no wheel for this Python."""
INSTALL_S: Final = 1200
PINS: Final = {"2024.11.0": ("josepy<2",)}
"""By version, packages of which later versions do not work with it, though its requirements allow them."""
INTEGRATIONS: Final = ("mqtt", "hassio", "energy", "history", "config", "diagnostics", "frontend", "person")
"""Integrations whose requirements are installed; other defaults, such as those for voices, do not start."""

_REQUIREMENTS = """
import json, sys
from pathlib import Path
import homeassistant
components = Path(homeassistant.__file__).parent / "components"
names, requirements = sys.argv[1:], set()
for name in names:
    manifest = json.loads((components / name / "manifest.json").read_text())
    requirements |= {*manifest.get("requirements", ())}
    names += [other for other in manifest.get("dependencies", ()) if other not in names]
print(json.dumps(sorted(requirements)))
"""
"""Prints what the integrations require, with their dependencies."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed version of Home Assistant."""

    root: Root
    version: str

    @classmethod
    def make(cls, suite: str, version: str) -> Self:
        """Install a version on a Debian release's Python, unless that was done. Raises Missing."""
        if shutil.which("unshare") is None or not can_enter():
            raise Missing("the kernel does not allow name spaces (unshare --mount --pid)")
        installation = cls(Root.make(suite, PACKAGES, name=f"homeassistant-{suite}"), version)
        stamp = installation.root.folder / "srv" / f"{version}.installed"
        if not stamp.exists():
            installation._install()
            stamp.touch()
        return installation

    @property
    def python(self) -> str:
        """The version of the Python that it runs on."""
        return self.root.version("python3")

    def program(self, name: str) -> str:
        """Return the path, in the root, of a program of the environment."""
        return f"/srv/{self.version}/bin/{name}"

    def _install(self) -> None:
        folder = self.root.folder
        (folder / "etc" / "pip.conf").write_text(pip_settings())
        authorities = folder / AUTHORITIES.relative_to("/")
        authorities.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(AUTHORITIES, authorities)
        shutil.copy("/etc/resolv.conf", folder / "etc" / "resolv.conf")
        shutil.rmtree(folder / "srv" / self.version, ignore_errors=True)
        self._run("/usr/bin/python3", "-m", "venv", f"/srv/{self.version}")
        pip = (self.program("pip"), "install", "--quiet")
        self._run(*pip, f"homeassistant=={self.version}", *PINS.get(self.version, ()))
        text = self._run(self.program("python"), "-c", _REQUIREMENTS, *INTEGRATIONS)
        self._run(*pip, *json.loads(text.splitlines()[-1]))

    def _run(self, *words: str) -> str:
        """Run a program in the root and return its output. Raises Missing unless it ends with 0."""
        with tempfile.TemporaryDirectory() as folder:
            command = self.root.command(Path(folder), *words)
            result = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=INSTALL_S,
                stdin=subprocess.DEVNULL,
            )
        if result.returncode != 0:
            raise Missing(f"{' '.join(words[:4])[:200]} failed: {result.stderr.strip()[-1000:]}")
        return result.stdout
