"""meteragent.mqtt over several connections: which version, how long to wait."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.mqtt import Backoff, Endpoint
from meteragent.mqtt.link import Version
from meteragent.mqtt.reconnect import CEILING_S, FLOOR_S, STABLE_S
from tests.support.fake_broker import PUBLISH, FakeBroker, Script, Wire
from tests.support.mqtt_peer import connected, soon


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


def refuse(reason: int, properties: bytes = b"") -> Script:
    """Refuse the connection with a reason code."""

    async def script(wire: Wire) -> None:
        await wire.hello()
        wire.send(wire.connack(reason, properties=properties))

    return script


async def drop(wire: Wire) -> None:
    """Close the connection without an answer."""
    await wire.hello()


async def accept_and_close(wire: Wire) -> None:
    """Accept the connection and lose it."""
    await wire.accept()


# Which version


@pytest.mark.parametrize("door", [refuse(0x84), refuse(0x01), drop], ids=["0x84", "0x01", "dropped"])
async def test_mqtt_3_1_1_is_tried_where_5_is_refused_and_then_kept(door: Script) -> None:
    """A broker that refuses MQTT 5, or shuts the door on it, is spoken to in 3.1.1 from then on."""
    async with FakeBroker(door, accept_and_close, accept) as broker, connected(broker.url) as peer:
        assert (await peer.session()).version == 4
    assert broker.levels == [5, 4, 4]


@pytest.mark.parametrize(("version", "level"), [("5", 5), ("3.1.1", 4)])
async def test_a_version_that_is_stated_is_kept(version: Version, level: int) -> None:
    """Nothing is probed then, whatever the broker does."""
    broker = FakeBroker(refuse(0x84), drop, accept)
    async with broker, connected(broker.url, version=version) as peer:
        assert (await peer.session()).version == level
    assert broker.levels == [level] * 3


async def test_a_version_that_has_worked_is_not_doubted_for_a_shut_door() -> None:
    """A broker that restarts also drops connections, which is not a reason to fall back to 3.1.1."""
    async with FakeBroker(accept_and_close, drop, accept) as broker, connected(broker.url) as peer:
        await peer.warned()
        await peer.warned()
        await peer.session()
    assert broker.levels == [5, 5, 5]


async def test_a_broker_that_refuses_for_another_reason_is_asked_again_in_the_same_version() -> None:
    """A refusal is told with its reason; the broker is not asked in another version."""
    async with FakeBroker(refuse(0x88), refuse(0x87), accept) as broker, connected(broker.url) as peer:
        assert "the broker is not available" in await peer.warned()
        assert "not authorised" in await peer.warned()
        await soon(peer.sessions.get())
    assert broker.levels == [5, 5, 5]


async def test_no_words_of_a_broker_are_logged() -> None:
    """A broker may send its own reason string, which could contain lines and escape sequences."""
    words = b"\x1b]0;x\x07\nINFO all is well"
    property_ = b"\x1f" + len(words).to_bytes(2) + words
    async with FakeBroker(refuse(0x87, property_), accept) as broker, connected(broker.url) as peer:
        line = await peer.warned()
        assert "not authorised" in line
        assert not {"\x1b", "\n"} & set(line)
        assert "all is well" not in line


@pytest.mark.parametrize(("version", "reason"), [("5", 0x86), ("5", 0x87), ("3.1.1", 4), ("3.1.1", 5)])
async def test_a_refused_login_says_which_connection_and_what_to_do(version: Version, reason: int) -> None:
    """The log names the side and the keys to set; a refusal of another kind gets no such hint."""
    options: dict[str, Any] = {
        "role": "source of stream two",
        "advice": {"login_refused": "Set source.username."}.get,
    }
    script = refuse(reason), refuse(3), accept
    async with FakeBroker(*script) as broker, connected(broker.url, version=version, **options) as peer:
        refused, unavailable = await peer.warned(), await peer.warned()
    assert refused.startswith(
        f"source of stream two {broker.url.removeprefix('mqtt://')}: connection refused: "
    )
    assert f"(0x{reason:02x}); next try in " in refused
    assert refused.endswith(". Set source.username.")
    assert "source.username" not in unavailable


async def test_the_connection_is_asked_for_as_designed() -> None:
    """CONNECT: no clean start, the caller's client id, keep-alive, 7 days of session, the bounds."""
    connects = []

    async def script(wire: Wire) -> None:
        await wire.accept()
        connects.append(wire.connect)
        await wire.end()

    options: dict[str, Any] = {"client_id": "meteragent-x-source", "receive_maximum": 1000}
    async with FakeBroker(script) as broker, connected(broker.url, **options) as peer:
        await peer.session()
    expiry, receive, packet = b"\x11\x00\x09\x3a\x80", b"\x21\x03\xe8", b"\x27\x00\x40\x00\x00"
    properties = expiry + receive + packet
    fixed = b"\0\4MQTT\5\0\0\x3c" + bytes([len(properties)])
    assert connects == [fixed + properties + b"\0\x13meteragent-x-source"]


# How long to wait


async def test_a_broker_that_never_answers_is_given_up() -> None:
    """Without a CONNACK within the time limit the connection is closed and made again."""

    async def silent(wire: Wire) -> None:
        await wire.hello()
        await wire.end()

    async with FakeBroker(silent, accept) as broker, connected(broker.url, timeout_s=0.2) as peer:
        assert "no answer to the connection attempt within 0.2 s" in await peer.warned()
        await peer.session()
        assert peer.counts == []


