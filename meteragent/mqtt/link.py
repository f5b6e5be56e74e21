"""The settings of `keep_connected`: a broker's `Endpoint`, and a `Link` to it with its callbacks."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from meteragent.domain.errors import LinkError
from meteragent.mqtt.packets import Connect, Will

StrPath = str | PathLike[str]
Version = Literal["auto", "5", "3.1.1"]

VERSIONS: Final = ("auto", "5", "3.1.1")
_UNTRUSTED = range(18, 22)
"""OpenSSL's error numbers for certificates that no trusted authority has signed."""
PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_PORT_FAULT: Final = "a port that is not a number from 1 to 65535"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address and MQTT version, and the client id, login, certificates and authorities for it.

    Without `ca_file` the system's authorities are trusted, without `key_file` the key is in `cert_file`, and
    without `client_id` each caller uses its own. If `keeps_order`, messages are acknowledged in the order of
    their arrival. The version "auto" means 5, or 3.1.1 if the broker refuses 5 or does not answer it. Raises
    ValueError if the settings contradict each other.
    """

    host: str
    port: int
    tls: bool
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: StrPath | None = None
    cert_file: StrPath | None = None
    key_file: StrPath | None = None
    version: Version = "auto"
    client_id: str | None = None
    keeps_order: bool = False

    def __post_init__(self) -> None:
        if self.password is not None and self.username is None:
            raise ValueError("a password without a user name")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("a key_file without a cert_file")
        if not self.tls and (self.ca_file is not None or self.cert_file is not None):
            raise ValueError("mqtt:// with a ca_file, cert_file or key_file, which need mqtts://")
        if self.version not in VERSIONS:
            raise ValueError("a version that is not one of " + ", ".join(VERSIONS))

    @classmethod
    def parse(cls, url: str) -> Self:
        """Return the endpoint at `mqtt://host[:1883]` or `mqtts://host[:8883]`, without a login.

        Raises ValueError with a text that names the fault, without the URL, which may contain a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError(_PORT_FAULT) from None
        if parts.scheme not in PORTS:
            raise ValueError("an address that does not begin with mqtt:// or mqtts://")
        if not parts.hostname:
            raise ValueError("an address without a host")
        if "@" in parts.netloc:
            raise ValueError(
                "an address with a user name or password, which belong in the keys of those names"
            )
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError("an address with a path after the port")
        if port == 0:
            raise ValueError(_PORT_FAULT)
        return cls(parts.hostname, port or PORTS[parts.scheme], tls=parts.scheme == "mqtts")

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a context that verifies the host name; None for mqtt://. Raises OSError for a wrong file."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def problem_code(self, error: OSError) -> str:
        """Return the code of the problem that a failed connection indicates; empty if it is not known."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return "certificate_unknown" if error.verify_code in _UNTRUSTED else "certificate_wrong"
        reason = str(getattr(error, "reason", None))
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return "certificate_wanted"
        if "ALERT_HANDSHAKE" in reason and self.cert_file is None:
            return "certificate_wanted"  # TLS 1.2 has no specific alert for this
        # A port without TLS closes a connection that begins with TLS, without saying why.
        is_plain = isinstance(error, ConnectionResetError | ssl.SSLEOFError) or "WRONG_VERSION" in reason
        return "port_without_tls" if self.tls and is_plain else ""


Token = tuple[int]
"""A handle for acknowledging one message, compared by identity, not by value."""

OnMessage = Callable[[str, bytes, int, bool, Token | None], None]
"""A function of a message's topic, payload, QoS (0 or 1), retain flag and token (None at QoS 0)."""

OnDelivered = Callable[[int, int], None]
"""A function of a packet id and the broker's reason code, below 0x80 (0x10: nobody is subscribed)."""

OnRefused = Callable[[int, int], None]
"""A function of the packet id of a refused publication, and the broker's reason code, 0x80 or above."""

Count = Callable[[Literal["lost", "publish_refused", "oversized"]], None]
"""A function that is told of an event: a lost connection, a refused publication or an oversized message."""

WEEK_S: Final = 7 * 86_400


def _ignore(*_: object) -> None:
    """Do nothing; this is the default callback."""


@dataclass(frozen=True, slots=True)
class Link:
    """One caller's link to a broker, which `keep_connected` keeps open with one connection after another.

    session_expiry_s  how long the broker keeps the session (0: no session; over 3.1.1 the broker decides)
    receive_maximum   a limit on the number of unacknowledged messages that the broker may send (MQTT 5 only)
    inflight          an upper limit of `Session.inflight`
    timeout_s         the longest wait for a connection or a subscription
    will              a message that the broker publishes after each connection
    on_refused        gets each publication that the broker refuses (MQTT 5 only); if it is None, or the
                      refusal does not concern a topic, the connection ends
    on_failed         gets the reason when a connection or an attempt fails, and may raise an error to give up
    role, advice      for the log: the link's purpose, and a function from a failure's code to what to do
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
        """The requests in the CONNECT of each connection."""
        session = self.session_expiry_s, self.receive_maximum, self.keepalive_s
        return Connect(self.client_id, *session, self.endpoint.username, self.endpoint.password, self.will)

    @property
    def name(self) -> str:
        """The link's name in the log."""
        return f"{self.role} {self.endpoint.host}:{self.endpoint.port}".lstrip()
