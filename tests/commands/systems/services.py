"""The agent as a service of systemd in a booted system, tried as an operator runs it.

A meter is read twice a second from beginning to end, while the agent is killed, stopped by a signal, updated
and misconfigured. Each slot must leave once, with one value, and none may be missing.
"""

import json
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from meteragent import __version__
from tests.commands.systems import pages
from tests.commands.systems.booted import OFFLINE, Booted
from tests.commands.systems.debian import Failed
from tests.commands.systems.trial import (
    CONFIG,
    CRASH,
    OK,
    Meter,
    charged,
    configuration,
    expect,
    wait,
)

CONFIG_PATH: Final = "/etc/meteragent/meteragent.toml"
STATE: Final = "/var/lib/meteragent"
CLONE: Final = "/srv/meteragent"
"""Where the source distribution is unpacked, as a clone would be."""

USER, PASSWORD = "agent", "a password"
LOGIN_PORT: Final = 1884
BROKER: Final = f"""
per_listener_settings true
listener 1883 127.0.0.1
allow_anonymous true
listener {LOGIN_PORT} 127.0.0.1
allow_anonymous false
password_file /etc/mosquitto/passwords
"""
SECRETS: Final = ("source-password", "pseudonym-key")
WATCHDOG_S: Final = 10
"""The interval of the watchdog in the trial; that of the unit, three minutes, is read from systemd."""

RESTART_S: Final = 5
"""The unit's RestartSec."""


class Service:
    """A unit of a booted system."""

    def __init__(self, place: Booted, unit: str = "meteragent") -> None:
        self.place = place
        self.unit = unit

    def client(self, *words: str) -> list[str]:
        """Return the command of the machine that runs a client beside the broker."""
        return self.place.command(*words)

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent as root; return its exit code and output."""
        return self.place.ended("meteragent", *words)

    def systemctl(self, *words: str) -> str:
        """Run systemctl and return its output. Raises Failed."""
        return self.place.run("systemctl", *words)

    def start(self) -> None:
        """Start the agent, and wait until it is ready."""
        self.systemctl("start", self.unit)

    def properties(self) -> dict[str, str]:
        """Return what systemd knows of the unit."""
        lines = self.systemctl("show", self.unit).splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    @property
    def process_id(self) -> str:
        """The id of the agent's process, 0 if there is none."""
        return self.properties()["MainPID"]

    def signal(self, name: str) -> None:
        """Send a signal to the agent, and wait until systemd has started another."""
        before = self.process_id
        self.systemctl("kill", "--kill-whom=main", f"--signal={name}", self.unit)
        wait(f"a restart after SIG{name}", lambda: self.is_ready() and self.process_id != before)

    def is_ready(self) -> bool:
        """Return whether the agent has said that it is ready."""
        return self.properties()["ActiveState"] == "active"

    def kill(self) -> None:
        """Kill the agent with SIGKILL; systemd starts it again."""
        self.signal("KILL")

    def stop(self) -> int:
        """Stop the agent with SIGTERM; return its exit code."""
        self.systemctl("stop", self.unit)
        return int(self.properties()["ExecMainStatus"])

    def journal(self) -> str:
        """Return the end of the unit's log."""
        return self.place.run("journalctl", "--no-pager", "--lines=40", f"--unit={self.unit}")


@contextmanager
def explained(service: Service) -> Iterator[None]:
    """Add the service's log to a failure."""
    try:
        yield
    except Failed as error:
        raise Failed(f"{error}\n{service.journal()[-4000:]}") from None


def script(place: Booted, block: str) -> str:
    """Run a block of commands in the clone, as root, as a page prints it. Raises Failed."""
    return place.run("bash", "-ec", f"cd {CLONE}\n{block}", environment=OFFLINE)


def clone(place: Booted, sdist: Path) -> None:
    """Unpack the source distribution where a clone would be."""
    with tarfile.open(sdist) as archive:
        archive.extractall(place.path("/srv/unpacked"), filter="data")
    (folder,) = place.path("/srv/unpacked").iterdir()
    shutil.move(folder, place.path(CLONE))


def more(meter: Meter, event: str) -> None:
    """Wait until slots that begin later than now have left."""
    now_s = time.time()
    wait(f"a number after {event}", lambda: (meter.starts() or [0])[-1] > now_s)


# Surroundings -----------------------------------------------------------------------------------------


def login(place: Booted) -> None:
    """Make a broker that asks for a login at one of its ports, and the secrets of the service."""
    place.path("/etc/mosquitto/conf.d/trial.conf").write_text(BROKER)
    place.run("mosquitto_passwd", "-b", "-c", "/etc/mosquitto/passwords", USER, PASSWORD)
    place.run("chown", "mosquitto", "/etc/mosquitto/passwords")
    place.run("systemctl", "restart", "mosquitto")
    place.run("install", "-d", "/etc/meteragent", "/etc/systemd/system/meteragent.service.d")
    values = (PASSWORD, "0123456789abcdef" * 4)
    for name, value in zip(SECRETS, values, strict=True):
        file = place.path(f"/etc/meteragent/{name}")
        file.touch(mode=0o600)
        file.write_text(f"{value}\n")
    lines = [f"LoadCredential={name}:/etc/meteragent/{name}" for name in SECRETS]
    drop_in = place.path("/etc/systemd/system/meteragent.service.d/secrets.conf")
    drop_in.write_text("\n".join(["[Service]", *lines, ""]))


