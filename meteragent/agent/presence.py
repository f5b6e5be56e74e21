"""The agent's presence at the sink's broker: its status and its devices for Home Assistant."""

from typing import NamedTuple

from meteragent.mqtt import Will
from meteragent.wire import status
from meteragent.wire.home_assistant import Discovery


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
