"""Agents in containers, tried as those of the package are: the agent's image, and the add-on's."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Final

import yaml

from tests.commands.systems import pages
from tests.commands.systems.debian import Failed
from tests.commands.systems.engine import Engine
from tests.commands.systems.images import ADDON, SERVICES, STAND_IN
from tests.commands.systems.trial import CONFIG, OK, Meter, Seen, configuration, expect, run, wait
from tests.support.not_run import ROOT

PROGRAM: Final = "/opt/meteragent/bin/meteragent"
CONFIG_PATH: Final = "/etc/meteragent/meteragent.toml"
USER: Final = "65532"
OF_THE_TRIAL: Final = {"-d", "--name", "--network", "--restart", "-v"}
"""The options of the page's `docker run` that a trial has of its own."""


def printed() -> list[tuple[str, ...]]:
    """Return the options of `docker run` in docs/install.md, each with its value if it has one."""
    line = pages.command("docs/install.md", "## Docker", "docker run")
    options = re.findall(r"(?<= )(--?[a-z-]+)(?: ([^- ][^ ]*))?", line.rpartition(" ")[0])
    return [tuple(filter(None, option)) for option in options]


SHUT: Final = tuple(word for option in printed() if option[0] not in OF_THE_TRIAL for word in option)
"""How the agent's image is to be run, as docs/install.md says."""

READING: Final = {
    "topic": "meters/{meter}/power",
    "profile": "json",
    "value": "power",
    "time": "t",
    "kind": "power",
    "unit": "W",
    "flush": "0s",
}
"""The options of the add-on that differ from its own, or have no default."""

SUPERVISOR: Final = """
import http.server, json
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        right = self.headers["Authorization"] == "Bearer t0ken" and self.path == "/services/mqtt"
        body = json.dumps({"data": {"host": "127.0.0.1", "port": 1883, "ssl": False}}).encode()
        self.send_response(200 if right else 403)
        self.end_headers()
        self.wfile.write(body if right else b"")
http.server.HTTPServer(("127.0.0.4", 80), Answer).serve_forever()
"""


class Group:
    """Containers that share a loopback interface; the first one is a broker at 127.0.0.1:1883."""

    def __init__(self, engine: Engine, name: str, *options: str) -> None:
        self.engine = engine
        self.net = f"{name}-net"
        command = ("mosquitto", "-p", "1883")
        engine.run("run", "--detach", "--name", self.net, "--network=none", *options, SERVICES, *command)

    def client(self, *words: str) -> list[str]:
        """Return the command of the machine that runs a client beside the broker."""
        return self.engine.command("exec", "--interactive", self.net, *words)


class Container(Group):
    """An agent of the image, read-only and without rights, in a group of its own."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(engine, "agent")
        self._name = "agent"
        file = folder / "agent.toml"
        file.write_text(configuration("/var/lib/meteragent/meteragent.db"))
        mounts = (f"--volume={file}:{CONFIG_PATH}:ro", "--volume=ledger:/var/lib/meteragent")
        self.options = (f"--network=container:{self.net}", *SHUT, *mounts)

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent in a container of its own, with the agent's volume."""
        return self.engine.exit_code("run", "--rm", *self.options, "meteragent", *words)

    def start(self) -> None:
        """Start the agent's container, the first time with its health asked for every five seconds."""
        if self.engine.exit_code("start", self._name)[0] != OK:
            health = "--health-interval=5s"
            self.engine.run("run", "--detach", "--name", self._name, health, *self.options, "meteragent")

    def kill(self) -> None:
        """Kill the agent with SIGKILL, from the machine."""
        kill(self.engine, self._name)

    def stop(self) -> int:
        """Stop the agent with SIGTERM; return its exit code."""
        wait("healthy in `docker ps`", lambda: health(self.engine, self._name) == "healthy")
        confined(self.engine, self._name)
        self.engine.run("stop", self._name)
        return int(self.engine.field(self._name, ".State.ExitCode"))


def kill(engine: Engine, name: str) -> None:
    """Kill the first process of a container, and wait until the engine has noticed."""
    started = engine.field(name, ".State.StartedAt")
    os.kill(int(engine.field(name, ".State.Pid")), signal.SIGKILL)
    wait(
        f"the end of {name}",
        lambda: (
            engine.field(name, ".State.Running") == "false"
            or engine.field(name, ".State.StartedAt") != started
        ),
    )


