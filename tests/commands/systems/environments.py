"""New Python environments in which a wheel or an sdist is installed and its agent is tried.

The agent and a broker run in a separate name space for the network, which has only the loopback interface. A
Python that this machine does not have may be in another release of Debian: then all of it runs there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.brokers.root import Missing
from tests.commands import system_parts
from tests.commands.lock import CONTAINER, python_version
from tests.commands.systems import debian, images, package, sbom
from tests.commands.systems.debian import END_S, FIRST, Closing, Failed, output
from tests.commands.systems.trial import CONFIG, Seen, configuration, expect, run

VERSIONS: Final = ("3.11", "3.12", "3.13")
"""The versions of Python on which a release is tried."""
SUITES: Final = {"3.11": "bookworm", "3.13": "trixie"}
"""The releases of Debian that have a version."""
PROGRAMS: Final = {"mosquitto": "mosquitto", "mosquitto_pub": "mosquitto-clients"}
"""The programs that a trial needs, and their packages."""

QUARTER_HOURS: Final = 24 * 4
"""The number of values of a simulated home in a day."""


class Interpreter(NamedTuple):
    """A Python: its path, and the archive of the Debian system that it is in, if not in this one."""

    path: str
    system: Path | None = None


def find(version: str) -> Interpreter:
    """Return an interpreter of a version: one on the path that starts, or of pyenv, or in a Debian system.

    Raises:
        Missing: There is none.

    """
    name = f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(name), *map(str, root.glob(f"versions/{version}.*/bin/{name}"))]
    for candidate in filter(None, candidates):
        code, text = system_parts.run(candidate, "-c", "import sys, venv, ensurepip; print(sys.executable)")
        if code == 0:
            return Interpreter(text.strip())
    if version not in SUITES:
        raise Missing(f"there is no {name} with its module venv: install it, or let pyenv install it")
    return in_debian(version)


def in_debian(version: str) -> Interpreter:
    """Return the interpreter of the Debian release that has a version. Raises Missing."""
    debian.must_be_possible()
    archive = package.CACHE / f"python-{version}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        packages = ("ca-certificates", "python3", "python3-venv", *PROGRAMS.values())
        debian.make(archive, packages, suite=SUITES[version])
    return Interpreter("/usr/bin/python3", archive)


def must_be_possible() -> None:
    """Raise Missing with the reason if no trial can be run here."""
    if os.geteuid() != 0:
        raise Missing("only root can make a network of its own: run it with sudo")
    for name, packaged in PROGRAMS.items():
        if not (system_parts.find(name) or system_parts.install(packaged) or system_parts.find(name)):
            raise Missing(f"{name} is missing and the package {packaged} cannot be installed")


class Environment(Closing):
    """A new environment, whose programs see no network but a loopback interface of their own.

    `root` is the root directory of its system, as the machine sees it; all other paths are the system's.
    """

    def __init__(self, folder: Path, interpreter: Interpreter) -> None:
        self.root = Path("/")
        self._spaces = ["--net"]
        if interpreter.system:
            self.root = folder / "root"
            self._spaces.append("--mount")
            debian.copy(interpreter.system, self.root)
            images.adapt(self.root)
        self.home = Path("/srv/trial") if interpreter.system else folder / "trial"
        self.path(self.home).mkdir(parents=True)
        self._agent: subprocess.Popen[bytes] | None = None
        self._space = subprocess.Popen(
            ["unshare", *self._spaces, "--fork", "--kill-child", sys.executable, str(FIRST)]
            + ([str(self.root)] if interpreter.system else []),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._space.stdout is not None
        self._pid = self._space.stdout.readline().strip()
        if not self._pid:
            raise Failed("the name space for the network cannot be made")
        for name, *options in (("venv", "--without-pip"), ("tools",)):
            self.run(interpreter.path, "-m", "venv", *options, self.home / name)

    def path(self, inside: Path) -> Path:
        """Return the machine's path of a file that has an absolute path in this system."""
        return self.root / inside.relative_to("/")

    def command(self, *words: str | Path, is_online: bool = False) -> list[str]:
        """Return the command that runs a program in this system, without a network unless it is online."""
        spaces = [space for space in self._spaces if not (is_online and space == "--net")]
        place = [f"--root=/proc/{self._pid}/root"] if "--mount" in spaces else []
        enter = ["nsenter", f"--target={self._pid}", *spaces, *place, f"--wdns={self.home}"] if spaces else []
        settings = {"PATH": f"{os.defpath}:/usr/sbin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        if is_online:  # with what this machine's pip is told
            settings |= images.proxies() if place else os.environ
        assignments = (f"{name}={value}" for name, value in settings.items())
        return [*enter, "env", "-i", *assignments, *map(str, words)]

    def run(self, *words: str | Path, is_online: bool = False) -> str:
        """Run a program in this system and return its output. Raises Failed unless it ends with 0."""
        return output(self.command(*words, is_online=is_online))

    def install(self, *packages: str | Path) -> None:
        """Install packages with pip, which has the machine's network. Raises Failed.

        Files of the machine are given by their paths, which may end with extras.
        """
        words = [self._brought(word) if isinstance(word, Path) else word for word in packages]
        pip = (self.home / "tools" / "bin" / "python", "-m", "pip", "--python", self.program("python"))
        self.run(*pip, "install", "--quiet", *words, is_online=True)

    def _brought(self, file: Path) -> Path:
        """Copy a file of the machine to this system; return its path there."""
        name, bracket, extras = file.name.partition("[")
        shutil.copy(file.with_name(name), self.path(self.home))
        return self.home / f"{name}{bracket}{extras}"

    def program(self, name: str) -> Path:
        """Return the path of an installed program."""
        return self.home / "venv" / "bin" / name

    def client(self, *words: str) -> list[str]:
        """Return the command that runs a program of the system beside the agent."""
        return self.command(*words)

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent; return its exit code and output."""
        command = self.command(self.program("meteragent"), *words)
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        return result.returncode, result.stdout or result.stderr

    def start(self) -> None:
        """Start the agent."""
        command = self.command(self.program("meteragent"), "run", self.home / "meteragent.toml")
        with self.path(self.home / "log").open("ab") as log:
            self._agent = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill the agent with SIGKILL."""
        assert self._agent is not None
        self._agent.kill()
        self._agent.wait(END_S)

    def stop(self) -> int:
        """Stop the agent with SIGTERM; return its exit code."""
        assert self._agent is not None
        self._agent.terminate()
        return self._agent.wait(END_S)

    def parts(self) -> set[sbom.Part]:
        """Return the packages that are installed."""
        return sbom.parts(metadata(self.path(self.home / "venv")))

    def close(self) -> None:
        """End the name spaces."""
        assert self._space.stdin is not None
        self._space.stdin.close()
        self._space.wait(END_S)


def metadata(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files below a folder that say what is installed, by their relative paths."""
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_file() and sbom.has_metadata(name):
            yield name, path.read_bytes()


@contextmanager
def broker(environment: Environment) -> Iterator[None]:
    """Run a broker beside the agent."""
    command = environment.client("mosquitto", "-p", "1883")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def attempt(
    version: str, agent: Path, simulators: Path, interpreter: Interpreter | None = None
) -> tuple[str, dict[str, set[sbom.Part]]]:
    """Install a distribution in a new environment, run the trial, then add the simulators and run them.

    On the images' Python, a wheel gets the packages of their lock, by hash. The interpreter is looked for
    unless it is given. Return a summary, and what was installed with each of both.

    Raises:
        Failed: Something is not as documented.
        Missing: There is no such Python.

    """
    interpreter = interpreter or find(version)
    with tempfile.TemporaryDirectory() as folder, Environment(Path(folder), interpreter) as machine:
        is_locked = version == python_version() and agent.suffix == ".whl"
        if is_locked:
            machine.install("--require-hashes", "--requirement", CONTAINER / "agent.lock.txt")
        machine.install(*(["--no-deps", "--no-index"] if is_locked else []), agent)
        installed = {agent.name: machine.parts()}
        summary = try_agent(machine)
        if is_locked:
            machine.install("--require-hashes", "--requirement", CONTAINER / "simulator.lock.txt")
        machine.install(simulators.with_name(f"{simulators.name}[sim]"))
        installed[simulators.name] = machine.parts()
        generate(machine)
    packages = "locked packages" if is_locked else "newest packages"
    system = [f"Python of Debian {SUITES[version]}"] if interpreter.system else []
    return ", ".join([f"{summary}; {packages}", *system]), installed


def try_agent(machine: Environment) -> Seen:
    """Run the trial, and check how a configuration is refused. Raises Failed."""
    path = machine.home / "meteragent.toml"
    file = machine.path(path)
    file.write_text("[source]\n")
    expect("a refused configuration", machine.meteragent("run", str(path))[0], CONFIG)
    file.write_text(configuration(f"{machine.home}/meteragent.db"))
    with broker(machine):
        try:
            return run(machine, str(path))
        except Failed as error:
            log = machine.path(machine.home / "log").read_text()
            raise Failed(f"{error}\n{log[-3000:]}") from None


def generate(machine: Environment) -> None:
    """Generate a simulated home with the installed simulators. Raises Failed."""
    out = machine.home / "home.csv"
    words = ("generate", "--seed", "1", "--homes", "1", "--days", "1", "--out", out)
    machine.run(machine.program("python"), "-m", "simulators", *words)
    lines = len(machine.path(out).read_text().splitlines())
    if lines != 1 + QUARTER_HOURS:
        raise Failed(f"the simulators wrote {lines} lines of a home")