async def test_a_broker_that_is_not_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused TCP connection is an attempt like any other, and not counted as lost."""
    monkeypatch.setattr("meteragent.mqtt.reconnect.SUMMARY_S", 0.0)
    async with FakeBroker(accept) as broker:
        url = broker.url
    async with connected(
        url,
    ) as peer:
        assert "cannot connect" in await peer.warned()
        assert "cannot connect" in await peer.warned()
        assert peer.counts == []


async def test_it_can_be_cancelled_at_any_moment() -> None:
    """Before the connection, during it and in a pause: it ends at once and leaves nothing behind."""

    async def silent(wire: Wire) -> None:
        await wire.end()

    async with FakeBroker(silent) as broker:
        async with connected(broker.url):
            pass
        async with connected(broker.url) as peer:
            await asyncio.wait({peer.task}, timeout=0.05)
        async with connected(broker.url, timeout_s=0.05, entropy=lambda size: b"\xff" * size) as peer:
            await peer.warned()


@given(failures=st.integers(0, 5000), random=st.binary(min_size=6, max_size=6))
def test_the_pause_has_full_jitter_below_a_bound_that_doubles(failures: int, random: bytes) -> None:
    """After k failures it is uniform on [0, min(30, 0.5 · 2^k)) s."""
    backoff = Backoff(lambda _: random)
    for _ in range(failures):
        backoff.delay_s(0.0)
    bound_s = min(CEILING_S, FLOOR_S * 2 ** min(failures, 100))
    assert backoff.delay_s(0.0) == pytest.approx(bound_s * int.from_bytes(random) / 2**48)


@given(stood_s=st.floats(0, 2 * STABLE_S))
def test_the_pause_starts_over_only_after_a_connection_that_stood(stood_s: float) -> None:
    """A broker that accepts and drops is not stormed: only a stable connection resets the pause."""
    backoff = Backoff(lambda size: b"\xff" * size)
    for _ in range(10):
        backoff.delay_s(0.0)
    expected_s = FLOOR_S if stood_s >= STABLE_S else CEILING_S
    assert backoff.delay_s(stood_s) == pytest.approx(expected_s)


async def test_a_connection_that_stood_makes_the_next_pause_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause is given how long the connection stood."""
    monkeypatch.setattr("meteragent.mqtt.reconnect.STABLE_S", 0.02)

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)

    longest: dict[str, Any] = {"entropy": lambda size: b"\xff" * size}
    async with FakeBroker(script) as broker, connected(broker.url, **longest) as peer:
        for _ in range(2):
            session = await peer.session()
            await asyncio.wait({peer.task}, timeout=0.05)
            session.publish("t", b"")
            assert "next try in 0.5 s" in await peer.warned()


# Where to


def test_an_endpoint_is_read_from_its_url() -> None:
    """Scheme, host and port; 1883 and 8883 where no port is given; brackets around IPv6."""
    assert Endpoint.parse("mqtt://broker") == Endpoint("broker", 1883, tls=False)
    assert Endpoint.parse("mqtts://broker/") == Endpoint("broker", 8883, tls=True)
    assert Endpoint.parse("mqtt://[::1]:9") == Endpoint("::1", 9, tls=False)
    files = replace(Endpoint.parse("mqtts://b"), ca_file="a", cert_file="c", key_file="k", version="3.1.1")
    assert (files.ca_file, files.cert_file, files.key_file, files.version) == ("a", "c", "k", "3.1.1")


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("http://b", {}, "does not begin with mqtt:// or mqtts://"),
        ("b:1883", {}, "does not begin with mqtt:// or mqtts://"),
        ("mqtt://:1883", {}, "without a host"),
        ("mqtt://b:0", {}, "a port that is not a number from 1 to 65535"),
        ("mqtt://b:65536", {}, "a port that is not a number from 1 to 65535"),
        ("mqtt://b:x", {}, "a port that is not a number from 1 to 65535"),
        ("mqtt://user:hunter2@b", {}, "user name or password"),
        ("mqtt://b/topic", {}, "a path after the port"),
        ("mqtt://b?x=hunter2", {}, "a path after the port"),
        ("mqtt://b", {"password": "hunter2"}, "without a user name"),
        ("mqtt://b", {"ca_file": "f"}, "need mqtts"),
        ("mqtts://b", {"key_file": "f"}, "without a cert_file"),
        ("mqtt://b", {"version": "3.1"}, "not one of auto, 5, 3.1.1"),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused_in_words(url: str, options: dict[str, str], why: str) -> None:
    """The ValueError says what is wrong, and never repeats a possible password."""
    with pytest.raises(ValueError, match=why) as caught:
        replace(Endpoint.parse(url), **options)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    """The repr of an endpoint may be logged."""
    assert "hunter2" not in repr(Endpoint("b", 1, tls=False, username="u", password="hunter2"))


async def test_files_that_cannot_be_used_are_a_failed_attempt() -> None:
    """A certificate may be missing while it is renewed: told, and tried again."""
    async with connected("mqtts://127.0.0.1:9", credentials={"ca_file": "/nowhere/ca.crt"}) as peer:
        assert "cannot connect" in await peer.warned()
