"""What deploy/crowd ships is accepted, its access list keeps homes apart, and the runbook is complete."""

import asyncio
import re
from contextlib import AsyncExitStack, suppress

import pytest
import yaml
from aiomqtt import Client, MqttError

from meteragent.crowd import group as groups
from meteragent.crowd.message import REASONS
from meteragent.operators import configuration, vitals
from tests.commands.systems import street
from tests.conftest import MakeBroker
from tests.integration.service import until
from tests.support.broker import Broker
from tests.support.not_run import ROOT

FOLDER = ROOT / "deploy" / "crowd"
RUNBOOK = (ROOT / "docs" / "crowd-operators.md").read_text()
USERS = {"h0": "a", "h1": "b", "leader": "c", "helper": "d", "collector": "e"}
ACL = (FOLDER / "acl").read_text()
BASE = "crowd/elm-street"
WRITERS = {
    "report/h0": {"h0"},
    "report/h1": {"h1"},
    "keys/leader": {"leader"},
    "keys/helper": {"helper"},
    "request": {"leader"},
    "answer": {"helper"},
    "total": {"leader"},
    "total/privacy": {"leader"},
}
READERS = {
    "report/h0": {"leader"},
    "report/h1": {"leader"},
    "keys/leader": set(USERS),
    "keys/helper": set(USERS),
    "request": {"helper"},
    "answer": {"leader"},
    "total": {"collector"},
    "total/privacy": {"collector"},
}
LIMIT_S = 30.0
DOCKERFILE = ROOT / "deploy" / "container" / "Dockerfile"
UNIT = (FOLDER / "meteragent-crowd@.service").read_text()
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())


def settings() -> dict[str, str]:
    """Return the settings of the broker that is shipped, without those that name its place."""
    lines = (FOLDER / "mosquitto.conf").read_text().splitlines()
    pairs = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {key: value for key, value in pairs.items() if not re.search("listener|file|location", key)}


def client(broker: Broker, user: str) -> Client:
    """Return a client that logs in as a user."""
    return Client("127.0.0.1", broker.port, username=user, password=USERS[user])


async def publish(broker: Broker, user: str, topic: str) -> None:
    """Publish the user's name; some versions of mosquitto close the connection of one without the right."""
    with suppress(MqttError):
        async with client(broker, user) as publisher:
            await publisher.publish(f"{BASE}/{topic}", user.encode(), qos=1)


def test_the_group_is_accepted() -> None:
    """The shipped group has every field and no contradiction."""
    assert groups.parse_group((FOLDER / "group.toml").read_text()).name == "elm-street"


def test_the_configuration_is_accepted() -> None:
    """The shipped file is valid, and shows every key."""
    text = (FOLDER / "operator.toml").read_text()
    settings = configuration.parse(text)
    assert settings.broker.username == "leader"
    keys = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
    tables = (configuration.Settings, configuration.CrowdBroker, configuration.CrowdStore)
    assert keys | {"broker", "store"} == {key for table in tables for key in table.model_fields}


async def test_a_home_reports_for_itself_only(mosquitto: MakeBroker) -> None:
    """With the access list shipped, each topic has its writers and readers, whoever tries."""
    received: dict[str, set[tuple[str, str]]] = {user: set() for user in USERS}
    expected = {
        user: {(topic, writer) for topic in WRITERS if user in READERS[topic] for writer in WRITERS[topic]}
        for user in USERS
    }
    with mosquitto(users=USERS, acl=ACL, is_persistent=True, settings=settings()) as broker:
        async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())

            async def listen(user: str, reader: Client) -> None:
                async for message in reader.messages:
                    topic = str(message.topic).removeprefix(f"{BASE}/")
                    received[user].add((topic, bytes(message.payload).decode()))

            listeners = []
            for user in USERS:
                reader = await stack.enter_async_context(client(broker, user))
                for topic in ("report/+", "keys/+", "request", "answer", "total/#"):
                    await reader.subscribe(f"{BASE}/{topic}", qos=1)
                listeners.append(tasks.create_task(listen(user, reader)))
            for topic in WRITERS:
                for user in USERS:
                    await publish(broker, user, topic)
            await until(lambda: not any(expected[user] - received[user] for user in USERS))
            for listener in listeners:
                listener.cancel()
    assert received == expected


def test_the_warnings_of_the_access_list_are_announced() -> None:
    """A pattern without a name makes mosquitto warn: there is one, and a comment above it says so."""
    patterns = re.findall(r"(?m)((?:^#.*\n)*)^pattern (?:read|write) (?!.*%[cu])(.*)$", ACL)
    assert [topic for _, topic in patterns] == [f"{BASE}/keys/+"]
    assert "does not contain '%c' or '%u'" in patterns[0][0]


@pytest.mark.parametrize(
    "line",
    [
        "DynamicUser=yes",
        "StateDirectory=meteragent-crowd-%i",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "LimitCORE=0",
        "MemorySwapMax=0",
        "Type=notify",
        "RestartPreventExitStatus=78",
    ],
)
def test_the_unit_keeps_secrets(line: str) -> None:
    """Its own user, a private state, no core dump, no swap; bad configuration is not retried."""
    assert line in UNIT.splitlines()


def test_the_trial_of_the_images_fits_what_is_shipped() -> None:
    """`make image` changes values that the shipped group, settings and access list have."""
    text = (FOLDER / "group.toml").read_text()
    assert all(re.search(rf"(?m)^{key} = ", text) for key in street.VALUES)
    for role in street.ROLES:
        assert re.search(rf'\[{role}\]\n.*\nidentity = "', text)
        assert f"user {role}\n" in ACL
    assert "listener 1883 127.0.0.1\n" in (FOLDER / "mosquitto.conf").read_text()


def test_the_container_keeps_secrets() -> None:
    """No root, a read-only file system, no swap, no core dump; the store is on a volume."""
    operator = COMPOSE["services"]["operator"]
    assert operator["build"]["target"] == "crowd"  # whose user test_deploy_container checks
    assert (FOLDER / operator["build"]["context"] / operator["build"]["dockerfile"]).samefile(DOCKERFILE)
    assert operator["read_only"]
    assert operator["cap_drop"] == ["ALL"]
    assert operator["mem_limit"] == operator["memswap_limit"]
    assert operator["ulimits"] == {"core": 0}
    assert operator["healthcheck"]["test"][2] == "health"
    assert any(volume.startswith("store:") for volume in operator["volumes"])


def test_the_runbook_explains_each_problem_and_reason() -> None:
    """Each problem of an operator, each reason in the ledger, and each metric is in the runbook."""
    names = set(vitals.PROBLEMS) | set(vitals.COUNTERS) | {REASONS[1], REASONS[2], "expired", "implausible"}
    assert [name for name in sorted(names) if f"`{name}`" not in RUNBOOK] == []
