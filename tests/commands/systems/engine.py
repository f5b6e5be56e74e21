"""A Docker engine of its own, from Debian's packages, that leaves the machine's network as it is.

It has no bridge and changes no firewall: containers have only a loopback interface, which those of one group
share. Its data and its socket are in a temporary folder. An engine that runs already is not used.
"""

import json
import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.brokers.root import Missing, Root
from tests.commands import system_parts
from tests.commands.systems.debian import END_S, SUITE, Closing, Failed, output
from tests.commands.waiting import wait_until

START_S: Final = 60
BUILD_S: Final = 600
PULL_S: Final = 300
MEMORY_KB: Final = 12 * 2**20
"""The available memory from which the engine's files are kept in memory; they take up to a third of it."""


def must_be_possible() -> None:
    """Raise Missing with the reason where there can be no engine."""
    if not (system_parts.find("dockerd") or install()):
        raise Missing("there is no Docker Engine, and the package docker.io cannot be installed")


def install() -> Path | None:
    """Install Debian's engine without starting its service; return its program."""
    with suppress(OSError):  # a policy that lets no package start a service, unless there is one
        policy = Path("/usr/sbin/policy-rc.d")
        descriptor = os.open(policy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755)
        with os.fdopen(descriptor, "w") as file:
            file.write("#!/bin/sh\nexit 101\n")
        try:
            return system_parts.install("dockerd")
        finally:
            policy.unlink()
    return system_parts.install("dockerd")


def in_memory(folder: Path) -> list[str]:
    """Return the words before a command that give it a new folder in memory, if this machine has enough.

    The files of images are some hundred thousand, which on a disk take a minute to remove. The folder ends
    with the processes that see it.
    """
    available = re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    if available is None or int(available[1]) < MEMORY_KB:
        return []
    folder.mkdir()
    script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(folder)]


class Engine(Closing):
    """A running engine and its client."""

    def __init__(self, folder: Path) -> None:
        self._socket = f"unix://{folder}/sock"
        self._settings = folder / "settings"
        self._log = folder / "log"
        self._data = folder / "data"
        self._plugins()
        daemon = system_parts.find("dockerd")
        words = [
            str(daemon),
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--host",
            self._socket,
        ]
        words += [f"--data-root={self._data}", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [*in_memory(self._data), *words], stdout=log, stderr=log, start_new_session=True
            )
        wait_until(lambda: self._answers() or self._daemon.poll() is not None, START_S)
        if not self._answers():
            self.close()
            raise Missing(f"the Docker Engine does not start: {self._reason()}")

    def _plugins(self) -> None:
        """Make Compose, which Debian's newer releases have, a plugin of the client."""
        folder = self._settings / "cli-plugins"
        folder.mkdir(parents=True)
        root = Root.make(SUITE, ["docker-compose"], name="compose")
        (program,) = root.folder.glob("usr/libexec/docker/cli-plugins/docker-compose")
        (folder / "docker-compose").symlink_to(program)

    def _reason(self) -> str:
        """Return the last error in the engine's log."""
        errors = re.findall(r'level=(?:error|fatal) msg="([^"]*)"', self._log.read_text(errors="replace"))
        return errors[-1] if errors else "it ended without a reason"

    def command(self, *words: str | Path) -> list[str]:
        """Return the machine's command that asks this engine."""
        settings = [f"DOCKER_CONFIG={self._settings}", "DOCKER_BUILDKIT=1"]
        return ["env", *settings, "/usr/bin/docker", "--host", self._socket, *map(str, words)]

    def _ask(self, *words: str | Path) -> tuple[int, str]:
        """Run a command of the client; return its exit code and output."""
        return system_parts.run(*self.command(*words))

    def run(self, *words: str | Path, seconds: float = BUILD_S) -> str:
        """Run a command of the client and return its output. Raises Failed unless it ends with 0."""
        return output(self.command(*words), seconds=seconds)

    def _answers(self) -> bool:
        """Return whether the engine has started."""
        return self._ask("version")[0] == 0

    def exit_code(self, *words: str | Path) -> tuple[int, str]:
        """Run a command of the client; return its exit code, and what it printed."""
        result = subprocess.run(
            self.command(*words), check=False, capture_output=True, text=True, timeout=BUILD_S
        )
        return result.returncode, result.stdout or result.stderr

    def field(self, name: str, field: str) -> str:
        """Return a field of a container or an image, as a template of Go names it."""
        return self.run("inspect", "--format", f"{{{{{field}}}}}", name).strip()

    def build(self, tag: str, folder: Path, *options: str | Path) -> None:
        """Build an image. Raises Failed."""
        self.run("build", "--quiet", "--tag", tag, *options, folder)

    def digest(self, reference: str) -> str:
        """Pull an image and return the digest that its registry has for the tag. Raises Missing."""
        try:
            self.run("pull", "--quiet", reference, seconds=PULL_S)
        except (Failed, subprocess.TimeoutExpired) as error:
            raise Missing(f"{reference} cannot be pulled: {error}") from None
        names: list[str] = json.loads(self.field(reference, "json .RepoDigests"))
        start = reference.rpartition(":")[0] + "@"
        return next(name.removeprefix(start) for name in names if name.startswith(start))

    def close(self) -> None:
        """End all containers, and the engine."""
        if self._daemon.poll() is None:
            containers = self._ask("ps", "--all", "--quiet")[1].split()
            if containers:
                self._ask("rm", "--force", *containers)
            self._daemon.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._daemon.wait(END_S)
