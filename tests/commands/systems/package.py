"""The Debian package: built twice in a clean system, and tried in others."""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.commands.systems import sbom
from tests.commands.systems.debian import END_S, Failed, Place, copy, install, make, output
from tests.commands.systems.trial import CONFIG, configuration, expect, run
from tests.support.not_run import ROOT

CACHE: Final = Path(sys.prefix) / "systems"
BYTES_MAX: Final = 2**20
CONFIG_PATH: Final = "/etc/meteragent/meteragent.toml"
TOOLS: Final = ("bash-completion", "man-db", "mosquitto", "mosquitto-clients")
STATE: Final = "/var/lib/meteragent"
USER: Final = "meteragent"

_FIELD = re.compile(r"(?m)^ (?P<package>[a-z][a-z0-9+.-]+)")


# Build ----------------------------------------------------------------------------------------------


def build_packages() -> list[str]:
    """Return the packages that debian/control requires, and lintian."""
    control = (ROOT / "deploy" / "debian" / "control").read_text()
    field = control.partition("Build-Depends:\n")[2].partition("\nStandards")[0]
    names = [match["package"] for match in _FIELD.finditer(field)]
    virtual = {"debhelper-compat": "debhelper", "dh-sequence-installsysusers": "debhelper"}
    virtual["dh-sequence-python3"] = "dh-python"
    return sorted({virtual.get(name, name) for name in names} | {"lintian"})


def build_system() -> Path:
    """Return the folder of a system that can build the package; it is made once."""
    packages = build_packages()
    folder, stamp = CACHE / "build", CACHE / "build.packages"
    if not stamp.exists() or stamp.read_text().split() != packages:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        make(folder, packages, variant="buildd")
        stamp.write_text("\n".join(packages))
    return folder


def build(folder: Path, sdist: Path | None = None) -> Path:
    """Build the package from a source distribution, twice, and check it; return its path in `folder`.

    If no source distribution is given, it is built from the tree.

    Raises:
        Failed: The builds differ, lintian has a remark, or the package is too large.

    """
    sdist = sdist or source(folder)
    with Place(build_system()) as place:
        packages = [
            _build(place, sdist, name, zone, mask)
            for name, zone, mask in (("first", "UTC", "022"), ("second", "Asia/Tokyo", "077"))
        ]
        digests = {hashlib.sha256(package.read_bytes()).hexdigest() for package in packages}
        if len(digests) != 1:
            raise Failed(f"two builds differ: {sorted(digests)}")
        lint = "lintian --allow-root --display-info --fail-on error,warning,info /tmp/first/*.changes"
        remarks = place.run("sh", "-c", lint)
        if remarks.strip():
            raise Failed(f"lintian remarks:\n{remarks}")
        result = Path(shutil.copy(packages[0], folder))
    if result.stat().st_size > BYTES_MAX:
        raise Failed(f"the package has {result.stat().st_size} bytes, more than {BYTES_MAX}")
    return result


def build_once(archive: Path, folder: Path) -> Path:
    """Build the package from a source distribution, and return its path in `folder`. Raises Failed."""
    with Place(build_system()) as place:
        return Path(shutil.copy(_build(place, archive, "once", "UTC", "022"), folder))


def source(folder: Path) -> Path:
    """Build the source distribution, from which the package is made."""
    words = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    output(words)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def _build(place: Place, sdist: Path, name: str, zone: str, mask: str) -> Path:
    """Build the package in /tmp/`name` of a system, with a time zone and a mask of file modes."""
    folder = place.path(f"/tmp/{name}")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    shutil.copytree(source / "deploy" / "debian", source / "debian")
    script = f"umask {mask}; cd /tmp/{name}/{source.name}; dpkg-buildpackage --build=binary --no-sign"
    place.run("sh", "-ec", script, environment={"TZ": zone})
    (package,) = folder.glob("*.deb")
    return package


# Trial ----------------------------------------------------------------------------------------------


