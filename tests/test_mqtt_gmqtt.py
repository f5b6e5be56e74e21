"""What meteragent.mqtt relies on in gmqtt, private parts first: a version that moves any fails here."""

import logging
from importlib.metadata import version
from inspect import signature
from types import SimpleNamespace

import gmqtt
import pytest
from gmqtt.mqtt.connection import MQTTConnection
from gmqtt.mqtt.handler import MqttPackageHandler
from gmqtt.mqtt.package import PublishPacket
from gmqtt.storage import PersistentStorage
from hypothesis import given
from hypothesis import strategies as st

from meteragent.mqtt.client import Client, Events, _NoStore, _SilentLogger, publication


def nothing(*_: object) -> None:
    """Ignore an event."""


EVENTS = Events(nothing, nothing, nothing, nothing, nothing, nothing, nothing)


def parameters(function: object) -> list[str]:
    """The names of a function's parameters."""
    return list(signature(function).parameters)  # type: ignore[arg-type]


def test_this_is_the_series_whose_traps_are_known() -> None:
    """Gmqtt 0.8: read its changes, and these tests, before another one is allowed."""
    assert version("gmqtt").startswith("0.8.")


def test_the_private_handlers_take_what_we_replace_them_for() -> None:
    """Their names and parameters are those that meteragent.mqtt.private lists."""
    handler = gmqtt.Client("x")._package_handler
    assert isinstance(handler, MqttPackageHandler)
    assert parameters(handler._handle_connack_packet) == ["cmd", "packet"]
    assert parameters(handler._handle_puback_packet) == ["cmd", "packet"]
    publish = ["mid", "packet", "print_topic", "properties"]
    assert parameters(handler._handle_qos_1_publish_packet) == publish
    assert handler._connack_properties == {}
    assert gmqtt.Client("x")._connection is None
    assert {"_transport", "_protocol"} <= set(MQTTConnection.__init__.__code__.co_names)


@given(
    st.integers(1, 65_535),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.one_of(st.binary(max_size=300), st.sampled_from([16_300, 16_400, 2_097_100, 2_097_200]).map(bytes)),
    st.booleans(),
    st.sampled_from([4, 5]),
)
def test_a_publication_is_what_it_would_have_sent(
    packet_id: int, topic: str, payload: bytes, retain: bool, level: int
) -> None:
    """Our packet of a topic, a payload, an id and a version of MQTT is gmqtt's, byte for byte."""
    message = gmqtt.Message(topic, payload, qos=1, retain=retain)
    ids = SimpleNamespace(next_id=lambda: packet_id)
    made = PublishPacket.build_package(message, SimpleNamespace(proto_ver=level, id_generator=ids))
    assert made == (packet_id, publication(packet_id, topic, payload, retain=retain, level=level))


def test_ids_are_those_of_its_subscriptions() -> None:
    """No id is in use twice: publications take theirs from where subscriptions do."""
    client = Client("x", EVENTS, receive_maximum=10, session_expiry_s=0, username=None, password=None)
    ids = [client._private.next_id(), client._gmqtt._package_handler.id_generator.next_id()]
    assert [*ids, client._private.next_id()] == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["_handle_connack_packet", "_handle_puback_packet", "_handle_qos_1_publish_packet"]
)
def test_a_private_handler_that_is_gone_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client cannot even be made then: it would acknowledge or count wrongly."""
    monkeypatch.delattr(MqttPackageHandler, name)
    with pytest.raises(AttributeError):
        Client("x", EVENTS, receive_maximum=10, session_expiry_s=0, username=None, password=None)


def test_its_own_reconnect_is_off() -> None:
    """With retries at -2 gmqtt does not allow itself any; at 0 it would make one."""
    client = Client("x", EVENTS, receive_maximum=10, session_expiry_s=0, username=None, password=None)
    client._gmqtt._is_active = True
    assert not client._gmqtt._allow_reconnect()
    client._gmqtt.set_config({"reconnect_retries": 0})
    assert client._gmqtt._allow_reconnect()


def test_our_store_answers_all_that_its_store_does() -> None:
    """Every public name of gmqtt's store of unanswered publications is there."""
    public = {name for name in vars(PersistentStorage) if not name.startswith("_")}
    assert public <= set(dir(_NoStore))


def test_our_logger_hears_an_exception_and_says_nothing() -> None:
    """What gmqtt swallows or skips is heard; its module loggers are silent."""
    heard: list[int] = []
    logger = _SilentLogger(lambda: heard.append(1))
    for quiet in (logger.debug, logger.info, logger.warning, logger.error):
        quiet("text %s", "argument", exc_info=True)
    assert heard == []
    logger.exception("text")  # noqa: LOG004
    logger.critical("text %s", b"packet")
    assert len(heard) == 2
    assert not logging.getLogger("gmqtt.mqtt.package").isEnabledFor(logging.CRITICAL)
