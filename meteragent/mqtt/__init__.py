"""An MQTT client that acknowledges messages only after processing, publishes messages, and reconnects.

    watch -> reconnect -> session -> transport -> protocol -> packets; link

Theory of operation
    `keep_connected` serves a `Link`: it connects, runs `serve(session)` until the connection ends, and
    connects again after a random pause, until it is cancelled. `protocol` turns bytes into events and
    requests into bytes. `transport` moves the bytes and keeps the connection alive; it drops the connection
    if the broker is silent for two keep-alive periods. `session` makes all other decisions. Every connection
    has a new session: no packet id, acknowledgement or unsent byte can reach the next one.

    Receiving: a QoS 1 message is passed to a callback synchronously, with a token, and is acknowledged when
    the caller returns the token. The broker keeps unacknowledged messages for `session_expiry_s`, across
    connections and crashes, and sends them again on the next connection. Subscriptions are at QoS 1, so the
    broker downgrades QoS 2 messages to QoS 1. If a QoS 2 message arrives nevertheless, the connection ends.

    Publishing: messages are published at QoS 1, and the client does not store them. If a connection ends
    before a publication is reported as delivered, the caller must publish the message again on the next
    connection, as the outbox does. The broker publishes the last will even after an orderly disconnection, so
    the will follows everything that the client has written, however the connection ends.

Rules
    1. A message is acknowledged only by `Session.acknowledge`, on the session that received it.
    2. `on_message` and `on_delivered` are never called before `serve` has started or after the session has
       ended.
    3. An exception from a callback or `serve` ends `keep_connected`, unless it is a LinkError; a LinkError
       from `on_failed` ends `keep_connected`, too. A packet that MQTT forbids ends the connection; a message
       that is too large is skipped, counted and acknowledged.
    4. No error, log record or exception context holds a topic or a payload.
    5. A message needs neither a task nor a system call of its own: the packets of one iteration of the event
       loop are written together.
"""

from meteragent.mqtt.link import WEEK_S, Endpoint, Link, OnMessage, Token
from meteragent.mqtt.packets import Will
from meteragent.mqtt.reconnect import Backoff, Entropy, keep_connected
from meteragent.mqtt.session import LoginRefused, Serve, Session, SubscriptionRefused

__all__ = ["WEEK_S", "Backoff", "Endpoint", "Entropy", "Link", "LoginRefused", "OnMessage", "Serve"]
__all__ += ["Session", "SubscriptionRefused", "Token", "Will", "keep_connected"]
