"""The operators of deploy/crowd in containers, with a broker and three homes, on one loopback interface.

Broker, access list and compose file are those that are shipped; an override of the compose file gives each
operator a folder of its own and puts it into the network of one container. Noise is far below a watt hour, so
a total shows what it counts.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.commands.systems.chain import Reset, written
from tests.commands.systems.containers import Group, confined, health, kill
from tests.commands.systems.debian import Failed
from tests.commands.systems.engine import Engine
from tests.commands.systems.images import SERVICES
from tests.commands.systems.trial import LOAD_W, OK, Meter, expect, wait
from tests.support.not_run import ROOT

FOLDER: Final = ROOT / "deploy" / "crowd"
IMAGE: Final = "meteragent-crowd"
PROGRAM: Final = "/opt/meteragent/bin/meteragent"
CONFIG_PATH: Final = "/etc/meteragent/crowd.toml"
GROUP_PATH: Final = "/etc/meteragent/group.toml"
ROLES: Final = ("leader", "helper")
HOMES: Final = ("h0", "h1", "h2")
ADDRESS: Final = "127.0.0.2"
"""The address of the group's broker; that of the homes' meters is 127.0.0.1."""
OPERATOR_USER, BROKER_USER = 65532, 1883
SLOT_S: Final = 60
VALUES: Final = {
    "slot_s": SLOT_S,
    "quantum_wh": '"0.001"',
    "level": 16,
    "hide_wh": '"0.001"',
    "lowest_wh": 0,
    "highest_wh": 1000,
    "smallest_crowd": len(HOMES),
    "deadline_s": 20,
}
"""The values of the group that differ from those shipped."""
EXPECTED_WH: Final = len(HOMES) * LOAD_W * SLOT_S / 3600
FAR_WH: Final = 0.02
"""The largest error of a total: 20 times a quantum. Draws of both operators exceed it with e^-256."""
TOTAL_S: Final = 720.0
"""Keys come within two minutes; a total leaves about five minutes after its slot's end."""


