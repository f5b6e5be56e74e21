"""The models of a broker, a receiver and a crowd, on which `model` builds."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from meteragent.config.value import ClientId, GroupId, Moment, Protocol, ReceiverName, Template
from meteragent.domain.presets import DEFAULT


class Section(BaseModel):
    """A table of the configuration."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, use_attribute_docstrings=True
    )


class Broker(Section):
    """How to connect to a broker."""

    client_id: ClientId | None = None
    """The client id, for brokers that accept only certain ones. A stream with a name of its own adds it.
    Default: an id made by the store.
    """
    username: str | None = None
    """The broker's user name."""
    password_file: Path | None = None
    """A file that holds the password."""
    ca_file: Path | None = None
    """A file with the certificate authority that signed the broker's certificate. Default: the system's
    authorities.
    """
    cert_file: Path | None = None
    """A file with the certificate that identifies the agent to the broker."""
    key_file: Path | None = None
    """A file with that certificate's private key. Default: `cert_file`, which then holds both."""
    protocol: Protocol = "auto"
    """The MQTT version; `auto` means 5, or 3.1.1 if the broker refuses 5."""


class Receiver(Broker):
    """Somebody who gets the records of one preset; all receivers of a preset get the same bytes."""

    name: ReceiverName
    """The receiver's name, in logs and receipts."""
    preset: str = DEFAULT
    """What the receiver gets, by the name of a preset."""
    url: str | None = None
    """The receiver's broker. Default: the source's."""
    topic: Template
    """The topic of the receiver's records. `{meter}` is the meter's name or its pseudonym."""
    start: Moment | None = None
    """The start of the first slot that the receiver may get. Default: at once."""
    end: Moment | None = None
    """The end of the last slot that the receiver may get. Default: none."""
    paused: bool = Field(False, strict=True)  # names: a key, as users say it
    """Send nothing to the receiver, and withdraw its descriptors; `false` admits it again."""


class Crowd(Section):
    """A group of homes: only its total, with the noise of two operators, is known (docs/crowd.md)."""

    group: Path
    """The group's public file."""
    id: GroupId
    """The group's id (64 hex digits), which pins both operators' identities and every parameter of the noise.
    """
