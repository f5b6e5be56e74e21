"""A broker that answers with arbitrary bytes: the next connection stands, and nothing is left."""

import asyncio
from collections.abc import Sequence

from meteragent.mqtt import Session
from tests.support.fake_broker import FakeBroker, Wire
from tests.support.mqtt_peer import connected, soon, turns


async def hostile(data: bytes) -> str:
    """The first byte says when: before or after CONNACK, at which level; the rest is what comes."""
    first, rest = (data[0] if data else 0), data[1:]

    async def bad(wire: Wire) -> None:
        await (wire.hello() if first & 1 else wire.accept())
        for piece in _pieces(rest, first):
            wire.send(piece)
        await wire.writer.drain()

    async def good(wire: Wire) -> None:
        await wire.accept()
        await wire.end()

    became: list[str] = []

    async def serve(session: Session) -> None:
        became.append(f"MQTT {session.version}")

    # One attempt may be answered by falling back to the other version: that is another connection.
    async with FakeBroker(bad, bad, bad, good) as broker:
        version = "5" if first & 2 else "3.1.1"
        async with connected(broker.url, version=version, serve=serve, timeout_s=0.3) as peer:  # type: ignore[arg-type]
            while len(broker.levels) < 3 and not peer.task.done():
                await turns(5)
            await soon(_once(peer.task, became))
            assert not peer.task.done(), "the client has ended"
            reasons = [peer.log.get_nowait() for _ in range(peer.log.qsize())]
    return reasons[0].partition(": ")[2][:40] if reasons else "nothing said"


async def _once(task: "asyncio.Task[None]", became: Sequence[str]) -> None:
    while not became and not task.done():
        await turns(5)


def _pieces(data: bytes, first: int) -> list[bytes]:
    """In one piece, or byte by byte in the middle of packets."""
    if not first & 4:
        return [data]
    half = len(data) // 2
    return [data[:half], data[half:]]