def with_login(text: str, unit: str = "meteragent.service") -> str:
    """Return a configuration whose source logs in, and whose sink has pseudonyms, with secrets of systemd."""
    folder = f"/run/credentials/{unit}"
    source = f'username = "{USER}"\npassword_file = "{folder}/source-password"\n'
    sink = f'url = "mqtt://127.0.0.1:1883"\npseudonym_key_file = "{folder}/pseudonym-key"\n'
    head, _, tail = text.partition("[sink]\n")
    head = head.replace("1883", str(LOGIN_PORT)).replace("[source]\n", f"[source]\n{source}")
    _, _, tail = tail.partition("\n")
    return f"{head}[sink]\n{sink}{tail}"


# The unit ---------------------------------------------------------------------------------------------


def unit(place: Booted, sdist: Path) -> str:
    """Install the agent in a virtual environment as docs/install.md says, and try its unit.

    Return a summary.

    Raises:
        Failed: Something is not as documented.

    """
    service = Service(place)
    login(place)
    clone(place, sdist)
    _, install, checks = pages.blocks("docs/install.md", "## Virtual environment")
    before, after = pages.EDITOR.split(install)
    began_s = time.monotonic()
    script(place, before)
    place.path(CONFIG_PATH).write_text(with_login(configuration(f"{STATE}/meteragent.db")))
    meter = Meter(service, "private/+/power")
    try:
        with explained(service):
            script(place, after)
            wait("the first number", lambda: bool(meter.starts()))
            first_s = time.monotonic() - began_s
            confined(service)
            more(meter, "the start")
            service.kill()
            more(meter, "a kill -9")
            watchdog(service)
            more(meter, "the watchdog")
            refused(service)
            update(service)
            more(meter, "an update and a rollback")
            slots = meter.starts()
            charged(service, CONFIG_PATH, len(slots))
            script(place, checks)
            restore(service)
            expect("the agent that is stopped", service.stop(), OK)
            expect("health without an agent", service.meteragent("health", CONFIG_PATH)[0], CRASH)
    finally:
        meter.close()
    script(place, *pages.blocks("docs/install.md", "## Uninstall"))
    if not place.path(f"{STATE}/meteragent.db").exists() or place.path("/usr/local/bin/meteragent").exists():
        raise Failed("uninstalling keeps the ledger, and not the program")
    return f"{len(slots)} slots, each once; first number {first_s:.0f} s after the first command"


def confined(service: Service) -> None:
    """Check what the unit promises of a process that runs: its user, rights and secrets. Raises Failed."""
    process = service.place.path(f"/proc/{service.process_id}")
    status = dict(
        line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line
    )
    if status["Uid"].split()[0] == "0" or status["CapEff"].strip("0 ") or status["NoNewPrivs"].strip() != "1":
        raise Failed(f"the agent has rights: {status['Uid']}, {status['CapEff']}, {status['NoNewPrivs']}")
    properties = service.properties()
    if properties["Type"] != "notify" or not properties["WatchdogUSec"].endswith("min"):
        raise Failed("the unit does not wait for READY=1, or has no watchdog")
    wait(
        f"{service.unit} says that all is well",
        lambda: "all is well" in service.properties().get("StatusText", ""),
    )


def watchdog(service: Service) -> None:
    """Stop the agent's process without ending it: systemd must end it and start another. Raises Failed."""
    folder = service.place.path(f"/run/systemd/system/{service.unit}.service.d")
    folder.mkdir(parents=True)
    (folder / "watchdog.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}s\n")
    service.systemctl("daemon-reload")
    service.systemctl("restart", service.unit)
    service.signal("STOP")
    if "Watchdog timeout" not in service.journal():
        raise Failed("the agent was restarted, but not by the watchdog")
    shutil.rmtree(folder)
    service.systemctl("daemon-reload")
    service.systemctl("restart", service.unit)


def refused(service: Service) -> None:
    """Start the agent with a configuration that is refused, which systemd must not repeat. Raises Failed."""
    file = service.place.path(CONFIG_PATH)
    text = file.read_text()
    service.stop()
    file.write_text(text.replace('unit = "W"', 'unit = "VA"'))
    if service.place.ended("systemctl", "start", service.unit)[0] == OK:
        raise Failed("a refused configuration starts")
    time.sleep(RESTART_S + 2)
    properties = service.properties()
    state = tuple(properties[name] for name in ("ActiveState", "ExecMainStatus", "NRestarts"))
    if state != ("failed", str(CONFIG), "0"):
        raise Failed(f"after a refused configuration the unit is {state}")
    if "source.unit" not in service.journal():
        raise Failed("the log does not name the key that is refused")
    file.write_text(text)
    service.start()


def update(service: Service) -> None:
    """Update to a newer version by the link, as docs/operate.md says, and roll back. Raises Failed."""
    place = service.place
    version = place.path(f"{CLONE}/meteragent/__init__.py")
    text = version.read_text()
    version.write_text(text.replace('__version__ = "', '__version__ = "1000.'))
    install, back = pages.blocks("docs/operate.md", "## Update and roll back")[:2]
    script(place, install)
    wait("the newer version", lambda: runs(service).startswith("1000."))
    version.write_text(text)
    script(place, back)
    wait("the former version", lambda: runs(service) == __version__)


def restore(service: Service, user: str = "") -> None:
    """Continue with a store as docs/operate.md says for one that was restored. Raises Failed.

    `user` defines how a command runs as the service's user, if not as the page's first block does.
    """
    lines, _ = pages.blocks("docs/operate.md", "## Back up and restore")
    function, _, commands = lines.partition("systemctl stop")
    script(service.place, f"{user or function}\nsystemctl stop{commands}")
    wait("health after a restore", lambda: service.meteragent("health", CONFIG_PATH)[0] == OK)


def runs(service: Service) -> str:
    """Return the version of the agent that runs; an empty text if it does not answer yet."""
    _, text = service.meteragent("health", "--json", CONFIG_PATH)
    return str(json.loads(text)["version"]) if text.startswith("{") else ""
