"""A real PostgreSQL server in a temporary folder, which tests start, kill with SIGKILL and start again.

PostgreSQL refuses to run as root, so root starts it as another user (`nobody`). It listens on a socket in its
folder and on no port. fsync stays on, as in operation: a commit that was confirmed survives a kill.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

READY_S = 30.0
VERSION_MIN = 15
USER = "postgres"
_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "20",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "recovery_init_sync_method": "syncfs",
    "log_min_messages": "warning",
}


def server_programs() -> Path | None:
    """Return the folder of initdb and postgres: of METERAGENT_POSTGRES, the path, or Debian's newest."""
    override = os.environ.get("METERAGENT_POSTGRES")
    if override:
        return Path(override)
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()]
    folders += sorted(versions, key=lambda path: -int(path.parent.name))
    return next((folder for folder in folders if _is_new_enough(folder)), None)


def _is_new_enough(folder: Path) -> bool:
    if not (folder / "initdb").exists() or not (folder / "postgres").exists():
        return False
    result = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    words = result.stdout.split()
    return bool(words) and int(words[2].split(".")[0]) >= VERSION_MIN


class Postgres:
    """A server and its folder."""

    def __init__(self, programs: Path, place: str = "/tmp") -> None:
        self._programs = programs
        # The path of a socket is short, and `nobody` must be able to reach the folder.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=place))
        self._user = _unprivileged()
        if self._user:
            os.chown(self.folder, self._user["user"], self._user["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        lines = [f"{key} = {value}\n" for key, value in _SETTINGS.items()]
        settings = self.folder / "data" / "postgresql.conf"
        settings.write_text(
            settings.read_text() + f"unix_socket_directories = '{self.folder}'\n" + "".join(lines)
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **self._user)

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql:///{database}?host={self.folder}&user={USER}"

    def start(self) -> Self:
        """Start the server and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", "data"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._user,
                start_new_session=True,
            )
        end_s = time.monotonic() + READY_S
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder), "-U", USER]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError((self.folder / "log").read_text())
        return self

    def kill(self) -> None:
        """Kill the server and all its processes with SIGKILL.

        Its processes have sessions of their own. A process that outlived the others could still write while
        the next server recovers.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no further ones
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in [*map(int, children), pid]:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait(READY_S)
        self._process = None
        while any(_lives(int(child)) for child in children):
            pass

    def stop(self) -> None:
        """Stop the server at once, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(READY_S)
            self._process = None

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _lives(pid: int) -> bool:
    """Return whether a process has not ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _unprivileged() -> dict[str, Any]:
    """Return the arguments with which root starts a process of `nobody`."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
