"""The images and the compose file: what they are made of exists, and they keep what they say of themselves.

These tests read the files; `make image` builds the images and runs them.
"""

import argparse
import fnmatch
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import paho.mqtt.client as paho
import pytest
import yaml

from deploy.exporter import exporter
from meteragent import cli, config
from simulators.commands.arguments import generate, replay
from tests.brokers.root import Missing
from tests.commands import image, lock
from tests.commands.systems import chain, debian, engine, images
from tests.commands.systems.debian import Failed
from tests.conftest import MakeBroker
from tests.support.broker import Broker
from tests.support.not_run import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE_FOLDER = DEPLOY / "compose"
COMPOSE = yaml.safe_load((COMPOSE_FOLDER / "compose.yaml").read_text())
SERVICES: Mapping[str, Any] = COMPOSE["services"]
COMPOSES = {path.parent: yaml.safe_load(path.read_text()) for path in sorted(DEPLOY.glob("*/compose.yaml"))}
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SIMULATORS = tomllib.loads((ROOT / "simulators" / "pyproject.toml").read_text())["project"]
ADDON = DEPLOY / "homeassistant" / "addon" / "meteragent"
LOCKS = lock.requirements()
FILES = [DEPLOY / "container" / "Dockerfile", ADDON / "Dockerfile"]
KEYS = {"image", "build", "command", "entrypoint", "environment", "user", "restart", "depends_on"}
KEYS |= {"read_only", "cap_drop", "security_opt", "ulimits", "mem_limit", "memswap_limit", "tmpfs", "volumes"}
KEYS |= {"networks", "network_mode", "ports", "stop_grace_period", "healthcheck", "secrets"}
"""What a service of ours may say; a word that is none would be overlooked by some engines."""


