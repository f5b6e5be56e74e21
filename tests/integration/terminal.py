"""A program in a pseudo-terminal."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.not_run import ROOT


class Terminal:
    """A command of meteragent in a pseudo-terminal, and all that it has written there."""

    def __init__(self, *command: str, folder: Path = ROOT) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._program = [sys.executable, "-m", "meteragent", *command]
        self.process = subprocess.Popen(
            self._program,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=slave,
            stderr=subprocess.PIPE,
        )
        os.close(slave)

    def shows(self, pattern: str) -> "re.Match[str] | None":
        """Return the first match in what it has shown so far."""
        with suppress(OSError):  # nothing new, or it has ended
            self.text += os.read(self._master, 65_536).decode()
        return re.search(pattern, self.text)

    def end(self) -> None:
        """Kill the program, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        os.close(self._master)


@contextmanager
def terminal(*command: str, folder: Path = ROOT) -> Iterator[Terminal]:
    """Run a program in a pseudo-terminal; end it at the end."""
    program = Terminal(*command, folder=folder)
    try:
        yield program
    finally:
        program.end()
