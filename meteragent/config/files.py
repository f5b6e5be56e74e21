"""What a configuration names outside itself: brokers, passwords, keys."""

import stat
from pathlib import Path

from meteragent.config.model import Broker, Config
from meteragent.domain.errors import ConfigError
from meteragent.mqtt import Endpoint

_SECRETS = ("password_file", "key_file", "pseudonym_key_file")
_ADDRESS = "mqtt://host[:port], or mqtts://host[:port] with its files"


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


def exposed(config: Config) -> list[str]:
    """Secrets that everybody on this machine can read: the key, the file and what to do, one line each."""
    found: dict[str, Path] = {}
    for at, stream in enumerate(config.stream):
        prefix = "" if len(config.stream) == 1 else f"stream[{at}]."
        for section in ("source", "sink"):
            table: Broker = getattr(stream, section)
            keys = [key for key in _SECRETS if getattr(table, key, None) is not None]
            found |= {f"{prefix}{section}.{key}": getattr(table, key) for key in keys}
    if config.page is not None and config.page.token_file is not None:
        found["page.token_file"] = config.page.token_file
    if config.archive is not None:
        found["archive.key_file"] = config.archive.key_file
    return [
        f"{key}: everybody on this machine can read {path}: chmod 600"
        for key, path in found.items()
        if _mode(path) & stat.S_IROTH
    ]


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def endpoint(section: str, url: str, broker: Broker) -> Endpoint:
    """The broker of a section; raises ConfigError when it or one of its files cannot be used."""
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(broker, key)
        if path is not None:
            read_secret(f"{section}.{key}", path)
    password = None
    if broker.password_file is not None:
        key = f"{section}.password_file"
        try:
            password = read_secret(key, broker.password_file).decode()
        except UnicodeDecodeError:
            raise ConfigError(key, f"{broker.password_file}: not UTF-8", "a password as text") from None
    return address(section, url, broker, password)


def address(section: str, url: str, broker: Broker, password: str | None) -> Endpoint:
    """The broker of a section, its files not looked at; raises ConfigError when it makes no sense.

    The text never repeats the address: somebody may have put a password there.
    """
    if broker.password_file is not None and broker.username is None:
        raise ConfigError(
            f"{section}.password_file", "a password without a name", f"{section}.username as well"
        )
    try:
        return Endpoint.parse(
            url,
            username=broker.username,
            password=password,
            ca_file=broker.ca_file,
            cert_file=broker.cert_file,
            key_file=broker.key_file,
            version=broker.protocol,
        )
    except ValueError as error:
        raise ConfigError(f"{section}.url", str(error), _ADDRESS) from None
