"""TLS with certificates on both sides of the agent, and secrets that are nowhere to be seen."""

import asyncio
import json
import resource
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

from aiomqtt import Client

from tests.conftest import MakeBroker
from tests.integration.service import LIMIT_S, now_ms, service, stream, until
from tests.support.broker import Broker, Certificates

USERS = {"agent": "canary-of-the-agent", "peer": "canary-of-the-peer"}
KEY = "canary-of-the-pseudonyms"


def client(broker: Broker, certificates: Certificates, name: str) -> Client:
    """A peer of the agent, with a certificate and a password."""
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(certificates.client, certificates.client_key)
    return Client(
        "127.0.0.1",
        broker.port,
        identifier=name,
        username="peer",
        password=USERS["peer"],
        tls_context=context,
    )


def secret(folder: Path, name: str, text: str) -> Path:
    """A file for its owner alone."""
    path = folder / name
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return path


def keys(folder: Path, certificates: Certificates) -> str:
    """What a table of the configuration says of its broker."""
    return f"""
username = "agent"
password_file = "{secret(folder, "password", USERS["agent"])}"
ca_file = "{certificates.ca}"
cert_file = "{certificates.client}"
key_file = "{certificates.client_key}"
"""


async def test_private_on_both_sides(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Readings come and records leave over TLS, each side with its own authority, certificate and password.

    No secret is in the log, in what `check` and `health` say, or in the process's arguments and environment;
    and there will be no core.
    """
    authorities = []
    for side in ("source", "sink"):
        folder = tmp_path / side
        folder.mkdir()
        authorities.append(Certificates.make(folder))
    at_home, outside = authorities
    meters, utility = (
        mosquitto(certificates=own, is_mutual=True, users=USERS, is_persistent=False) for own in authorities
    )
    outgoing = f"{keys(tmp_path, outside)}\npseudonym_key_file = '{secret(tmp_path, 'key', KEY)}'"
    text = stream(meters.url, utility.url, source=keys(tmp_path, at_home), sink=outgoing)
    with meters, utility, service(tmp_path / "agent", text, through=()) as agent:
        agent.start()
        async with AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
            await until(lambda: agent.log.count("connected with MQTT 5") == 2)
            receiver = await stack.enter_async_context(client(utility, outside, "utility"))
            await receiver.subscribe("private/main/+", qos=1)
            meter = await stack.enter_async_context(client(meters, at_home, "meter"))
            await meter.publish("meters/m1/power", json.dumps({"power": 431, "t": now_ms()}), qos=1)
            record = json.loads((await anext(aiter(receiver.messages))).payload)
        assert record["value"] in range(432)
        process = Path(f"/proc/{agent.pid}")
        seen = [agent.log, agent.command("check").stdout, agent.command("health", "--json").stdout]
        assert resource.prlimit(agent.pid, resource.RLIMIT_CORE) == (0, 0)
        seen += [(process / name).read_text() for name in ("cmdline", "environ")]
        await agent.stop()
    assert "canary" not in "".join([*seen, agent.log])
    assert "m1" not in record["meter"]


async def test_a_broker_that_is_not_the_right_one_gets_nothing(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """With the utility's authority replaced nothing leaves, and the log says why; readings still come in."""
    names = ("right", "wrong")
    for name in names:
        (tmp_path / name).mkdir()
    right, wrong = (Certificates.make(tmp_path / name) for name in names)
    meters, utility = mosquitto(), mosquitto(certificates=wrong)
    text = stream(meters.url, utility.url, sink=f'ca_file = "{right.ca}"')
    with meters, utility, service(tmp_path / "agent", text, through=()) as agent:
        agent.start()
        await until(lambda: "CERTIFICATE_VERIFY_FAILED" in agent.log)
        await until(lambda: (utility.folder / "log").read_text().count("New connection from") >= 2)
        await until(lambda: "connected with MQTT 5" in agent.log)
        said = json.loads(agent.command("health", "--json").stdout)
        await agent.kill()
    assert said["problem_codes"] == ["certificate_unknown"]
    assert "New client connected" not in (utility.folder / "log").read_text()
