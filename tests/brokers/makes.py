"""The brokers of the matrix: how each is had and started, and what is known to be otherwise with it."""

import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

from meteragent.mqtt.link import Version
from tests.brokers.root import CACHE, INSIDE, Missing, Root, can_enter
from tests.commands.system_parts import run
from tests.support.broker import Server, free_port
from tests.support.not_run import ROOT

DEPLOY: Final = ROOT / "deploy"
PACKAGES: Final = ("mosquitto", "nats-server", "rabbitmq-server")
OLD, NEW = "bookworm", "trixie"
"""The Debian releases that the packages are of."""
AEDES: Final = "1.2.0"
READY_S: Final = 90.0


class Enclosed(Server):
    """A broker in a `Root`, which ends as if killed."""

    def kill(self) -> None:
        """SIGKILL to all its processes; waits until they have let go of the port."""
        super().kill()
        while listens(self.port):
            pass

    def stop(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self.kill()


def listens(port: int) -> bool:
    """Return whether somebody listens on a port of the loopback."""
    with socket.socket() as test:
        return test.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True, slots=True)
class Ready:
    """A broker that can be started: its version, and how it is made in an empty folder."""

    version: str
    server: Callable[[Path], Server]


@dataclass(frozen=True, slots=True)
class Make:
    """A broker of the matrix.

    obtain    get it; raises Missing
    speaks    the versions of MQTT that it answers, the best first
    at_once   what was not acknowledged comes again at once, not after a time of the broker's
    keeps     it keeps what was not acknowledged for a client that is away; else no kill is judged
    shipped   with our configuration; else with its defaults, which are measured and not judged by kills
    lasts     it keeps sessions and what waits in them when it is killed
    lacks     what does not hold with it, by behaviour, with the reason
    """

    name: str
    obtain: Callable[[], Ready]
    speaks: tuple[Version, ...]
    at_once: bool = True
    keeps: bool = True
    shipped: bool = True
    lasts: bool = True
    lacks: Mapping[str, str] = field(default_factory=dict)


def replaced(text: str, old: str, new: str) -> str:
    """Return a shipped configuration with one place changed that a test cannot leave; raises ValueError."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times in the configuration")
    return text.replace(old, new)


# --- each of them -------------------------------------------------------------------------------


def _root(suite: str) -> Root:
    if shutil.which("unshare") is None or not can_enter():
        raise Missing("no name spaces can be made here (unshare --mount --pid)")
    return Root.make(suite, PACKAGES)


def _mosquitto(suite: str, configuration: str = "mosquitto/mosquitto.conf") -> Ready:
    """The shipped configuration without its users; or its defaults."""
    root = _root(suite)
    shipped = (DEPLOY / configuration).read_text() if configuration else "\n".join(_MOSQUITTO)

    def server(folder: Path) -> Server:
        made = Enclosed(folder, root.command(folder, "/usr/sbin/mosquitto", "-c", f"{INSIDE}/conf"))
        text = shipped
        for line, instead in _MOSQUITTO.items():
            text = replaced(text, line, instead.format(port=made.port))
        (folder / "conf").write_text(text)
        return made

    return Ready(root.version("mosquitto"), server)


_MOSQUITTO: Final = {
    "listener 1883 127.0.0.1": "listener {port} 127.0.0.1\nuser root",
    "allow_anonymous false": "allow_anonymous true",
    "password_file passwords": "",
    "acl_file acl": "",
    "persistence_location ./": f"persistence_location {INSIDE}/",
}
"""Lines of its configuration, and what stands there in a trial."""


def _rabbitmq(suite: str, configuration: str) -> Ready:
    """The shipped configuration on other ports; or its defaults."""
    root = _root(suite)
    shipped = (DEPLOY / configuration).read_text() if configuration else _RABBITMQ

    def server(folder: Path) -> Server:
        settings = {
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": free_port(),
            "RABBITMQ_DIST_PORT": free_port(),
            "RABBITMQ_NODENAME": "broker@localhost",
            "RABBITMQ_CONFIG_FILES": f"{INSIDE}/conf.d",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{INSIDE}/plugins",
            "RABBITMQ_MNESIA_BASE": f"{INSIDE}/data",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {{127,0,0,1}}",
        }
        program = ["/usr/bin/env", *(f"{name}={value}" for name, value in settings.items())]
        command = root.command(folder, *program, "/usr/lib/rabbitmq/bin/rabbitmq-server")
        made = Enclosed(folder, command, ready_s=READY_S)
        (folder / "conf.d").mkdir()
        (folder / "conf.d" / "10-local.conf").write_text("listeners.tcp = none\n")
        text = replaced(shipped, "127.0.0.1:1883", f"127.0.0.1:{made.port}")
        (folder / "conf.d" / "50-meteragent.conf").write_text(text)
        (folder / "plugins").write_text("[rabbitmq_mqtt].\n")
        return made

    return Ready(root.version("rabbitmq-server"), server)


_RABBITMQ: Final = "mqtt.listeners.tcp.1 = 127.0.0.1:1883"


def _nats(suite: str, configuration: str = "brokers/nats.conf") -> Ready:
    """The shipped configuration on other ports; or its defaults."""
    root = _root(suite)
    shipped = (DEPLOY / configuration).read_text() if configuration else _NATS

    def server(folder: Path) -> Server:
        made = Enclosed(folder, root.command(folder, "/usr/sbin/nats-server", "-c", f"{INSIDE}/conf"))
        text = replaced(shipped, "127.0.0.1:4222", f"127.0.0.1:{free_port()}")
        text = replaced(text, "127.0.0.1:1883", f"127.0.0.1:{made.port}")
        text = replaced(text, "/var/lib/nats", f"{INSIDE}/data")
        (folder / "conf").write_text(text)
        return made

    return Ready(root.version("nats-server"), server)


_NATS: Final = """
server_name: trial
listen: "127.0.0.1:4222"
jetstream { store_dir: "/var/lib/nats" }
mqtt { listen: "127.0.0.1:1883" }
"""


def _aedes() -> Ready:
    """The package as it is, which keeps all in memory."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("node and npm are not on the path")
    folder = CACHE / f"aedes-{AEDES}"
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder)
    if not (folder / "node_modules" / "aedes" / "aedes.js").exists():
        code, _ = run(npm, "install", *options, f"aedes@{AEDES}", cwd=folder)
        if code:
            raise Missing(f"npm cannot install aedes {AEDES}")
    script = ROOT / "tests" / "brokers" / "aedes.mjs"
    return Ready(AEDES, lambda place: Server(place, [node, str(script), str(folder), "{port}"]))


