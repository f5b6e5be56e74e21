"""Processes that start at once: each is forked from a server that has imported the product.

Theory of operation
-------------------
Most CPU time of a test with brokers was that of imports. The server, one for each process of tests, imports
what the services need, and then does for each request what `python -m MODULE ARGUMENTS` does, in a child of
its own. Such a child is a process like any other: it has its own files, signals, exit code and end, and
SIGKILL leaves nothing of it. Only its command line and its environment in `/proc` are the server's, so tests
that look there, or at the start itself, start their process with `subprocess`.

The server is the parent of the children, and tells their exit codes to whoever asks.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

from tests.support.not_run import ROOT

PAUSE_S = 0.005
_SIZE_MAX = 1 << 17
"""The size of the largest request, in bytes."""
_LOCK = threading.Lock()
CONFIGURATION = """
[[stream]]
source = { url = "mqtt://127.0.0.1", topic = "meters/{meter}/power", kind = "power", unit = "W" }
sink = { url = "mqtt://127.0.0.1", topic = "private/{meter}/power" }
"""
"""Read by the server, so that its children need not build what checks configurations."""


class Forked:
    """A process of the server, with what tests use of `subprocess.Popen`."""

    def __init__(
        self, module: str, arguments: Sequence[str], stdout: IO[bytes], stderr: IO[bytes] | None = None
    ) -> None:
        """Start it in the root of the repository, with its outputs to files; without `stderr`, to one."""
        outputs = [stdout.fileno(), (stderr or stdout).fileno()]
        self.pid: int = _ask("start", [module, *arguments], outputs)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal's number; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask("poll", self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code. Raises TimeoutExpired."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(PAUSE_S)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:  # until its end has been asked for, no other process gets its number
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process: TypeAlias = Forked | subprocess.Popen[bytes]
"""A process that has been started either way."""


def run(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a module with arguments to its end; return its exit code and what it printed."""
    with TemporaryFile() as stdout, TemporaryFile() as stderr:
        code = Forked(module, arguments, stdout, stderr).wait()
        for file in (stdout, stderr):
            file.seek(0)
        output, errors = stdout.read().decode(), stderr.read().decode()
    return subprocess.CompletedProcess([module, *arguments], code, output, errors)


@cache
def _server() -> socket.socket:
    """Start the server of this process; return the connection to it, at whose end it ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.integration.forked", str(theirs.fileno())]
    server = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        """Close the connection, and wait for the server's end."""
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _ask(verb: str, subject: Any, descriptors: Sequence[int] = ()) -> Any:
    """Return the server's answer; one caller at a time, because tests may use threads."""
    request = json.dumps([verb, subject, dict(os.environ) if verb == "start" else None]).encode()
    server = _server()
    with _LOCK:
        socket.send_fds(server, [request], list(descriptors))
        return json.loads(server.recv(_SIZE_MAX))


def _serve(connection: socket.socket) -> tuple[list[str], dict[str, str]] | None:
    """Answer requests until the connection ends; in a child, return what it is to run."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, _SIZE_MAX, 2)
        if not request:
            return None
        verb, subject, environment = json.loads(request)
        if verb == "start":
            pid = os.fork()
            if not pid:
                connection.close()
                for number, descriptor in enumerate(descriptors, 1):
                    os.dup2(descriptor, number)
            for descriptor in descriptors:
                os.close(descriptor)
            if not pid:
                return subject, environment
            answer: int | None = pid
        else:
            pid, status = os.waitpid(subject, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        connection.send(json.dumps(answer).encode())


def main() -> None:
    """Import what the services need, and serve; a child ends as the program that it runs."""
    from meteragent import config  # noqa: PLC0415  the importing process needs nothing of this
    from meteragent.agent import service  # noqa: F401, PLC0415  it is there for the children
    from meteragent.cli import collect, crowd, run  # noqa: F401, PLC0415  they are there for the children
    from meteragent.collect import database  # noqa: F401, PLC0415  it is there for the children

    config.parse(CONFIGURATION)
    work = _serve(socket.socket(fileno=int(sys.argv[1])))
    if work is not None:
        (module, *arguments), environment = work
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
