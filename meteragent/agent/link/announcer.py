"""What a sink sends besides rows of the outbox: descriptors, its status, and devices for Home Assistant.

All of it depends only on the time, descriptors, open windows and Home Assistant's starts, never on readings
(law 4). It is sent again on each connection, the status every minute and the devices when Home Assistant
starts. If the broker retains no messages, descriptors and devices are also sent every `UNRETAINED_S`.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.store_thread import OutboxReader
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session, Will
from meteragent.store.outbox import WaitingRow
from meteragent.wire import status
from meteragent.wire.descriptor import topics as descriptor_topics
from meteragent.wire.home_assistant import ONLINE, Discovery


class Presence(NamedTuple):
    """The settings of the status and of the device announcements for Home Assistant.

    `status` is the topic of the status, and `discovery` announces devices; each is None if it is not sent.
    When Home Assistant starts, the announcements are sent again after `delay_s`, which differs between agents
    so that they do not all answer at once. If `retain` is set, the broker also retains the newest record of
    each topic.
    """

    status: str | None = None
    discovery: Discovery | None = None
    delay_s: float = 1.0
    retain: bool = False

    @property
    def will(self) -> Will | None:
        """The last will, which the broker publishes when the connection ends; None if there is no status."""
        return None if self.status is None else Will(self.status, status.OFFLINE)


Publish = Callable[[Session, str, str, bytes], Awaitable[None]]
"""A function that publishes a retained message, given the topic that a refusal would hold and its topic."""

UNRETAINED_S = 3600.0
"""The time, in seconds, between two announcements at a broker without retained messages."""

_log = logging.getLogger("meteragent")


@dataclass
class Announcer:
    """The announcements of one sink, each with the time in the event loop at which it is due."""

    presence: Presence
    outbox: OutboxReader
    now_ms: Callable[[], int | None]
    refusals: Refusals
    publish: Publish
    _status_s: float = inf
    _descriptors_s: float = inf
    _devices_s: float = inf
    _period_s: float = inf

    async def begin(self, session: Session, now_s: float) -> None:
        """Subscribe to starts of Home Assistant on a new connection, where everything is due at once."""
        self._status_s = self._descriptors_s = self._devices_s = now_s
        self._period_s = inf if session.retains else UNRETAINED_S
        if self.presence.discovery is not None:
            try:
                await session.subscribe(self.presence.discovery.birth)
            except LinkError as error:  # Home Assistant finds the retained devices nevertheless
                text = "cannot subscribe to Home Assistant's birth messages at the sink's broker: %s"
                _log.warning(text, error)

    def hear(self, topic: str, payload: bytes, retain: bool, now_s: float) -> None:
        """Process a message, which may announce a start of Home Assistant: then the devices are due soon."""
        discovery = self.presence.discovery
        if discovery is not None and (topic, payload, retain) == (discovery.birth, ONLINE, False):
            self._devices_s = min(self._devices_s, now_s + self.presence.delay_s)

    def next_s(self) -> float:
        """Return when the next announcement is due; while the clock shows no time, no status is."""
        status_s = inf if self.presence.status is None or self.now_ms() is None else self._status_s
        return min(status_s, self._descriptors_s, self._devices_s)

    async def send_due(self, session: Session, now_s: float) -> None:
        """Publish what is due: the status, then descriptors, then devices."""
        now_ms = self.now_ms()
        if self.presence.status is not None and now_s >= self._status_s and now_ms is not None:
            self._status_s = now_s + status.PERIOD_S
            await self._publish_allowed(session, self.presence.status, status.online(now_ms))
        if now_s >= self._descriptors_s:
            self._descriptors_s = now_s + self._period_s
            await self._send_descriptors(session)
        if now_s >= self._devices_s:
            self._devices_s = now_s + self._period_s
            await self._introduce_all(session)

    async def _send_descriptors(self, session: Session) -> None:
        for descriptor in await self.outbox.descriptors():
            held_topic = self.refusals.topic_of(descriptor.topic)
            if held_topic not in self.refusals.held_topics:
                for topic in descriptor_topics(descriptor.topic, descriptor.id):
                    await self.publish(session, held_topic, topic, descriptor.payload)

    async def _introduce_all(self, session: Session) -> None:
        """Announce only the devices of meters with open windows, so that deleted devices do not return."""
        if self.presence.discovery is not None:
            open_topics = await self.outbox.open_topics()
            for descriptor in await self.outbox.descriptors():
                if descriptor.topic in open_topics:
                    await self._introduce(session, descriptor.topic, descriptor.payload)

    async def introduce_new(self, session: Session, row: WaitingRow) -> None:
        """Announce a meter's device before `row` is sent, if `row` is the meter's latest descriptor."""
        if row.retain and (sink_topic := row.topic.removesuffix("/privacy")) != row.topic:
            await self._introduce(session, sink_topic, row.payload)

    async def _introduce(self, session: Session, sink_topic: str, descriptor: bytes) -> None:
        if self.presence.discovery is not None:
            await self._publish_allowed(session, *self.presence.discovery.message(sink_topic, descriptor))

    async def _publish_allowed(self, session: Session, topic: str, payload: bytes) -> None:
        """Publish a status or device, unless the broker refuses its topic."""
        if self.refusals.may_send(topic, 0, 0):
            await self.publish(session, topic, topic, payload)
