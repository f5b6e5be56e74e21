"""meteragent.mqtt: when a connection is given up, in real time."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt.transport import CLOSE_TIMEOUT_S
from tests.support.broker import Certificates
from tests.support.fake_broker import PINGREQ, FakeBroker, Wire
from tests.support.mqtt_peer import closed, connected, soon, turns


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


def sockets() -> int:
    """How many sockets this process has."""
    return sum(path.is_socket() for path in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("unsent_bytes", [0, 32 * 2**20])
async def test_a_half_open_connection_is_given_up(unsent_bytes: int) -> None:
    """A broker silent for two keep-alives is left, also when it no longer takes what we send."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await gone.wait()

    gone = asyncio.Event()
    now_s = asyncio.get_running_loop().time
    async with FakeBroker(script, accept) as broker, connected(broker.url, keepalive_s=1) as peer:
        session = await peer.session()
        started_s = now_s()  # the broker is silent from here on; to hand over 32 MiB takes a while
        session.publish("t", bytes(unsent_bytes))
        with pytest.raises(LinkError, match="the connection was lost"):
            await soon(closed(session))
        assert 1.9 < now_s() - started_s < 3.0 + CLOSE_TIMEOUT_S
        gone.set()
        await peer.session()


async def test_a_broker_that_does_not_let_go_is_left(certificates: Certificates) -> None:
    """TLS waits for the other side's farewell: not longer than `CLOSE_TIMEOUT_S`."""

    async def script(wire: Wire) -> None:
        await wire.hello()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await left.wait()
        wire.writer.transport.abort()

    left = asyncio.Event()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    trust = {"ca_file": certificates.ca}
    async with (
        FakeBroker(script, tls=context) as broker,
        connected(broker.url, credentials=trust, timeout_s=0.2) as peer,
    ):
        before = sockets()
        assert "no answer" in await peer.warned()
        await turns(3)
        assert sockets() == before + 1  # the broker's; ours is gone
        left.set()
        await turns(5)


async def test_a_quiet_connection_is_kept() -> None:
    """Pings keep it: it outlives three keep-alives without a message."""
    pings = asyncio.Queue[int]()

    async def script(wire: Wire) -> None:
        await wire.accept()
        with suppress(asyncio.IncompleteReadError):
            while True:
                pings.put_nowait((await wire.packet()).kind)
                wire.send(b"\xd0\x00")

    async with FakeBroker(script) as broker, connected(broker.url, keepalive_s=1) as peer:
        await peer.session()
        assert [await soon(pings.get()) for _ in range(3)] == [PINGREQ] * 3
        assert peer.counts == []
