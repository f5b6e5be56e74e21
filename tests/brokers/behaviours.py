"""What a broker does with our client, one behaviour at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiomqtt import MqttError

from meteragent.domain.errors import LinkError
from meteragent.mqtt import WEEK_S, Will
from tests.brokers.trial import ANSWER_S, COMES_S, QUIET_S, Measured, Trial, came, warned
from tests.support.mqtt_peer import Peer, soon, token

OPEN: Final = 1000
"""Messages that are left unacknowledged: more than brokers allow by default."""
SENT: Final = 300
AWAY: Final = 8
"""Fewer than any broker leaves unacknowledged."""
NAMES: Final = ("a.b", "1-0:1.8.0", "a b", "é", "a*b", "a>b")
"""Names of meters that brokers with subjects of their own translate."""
LARGE_BYTES: Final = 5 * 2**20
"""More than the client reads."""
DAY_S: Final = 86_400
SHORTER: Final = r"keeps a lost session for (\d+) s instead of the requested (\d+) s"
"""The client's warning of a session expiry that is shorter than requested."""


async def connects(trial: Trial) -> Measured:
    """Connect with the stated version."""
    async with trial.client("connect", session_expiry_s=0) as peer:
        return await _connected(peer, {4: "yes", 5: "yes"})


async def falls_back(trial: Trial) -> Measured:
    """Connect with `auto`: 3.1.1 where 5 is refused or not answered."""
    began_s = asyncio.get_running_loop().time()
    async with trial.client("auto", "auto", session_expiry_s=0) as peer:
        async with asyncio.timeout(3 * ANSWER_S):
            session = await peer.sessions.get()
    took_s = asyncio.get_running_loop().time() - began_s
    return Measured(f"{'5' if session.version == 5 else '3.1.1'} in {took_s:.1f} s", True)


async def _connected(peer: Peer, texts: Mapping[int, str]) -> Measured:
    """Return which session comes, or the warning why none does."""
    session = asyncio.ensure_future(peer.sessions.get())
    reason = asyncio.ensure_future(peer.log.get())
    async with asyncio.timeout(2 * ANSWER_S):
        await asyncio.wait({session, reason}, return_when=asyncio.FIRST_COMPLETED)
    if session.done():
        reason.cancel()
        return Measured(texts[session.result().version], True)
    session.cancel()
    why = reason.result().partition(": ")[2].partition(";")[0]
    return Measured(why, False)


async def keeps_session(trial: Trial) -> Measured:
    """Keep for a week what comes while we are away, or say that it is kept for less."""
    topic = trial.topic("away")
    async with trial.client("session") as peer:
        await (await peer.session()).subscribe(topic)
        less = warned(peer, SHORTER)
    await trial.send(topic, *map(str, range(AWAY)))
    async with trial.client("session") as peer:
        present = (await peer.session()).session_present
        messages = await came(peer, COMES_S if present else 1.0)
    whole = [int(got.payload) for got in messages] == list(range(AWAY))
    granted = (
        "" if trial.version == "3.1.1" else "7 d" if less is None else f"{int(less[1]) / DAY_S:g} d, warned"
    )
    assert less is None or int(less[2]) == WEEK_S
    text = ", ".join(filter(None, (granted, f"{len(messages)}/{AWAY} kept")))
    return Measured(text if present else f"{text}, forgotten", present and whole)


async def leaves_open(trial: Trial) -> Measured:
    """Send OPEN messages though none is acknowledged."""
    topic = trial.topic("open")
    async with trial.client("open", session_expiry_s=0) as peer:
        await (await peer.session()).subscribe(topic)
        await trial.send(topic, *map(str, range(OPEN)))
        count = len(await came(peer))
    return Measured(f"{count}+" if count == OPEN else str(count), count == OPEN)


async def sends_again(trial: Trial) -> Measured:
    """Send what was not acknowledged, and nothing else, to the next connection."""
    topic = trial.topic("again")
    async with trial.client("again") as peer:
        session = await peer.session()
        await session.subscribe(topic)
        await trial.send(topic, *map(str, range(AWAY)))
        messages = await peer.get(AWAY)
        session.acknowledge(token(got) for got in messages[::2])
        session.publish(trial.topic("done"), b"")
        await soon(peer.delivered.get())  # so it has read the acknowledgements too
    began_s = asyncio.get_running_loop().time()
    async with trial.client("again") as peer:
        await peer.session()
        messages = await came(peer)
        took_s = asyncio.get_running_loop().time() - began_s - QUIET_S
    exact = sorted(int(got.payload) for got in messages) == list(range(1, AWAY, 2))
    text = f"{len(messages)} of {AWAY // 2}" + (
        f" after {took_s:.1f} s" if messages else f" within {COMES_S:g} s"
    )
    return Measured(text, exact)


