"""The service of a user in a booted system, whose configuration and unit `meteragent init` writes."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.commands.systems import pages
from tests.commands.systems.booted import OFFLINE, Booted
from tests.commands.systems.debian import Failed
from tests.commands.systems.services import CLONE, Service, clone
from tests.commands.systems.trial import LOAD_W, OK, SLOT_S, starts, wait

NAME: Final = "resident"
HOME: Final = str(Path("/home") / NAME)
DEVICE: Final = "shellypro3em-0123456789ab"
FEED: Final = f"""
while sleep 0.5; do
    printf '{{"src":"{DEVICE}","method":"NotifyStatus","params":{{"ts":%s,"em:0":%s}}}}\\n' \
        "$(date +%s.%2N)" '{{"id":0,"total_act_power":{LOAD_W}.0}}'
done | mosquitto_pub -l -q 1 -t {DEVICE}/events/rpc
"""
"""A meter that says what it is."""

LINGER: Final = "loginctl enable-linger\n"
"""What needs a session of a person who has logged in; root does it here."""

ANSWERS: Final = "--yes --seconds 5"
SHORT: Final = f"""
[window]
length = "{SLOT_S}s"
catch_up = "3s"
[privacy]
radius = 1
level = 1
accept = ["sparse_readings"]
"""
"""The slots of the trial, instead of the preset's half hours."""


class UserService(Service):
    """A unit of a user's own systemd."""

    def __init__(self, place: Booted, user_id: str) -> None:
        super().__init__(place)
        self._runtime = f"/run/user/{user_id}"

    def command(self, *words: str) -> list[str]:
        """Return the command of the machine that runs a program as the user, at home."""
        names = {"HOME": HOME, "XDG_RUNTIME_DIR": self._runtime, **OFFLINE}
        settings = [f"{name}={value}" for name, value in names.items()]
        return self.place.command("runuser", "-u", NAME, "--", "env", *settings, *words)

    def run(self, *words: str) -> str:
        """Run a program as the user and return its output. Raises Failed."""
        result = subprocess.run(self.command(*words), check=False, capture_output=True, text=True)
        if result.returncode != OK:
            raise Failed(f"{' '.join(words)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def systemctl(self, *words: str) -> str:
        """Ask the user's systemd. Raises Failed."""
        return self.run("systemctl", "--user", *words)

    def journal(self) -> str:
        """Return the end of the unit's log."""
        return self.place.run(
            "journalctl", "--no-pager", "--lines=40", f"_SYSTEMD_USER_UNIT={self.unit}.service"
        )


@contextmanager
def meter(place: Booted) -> Iterator[Path]:
    """Read a meter twice a second; the file that is returned gets what leaves."""
    with tempfile.NamedTemporaryFile() as lines:
        feeder = subprocess.Popen(place.command("sh", "-c", FEED))
        words = place.command("mosquitto_sub", "-q", "1", "-i", "receiver", "-t", "private/+/power")
        receiver = subprocess.Popen(words, stdout=lines.fileno())
        try:
            yield Path(lines.name)
        finally:
            for process in (feeder, receiver):
                process.terminate()
                process.wait()


def attempt(place: Booted, sdist: Path) -> str:
    """Install the agent for one user as docs/install.md says, and kill it; return a summary.

    Raises:
        Failed: Something is not as documented.

    """
    clone(place, sdist)
    place.run("useradd", "--create-home", "--shell", "/bin/bash", NAME)
    place.run("mv", CLONE, f"{HOME}/clone")
    place.run("chown", "-R", NAME, f"{HOME}/clone")
    place.run("loginctl", "enable-linger", NAME)  # a login would start the user's systemd
    user_id = place.run("id", "-u", NAME).strip()
    wait("the user's systemd", lambda: place.path(f"/run/user/{user_id}/systemd/private").exists())
    service = UserService(place, user_id)
    install, start = pages.blocks("docs/install.md", "## One user, without root")[:2]
    with meter(place) as file:
        service.run(
            "bash",
            "-ec",
            f"cd {HOME}/clone\n{install.replace('meteragent init', f'meteragent init {ANSWERS}')}",
        )
        path = place.path(f"{HOME}/home.toml")
        path.write_text(shortened(path.read_text()))
        service.run("bash", "-ec", f"cd {HOME}\n{start.replace(LINGER, '')}")
        wait("the first number", lambda: bool(sent(file)))
        service.kill()
        count = len(sent(file))
        wait("numbers after a kill -9", lambda: len(sent(file)) > count + 1)
        slots = sent(file)
        service.run(f"{HOME}/.local/share/meteragent/bin/meteragent", "health", f"{HOME}/home.toml")
        if service.stop() != OK:
            raise Failed("the agent does not stop with 0")
    return f"{len(slots)} slots, each once, through a kill -9"


def shortened(text: str) -> str:
    """Return the configuration that init wrote, with the slots of the trial."""
    lines = [
        line for line in text.splitlines() if line not in {"[privacy]", "[window]"} and "preset =" not in line
    ]
    return "\n".join(lines) + SHORT


def sent(file: Path) -> list[int]:
    """Return the starts of the slots that have left. Raises Failed."""
    return starts(file.read_text(encoding="utf-8").rpartition("\n")[0].splitlines())
