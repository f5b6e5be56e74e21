"""The chain of deploy/compose on one loopback interface, without Grafana, which Debian does not have.

An override puts all services into the network of one container, in which the names of the brokers and of the
exporter are addresses of the loopback interface. All else is as compose.yaml says.
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from tests.commands.systems.containers import confined, kill
from tests.commands.systems.debian import Failed
from tests.commands.systems.engine import Engine
from tests.commands.systems.images import SERVICES, STAND_IN
from tests.commands.systems.trial import OK, wait
from tests.support.not_run import ROOT

COMPOSE: Final = ROOT / "deploy" / "compose" / "compose.yaml"
PROJECT: Final = "meteragent"
NET: Final = "chain-net"
ADDRESSES: Final = {"house": "127.0.0.2", "utility": "127.0.0.3", "exporter": "127.0.0.1"}
STAND_INS: Final = {"eclipse-mosquitto": SERVICES, "prom/prometheus": SERVICES}
ABSENT: Final = ("grafana",)
CONFIG_PATH: Final = "/etc/meteragent/meteragent.toml"
METERS: Final = 20
CHAIN_S: Final = 240.0
METRICS: Final = "http://127.0.0.1:9090/api/v1/query?query="

FETCH: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def override(folder: Path) -> dict[str, Any]:
    """Return what is different from compose.yaml, and write the brokers' configurations to a folder."""
    services: dict[str, Any] = {}
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        if name in ABSENT:
            continue
        changed: dict[str, Any] = {"network_mode": f"container:{NET}", "networks": Reset(), "ports": Reset()}
        image = service["image"].partition(":")[0]
        if image in STAND_INS:
            changed["image"] = STAND_INS[image]
        if name in ("house", "utility"):
            text = (COMPOSE.parent / "mosquitto" / f"{name}.conf").read_text()
            file = folder / f"{name}.conf"
            file.write_text(text.replace("listener 1883", f"listener 1883 {ADDRESSES[name]}"))
            changed["volumes"] = [f"{file}:/mosquitto/config/mosquitto.conf:ro"]
            file.chmod(0o644)
        if name == "prometheus":
            listen = "--web.listen-address=127.0.0.1:9090"
            command = [word for word in service["command"] if not word.startswith("--web.listen")]
            changed |= {"entrypoint": "prometheus", "command": [*command, listen], "user": "65534"}
        services[name] = changed
    return {"services": services}


class Reset:
    """A key that the override takes away."""


def written(override: dict[str, Any]) -> str:
    """Return an override as YAML, in which compose reads the tag `!reset`."""
    yaml.SafeDumper.add_representer(Reset, lambda writer, _: writer.represent_scalar("!reset", "null"))
    return str(yaml.safe_dump(override))


class Chain:
    """The running chain."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        file = folder / "override.yaml"
        file.write_text(written(override(folder)))
        hosts = [f"--add-host={name}:{address}" for name, address in ADDRESSES.items()]
        engine.run(
            "run", "--detach", "--name", NET, "--network=none", *hosts, STAND_IN.runtime, "sleep", "infinity"
        )
        self._compose = ("compose", "--project-name", PROJECT, "--file", str(COMPOSE), "--file", str(file))
        services = list(override(folder)["services"])
        engine.run(*self._compose, "up", "--detach", "--no-build", "--pull=never", *services)

    def name(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{PROJECT}-{service}-1"

    def fetch(self, url: str) -> str:
        """Return what an address inside the chain answers; an empty text if nothing does."""
        code, text = self.engine.exit_code("exec", NET, "python3", "-c", FETCH, url)
        return text if code == OK else ""

    def value(self, query: str) -> float:
        """Return the sum of what Prometheus answers to a query; 0 if it does not answer."""
        text = self.fetch(METRICS + query)
        results = json.loads(text)["data"]["result"] if text else []
        return sum(float(result["value"][1]) for result in results)


def attempt(chain: Chain) -> str:
    """Wait for numbers at the end of the chain, kill the agent, and wait for more. Raises Failed."""
    agent, engine = chain.name("agent"), chain.engine
    wait("both targets in Prometheus", lambda: chain.value("up") == 2, seconds=CHAIN_S)
    wait("values of all homes", lambda: chain.value("meteragent_private_homes") == METERS, seconds=CHAIN_S)
    wait("deliveries in Prometheus", lambda: chain.value("meteragent_delivered_total") > 0)
    for service in ("agent", "exporter", "simulator"):
        confined(engine, chain.name(service))
    restarts = int(engine.field(agent, ".RestartCount"))
    kill(engine, agent)
    wait("a restart", lambda: int(engine.field(agent, ".RestartCount")) > restarts)
    ask = ("exec", agent, "/opt/meteragent/bin/meteragent")
    wait("health after the kill", lambda: engine.exit_code(*ask, "health", CONFIG_PATH)[0] == OK)
    code, text = engine.exit_code(*ask, "ledger", "--json", CONFIG_PATH)
    meters = {row["meter"] for row in json.loads(text)["spent"]} if code == OK else set()
    if len(meters) != METERS:
        raise Failed(f"the ledger has {len(meters)} meters after the kill")
    for service in override_services():
        if engine.field(chain.name(service), ".State.Running") != "true":
            raise Failed(f"{service} does not run")
    return f"{len(meters)} meters through a kill -9 of the agent; both targets of Prometheus are up"


def override_services() -> list[str]:
    """Return the services that run."""
    return [name for name in yaml.safe_load(COMPOSE.read_text())["services"] if name not in ABSENT]
