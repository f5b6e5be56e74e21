"""The key list from before a new store: an operator publishes nothing before its clock has passed it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from meteragent.mqtt import Endpoint, Entropy, Link, SubscriptionRefused
from meteragent.operators import published
from meteragent.service.health import notify_systemd
from meteragent.service.process import Notify
from tests.operators.test_operators_service import Still, make_service
from tests.support.crowd import SLOT_S, Street, fixed_entropy, make_group
from tests.support.fake_session import LIMIT_S, FakeSession
from tests.support.mqtt_peer import turns

ENDPOINT = Endpoint("localhost", 1883, tls=False)


class Refusing(FakeSession):
    """A connection to a broker that does not let its client read."""

    async def subscribe(self, topic_filter: str) -> None:
        """Refuse."""
        raise SubscriptionRefused(topic_filter)


def retain(monkeypatch: pytest.MonkeyPatch, *payloads: bytes, session: FakeSession | None = None) -> None:
    """Let a broker send messages on the first subscription."""

    async def connect(link: Link, serve: Callable[[FakeSession], Any], _: Entropy) -> NoReturn:
        for payload in payloads:
            link.on_message("crowd/elm-street/keys/helper", payload, 1, True, (1,))
        await serve(session or FakeSession())
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(published, "keep_connected", connect)
    monkeypatch.setattr(published, "LISTEN_S", 0)


def key_list(role: str, at_s: int) -> bytes:
    """Return a signed list of an operator, made at a time."""
    world = Street(make_group())
    machine = world.helper if role == "helper" else world.leader
    return machine.renew_keys(at_s, fixed_entropy("later")).messages[0].payload


async def test_the_serial_is_that_of_the_operators_own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list counts if it is of this role and signed by its identity; without one the serial is 0."""
    later_s = SLOT_S + 3600
    ours, others = key_list("helper", later_s), key_list("leader", later_s)
    forged = ours[:-1] + bytes([ours[-1] ^ 1])
    for payloads, serial in (((), 0), ((b"", others, forged), 0), ((ours, others), later_s)):
        retain(monkeypatch, *payloads)
        assert await published.fetch_newest_serial(ENDPOINT, make_group(), "helper", os.urandom) == serial
    retain(monkeypatch, session=Refusing())
    assert await published.fetch_newest_serial(ENDPOINT, make_group(), "helper", os.urandom) == 0


async def test_nothing_is_published_before_the_clock_has_passed_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator waits with a problem, without a secret in its store; then it signs a higher serial."""
    clock = Still(SLOT_S)
    service = make_service(clock, "helper", tmp_path / "helper.db")
    retain(monkeypatch, key_list("helper", SLOT_S + 3600))
    monkeypatch.setattr(service._link, "run", asyncio.Event().wait)
    running = asyncio.create_task(service.run())
    await until(lambda: service.vitals().published_s == 3601)
    assert [problem.code for problem in service.vitals().problems] == ["keys_ahead"]
    clock.time_s += 3600  # the same second: a list with the same serial would be ignored
    pauses = clock.pauses
    await until(lambda: clock.pauses > pauses + 1)
    assert len(service._link.departures) == 0
    clock.time_s += 1
    await until(lambda: len(service._link.departures) == 1)
    assert service.vitals().published_s == 0
    [message] = service._link.departures.due_messages(clock.time_s + 600)
    retain(monkeypatch, message.payload)
    assert await published.fetch_newest_serial(ENDPOINT, make_group(), "helper", os.urandom) == SLOT_S + 3601
    running.cancel()
    await asyncio.wait({running})
    retain(
        monkeypatch, key_list("helper", SLOT_S + 86_400)
    )  # a store that has signed a list knows its serial
    again = make_service(clock, "helper", tmp_path / "helper.db")
    monkeypatch.setattr(again._link, "run", asyncio.Event().wait)
    running = asyncio.create_task(again.run())
    await until(lambda: len(again._link.departures) == 1)
    running.cancel()
    await asyncio.wait({running})


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(LIMIT_S):
        while not true():
            await turns(1)


async def test_the_watchdog_is_fed_while_there_is_no_round_yet() -> None:
    """Waiting for the broker or the clock is no reason to restart; a round without progress is one."""
    clock = Still(SLOT_S)
    service = make_service(clock, "helper")
    lines = list[str]()

    class Recorder(Notify):
        def send_lines(self, *texts: str) -> None:
            lines.extend(texts)

    service._notify = Recorder("@systemd", watchdog_s=60)
    clock.time_s += 3600
    for has_begun in (False, True):
        service._has_begun = has_begun
        lines.clear()
        keeping = asyncio.create_task(notify_systemd(service._notify, service._problems, service._idle_s))
        await until(lambda: any(line.startswith("STATUS=") for line in lines))
        keeping.cancel()
        assert ("WATCHDOG=1" in lines) is not has_begun