def health(engine: Engine, name: str) -> str:
    """Return the health of a container."""
    return engine.field(name, ".State.Health.Status")


def confined(engine: Engine, name: str) -> None:
    """Check that a container's processes have no rights and cannot write to its root. Raises Failed."""
    status = Path("/proc", engine.field(name, ".State.Pid"), "status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    expected = {"Uid": "\t".join([USER] * 4), "CapEff": "0" * 16, "NoNewPrivs": "1"}
    for field, value in expected.items():
        if fields[field].strip() != value:
            raise Failed(f"{name}: {field} is {fields[field]}")
    if engine.exit_code("exec", name, "/bin/sh", "-c", "> /written")[0] == OK:
        raise Failed(f"{name}: its root can be written to")


def agent(engine: Engine, folder: Path) -> Seen:
    """Try the agent's image. Raises Failed."""
    container = Container(engine, folder)
    refused = folder / "refused.toml"
    refused.write_text("[source]\n")
    words = (*SHUT, "--network=none", f"--volume={refused}:{CONFIG_PATH}:ro", "meteragent")
    expect("a refused configuration", engine.exit_code("run", "--rm", *words)[0], CONFIG)
    engine.run("run", "--detach", "--name=refused", "--restart=unless-stopped", *words)
    wait("another try", lambda: int(engine.field("refused", ".RestartCount")) > 0)
    engine.run("rm", "--force", "refused")
    try:
        return run(container, CONFIG_PATH)
    except Failed as error:
        raise Failed(f"{error}\n{engine.exit_code('logs', 'agent')[1][-3000:]}") from None


def addon(engine: Engine, folder: Path) -> str:
    """Try the add-on's image with a Supervisor that answers as Home Assistant's. Raises Failed."""
    group = Group(engine, "addon", "--add-host=supervisor:127.0.0.4")
    network = f"--network=container:{group.net}"
    engine.run("run", "--detach", network, STAND_IN.runtime, "python3", "-c", SUPERVISOR)
    data = folder / "addon-data"
    data.mkdir(mode=0o755)
    options = yaml.safe_load((ROOT / ADDON / "config.yaml").read_text())["options"] | READING
    (data / "options.json").write_text(json.dumps(options))
    words = ("--env=SUPERVISOR_TOKEN=t0ken", f"--volume={data}:/data", network, "--health-interval=5s")
    engine.run("run", "--detach", "--name", "addon", *words, "meteragent-addon")
    meter = Meter(group)
    try:
        wait("the add-on is healthy", lambda: health(engine, "addon") == "healthy")
        wait("a reading is received", lambda: received(engine) > 0)
        kill(engine, "addon")
        engine.run("start", "addon")
        wait("the add-on is healthy again", lambda: received(engine) > 0)
    except Failed as error:
        report = engine.exit_code("exec", "addon", PROGRAM, "health", "/data/meteragent/meteragent.toml")
        raise Failed(f"{error}\n{report}\n{engine.exit_code('logs', 'addon')[1][-3000:]}") from None
    finally:
        meter.close()
    environment = Path("/proc", engine.field("addon", ".State.Pid"), "environ").read_bytes()
    if b"SUPERVISOR_TOKEN" in environment:
        raise Failed("the agent of the add-on has the Supervisor's token")
    files = {path.name: path.stat() for path in (data / "meteragent").iterdir()}
    if {str(stat.st_uid) for stat in files.values()} != {USER} or "meteragent.db" not in files:
        raise Failed("the add-on's files do not belong to its user")
    engine.run("stop", "--time=30", "addon")
    expect("the add-on that is stopped", int(engine.field("addon", ".State.ExitCode")), OK)
    return "reads, through a kill -9; healthy; stopped with 0"


def received(engine: Engine) -> int:
    """Return how many messages the add-on's agent has received; 0 if it does not answer."""
    words = ("exec", "addon", PROGRAM, "health", "--json", "/data/meteragent/meteragent.toml")
    _, text = engine.exit_code(*words)
    return int(json.loads(text)["counts"].get("received", 0)) if text.startswith("{") else 0