class Installed:
    """A system in which the package is installed, with a broker; the agent runs as the service's user.

    It replaces the parts of the unit that make the state directory and set the user.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._agent: subprocess.Popen[bytes] | None = None
        place.run("install", "-d", "-o", USER, "-g", USER, "-m", "0700", STATE)

    def client(self, *words: str) -> list[str]:
        """Return the command of the machine that runs a client beside the broker."""
        return self.place.command(*words)

    def _as_user(self, *words: str) -> list[str]:
        """Return the words that run a program of this system as the service's user."""
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--no-new-privs", *words]

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent as the agent's user; return its exit code and output."""
        command = self.place.command(*self._as_user("meteragent", *words))
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        return result.returncode, result.stdout or result.stderr

    def start(self) -> None:
        """Start the agent, and write its process id to a file."""
        run_it = " ".join(self._as_user("meteragent", "run", CONFIG_PATH))
        script = f"echo $$ > /run/agent.pid; exec {run_it}"
        log = self.place.path("/run/agent.log").open("ab")
        with log:
            self._agent = subprocess.Popen(self.place.command("sh", "-ec", script), stdout=log, stderr=log)

    def _end(self, signal: str) -> int:
        """Send a signal to the agent; return its exit code."""
        assert self._agent is not None
        self.place.run("sh", "-ec", f"kill {signal} $(cat /run/agent.pid)")
        return self._agent.wait(END_S)

    def kill(self) -> None:
        """Kill the agent with SIGKILL."""
        self._end("-KILL")

    def stop(self) -> int:
        """Stop the agent with SIGTERM; return its exit code."""
        return self._end("-TERM")


def attempt(package: Path, architecture: str, status: Path | None = None) -> str:
    """Install the package in a new system of an architecture, run the trial, and remove it.

    Return a summary of the results, and write dpkg's list of what is installed to `status`.

    Raises:
        Failed: Something is not as documented.
        Missing: The system cannot be made here.

    """
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        root = Path(folder) / "root"
        base = CACHE / f"base-{architecture}.tar"
        if not base.exists():
            make(base, TOOLS, architecture=architecture)
        copy(base, root)
        install(root, package)
        if status:
            shutil.copy(root / sbom.DPKG, status)
        with Place(root) as place:
            bits = place.run("python3", "-c", "import struct; print(8 * struct.calcsize('P'))").strip()
            surroundings(place)
            broker = subprocess.Popen(place.command("mosquitto", "-p", "1883"), stderr=subprocess.DEVNULL)
            machine = Installed(place)
            refusal(machine)
            place.path(CONFIG_PATH).write_text(configuration(f"{STATE}/meteragent.db"))
            try:
                summary = run(machine, CONFIG_PATH)
            except Failed as error:
                log = place.path("/run/agent.log").read_text()
                raise Failed(f"{error}\nthe agent's log:\n{log[-3000:]}") from None
            broker.terminate()
            removal(place)
    return f"{bits} bits, {summary}"


def surroundings(place: Place) -> None:
    """Check the unit, the manual pages and the completions. Raises Failed."""
    unit = "/usr/lib/systemd/system/meteragent.service"
    place.run("systemd-analyze", "verify", "--recursive-errors=no", unit)
    if list(place.path("/etc/systemd/system").glob("*.wants/meteragent.service")):
        raise Failed("the service is enabled before it is configured")
    complete = (
        ". /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/meteragent; "
        "COMP_WORDS=(meteragent led); COMP_CWORD=1; _shtab_meteragent; echo ${COMPREPLY[@]}"
    )
    if place.run("bash", "-c", complete).strip() != "ledger":
        raise Failed("bash does not complete `meteragent led`")
    for name in ("meteragent", "meteragent-ledger", "meteragent-key-new"):
        if "SYNOPSIS" not in place.run("man", name, environment={"MANPAGER": "cat"}):
            raise Failed(f"there is no manual page {name}(1)")


def refusal(machine: Installed) -> None:
    """Check the exit code of a configuration that is refused. Raises Failed."""
    machine.place.path("/tmp/refused.toml").write_text("[source]\n")
    expect("a refused configuration", machine.meteragent("run", "/tmp/refused.toml")[0], CONFIG)


def removal(place: Place) -> None:
    """Remove and purge the package: the configuration goes last, and the ledger stays. Raises Failed."""
    ledger = place.path(f"{STATE}/meteragent.db")
    before = ledger.read_bytes()
    place.run("dpkg", "--remove", "meteragent")
    if not place.path(CONFIG_PATH).exists() or place.path("/usr/bin/meteragent").exists():
        raise Failed("a removed package keeps its configuration, and nothing else")
    text = place.run("dpkg", "--purge", "meteragent")
    if place.path(CONFIG_PATH).exists() or ledger.read_bytes() != before:
        raise Failed("a purged package leaves the ledger, and no configuration")
    if f"rm -r {STATE}" not in text:
        raise Failed(f"purge does not say how to erase the ledger: {text}")
