"""A broker's address and the settings of a connection to it."""

import ssl
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, Literal, Self
from urllib.parse import urlsplit

StrPath = str | PathLike[str]
Version = Literal["auto", "5", "3.1.1"]

VERSIONS: Final = ("auto", "5", "3.1.1")
_UNTRUSTED = range(18, 22)
"""OpenSSL's numbers of certificates that no trusted authority has signed."""
PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_PORT_FAULT: Final = "a port that is not a number from 1 to 65535"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address and MQTT version, and the client id, login, certificates and authorities for it.

    If `ca_file` is None, the system's authorities are trusted; if `key_file` is None, the key is in
    `cert_file`. If `client_id` is None, each caller has its own. If `in_order`, messages are acknowledged in
    the order of their arrival. The version "auto" means 5, or 3.1.1 if the broker refuses 5 or does not
    answer it. Raises ValueError if the settings do not go together.
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
    in_order: bool = False

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

        Raises ValueError with a text that names the fault. It does not repeat the URL, which may contain a
        password.
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

    def cause(self, error: OSError) -> str:
        """Return the code of the problem that a failed connection indicates; empty if it is not known."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return "certificate_unknown" if error.verify_code in _UNTRUSTED else "certificate_wrong"
        reason = str(getattr(error, "reason", None))
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return "certificate_wanted"
        if "ALERT_HANDSHAKE" in reason and self.cert_file is None:
            return "certificate_wanted"  # over TLS 1.2, a broker has no better word for it
        # A port without TLS closes a connection that begins with TLS, without saying why.
        is_plain = isinstance(error, ConnectionResetError | ssl.SSLEOFError) or "WRONG_VERSION" in reason
        return "port_without_tls" if self.tls and is_plain else ""
