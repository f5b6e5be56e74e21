"""One MQTT connection at a time: receive, acknowledge after processing, publish, connect again.

    watch -> reconnect -> session -> transport -> protocol -> packets; endpoint

Theory of operation
    `keep_connected` connects, runs `serve(session)` as long as the connection lives, and connects
    again after a jittered pause, until it is cancelled. `protocol` turns bytes into events and requests
    into bytes, `transport` moves the bytes and keeps the connection alive (a broker silent for two
    keep-alives is given up); all else is decided in `session`.
    Every connection has its own client: nothing of a lost one, neither packet ids nor
    acknowledgements nor unsent bytes, can reach the next.

    Receiving: a QoS 1 message is handed over synchronously, with a token, and acknowledged when the
    caller says so. What is not acknowledged stays with the broker for `session_expiry_s`, across
    connections and crashes, and comes again on the next connection. A QoS 2 message cannot come, as
    we subscribe at QoS 1 and the broker lowers what it sends to that; one ends the connection.

    Publishing: QoS 1, and nothing is kept here. What was not reported delivered when a connection
    ended must be published again on the next; the outbox does. A last will is the broker's to publish,
    also after an orderly end: so it comes whatever has ended, and after all that was written.

Rules
    1. Nothing is acknowledged but by `Session.acknowledge`, on the session that received it.
    2. `on_message` and `on_delivered` are never called before `serve` has started, nor after the
       session has ended.
    3. What a callback or `serve` raises ends `keep_connected` with it, unless it is a LinkError. A packet
       that MQTT forbids ends the connection; one that is too large is skipped, counted and acknowledged.
    4. No error, log record or exception context holds a topic or a payload.
    5. No task and no send per message: what is written in one turn of the event loop leaves in one
       piece.
"""

from meteragent.mqtt.endpoint import Endpoint
from meteragent.mqtt.packets import Will
from meteragent.mqtt.reconnect import Backoff, keep_connected
from meteragent.mqtt.session import Session, SubscriptionRefused, Token
from meteragent.mqtt.watch import watch

__all__ = [
    "Backoff",
    "Endpoint",
    "Session",
    "SubscriptionRefused",
    "Token",
    "Will",
    "keep_connected",
    "watch",
]
