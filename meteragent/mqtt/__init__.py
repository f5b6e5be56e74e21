"""An MQTT client: receive, acknowledge after processing, publish, connect again.

    watch -> reconnect -> session -> transport -> protocol -> packets; endpoint

Theory of operation
    `keep_connected` connects, runs `serve(session)` until the connection ends, and connects again after a
    random pause, until it is cancelled. `protocol` turns bytes into events and requests into bytes.
    `transport` moves the bytes and keeps the connection alive; it ends the connection to a broker that is
    silent for two keep-alives. Everything else is decided in `session`. Every connection has a new session:
    no packet id, acknowledgement or unsent byte of a lost connection can reach the next.

    Receiving: a QoS 1 message is passed to a callback synchronously, with a token, and acknowledged when the
    caller returns the token. Unacknowledged messages stay with the broker for `session_expiry_s`, across
    connections and crashes, and arrive again on the next connection. The subscription is at QoS 1, to which
    the broker lowers QoS 2 messages; if a QoS 2 message arrives nevertheless, the connection is ended.

    Publishing: messages are published at QoS 1 and not kept here. If a connection ends before a publication
    is reported as delivered, the caller must publish the message again on the next connection; the outbox
    does. The broker publishes the last will even after an orderly end, so the will follows everything that
    was written, however the connection ends.

Rules
    1. Nothing is acknowledged except by `Session.acknowledge`, on the session that received it.
    2. `on_message` and `on_delivered` are never called before `serve` has started, nor after the
       session has ended.
    3. An exception from a callback or `serve` ends `keep_connected`, unless it is a LinkError. A packet that
       MQTT forbids ends the connection; a message that is too large is skipped, counted and acknowledged.
    4. No error, log record or exception context holds a topic or a payload.
    5. A message costs neither a task nor a system call: the packets of one turn of the event loop are written
       together.
"""

from meteragent.mqtt.endpoint import Endpoint
from meteragent.mqtt.packets import Will
from meteragent.mqtt.reconnect import Backoff, keep_connected
from meteragent.mqtt.session import LoginRefused, Session, SubscriptionRefused, Token
from meteragent.mqtt.watch import watch

__all__ = [
    "Backoff",
    "Endpoint",
    "LoginRefused",
    "Session",
    "SubscriptionRefused",
    "Token",
    "Will",
    "keep_connected",
    "watch",
]