class Street(Group):
    """The running broker, operators and homes."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(engine, "street")
        self.folder = folder / "street"
        self.folder.mkdir(mode=0o755)
        self.passwords = {user: f"{user}-password" for user in (*ROLES, *HOMES, "collector")}
        self._start_broker()
        self.group_id = self._make_group()
        for role in ROLES:
            self._start_operator(role)
        self.meters = [Meter(self, topic="none", name=home) for home in HOMES]
        for home in HOMES:
            self._start_home(home)

    def folder_of(self, name: str, user: int) -> Path:
        """Make a folder for a user of a container."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, user, user)
        return folder

    def _start_broker(self) -> None:
        """Start mosquitto with the shipped settings and access list."""
        folder = self.folder_of("broker", BROKER_USER)
        settings = (FOLDER / "mosquitto.conf").read_text()
        listener = f"listener 1883 {ADDRESS}"
        (folder / "mosquitto.conf").write_text(settings.replace("listener 1883 127.0.0.1", listener))
        shutil.copy(FOLDER / "acl", folder / "acl")
        (folder / "passwords").touch()
        place = ("--workdir=/broker", f"--volume={folder}:/broker")
        for file in folder.iterdir():
            file.chmod(0o600)
            shutil.chown(file, BROKER_USER, BROKER_USER)
        for user, password in self.passwords.items():
            words = ("mosquitto_passwd", "-b", "passwords", user, password)
            self.engine.run("run", "--rm", "--network=none", *place, SERVICES, *words)
        self._run("street-broker", SERVICES, "mosquitto", "-c", "mosquitto.conf", options=place)

    def _run(self, name: str, image: str, *words: str, options: tuple[str, ...]) -> None:
        """Run a container in the street's network."""
        network = f"--network=container:{self.net}"
        self.engine.run("run", "--detach", "--name", name, network, *options, image, *words)

    def _make_group(self) -> str:
        """Make both identities and the group's file as the runbook says; return the group's id."""
        text = (FOLDER / "group.toml").read_text()
        for key, value in VALUES.items():
            text, count = re.subn(rf"(?m)^{key} = \S+", f"{key} = {value}", text)
            if count != 1:
                raise Failed(f"the shipped group has no {key}")
        for role in ROLES:
            folder = self.folder_of(role, OPERATOR_USER)
            words = ("--rm", "--network=none", f"--volume={folder}:/keys", IMAGE)
            line = self.engine.run("run", *words, "crowd", "key", "new", "/keys/crowd.key").strip()
            text = re.sub(rf'(\[{role}\]\n.*\n)identity = "\w+"', rf"\1{line}", text)
            self._write(folder / "crowd.mqtt", self.passwords[role])
            self._write(folder / "crowd.toml", self._operator(role), mode=0o644)
        for role in ROLES:
            self._write(self.folder / role / "group.toml", text, mode=0o644)
        return self._checked()

    def _checked(self) -> str:
        """Let the image check both configurations; return the group's id, which must be the same."""
        ids = set()
        for role in ROLES:
            mounts = tuple(f"--volume={source}:{place}:ro" for source, place in self._mounts(role).items())
            text = self.engine.run(
                "run", "--rm", "--network=none", *mounts, IMAGE, "crowd", role, CONFIG_PATH, "--check"
            )
            ids |= set(re.findall(r"id (\w{64})", text))
        if len(ids) != 1:
            raise Failed(f"leader and helper have the groups {sorted(ids)}")
        return str(ids.pop())

    def _mounts(self, role: str) -> dict[Path, str]:
        """Return the files of an operator and where its container has them."""
        names = {"crowd.toml": CONFIG_PATH, "group.toml": GROUP_PATH}
        names |= {"crowd.key": "/run/secrets/identity", "crowd.mqtt": "/run/secrets/mqtt"}
        return {self.folder / role / name: place for name, place in names.items()}

    def _write(self, file: Path, text: str, mode: int = 0o600) -> None:
        """Write a file for the operators' or homes' user."""
        file.write_text(text)
        file.chmod(mode)
        shutil.chown(file, OPERATOR_USER, OPERATOR_USER)

    def _operator(self, role: str) -> str:
        """Return the configuration that the comment of compose.yaml describes."""
        return f"""group_file = "{GROUP_PATH}"
identity_file = "/run/secrets/identity"
broker.url = "mqtt://{ADDRESS}:1883"
broker.username = "{role}"
broker.password_file = "/run/secrets/mqtt"
store.path = "/var/lib/meteragent/operator.db"
"""

    def _start_operator(self, role: str) -> None:
        """Start an operator with the shipped compose file."""
        folder = self.folder / role
        operator = {
            "network_mode": f"container:{self.net}",
            "networks": Reset(),
            "command": ["crowd", role, CONFIG_PATH],
            "volumes": [
                f"{folder}/{name}.toml:/etc/meteragent/{name}.toml:ro" for name in ("crowd", "group")
            ],
            "healthcheck": {"interval": "10s"},
        }
        secrets = {"identity": {"file": f"{folder}/crowd.key"}, "mqtt": {"file": f"{folder}/crowd.mqtt"}}
        file = self.folder / f"{role}.yaml"
        file.write_text(written({"services": {"operator": operator}, "secrets": secrets}))
        files = ("--file", FOLDER / "compose.yaml", "--file", file)
        words = ("up", "--detach", "--no-build", "--pull=never")
        self.engine.run("compose", "--project-name", f"crowd-{role}", *files, *words)

    def _start_home(self, home: str) -> None:
        """Start the agent of a home, whose stream counts in the group only."""
        folder = self.folder_of(home, OPERATOR_USER)
        self._write(folder / "mqtt", self.passwords[home])
        shutil.copy(self.folder / "leader" / "group.toml", folder / "group.toml")
        self._write(folder / "meteragent.toml", home_configuration(home, self.group_id))
        options = (f"--volume={folder}:/etc/meteragent:ro", "--restart=unless-stopped")
        self._run(home, IMAGE, "run", "/etc/meteragent/meteragent.toml", options=options)

    def name(self, role: str) -> str:
        """Return the name of an operator's container."""
        return f"crowd-{role}-operator-1"

    def ask(self, role: str, command: str) -> str:
        """Return what a command about an operator prints, in JSON; empty if it fails."""
        words = ("exec", self.name(role), PROGRAM, "crowd", command, "--json", CONFIG_PATH)
        _, text = self.engine.exit_code(*words)
        return text if text.startswith("{") else ""

    def count(self, role: str, name: str) -> int:
        """Return a counter of an operator; 0 if it does not answer."""
        text = self.ask(role, "health")
        return int(json.loads(text)["counts"].get(name, 0)) if text else 0

    def collect(self) -> "subprocess.Popen[bytes]":
        """Receive totals as the collector; they are lines of the file `totals`."""
        login = ("-h", ADDRESS, "-u", "collector", "-P", self.passwords["collector"], "-i", "collector")
        words = self.client("mosquitto_sub", *login, "-q", "1", "-t", "crowd/elm-street/total")
        with (self.folder / "totals").open("wb") as file:
            return subprocess.Popen(words, stdout=file)

    def totals(self) -> dict[str, set[float]]:
        """Return the values that have arrived for each slot, in Wh. Raises Failed if one is wrong."""
        values: dict[str, set[float]] = {}
        for line in (self.folder / "totals").read_text().rpartition("\n")[0].splitlines():
            record = json.loads(line)
            values.setdefault(record["t"], set()).add(record["value"])
            if record["homes"] != len(HOMES) or abs(record["value"] - EXPECTED_WH) > FAR_WH:
                raise Failed(f"a total of {EXPECTED_WH:.3f} Wh of {len(HOMES)} homes is {record}")
        if any(len(several) > 1 for several in values.values()):
            raise Failed(f"a slot has two totals: {values}")
        return values

    def close(self) -> None:
        """End the meters."""
        for meter in self.meters:
            meter.close()


