"""The source of NATS at a real server: what it says when it cannot read, and what comes again."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent.collect import nats as source_module
from meteragent.collect.core import PAYLOAD_MAX, Message
from meteragent.collect.nats import NatsSource
from meteragent.collect.topic import StreamTopic
from meteragent.mqtt import Endpoint
from tests.integration.collecting import send
from tests.integration.service import end_tasks, until
from tests.support.broker import Certificates, free_port
from tests.support.collecting import TEMPLATE, record_messages, terms_message, topic
from tests.support.nats import Nats, nats_program
from tests.support.stores import TERMS


def endpoint(server: Nats) -> Endpoint:
    """Return the address and the login of deploy/collect."""
    return Endpoint("127.0.0.1", server.port, tls=False, username="collect", password="password")


@asynccontextmanager
async def connected(server: Endpoint, template: str = TEMPLATE) -> AsyncIterator[NatsSource]:
    """Run a source; at the end, disconnect."""
    filters = StreamTopic.parse("main", template).filters
    source = NatsSource([server], "test", filters, os.urandom)
    running = asyncio.create_task(source.run())
    try:
        yield source
    finally:
        await end_tasks(running)


async def received(source: NatsSource, count: int) -> list[Message]:
    """Wait for a number of messages."""
    messages: list[Message] = []
    while len(messages) < count:
        messages += await asyncio.wait_for(source.take_batch(count - len(messages)), 30)
    return messages


async def test_what_cannot_be_read_is_said(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong password and a subject without a stream each have a message of their own."""
    for server, template, text in (
        (replace(endpoint(nats), password="wrong"), TEMPLATE, "source.username"),
        (endpoint(nats), "other/{meter}", "no stream holds the subject other.*: docs/collect.md"),
    ):
        async with connected(server, template):
            await until(lambda text=text: text.replace("\\", "") in caplog.text)  # type: ignore[misc]
    assert "wrong" not in caplog.text


async def test_what_is_not_acknowledged_comes_again(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later connection gets exactly what was not acknowledged, with its topic, cut where too large."""
    monkeypatch.setattr(source_module, "ACK_WAIT_S", 1)
    sent = [*record_messages(TERMS, range(4)), terms_message(TERMS), Message(topic("m2"), b"x" * 100_000)]
    await send(nats.mqtt_url, sent)
    async with connected(endpoint(nats)) as source:
        messages = await received(source, len(sent))
        assert sorted(message.topic for message in messages) == sorted(message.topic for message in sent)
        large = max(messages, key=lambda message: len(message.payload))
        assert len(large.payload) == PAYLOAD_MAX + 1
        await source.acknowledge(messages[:3])
        await asyncio.sleep(0.1)
    async with connected(endpoint(nats)) as source:
        again = await received(source, 3)
        assert sorted(message.payload for message in again) == sorted(
            message.payload for message in messages[3:]
        )
        await source.acknowledge(again)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.take_batch(1), 1.5)


async def test_reading_pauses(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more wait in memory than the limit and a request; the rest comes as they are taken."""
    monkeypatch.setattr(source_module, "QUEUE_MAX", 20)
    monkeypatch.setattr(source_module, "PULL_MAX", 10)
    await send(nats.mqtt_url, record_messages(TERMS, range(100)))
    async with connected(endpoint(nats)) as source:
        await until(lambda: len(source._queue._messages) >= 20)
        await asyncio.sleep(0.3)
        assert len(source._queue._messages) < 20 + 10
        assert len({message.payload for message in await received(source, 100)}) == 100


async def test_a_server_without_jetstream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says what is missing."""
    program = nats_program()
    assert program is not None
    server = Nats(program, tmp_path)
    path = tmp_path / "nats.conf"
    path.write_text(f'listen: "127.0.0.1:{server.port}"')
    with server:
        async with connected(replace(endpoint(server), username=None, password=None)):
            await until(lambda: "JetStream" in caplog.text)


async def test_a_wrong_certificate_is_said_and_tried_again(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """The source is refused a certificate of another authority, says so, and connects with the right one."""
    program = nats_program()
    assert program is not None
    (tmp_path / "other").mkdir()
    server = Nats(program, tmp_path, Certificates.make(tmp_path / "other"))
    address = replace(endpoint(server), tls=True, ca_file=str(certificates.ca))
    async with connected(address):
        with server:
            await until(lambda: "CERTIFICATE_VERIFY_FAILED" in caplog.text)
        configuration = tmp_path / "nats.conf"
        text = configuration.read_text()
        right = text.replace(str(tmp_path / "other"), str(certificates.server.parent))
        configuration.write_text(right)
        with server:
            # It has no streams, which it says only to those who have connected.
            await until(lambda: "no stream holds the subject" in caplog.text)


async def test_a_server_that_is_not_there_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the reason within seconds, with the system's word for it."""
    async with connected(Endpoint("127.0.0.1", free_port(), tls=False)):
        await until(lambda: "Connect call failed" in caplog.text, 5)


async def test_a_server_that_is_gone_is_noticed(nats: Nats) -> None:
    """The source is up while the server answers, and no longer once it is gone."""
    async with connected(endpoint(nats)) as source:
        await until(lambda: source.is_up)
        nats.kill()
        await until(lambda: not source.is_up)
