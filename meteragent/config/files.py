"""The brokers and files that a configuration names, and the folders and extras that it needs."""

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from meteragent import extras
from meteragent.config.model import Broker, Config, Sink, Stream
from meteragent.domain.errors import ConfigError
from meteragent.domain.refusal import unreadable_reason
from meteragent.mqtt import Endpoint

_SECRETS = ("password_file", "key_file", "pseudonym_key_file")
_TOKEN_MIN = 16
_ADDRESS = "mqtt://host[:port], or mqtts://host[:port] with its files"


def read_secret(key: str, path: Path) -> bytes:
    """Return the secret in a file, without line endings. Raises ConfigError, which names the key only."""
    try:
        secret = path.read_bytes().rstrip(b"\r\n")
    except (OSError, ValueError) as error:
        # The operator has typed this path as an option, so it is no secret and is shown unchanged.
        text = f"{path}: {unreadable_reason(error)}" if key.startswith("--") else None
        value = f"{_path_text(path)}: {unreadable_reason(error)}"
        raise ConfigError(key, value, "a file that the agent can read", text=text) from None
    if not secret:
        raise ConfigError(key, f"{path}: empty", "a file that holds the secret")
    return secret


def read_token(path: Path) -> bytes:
    """Read the page's token. Raises ConfigError if `read_secret` does, or if the token could be guessed."""
    token = read_secret("page.token_file", path)
    if len(token) < _TOKEN_MIN:
        expected = f"at least {_TOKEN_MIN}, such as the output of `openssl rand -hex 16`"
        raise ConfigError("page.token_file", f"a token of {len(token)} characters", expected)
    return token


def _path_text(path: Path) -> str:
    """Return a path for an error text, or a vague description if the path might be the secret itself."""
    is_place = path.is_absolute() or (len(path.parts) > 1 and path.parent.is_dir())
    return str(path) if is_place else "a file in the working directory"


def world_readable_files(config: Config) -> dict[str, Path]:
    """Return, by key, the password, key and token files that every user of this machine can read."""
    paths: dict[str, Path] = {}
    for prefix, table in _broker_tables(config):
        keys = [key for key in _SECRETS if getattr(table, key, None) is not None]
        if table.cert_file is not None and table.key_file is None:  # then the file also holds the key
            keys.append("cert_file")
        paths |= {f"{prefix}.{key}": getattr(table, key) for key in keys}
    if config.page is not None and config.page.token_file is not None:
        paths["page.token_file"] = config.page.token_file
    if config.archive is not None:
        paths["archive.key_file"] = config.archive.key_file
    return {key: path for key, path in paths.items() if _file_mode(path) & stat.S_IROTH}


def _file_mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def file_refusals(config: Config) -> list[ConfigError]:
    """Return refusals of the files with secrets or certificates that `run` would refuse."""
    refusals: dict[str, ConfigError] = {}
    for key, path in _secret_files(config):
        try:
            if key == "page.token_file":
                read_token(path)
            elif key.endswith(".password_file"):
                read_password(key, path)
            else:
                read_secret(key, path)
        except ConfigError as error:
            refusals.setdefault(key, error)
    return list(refusals.values())


def store_folder_refusals(config: Config) -> list[ConfigError]:
    """Return a refusal if the store's folder does not exist."""
    path = config.store.path
    if path.parts[:1] and path.parts[0].startswith("~"):
        return [ConfigError("store.path", repr(str(path)), "the whole path: only a shell replaces the ~")]
    if path.parent.is_dir():
        return []
    expected = "a folder that exists: create it, or start the service that does"
    return [ConfigError("store.path", f"{path.parent}: no such folder", expected)]


def missing_extra_refusals(config: Config) -> list[ConfigError]:
    """Return the refusals of a page and of crowds whose extras are not installed."""
    module = None if config.page is None else extras.missing_module("page")
    refusals = [] if module is None else [missing_page_refusal(module)]
    in_crowds = [prefix for stream, prefix in config.prefixed_streams if stream.group is not None]
    if in_crowds:
        try:
            import meteragent.crowd.home  # noqa: F401, PLC0415 -- only crowds need its extra
        except ImportError as error:
            refusals.append(ConfigError(f"{in_crowds[0]}sink.crowd", str(error), extras.hint("crowd")))
    return refusals