async def takes(trial: Trial) -> Measured:
    """Take publications, answer each once, and pass each on once and in order."""
    topic, unanswered = trial.topic("out"), set[int]()
    async with trial.other() as client, trial.client("out", session_expiry_s=0) as peer:
        await client.subscribe(topic, qos=1)
        session = await peer.session()
        for number in range(SENT):
            if len(unanswered) >= session.inflight:
                unanswered.remove((await soon(peer.delivered.get()))[0])
            unanswered.add(session.publish(topic, b"%d" % number))
        while unanswered:
            unanswered.remove((await soon(peer.delivered.get()))[0])
        messages = client.messages
        received = [int((await soon(anext(messages))).payload or b"") for _ in range(SENT)]
    return Measured(f"{len({*received})}/{SENT}, {session.inflight} at once", received == list(range(SENT)))


async def retains(trial: Trial) -> Measured:
    """Send retained messages to later subscribers, by topic and by wildcard."""
    topic, told = trial.topic("retained", "m1"), []
    async with trial.client("retains", session_expiry_s=0) as peer:
        (await peer.session()).publish(topic, b"1", retain=True)
        await soon(peer.delivered.get())
    for how, topic_filter in (("topic", topic), ("wildcard", trial.topic("retained", "+"))):
        async with trial.client(f"retained-{how}", session_expiry_s=0) as peer:
            await (await peer.session()).subscribe(topic_filter)
            if [got.retain for got in await came(peer, 2.0)] == [True]:
                told.append(how)
    return Measured(" and ".join(told) or "neither", len(told) == 2)


async def passes_names(trial: Trial) -> Measured:
    """Take publications on topics with meters' names, and pass them on under those names."""
    told = []
    async with (
        trial.client("hears", session_expiry_s=0) as peer,
        trial.client("marks", session_expiry_s=0) as marks,
    ):
        await (await peer.session()).subscribe(trial.topic("names", "+", "power"))
        marker = await marks.session()
        for name in NAMES:
            answered = await _answered(trial, trial.topic("names", name, "power"))
            marker.publish(trial.topic("names", "end", "power"), b"")
            heard = None
            while (topic := (await soon(peer.messages.get())).topic.split("/")[2]) != "end":
                heard = topic
            if not answered:
                told.append(f"`{name}` cut off")
            elif heard != name:
                told.append(f"`{name}` " + (f"as `{heard}`" if heard else "lost"))
        lost = "lost" in peer.counts
    return Measured(", ".join(told) or "all", not told and not lost)


async def _answered(trial: Trial, topic: str) -> bool:
    """Return whether a publication is answered; a broker may also end the connection."""
    async with trial.client("names", session_expiry_s=0) as peer:
        (await peer.session()).publish(topic, b"1")
        answer = asyncio.ensure_future(peer.delivered.get())
        reason = asyncio.ensure_future(peer.log.get())
        await asyncio.wait({answer, reason}, timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        answered = answer.done()
        answer.cancel()
        reason.cancel()
    return answered


async def sends_large(trial: Trial) -> Measured:
    """Let the connection stand when somebody sends more than we read."""
    topic = trial.topic("large")
    async with trial.client("large") as peer:
        await (await peer.session()).subscribe(topic)
        try:
            await trial.send(topic, bytes(LARGE_BYTES))
        except MqttError:
            text = "refused at the sender"
        else:
            text = "not sent on"
        await trial.send(topic, b"small")
        while (small := await soon(peer.messages.get())).topic != topic:
            pass  # amqtt also sends what nobody subscribed to
        if "oversized" in peer.counts:
            text = "skipped"
        if "lost" in peer.counts:
            text += ", connection lost"
        return Measured(text, small.payload == b"small" and "lost" not in peer.counts)


async def tells_will(trial: Trial) -> Measured:
    """Publish the will when the connection is lost."""
    topic = trial.topic("will")
    async with trial.other() as client, trial.client("will", will=Will(topic, b"gone")) as peer:
        await client.subscribe(topic, qos=1)
        session = await peer.session()
        began_s = asyncio.get_running_loop().time()
        session._transport.abort()
        while not (message := await soon(anext(client.messages))).topic.matches(topic):
            pass
        took_s = asyncio.get_running_loop().time() - began_s
    return Measured(f"{took_s:.1f} s", message.payload == b"gone")


Behaviour = Callable[[Trial], Awaitable[Measured]]

BEHAVIOURS: Final[Mapping[str, Behaviour]] = {
    "session": keeps_session,
    "again": sends_again,
    "open": leaves_open,
    "out": takes,
    "retained": retains,
    "names": passes_names,
    "large": sends_large,
    "will": tells_will,
}


async def measure(behaviour: Behaviour, trial: Trial) -> Measured:
    """Measure a behaviour; one that fails does not hold."""
    try:
        return await behaviour(trial)
    except (AssertionError, LinkError, MqttError, OSError, TimeoutError) as error:
        return Measured(f"failed: {type(error).__name__} {error}".strip(), False)
