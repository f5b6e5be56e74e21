"""Brokers that grant too little: `health` names what is missing, and numbers leave if they can."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.service.health import ask_socket, socket_path
from tests.conftest import MakeBroker
from tests.integration.service import Scenarios, Service, meters, service, stream, until, utility
from tests.support.broker import Broker, Certificates

VERSIONS = ("5", "3.1.1")
STATUS = 'status = "agent/status"\n'
REFUSED = {
    "no qos": ("qos_refused", "max_qos"),
    "prefix": ("login_refused", "source.client_id"),
    "mutual": ("certificate_wanted", "source.cert_file"),
    "authority": ("certificate_unknown", "source.ca_file"),
    "plain": ("no_answer", "source.url"),
    "tls": ("port_without_tls", "source.url"),
}
"""The problem's code and the key that its advice names, by scenario."""


class Outcome(NamedTuple):
    """The codes of the problems, and what the sink's broker sent on."""

    codes: list[str]
    advice: list[str]
    records: int = 0
    retained: tuple[bool, ...] = ()


async def told(agent: Service, code: str | None = None, key: str = "") -> Outcome:
    """Wait until the agent has a problem with this code, advice that names a key, or else no problem at all.

    Source and sink may have the same code, and one of them is refused first.
    """
    while True:
        answer = await asyncio.to_thread(ask_socket, socket_path(agent.store))
        details = [] if answer is None else json.loads(answer)["problem_details"]
        outcome = Outcome([problem["code"] for problem in details], [problem["cure"] for problem in details])
        is_named = code in outcome.codes and any(key in advice for advice in outcome.advice)
        if answer is not None and (not details if code is None else is_named):
            return outcome
        assert agent.runs, agent.log
        await asyncio.sleep(0.2)


def keys(version: str, *more: str) -> str:
    """Lines of a broker's table."""
    return "\n".join([f'protocol = "{version}"', *more])


@pytest.fixture(scope="module")
def outcomes(
    mosquitto: MakeBroker, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Scenarios:
    """All of them, side by side."""
    scenarios: list[Callable[[Path], Any]] = []

    def add(name: str, scenario: Callable[[Path, Broker], Any], **options: Any) -> None:
        async def run(folder: Path) -> Outcome:
            with mosquitto(**options) as broker:
                outcome: Outcome = await scenario(folder, broker)
                return outcome

        run.__name__ = name
        scenarios.append(run)

    def refused(url: Callable[[str], str], name: str, *, version: str, source: str = "") -> Any:
        """A scenario of an agent that is not taken, whose `health` says what `REFUSED` has for it."""

        async def run(folder: Path, broker: Broker) -> Outcome:
            lines = keys(version, source)
            with service(folder, stream(url(broker.url), source=lines, sink=keys(version))) as agent:
                agent.start()
                return await told(agent, *REFUSED[name])

        return run

    def same(url: str) -> str:
        return url

    def other(url: str) -> str:
        return url.replace("mqtts", "mqtt") if "mqtts" in url else url.replace("mqtt", "mqtts")

    trusted = f'ca_file = "{certificates.ca}"'
    for version in VERSIONS:
        bare = {"retain_available": "false"}
        for status in ("", STATUS) if version == "5" else ("",):
            name = f"no retain {version} {'with' if status else 'without'} status"
            add(name, _unretained(version, status), settings=bare)
        add(f"no qos {version}", refused(same, "no qos", version=version), settings={"max_qos": 0})
        prefix = {"clientid_prefixes": "home-"}
        add(f"prefix {version}", refused(same, "prefix", version=version), settings=prefix)
        add(f"client id {version}", _accepted(version), settings=prefix)
        add(
            f"mutual {version}",
            refused(same, "mutual", version=version, source=trusted),
            certificates=certificates,
            is_mutual=True,
        )
        add(
            f"authority {version}",
            refused(same, "authority", version=version),
            certificates=certificates,
        )
        add(f"plain {version}", refused(other, "plain", version=version), certificates=certificates)
        add(f"tls {version}", refused(other, "tls", version=version))
    result = Scenarios(tmp_path_factory.mktemp("brokers"), *scenarios)
    asyncio.run(result.run())
    return result


def _unretained(version: str, status: str) -> Callable[[Path, Broker], Any]:
    """A scenario of a broker without retained messages."""

    async def run(folder: Path, broker: Broker) -> Outcome:
        text = stream(broker.url, source=keys(version), sink=keys(version, status))
        async with utility(broker) as inbox, meters(broker) as line:
            with service(folder, text) as agent:
                agent.start()

                async def send() -> None:
                    while True:
                        await line.send("home", 100)
                        await asyncio.sleep(0.2)

                sending = asyncio.create_task(send())
                try:
                    await until(lambda: len(inbox.records()) >= 3)
                    outcome = await told(agent, "no_retain")
                finally:
                    sending.cancel()
                await agent.stop()
            descriptors = [message for message in inbox.messages if not message.is_record]
            assert descriptors
            flags = tuple(message.retain for message in descriptors)
            return outcome._replace(records=len(inbox.records()), retained=flags)

    return run


def _accepted(version: str) -> Callable[[Path, Broker], Any]:
    """A scenario of client ids with the prefix that the broker asks for."""

    async def run(folder: Path, broker: Broker) -> Outcome:
        source = keys(version, 'client_id = "home-in"')
        text = stream(broker.url, source=source, sink=keys(version, 'client_id = "home-out"'))
        with service(folder, text) as agent:
            agent.start()
            outcome = await told(agent)
            log = (broker.folder / "log").read_text()
            assert " as home-in " in log
            assert " as home-out " in log
            return outcome

    return run


@pytest.mark.parametrize(
    "name", ["no retain 5 without status", "no retain 5 with status", "no retain 3.1.1 without status"]
)
def test_without_retained_messages_numbers_leave(outcomes: Scenarios, name: str) -> None:
    """Descriptors come without the flag, records as usual, and `health` says who has to wait for what."""
    outcome = outcomes[name]
    assert outcome.codes == ["no_retain"]
    assert outcome.records >= 3
    assert not any(outcome.retained)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "code", "key"), [(name, code, key) for name, (code, key) in REFUSED.items()]
)
def test_what_a_broker_does_not_grant_is_named(
    outcomes: Scenarios, name: str, code: str, key: str, version: str
) -> None:
    """Each cause has a code, and the advice names the key to set, or the broker's."""
    outcome = outcomes[f"{name} {version}"]
    assert code in outcome.codes
    assert any(key in advice for advice in outcome.advice)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_chosen_client_id_is_that_of_the_connection(outcomes: Scenarios, version: str) -> None:
    """With the prefix that the broker asks for, source and sink are taken, and all is well."""
    assert outcomes[f"client id {version}"].codes == []
