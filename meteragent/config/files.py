"""The brokers and files that a configuration names: addresses, passwords, keys."""

import stat
from collections.abc import Iterator
from pathlib import Path

from meteragent.config.model import Broker, Config, Stream
from meteragent.domain.errors import ConfigError
from meteragent.domain.refusal import reason
from meteragent.mqtt import Endpoint

_SECRETS = ("password_file", "key_file", "pseudonym_key_file")
_ADDRESS = "mqtt://host[:port], or mqtts://host[:port] with its files"


def read_secret(key: str, path: Path) -> bytes:
    """Read a file that holds one secret, without the end of its line.

    No error shows the secret. Raises ConfigError with the key of the configuration if the file cannot be read
    or is empty.
    """
    try:
        secret = path.read_bytes().rstrip(b"\r\n")
    except (OSError, ValueError) as error:
        # The operator has just typed an option, so its path is shown as it is.
        text = f"{path}: {reason(error)}" if key.startswith("--") else None
        value = f"{_path_text(path)}: {reason(error)}"
        raise ConfigError(key, value, "a file that the agent can read", text=text) from None
    if not secret:
        raise ConfigError(key, f"{path}: empty", "a file that holds the secret")
    return secret


def _path_text(path: Path) -> str:
    """Return a path as an error shows it. A path whose folder does not exist might be the secret itself."""
    is_place = path.is_absolute() or (len(path.parts) > 1 and path.parent.is_dir())
    return str(path) if is_place else "a file in the working directory"


def exposed(config: Config) -> list[str]:
    """Return a line for each secret that everybody on this machine can read: key, file and remedy."""
    paths: dict[str, Path] = {}
    for place, stream in enumerate(config.stream):
        prefix = config.prefix(place)
        for section in ("source", "sink"):
            table: Broker = getattr(stream, section)
            keys = [key for key in _SECRETS if getattr(table, key, None) is not None]
            paths |= {f"{prefix}{section}.{key}": getattr(table, key) for key in keys}
    if config.page is not None and config.page.token_file is not None:
        paths["page.token_file"] = config.page.token_file
    if config.archive is not None:
        paths["archive.key_file"] = config.archive.key_file
    return [
        f"{key}: everybody on this machine can read {path}: chmod 600"
        for key, path in paths.items()
        if _mode(path) & stat.S_IROTH
    ]


def _mode(path: Path) -> int:
    """Return the mode of a file, or 0 if it cannot be read."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def unreadable(config: Config) -> list[ConfigError]:
    """Return the refusal of each file that `run` needs and that this user cannot read, or that is empty."""
    refusals: dict[str, ConfigError] = {}
    for key, path in _files(config):
        try:
            read_secret(key, path)
        except ConfigError as error:
            refusals.setdefault(key, error)
    return list(refusals.values())


def _files(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield the key and the path of each file that `run` reads."""
    for place, stream in enumerate(config.stream):
        for section in ("source", "sink"):
            table: Broker = getattr(stream, section)
            for key in ("ca_file", "cert_file", *_SECRETS):
                path = getattr(table, key, None)
                if path is not None:
                    yield f"{config.prefix(place)}{section}.{key}", path
    if config.page is not None and config.page.token_file is not None:
        yield "page.token_file", config.page.token_file


_IDENTITY = ("username", "password_file", "cert_file", "key_file")
"""The keys by which a client identifies itself: a sink inherits all of them, or none."""


def sink_broker(stream: Stream) -> Broker:
    """Return the settings of the sink's broker; on the source's broker, missing keys are the source's.

    A sink without a user name and without a certificate logs in as the source does. A sink with either of
    them has a login of its own, and inherits no part of the source's.
    """
    source, sink = stream.source, stream.sink
    if not _is_source_broker(stream):
        return sink
    names = [] if any(getattr(sink, key) is not None for key in _IDENTITY) else list(_IDENTITY)
    names += [key for key in ("ca_file", "protocol") if key not in sink.model_fields_set]
    return sink.model_copy(update={key: getattr(source, key) for key in names})


def _is_source_broker(stream: Stream) -> bool:
    """Return whether the sink's broker is the source's."""
    if stream.sink.url is None:
        return True
    try:
        source, sink = Endpoint.parse(stream.source.url), Endpoint.parse(stream.sink.url)
    except ValueError:
        return False
    return source == sink


def endpoint(section: str, url: str, broker: Broker) -> Endpoint:
    """Return the broker of a section; raises ConfigError if its address or a file cannot be used."""
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
    """Return the broker of a section without reading its files; raises ConfigError if a key is wrong."""
    for problem in wrong_address(section, url, broker):
        raise problem
    return _endpoint(url, broker, password)


def wrong_address(section: str, url: str, broker: Broker) -> Iterator[ConfigError]:
    """Yield the refusals of a section whose keys do not form the address of a broker.

    The text never repeats the address, because somebody may have put a password into it.
    """
    if broker.password_file is not None and broker.username is None:
        expected = f"{section}.username as well"
        yield ConfigError(f"{section}.password_file", "a password without a name", expected)
    try:
        _endpoint(url, broker, None)
    except ValueError as error:
        yield ConfigError(f"{section}.url", str(error), _ADDRESS)


def _endpoint(url: str, broker: Broker, password: str | None) -> Endpoint:
    """Return the address of a broker; raises ValueError if the text is not an address."""
    return Endpoint.parse(
        url,
        username=broker.username,
        password=password,
        ca_file=broker.ca_file,
        cert_file=broker.cert_file,
        key_file=broker.key_file,
        version=broker.protocol,
    )