def _amqtt() -> Ready:
    """As the demonstration has it, which keeps all in memory."""
    try:
        version = metadata.version("amqtt")
    except metadata.PackageNotFoundError:
        raise Missing("amqtt is not installed: pip install './simulators[demo]'") from None
    program = [sys.executable, "-m", "tests.brokers.amqtt_server", "{port}"]
    return Ready(version, lambda folder: Server(folder, program))


BOTH: Final[tuple[Version, ...]] = ("5", "3.1.1")
OLDER: Final[tuple[Version, ...]] = ("3.1.1",)

_ROUTED: Final = {
    "retained": "retained messages reach subscribers of exactly their topic",
    "names": "a dot divides a name as a slash does, and an asterisk comes as a plus",
}
_SUBJECTS: Final = {"names": "a publication is refused by closing the connection"}
_FEW: Final = {"open": "few messages may be unacknowledged at once"}
_SLOW: Final = {"again": "what was not acknowledged comes again after 30 s"}
_FORGETS: Final = {
    "session": "it keeps nothing for clients that are away",
    "again": "it does not send again",
    "retained": "retained messages reach subscribers of exactly their topic",
}

MAKES: Final = (
    Make("mosquitto-2.0.11", partial(_mosquitto, OLD), BOTH),
    Make("mosquitto-2.0.21", partial(_mosquitto, NEW), BOTH),
    Make("mosquitto-2.0.21-defaults", partial(_mosquitto, NEW, ""), BOTH, shipped=False, lacks=_FEW),
    Make("rabbitmq-3.10", partial(_rabbitmq, OLD, "brokers/rabbitmq-3.10.conf"), OLDER, lacks=_ROUTED),
    Make("rabbitmq-3.10-defaults", partial(_rabbitmq, OLD, ""), OLDER, shipped=False, lacks=_ROUTED | _FEW),
    Make("rabbitmq-4.0", partial(_rabbitmq, NEW, "brokers/rabbitmq.conf"), BOTH, lacks=_ROUTED),
    Make("rabbitmq-4.0-defaults", partial(_rabbitmq, NEW, ""), BOTH, shipped=False, lacks=_ROUTED | _FEW),
    Make("nats-2.9", partial(_nats, OLD), OLDER, at_once=False, lacks=_SUBJECTS),
    Make("nats-2.9-defaults", partial(_nats, OLD, ""), OLDER, shipped=False, lacks=_SUBJECTS | _SLOW),
    Make("nats-2.10", partial(_nats, NEW), OLDER, at_once=False, lacks=_SUBJECTS),
    Make("nats-2.10-defaults", partial(_nats, NEW, ""), OLDER, shipped=False, lacks=_SUBJECTS | _SLOW),
    Make("aedes", _aedes, OLDER, lasts=False),
    Make("amqtt", _amqtt, OLDER, keeps=False, lasts=False, lacks=_FORGETS),
)
