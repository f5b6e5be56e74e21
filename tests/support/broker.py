"""A real mosquitto on a free loopback port, which tests start, kill and restart."""

import base64
import hashlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.commands.system_parts import find

READY_S = 10.0


def mosquitto_program() -> Path | None:
    """Return the path in METERAGENT_MOSQUITTO, or else a mosquitto found on the path or in /usr/sbin."""
    override = os.environ.get("METERAGENT_MOSQUITTO")
    return Path(override) if override else find("mosquitto")


def _ports() -> Iterator[int]:
    """Yield the ports of this test worker, repeatedly, below the range of ephemeral ports.

    A broker keeps its port while it is stopped. Workers that run in parallel have disjoint ranges.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw7")[2:]) % 8
    first_port = 16_000 + 2_000 * worker
    offset = os.getpid() % 2_000
    yield from cycle(
        [*range(first_port + offset, first_port + 2_000), *range(first_port, first_port + offset)]
    )


_PORTS = _ports()


def free_port() -> int:
    """Return a loopback port on which no program listens; recently returned ports come last."""
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


@dataclass(frozen=True, slots=True)
class Certificates:
    """A certificate authority, with certificates for a server (127.0.0.1, localhost) and a client."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    @classmethod
    def make(cls, folder: Path, *, server_days: int = 1) -> Self:
        """Create the certificates with openssl, valid for one day, or the server's for `server_days`."""
        ca, ca_key = folder / "ca.crt", folder / "ca.key"
        key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        usage = "-addext keyUsage=critical,keyCertSign"
        _openssl(f"req -x509 {key} -keyout {ca_key} -out {ca} -days 1 -subj /CN=authority {usage}")
        for name, names in (("server", "IP:127.0.0.1,DNS:localhost"), ("client", "DNS:client")):
            request, path, extensions = (folder / f"{name}.{end}" for end in ("csr", "crt", "ext"))
            extensions.write_text(
                f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
            )
            _openssl(f"req {key} -keyout {folder / name}.key -out {request} -subj /CN={name}")
            days = server_days if name == "server" else 1
            signed = f"-CA {ca} -CAkey {ca_key} -CAcreateserial -days {days} -extfile {extensions}"
            _openssl(f"x509 -req -in {request} -out {path} {signed}")
        return cls(
            ca, folder / "server.crt", folder / "server.key", folder / "client.crt", folder / "client.key"
        )


def _openssl(arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)


class Server:
    """A program that listens on a loopback port; port and folder survive `kill` and `start`.

    `command` may contain `{port}` and `{folder}`. The program's output goes to `folder / "log"`.
    """

    def __init__(self, folder: Path, command: Sequence[str], *, ready_s: float = READY_S) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._command = [part.format(port=self.port, folder=folder) for part in command]
        self._ready_s = ready_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start the program and wait until it listens."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        for _ in range(round(self._ready_s / 0.01)):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                self._must_run()
            else:
                return self
        raise TimeoutError((self.folder / "log").read_text())

    def _must_run(self) -> None:
        """Wait 10 ms; raise RuntimeError with the log if the program ends."""
        assert self._process is not None
        try:
            self._process.wait(0.01)
        except subprocess.TimeoutExpired:
            return
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self) -> None:
        """Terminate the program, if it runs, and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(READY_S)
            self._process = None

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(READY_S)
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Broker(Server):
    """A mosquitto and its folder.

    By default its queues have no limit; with `is_persistent` every change is saved at once.
    `settings` are lines of its configuration and override these defaults. `users` maps names to
    passwords; without `users`, any client may connect. `acl` is the text of an access control
    file. With `certificates` the broker uses TLS, and requires client certificates if `is_mutual`.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        *,
        is_persistent: bool = False,
        settings: Mapping[str, str | int] | None = None,
        users: Mapping[str, str] | None = None,
        acl: str | None = None,
        certificates: Certificates | None = None,
        is_mutual: bool = False,
    ) -> None:
        super().__init__(folder, [str(program), "-c", str(folder / "mosquitto.conf")])
        if certificates:
            self.url = f"mqtts://127.0.0.1:{self.port}"
        lines: dict[str, object] = {
            "user": "root",  # if started by root, keep the permission to write to the folder
            "listener": f"{self.port} 127.0.0.1",
            "allow_anonymous": str(users is None).lower(),
            "max_queued_messages": 0,
            "persistence_location": f"{folder}/",  # the default is the working directory, which tests share
        }
        if is_persistent:
            lines |= {"persistence": "true"}
            lines |= {"autosave_on_changes": "true", "autosave_interval": 1}
        if users is not None:
            lines["password_file"] = self._write("users", "".join(_hashed(*user) for user in users.items()))
        if acl is not None:
            lines["acl_file"] = self._write("acl", acl)
        if certificates:
            lines |= {"cafile": certificates.ca, "certfile": certificates.server}
            lines |= {"keyfile": certificates.server_key, "require_certificate": str(is_mutual).lower()}
        lines |= settings or {}
        self._write("mosquitto.conf", "".join(f"{key} {value}\n" for key, value in lines.items()))

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def reload(self) -> None:
        """Make the broker reload its access control file."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)


def _hashed(name: str, password: str) -> str:
    """Return a line of mosquitto's password file: PBKDF2 with SHA-512."""
    salt, rounds = b"some salt 12", 101
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
    return f"{name}:$7${rounds}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"
