"""A registry of images on the loopback interface, from Debian's package, and what a digest fixes."""

import io
import subprocess
import tarfile
import urllib.request
from pathlib import Path
from typing import Final

from tests.brokers.root import INSIDE, Root
from tests.commands import lock
from tests.commands.systems.debian import END_S, SUITE, Closing, Failed
from tests.commands.systems.engine import Engine
from tests.commands.waiting import wait_until
from tests.support.broker import free_port

START_S: Final = 20
SETTINGS: Final = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: /tmp}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class Registry(Closing):
    """A running registry without images."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        (folder / "settings.yaml").write_text(SETTINGS.format(port=port))
        root = Root.make(SUITE, ["docker-registry"], name="registry")
        serve = ("/usr/bin/docker-registry", "serve", f"{INSIDE}/settings.yaml")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(root.command(folder, *serve), stdout=log, stderr=log)
        wait_until(lambda: self._answers() or self._process.poll() is not None, START_S)
        if not self._answers():
            self.close()
            raise Failed(f"the registry does not start: {(folder / 'log').read_text()[-1000:]}")

    def _answers(self) -> bool:
        """Return whether the registry answers."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/", timeout=1):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """End the registry."""
        self._process.kill()  # and with it all that it started
        self._process.wait(END_S)


def push(engine: Engine, folder: Path, tag: str, content: str) -> None:
    """Push an image with one file to a registry, and forget it here."""
    archive = folder / "pushed.tar"
    member = tarfile.TarInfo("content")
    member.size = len(content)
    with tarfile.open(archive, "w") as file:
        file.addfile(member, io.BytesIO(content.encode()))
    engine.run("import", archive, tag)
    engine.run("push", "--quiet", tag)
    engine.run("rmi", tag)


def attempt(engine: Engine, folder: Path) -> str:
    """Fix a base by its digest, move its tag, and build: the base must not have changed. Raises Failed."""
    with Registry(folder / "registry") as registry:
        tag = f"{registry.address}/python:3.13-slim"
        push(engine, folder, tag, "first")
        text = lock.pinned(f"ARG PYTHON={tag}\nFROM ${{PYTHON}}\n", engine.digest)
        push(engine, folder, tag, "second")
        if lock.pinned(text, engine.digest) == text:
            raise Failed("the digest does not follow the tag")
        place = folder / "pinned"
        place.mkdir()
        (place / "Dockerfile").write_text(text)
        engine.run("build", "--quiet", f"--output={place / 'out'}", place)
    if (place / "out" / "content").read_text() != "first":
        raise Failed("an image that is named by its digest changed with its tag")
    return "a base that is fixed by its digest stays when its tag moves"
