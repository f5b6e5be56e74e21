"""The configuration of an operator: one TOML file, read once, or refused with every error and its line.

The texts of refusals are those of the agent's configuration (`domain.refusal`), and so are the keys of a
broker (`config.broker.Broker`).
"""

import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from meteragent.config import endpoint
from meteragent.config.broker import Broker
from meteragent.config.files import wrong_address
from meteragent.crowd import group as groups
from meteragent.crowd.group import Group
from meteragent.crowd.seal import Identity
from meteragent.domain.errors import ConfigError, KeyRefused
from meteragent.domain.lines import line_of, lines, path_of
from meteragent.domain.refusal import (
    expectation,
    key_text,
    nearest,
    not_toml,
    raise_all,
    text_of_file,
    value_text,
)
from meteragent.mqtt import Endpoint
from meteragent.operators import identity


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CrowdBroker(Broker):
    """The broker of the group: homes, leader and helper meet there."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker: mqtt://host[:port], or mqtts:// for TLS."""


class CrowdStore(_Section):
    """The file that holds what must survive."""

    path: Path
    """The path of the file. Each operator of each group has its own; a backup of it is refused."""


class Settings(_Section):
    """The whole file."""

    group_file: Path
    """The public file of the group."""
    identity_file: Path
    """The file of this operator's identity, made by `meteragent crowd key new`."""
    broker: CrowdBroker = CrowdBroker()
    """The broker of the group: homes, leader and helper meet there."""
    store: CrowdStore
    """The file that holds what must survive."""


class Operation(NamedTuple):
    """What an operator needs: who it is, for which group, at which broker, with which store."""

    role: str
    group: Group
    identity: Identity
    endpoint: Endpoint
    store: Path


_SECTIONS: dict[str, type[BaseModel]] = {"broker": CrowdBroker, "store": CrowdStore}
_EXPECTED = {
    "group_file": "the file of the group, such as 'elm-street.toml'",
    "identity_file": "the file of this operator's identity, from `meteragent crowd key new FILE`",
    "store": "a table with the path of a file",
    "store.path": "a file, such as '/var/lib/meteragent-crowd/leader.db'",
}


def load(path: Path, role: str) -> Operation:
    """Read and check a file and the files that it names.

    Raises:
        ConfigError: the file is refused; all errors at once, each with its line, the value found and the
            value expected.
    """
    text = text_of_file(path)
    settings = parse(text)
    errors = list(wrong_address("broker", settings.broker.url, settings.broker))
    group, signer, address = None, None, None
    try:
        group = _group(settings.group_file)
    except ConfigError as error:
        errors += error.errors
    try:
        signer = identity.load(settings.identity_file)
    except KeyRefused as error:
        errors.append(ConfigError("identity_file", "", "", text=str(error)))
    if not errors:
        try:
            address = endpoint("broker", settings.broker.url, settings.broker)
        except ConfigError as error:
            errors.append(error)
    if group is not None and signer is not None:
        errors += _other_identity(group, signer, role)
    _locate(errors, text)
    raise_all(errors)
    assert group is not None  # noqa: S101 -- it is None only if there are errors
    assert signer is not None  # noqa: S101 -- likewise
    assert address is not None  # noqa: S101 -- likewise
    return Operation(role, group, signer, address, settings.store.path)


def parse(text: str) -> Settings:
    """Parse the text of a file without the files that it names; raises ConfigError as `load` does."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise not_toml(error, text) from None
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        errors = [_refusal(detail) for detail in error.errors(include_url=False)]
    _locate(errors, text)
    raise_all(errors)
    raise AssertionError


def _group(path: Path) -> Group:
    """Return the group in a file; the errors name that file."""
    text = ""
    try:
        text = text_of_file(path)
        return groups.parse(text)
    except ConfigError as error:
        if not text:
            raise ConfigError("group_file", "", "", text=f"{path}: {error.text}") from None
        _locate(list(error.errors), text)
        for problem in error.errors:
            problem.file = str(path)
        raise


def _other_identity(group: Group, signer: Identity, role: str) -> Iterator[ConfigError]:
    """Yield a refusal if an identity is not that of a role in a group."""
    public, expected = signer.public.hex(), getattr(group, role).identity
    if public != expected:
        text = f"its public key is {public}, but the group names {expected} as its {role}"
        yield ConfigError("identity_file", "", "", text=text)


def _locate(errors: list[ConfigError], text: str) -> None:
    """Set the lines of the errors that are in a file's text."""
    key_lines = lines(text)
    for problem in errors:
        if problem.file is None:
            problem.line = line_of(path_of(problem.key), key_lines)


def _refusal(detail: ErrorDetails) -> ConfigError:
    """Return the refusal of a value that is wrong, missing or unknown."""
    path = detail["loc"]
    key = key_text(path)
    if detail["type"] == "missing":
        return ConfigError(key, "nothing", f"{_EXPECTED.get(key, 'a value')}: this key has no default")
    if detail["type"] == "extra_forbidden":
        model = _SECTIONS[str(path[0])] if len(path) > 1 else Settings
        names = list(model.model_fields)
        meant = nearest(path[-1], names)
        return ConfigError(key, "an unknown key", f"one of {', '.join(names)}", meant=meant)
    expected, meant = expectation(detail)
    return ConfigError(key, value_text(path[-1], detail["input"]), expected, meant=meant)
