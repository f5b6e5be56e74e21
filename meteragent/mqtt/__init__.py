"""An MQTT client: receive, acknowledge after processing, publish, connect again.

    watch -> reconnect -> session -> transport -> protocol -> packets; endpoint

Theory of operation
    `keep_connected` connects, runs `serve(session)` as long as the connection lives, and connects
    again after a jittered pause, until it is cancelled. `protocol` turns bytes into events and requests
    into bytes, `transport` moves the bytes and keeps the connection alive (a broker silent for two
    keep-alives is given up on); all else is decided in `session`.
    Every connection has a session of its own: nothing of a lost one, neither packet ids nor
    acknowledgements nor unsent bytes, can reach the next.

    Receiving: a QoS 1 message is handed over synchronously, with a token, and acknowledged when the
    caller says so. Unacknowledged messages stay with the broker for `session_expiry_s`, across
    connections and crashes, and arrive again on the next connection. A QoS 2 message cannot arrive, as
    the subscription is at QoS 1 and the broker lowers its messages to that; if one does, the connection is
    ended.

    Publishing: at QoS 1, and nothing is kept here. A publication that had not been reported as delivered when
    its connection ended must be published again on the next; the outbox does so. The broker publishes the
    last will, even after an orderly end: so it appears however the connection ended, and after all that was
    written.

Rules
    1. Nothing is acknowledged except by `Session.acknowledge`, on the session that received it.
    2. `on_message` and `on_delivered` are never called before `serve` has started, nor after the
       session has ended.
    3. An exception from a callback or `serve` ends `keep_connected`, unless it is a LinkError. A packet that
       MQTT forbids ends the connection; one that is too large is skipped, counted and acknowledged.
    4. No error, log record or exception context holds a topic or a payload.
    5. No task and no send per message: the packets of one turn of the event loop are written together.
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
