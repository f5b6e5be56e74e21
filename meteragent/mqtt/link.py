"""What a caller of `keep_connected` chooses for all its connections, with the types of its callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from meteragent.domain.errors import LinkError
from meteragent.mqtt.endpoint import Endpoint
from meteragent.mqtt.packets import Connect, Will

Token = tuple[int]
"""A handle for acknowledging one message, compared by identity, not by value."""

OnMessage = Callable[[str, bytes, int, bool, Token | None], None]
"""A function of a message's topic, payload, QoS (0 or 1), retain flag and token (None at QoS 0)."""

OnDelivered = Callable[[int, int], None]
"""A function of a packet id and the broker's reason code, below 0x80 (0x10: nobody is subscribed)."""

OnRefused = Callable[[int, int], None]
"""A function of the packet id of a refused publication, and the broker's reason code, 0x80 or above."""

Count = Callable[[Literal["lost", "publish_refused", "oversized"]], None]
"""A function of an event: an open connection lost, a publication refused, or a message too large."""

WEEK_S: Final = 7 * 86_400


def _ignore(*_: object) -> None:
    """Do nothing; this is the default callback."""


@dataclass(frozen=True, slots=True)
class Link:
    """One caller's link to a broker, which `keep_connected` keeps open with one connection after another.

    session_expiry_s  how long the broker keeps the session (0: no session; over 3.1.1 the broker decides)
    receive_maximum   a limit of the unacknowledged messages that the broker may send (MQTT 5 only)
    inflight          an upper limit of `Session.inflight`
    timeout_s         the longest wait for a connection or a subscription
    will              a message that the broker publishes after each connection
    on_refused        gets each publication that the broker refuses (MQTT 5 only); if it is None, or the
                      refusal does not concern a topic, the connection ends
    on_failed         gets the reason when a connection or an attempt fails, and may raise an error to give up
    role, advice      for the log: what the link is for, and what to do, by the code of a failure
    """

    endpoint: Endpoint
    client_id: str
    on_message: OnMessage = _ignore
    on_delivered: OnDelivered = _ignore
    on_refused: OnRefused | None = None
    on_failed: Callable[[LinkError], None] = _ignore
    count: Count = _ignore
    session_expiry_s: int = WEEK_S
    receive_maximum: int = 65_535
    inflight: int = 100
    keepalive_s: int = 60
    timeout_s: float = 10.0
    will: Will | None = None
    role: str = ""
    advice: Callable[[str], str] = lambda _: ""

    @property
    def request(self) -> Connect:
        """What each connection asks the broker for."""
        session = self.session_expiry_s, self.receive_maximum, self.keepalive_s
        return Connect(self.client_id, *session, self.endpoint.username, self.endpoint.password, self.will)

    @property
    def name(self) -> str:
        """The link's name in the log."""
        return f"{self.role} {self.endpoint.host}:{self.endpoint.port}".lstrip()
