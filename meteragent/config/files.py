"""What a configuration names outside itself: brokers, passwords, keys."""

from pathlib import Path

from meteragent.config.model import Broker
from meteragent.errors import ConfigError
from meteragent.mqtt import Endpoint


def read_secret(key: str, path: Path) -> bytes:
    """The content of a file of one secret, without the line's end; never shown.

    Raises ConfigError with the configuration's key when it cannot be read or is empty.
    """
    try:
        secret = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise ConfigError(key, f"{path}: {reason}", "a file that the agent can read") from None
    if not secret:
        raise ConfigError(key, f"{path}: empty", "a file that holds the secret")
    return secret


def endpoint(section: str, url: str, broker: Broker) -> Endpoint:
    """The broker of a section; raises ConfigError when it or one of its files cannot be used."""
    password = None
    if broker.password_file is not None:
        password = read_secret(f"{section}.password_file", broker.password_file).decode()
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(broker, key)
        if path is not None:
            read_secret(f"{section}.{key}", path)
    try:
        return Endpoint.parse(
            url,
            username=broker.username,
            password=password,
            ca_file=_text(broker.ca_file),
            cert_file=_text(broker.cert_file),
            key_file=_text(broker.key_file),
            version=broker.protocol,
        )
    except ValueError as error:
        raise ConfigError(f"{section}.url", "one that cannot be used", str(error)) from None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
