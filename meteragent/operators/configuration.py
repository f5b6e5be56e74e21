"""The configuration of an operator: one TOML file, accepted, or refused with all errors and their lines.

The agent's configuration has the same refusal messages (`domain.refusal`) and the same keys for a broker
(`config.model.Broker`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meteragent.config import read_endpoint
from meteragent.config.files import address_refusals
from meteragent.config.model import Broker, Section
from meteragent.crowd import group as groups
from meteragent.crowd.group import Group
from meteragent.crowd.seal import Identity
from meteragent.domain import refusal
from meteragent.domain.errors import ConfigError, KeyRefused
from meteragent.mqtt import Endpoint
from meteragent.operators import identity

_S = TypeVar("_S")
_T = TypeVar("_T")


class CrowdBroker(Broker):
    """The broker of the group, to which homes, leader and helper connect."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker: mqtt://host[:port], or mqtts:// for TLS."""


class CrowdStore(Section):
    """The store: the file that holds the operator's secrets, its state and its ledger."""

    path: Path
    """The path of the store. Each operator of each group has its own store; a restored copy is refused."""


class Settings(Section):
    """The whole configuration file."""

    group_file: Path
    """The public file of the group."""
    identity_file: Path
    """The file of this operator's identity, which `meteragent crowd key new` has created."""
    broker: CrowdBroker = CrowdBroker()
    """The broker of the group, to which homes, leader and helper connect."""
    store: CrowdStore
    """The store: the file that holds the operator's secrets, its state and its ledger."""


class Operation(NamedTuple):
    """The accepted configuration of an operator: its role, group, identity, broker and store."""

    role: str
    group: Group
    identity: Identity
    endpoint: Endpoint
    store: Path


_SECTIONS: dict[str, type[BaseModel]] = {"broker": CrowdBroker, "store": CrowdStore}
_EXPECTED = {
    "group_file": "the file of the group, such as 'elm-street.toml'",
    "identity_file": "the file of this operator's identity, from `meteragent crowd key new FILE`",
    "store": "a table with the `path` of the store",
    "store.path": "the path of a file, such as '/var/lib/meteragent-crowd/leader.db'",
}


def load(path: Path, role: str) -> Operation:
    """Read and check a configuration, its group and its identity. Raises ConfigError with all errors."""
    text = refusal.text_of_file(path)
    document = refusal.parse_toml(text)
    settings, schema_errors = _result(parse, text)
    group, group_errors = _result(_group, document)
    signer, signer_errors = _result(_identity, document)
    address, address_errors = _result(_address, document)
    errors = [*schema_errors, *group_errors, *signer_errors, *address_errors]
    if group is not None and signer is not None:
        errors += _identity_errors(group, signer, role)
    refusal.locate(errors, text)
    refusal.raise_all(errors)
    assert settings is not None
    assert group is not None
    assert signer is not None
    assert address is not None
    return Operation(role, group, signer, address, settings.store.path)


def parse(text: str) -> Settings:
    """Parse a configuration without the files that it names. Raises ConfigError as `load` does."""
    try:
        return Settings.model_validate(refusal.parse_toml(text))
    except ValidationError as error:
        errors = [_refusal(detail) for detail in error.errors(include_url=False)]
        refusal.locate(errors, text)
        refusal.raise_all(errors)
        raise


def _result(read: Callable[[_S], _T], source: _S) -> tuple[_T | None, list[ConfigError]]:
    try:
        return read(source), []
    except ConfigError as error:
        return None, list(error.errors)


def _group(document: dict[str, Any]) -> Group | None:
    """Return the group in the file that a document names, if any. Raises ConfigError with the file's path."""
    path = document.get("group_file")
    if not isinstance(path, str):
        return None
    try:
        text = refusal.text_of_file(Path(path))
    except ConfigError as error:
        raise ConfigError("group_file", "", "", text=f"{path}: {error.text}") from None
    try:
        return groups.parse_group(text)
    except ConfigError as error:
        refusal.locate(error.errors, text)
        for problem in error.errors:
            problem.file = path
        raise


def _identity(document: dict[str, Any]) -> Identity | None:
    """Return the identity in the file that a document names, if any. Raises ConfigError if unusable."""
    path = document.get("identity_file")
    if not isinstance(path, str):
        return None
    try:
        return identity.load(Path(path))
    except KeyRefused as error:
        raise ConfigError("identity_file", "", "", text=str(error)) from None


def _address(document: dict[str, Any]) -> Endpoint | None:
    """Return the broker's address; None if its table has a wrong value. Raises ConfigError if refused."""
    table = document.get("broker", {})
    if isinstance(table, dict):  # `parse` refuses unknown keys; the address is checked without them
        table = {name: value for name, value in table.items() if name in CrowdBroker.model_fields}
    try:
        broker = CrowdBroker.model_validate(table)
    except ValidationError:
        return None
    refusal.raise_all(address_refusals("broker", broker.url, broker))
    return read_endpoint("broker", broker.url, broker)


def _identity_errors(group: Group, signer: Identity, role: str) -> Iterator[ConfigError]:
    public, expected = signer.public.hex(), getattr(group, role).identity
    if public != expected:
        text = f"its public key is {public}, but the group's {role} has {expected}"
        yield ConfigError("identity_file", "", "", text=text)


def _refusal(detail: ErrorDetails) -> ConfigError:
    if detail["type"] == "extra_forbidden":
        path = detail["loc"]
        model = _SECTIONS[str(path[0])] if len(path) > 1 else Settings
        names = list(model.model_fields)
        meant = refusal.similar(path[-1], names)
        return ConfigError(
            refusal.key_text(path), "an unknown key", f"one of {', '.join(names)}", meant=meant
        )
    return refusal.value_refusal(detail, _EXPECTED)
