"""How the agent appears at the sink's broker, besides its records."""

from typing import NamedTuple

from meteragent.mqtt import Will
from meteragent.wire import status
from meteragent.wire.home_assistant import Discovery


class Presence(NamedTuple):
    """The messages that are sent besides records: a status, and device announcements for Home Assistant.

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
        """The last will, which the broker publishes when the connection has ended."""
        return None if self.status is None else Will(self.status, status.OFFLINE)