INSTRUCTIONS = {"RUN", "COPY", "ENV", "USER", "WORKDIR", "LABEL", "VOLUME", "EXPOSE", "ARG"}
INSTRUCTIONS |= {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


class Stage(NamedTuple):
    """A stage of a Dockerfile: its base and its instructions in order."""

    base: str
    steps: list[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """The instructions of one name."""
        return [text for each, text in self.steps if each == name]

    def last(self, name: str) -> str:
        """The instruction of a name that counts."""
        return self.all(name)[-1]


def stages(path: Path) -> dict[str, Stage]:
    """A Dockerfile's stages, by name; what an instruction may be is known."""
    text = re.sub(r"(?m)^#.*\n", "", path.read_text()).replace("\\\n", " ")
    actual: dict[str, Stage] = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            base, _, own = rest.partition(" AS ")
            actual[own or base] = Stage(base, [])
        elif actual:
            assert name in INSTRUCTIONS, name
            list(actual.values())[-1].steps.append((name, rest.strip()))
    return actual


OURS = stages(FILES[0])


def whole(name: str) -> Stage:
    """A stage with those that it is made on, from the first one on."""
    stage = OURS[name]
    return Stage(stage.base, [*(whole(stage.base).steps if stage.base in OURS else []), *stage.steps])


# Images -------------------------------------------------------------------------------------------


def test_the_agent_is_what_is_built_by_default() -> None:
    """It is the last stage, and each image that compose builds is a stage."""
    assert list(OURS)[-1] == "agent"
    for service in SERVICES.values():
        if "build" in service:
            assert service["build"].get("target", "agent") in OURS
            assert (COMPOSE_FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).exists()


@pytest.mark.parametrize("name", ["agent", "simulator", "exporter", "crowd", "collect"])
def test_an_image_is_not_root_and_writes_nowhere_else(name: str) -> None:
    """Its user is a number, not 0; its folder is that user's; Python compiles nothing there; pip is gone."""
    image, made = whole(name), whole(f"build-{name}")
    assert image.last("USER") == "65532:65532"
    assert image.last("WORKDIR") == "/var/lib/meteragent"
    assert "install -d -m 0700 -o 65532 -g 65532 /var/lib/meteragent" in image.all("RUN")
    assert "PYTHONDONTWRITEBYTECODE=1" in image.last("ENV")
    assert "python -m venv --without-pip /opt/meteragent" in made.all("RUN")[0]
    assert "find /opt/meteragent -name tests -type d -prune -exec rm -r {} +" in made.all("RUN")[-1]
    assert f"--from=build-{name} /opt/meteragent /opt/meteragent" in image.all("COPY")
    order = [each for each, _ in image.steps]
    assert order.index("USER") > order.index("RUN")


def test_the_agent_s_command_is_one() -> None:
    """It runs the program that is installed; its health asks about the same configuration."""
    image = whole("agent")
    (program,), (command, path) = (json.loads(image.last(name)) for name in ("ENTRYPOINT", "CMD"))
    asked = json.loads(image.last("HEALTHCHECK").partition("CMD ")[2])
    assert Path(program).name in PROJECT["scripts"]
    assert asked == [program, "health", "--quiet", path]
    for name in (command, "health"):
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0
    assert image.last("VOLUME") == "/var/lib/meteragent"


def test_the_image_says_what_it_is() -> None:
    """Its labels are those of OCI: the project's description and licence; version and revision are given."""
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', whole("agent").last("LABEL")))
    assert labels == {
        "title": PROJECT["name"],
        "description": PROJECT["description"],
        "licenses": PROJECT["license"],
        "version": "${VERSION}",
        "revision": "${REVISION}",
    }
    assert {text.partition("=")[0] for text in OURS["agent"].all("ARG")} == {"VERSION", "REVISION"}


def test_what_is_installed_exists() -> None:
    """Locks are files, wheels are of this repository, and the exporter is where it is started.

    Only the simulators' image has the second distribution.
    """
    assert [name for name, stage in OURS.items() if "simulators" in " ".join(stage.all("COPY"))] == [
        "build-simulator"
    ]
    for name in ("agent", "simulator", "exporter", "crowd", "collect"):
        made = OURS[f"build-{name}"].last("RUN")
        assert f"install --require-hashes -r {name}.lock.txt" in made
        assert "install --no-deps --no-index wheels/*.whl" in made
        for file in re.findall(r"deploy/[\w./]+\.\w+", made):
            assert (ROOT / file).exists()
    made = OURS["build-exporter"].last("RUN")
    assert json.loads(whole("exporter").last("ENTRYPOINT"))[1] == "/opt/meteragent/exporter.py"
    assert "cp deploy/exporter/exporter.py /opt/meteragent/" in made


def test_what_is_copied_is_sent_to_the_builder() -> None:
    """The ignore file lets through what is copied, that exists, and neither stores nor secrets."""
    lines = (FILES[0].with_name("Dockerfile.dockerignore")).read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    through = {rule[1:] for rule in rules if rule.startswith("!")}
    copies = [text for stage in OURS.values() for text in stage.all("COPY") if "--from=" not in text]
    copied = {name for text in copies for name in text.split()[:-1]}
    assert copied == through
    assert all([*ROOT.glob(name)] for name in copied)
    second = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    assert any(fnmatch.fnmatch("__pycache__", rule) for rule in second)
    assert {"README.md", "hatch_build.py", *PROJECT["license-files"], "meteragent", "simulators"} <= copied


def test_the_add_on_s_image_starts_its_own_program() -> None:
    """It is made of the wheel and run.py beside it, and its health asks about the file that run.py writes."""
    build, stage = stages(ADDON / "Dockerfile").values()
    assert build.last("COPY") == "*.whl run.py requirements.lock.txt ./"
    assert "install --require-hashes -r requirements.lock.txt" in build.last("RUN")
    assert (ADDON / "run.py").exists()
    assert json.loads(stage.last("CMD")) == ["/opt/meteragent/bin/python", "/opt/meteragent/run.py"]
    asked = json.loads(stage.last("HEALTHCHECK").partition("CMD ")[2])
    assert asked == [
        "/opt/meteragent/bin/meteragent",
        "health",
        "--quiet",
        "/data/meteragent/meteragent.toml",
    ]


# Locks ------------------------------------------------------------------------------------------------


def locked(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the version and the hashes of each package of a lock."""
    entries = path.read_text().replace("\\\n", " ").splitlines()[1:]
    rows = {entry.partition("==")[0]: entry.partition("==")[2].split() for entry in entries}
    return {name: (words[0], words[1:]) for name, words in rows.items()}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_every_package_by_hash_and_no_address(path: Path) -> None:
    """What the distributions ask for is in it, in a version that they accept, and nothing says where from."""
    packages = locked(path)
    for wanted in LOCKS[path]:
        name, least = re.findall(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)", wanted)[0]
        version = [int(part) for part in packages[name.lower()][0].split(".")]
        assert version >= [int(part) for part in least.split(".")], wanted
    for _, hashes in packages.values():
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes)
    assert "://" not in path.read_text()
    assert len(packages["numpy"][1]) == len(lock.PLATFORMS) if "numpy" in packages else True


def test_locks_agree() -> None:
    """A package has the same version in all images, so the exporter reads what the agent writes."""
    versions: dict[str, set[str]] = {}
    for path in LOCKS:
        for name, (version, _) in locked(path).items():
            versions.setdefault(name, set()).add(version)
    assert not {name for name, several in versions.items() if len(several) > 1}


# Trial ------------------------------------------------------------------------------------------------


def test_the_loopback_override_covers_the_chain(tmp_path: Path) -> None:
    """Every service but Grafana is put into one network, and brokers listen on addresses of their own."""
    services = yaml.safe_load(chain.written(chain.override(tmp_path)).replace("!reset", ""))["services"]
    assert set(services) == set(SERVICES) - {"grafana"}
    assert {service["network_mode"] for service in services.values()} == {f"container:{chain.NET}"}
    for name in ("house", "utility"):
        assert f"listener 1883 {chain.ADDRESSES[name]}\n" in (tmp_path / f"{name}.conf").read_text()
        assert SERVICES[name]["image"].partition(":")[0] in chain.STAND_INS


def test_files_that_differ_are_named() -> None:
    """Two listings are the same, or the file that differs is named."""
    images.must_be_same({"a": "1"}, {"a": "1"}, "meteragent")
    with pytest.raises(Failed, match="'b'"):
        images.must_be_same({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, "meteragent")


def test_a_machine_without_an_engine_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and is no failure."""

    def refuse() -> None:
        raise Missing("there is no Docker Engine")

    monkeypatch.setattr(debian, "must_be_possible", lambda: None)
    monkeypatch.setattr(engine, "must_be_possible", refuse)
    assert image.main([]) == 0
    assert capsys.readouterr().out == "NOT RUN: the images: there is no Docker Engine\n"


def test_podman_asks_for_health_too() -> None:
    """The Quadlet unit runs the image's own check, shut in as the Dockerfile says."""
    unit = (DEPLOY / "quadlet" / "meteragent.container").read_text()
    asked = json.loads(whole("agent").last("HEALTHCHECK").partition("CMD ")[2])
    assert f"HealthCmd={' '.join(asked)}\n" in unit
    assert {"ReadOnly=true", "DropCapability=all", "NoNewPrivileges=true"} <= set(unit.splitlines())
    assert "--memory=256m --memory-swap=256m" in unit
    assert "RestartPreventExitStatus=78" in unit


# Compose ------------------------------------------------------------------------------------------


def members(network: str) -> set[str]:
    """The services on a network."""
    return {name for name, service in SERVICES.items() if network in service.get("networks", ())}


@pytest.mark.parametrize("folder", COMPOSES, ids=lambda folder: folder.name)
def test_a_service_is_shut_in(folder: Path) -> None:
    """No capability, no new rights; a read-only root, but for Grafana, which writes in its own.

    What we build has its packages by hash, no memory is swapped to a disk, and health checks print nothing.
    """
    document = COMPOSES[folder]
    for name, service in document["services"].items():
        assert set(service) <= KEYS
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("read_only") is True or name == "grafana"
        assert "build" in service or re.search(r":v?\d+\.\d[\w.]*(@sha256:\w{64})?$", service["image"])
        assert "dockerfile_inline" not in service.get("build", {})
        assert service.get("mem_limit") == service.get("memswap_limit")
        assert service.get("build", {}).get("target", "agent") in OURS
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert set(service.get("depends_on", ())) <= set(document["services"])
        assert "--quiet" in service.get("healthcheck", {}).get("test", ["--quiet"])
        assert set(service.get("secrets", ())) <= set(document.get("secrets", ()))
        for volume in service.get("volumes", ()):
            place = volume.split(":")[0]
            is_known = place.startswith("./") or (folder / place).exists()
            assert is_known if place.startswith(".") else place in document["volumes"], volume


def test_counts_of_arrivals_are_kept_in_memory() -> None:
    """Prometheus beside the agent writes to no volume, and its memory is not swapped."""
    service = SERVICES["prometheus"]
    [place] = [
        word.partition("=")[2] for word in service["command"] if word.startswith("--storage.tsdb.path")
    ]
    assert [mount.partition(":")[0] for mount in service["tmpfs"]] == [place]
    assert all(volume.endswith(":ro") for volume in service["volumes"])
    assert service["mem_limit"] == service["memswap_limit"]


def test_networks_are_the_access_list() -> None:
    """Raw readings: meters, their broker, the agent. Counts: the agent, Prometheus with it, Grafana."""
    assert members("house") == {"house", "simulator", "agent"}
    assert members("outside") == {"utility", "exporter", "agent"}
    assert members("watch") == {"agent", "grafana"}
    assert set(COMPOSE["networks"]) == {"house", "outside", "watch"}
    for name in ("house", "outside"):
        assert COMPOSE["networks"][name] == {"internal": True}


def test_prometheus_is_in_the_agent_s_network() -> None:
    """It queries the agent over the loopback interface, and listens only on the monitoring network."""
    service = SERVICES["prometheus"]
    assert service["network_mode"] == "service:agent"
    assert "networks" not in service
    where = SERVICES["agent"]["networks"]["watch"]["ipv4_address"]
    assert f"--web.listen-address={where}:9090" in service["command"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in PROMETHEUS["scrape_configs"]}
    page = config.load(COMPOSE_FOLDER / "meteragent.toml").page
    assert page is not None
    assert targets == {"meteragent": [page.listen], "exporter": ["exporter:9321"]}
    assert page.listen.startswith("127.0.0.1:")
    mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert mounted["../prometheus"] == "/etc/prometheus"
    assert "--config.file=/etc/prometheus/prometheus.yaml" in service["command"]
    assert [Path(rule).name for rule in PROMETHEUS["rule_files"]] == ["alerts.yaml"]
    assert (DEPLOY / "prometheus" / "alerts.yaml").exists()


def test_grafana_finds_what_it_shows() -> None:
    """Source and dashboard are provided where it looks for them."""
    mounted = {volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]}
    provider = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yaml").read_text())["providers"][0]
    source = yaml.safe_load((DEPLOY / "grafana" / "datasources.yaml").read_text())["datasources"][0]
    assert f"{provider['options']['path']}/meteragent.json" in mounted
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in mounted
    assert {"/etc/grafana/provisioning/datasources/meteragent.yaml"} <= mounted
    assert {"/etc/grafana/provisioning/dashboards/meteragent.yaml"} <= mounted
    assert source["url"] == "http://agent:9090"


def test_the_agent_s_configuration_fits() -> None:
    """It is accepted, says that it is for looking at, and its brokers and topics are those of the others."""
    text = (COMPOSE_FOLDER / "meteragent.toml").read_text()
    (stream,) = config.parse(text).stream
    assert "not to share" in text
    assert (stream.source.url, config.sink_url(stream)) == ("mqtt://house:1883", "mqtt://utility:1883")
    command = shlex.split(" ".join(SERVICES["simulator"]["command"]))
    first = (
        command.index(";") if ";" in command else next(i for i, word in enumerate(command) if word[-1] == ";")
    )
    made, sent = (parsed(generate, command[3 : first + 1]), parsed(replay, command[first + 5 :]))
    assert made.out.rstrip(";") == sent.trace
    assert (made.homes, made.step, sent.time, sent.watts) == (1, 10, "time", "watts")
    assert (sent.url, sent.meters, sent.loop) == (stream.source.url, 20, 0)
    assert sent.topic in {None, stream.source.topic}
    assert sent.speed in {None, 1.0}
    assert SERVICES["agent"]["ulimits"] == {"core": 0}
    assert SERVICES["agent"]["mem_limit"] == SERVICES["agent"]["memswap_limit"]


def parsed(command: Any, words: list[str]) -> argparse.Namespace:
    """A command's arguments; it ends the test where they make no sense."""
    assert words[0] == command.__name__
    parser = argparse.ArgumentParser()
    command(parser)
    return parser.parse_args([word.rstrip(";") for word in words[1:]])


def test_the_exporter_s_arguments_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would listen where Prometheus asks, on the broker that the agent sends to."""
    listening: list[tuple[object, ...]] = []
    monkeypatch.setattr(exporter, "start_http_server", lambda *where: listening.append(where[:2]))
    monkeypatch.setattr(paho.Client, "loop_forever", lambda *_, **__: None)
    exporter.main(SERVICES["exporter"]["command"])
    assert listening == [(9321, "0.0.0.0")]


@pytest.mark.parametrize("name", ["house", "utility"])
def test_the_brokers_start(mosquitto: MakeBroker, name: str) -> None:
    """Each broker accepts its settings; a broker that persists names a folder that is a volume."""
    lines = (COMPOSE_FOLDER / "mosquitto" / f"{name}.conf").read_text().splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert settings.pop("listener") == "1883"
    place = settings.pop("persistence_location", "/mosquitto/data/")
    mounted = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]
    assert settings["persistence"] == "false" or place.rstrip("/") in mounted
    with mosquitto(settings=settings | {"persistence": "false"}) as running:
        assert isinstance(running, Broker)
        assert "Error" not in (running.folder / "log").read_text()