def home_configuration(home: str, group_id: str) -> str:
    """Return the configuration of a home's agent."""
    return f"""
[source]
url = "mqtt://127.0.0.1:1883"
topic = "meters/{home}/power"
meter = "{home}"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"
every = "1s"
hold = "30s"

[window]
lateness = "2s"
catch_up = "5s"

[privacy]
accept = ["sparse_readings"]

[sink]
url = "mqtt://{ADDRESS}:1883"
username = "{home}"
password_file = "/etc/meteragent/mqtt"

[sink.crowd]
group = "/etc/meteragent/group.toml"
id = "{group_id}"

[store]
path = "/var/lib/meteragent/meteragent.db"
"""


def attempt(engine: Engine, folder: Path) -> str:
    """Kill both operators once reports are committed, and wait for right totals. Raises Failed."""
    street = Street(engine, folder)
    collector = street.collect()
    try:
        return tried(street)
    except Failed as error:
        names = [*map(street.name, ROLES), HOMES[0]]
        logs = "\n".join(f"{name}: {engine.exit_code('logs', name)[1][-1500:]}" for name in names)
        raise Failed(f"{error}\n{logs}") from None
    finally:
        collector.terminate()
        collector.wait()
        street.close()


def tried(street: Street) -> str:
    """Kill both operators, wait for totals, and check what they leave."""
    engine, (leader, helper) = street.engine, map(street.name, ROLES)
    wait("reports at the leader", lambda: street.count("leader", "reports") >= len(HOMES), seconds=TOTAL_S)
    for name in (leader, helper):
        confined(engine, name)
        kill(engine, name)
    for name in (leader, helper):
        wait(f"a restart of {name}", lambda name=name: int(engine.field(name, ".RestartCount")) > 0)  # type: ignore[misc]
    wait("totals after the kills", lambda: len(street.totals()) >= 2, seconds=TOTAL_S)
    for name in (leader, helper):
        wait(f"health of {name}", lambda name=name: health(engine, name) == "healthy")  # type: ignore[misc]
    lines = [json.loads(line) for line in street.ask("leader", "ledger").splitlines()]
    ledger_slots = {line["slot"] for line in lines if line["result"] == "total"}
    if not set(street.totals()) <= ledger_slots:
        raise Failed(f"the leader's ledger lacks a slot of {sorted(street.totals())}: {lines}")
    for name in (leader, helper):
        engine.run("stop", name)
        expect(f"{name} that is stopped", int(engine.field(name, ".State.ExitCode")), OK)
    return f"{len(street.totals())} totals, each right, through a kill -9 of both operators"