def missing_page_refusal(module: str) -> ConfigError:
    """Return the refusal of a page if a module of its extra is missing."""
    return ConfigError("page", f"this table, but no {module}", f"the page's extra: {extras.hint('page')}")


def _secret_files(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield the key and the path of each file with a secret or a certificate that `run` reads."""
    for prefix, table in _broker_tables(config):
        for key in ("ca_file", "cert_file", *_SECRETS):
            path = getattr(table, key, None)
            if path is not None:
                yield f"{prefix}.{key}", path
    if config.page is not None and config.page.token_file is not None:
        yield "page.token_file", config.page.token_file


def _broker_tables(config: Config) -> Iterator[tuple[str, Broker]]:
    """Yield the tables that name brokers and secrets, each with its name in the file."""
    for stream, prefix in config.prefixed_streams:
        yield f"{prefix}source", stream.source
        if not stream.receivers:
            yield f"{prefix}sink", stream.sink
        elif stream.sink.pseudonym_key_file is not None:
            key_file = stream.sink.pseudonym_key_file
            yield f"{prefix}sink", Sink(topic=stream.sink.topic, pseudonym_key_file=key_file)
    for number, receiver in enumerate(config.receiver):
        yield f"receiver[{number}]", receiver


_IDENTITY = ("username", "password_file", "cert_file", "key_file")
"""The keys with which a client identifies itself. A sink inherits either all of these keys or none."""


def sink_broker(stream: Stream) -> Broker:
    """Return the settings of the sink's broker, which inherit the source's if the broker is the same."""
    source, sink = stream.source, stream.sink
    if not _is_source_broker(stream):
        return sink
    names = [] if any(getattr(sink, key) is not None for key in _IDENTITY) else list(_IDENTITY)
    names += [key for key in ("ca_file", "protocol") if key not in sink.model_fields_set]
    return sink.model_copy(update={key: getattr(source, key) for key in names})


def _is_source_broker(stream: Stream) -> bool:
    if stream.sink.url is None:
        return True
    try:
        source, sink = Endpoint.parse(stream.source.url), Endpoint.parse(stream.sink.url)
    except ValueError:
        return False
    return source == sink


def read_password(key: str, path: Path) -> str:
    """Read a password. Raises ConfigError with the key if the file is unreadable, empty or not UTF-8."""
    try:
        return read_secret(key, path).decode()
    except UnicodeDecodeError:  # the error's text would show a byte of the password
        raise ConfigError(key, f"{path}: not UTF-8", "a password as text") from None


def read_endpoint(section: str, url: str, broker: Broker) -> Endpoint:
    """Return a section's broker. Raises ConfigError if its address or one of its files cannot be used."""
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(broker, key)
        if path is not None:
            read_secret(f"{section}.{key}", path)
    password = None
    if broker.password_file is not None:
        password = read_password(f"{section}.password_file", broker.password_file)
    return parse_endpoint(section, url, broker, password)


def parse_endpoint(section: str, url: str, broker: Broker, password: str | None) -> Endpoint:
    """Return a section's broker without reading its files. Raises ConfigError if a key is wrong."""
    for problem in address_refusals(section, url, broker):
        raise problem
    return _parse_broker(url, broker, password)


def address_refusals(section: str, url: str, broker: Broker) -> Iterator[ConfigError]:
    """Yield refusals of keys that form no broker's address, but do not show it: it may hold a password."""
    if broker.password_file is not None and broker.username is None:
        expected = f"{section}.username as well"
        yield ConfigError(f"{section}.password_file", "a password without a user name", expected)
    try:
        _parse_broker(url, broker, None)
    except ValueError as error:
        yield ConfigError(f"{section}.url", str(error), _ADDRESS)


def _parse_broker(url: str, broker: Broker, password: str | None) -> Endpoint:
    """Return a broker's address. Raises ValueError if `url` is not an address or does not fit the keys."""
    return replace(
        Endpoint.parse(url),
        username=broker.username,
        password=password,
        ca_file=broker.ca_file,
        cert_file=broker.cert_file,
        key_file=broker.key_file,
        version=broker.protocol,
        client_id=broker.client_id,
    )
