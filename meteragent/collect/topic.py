"""The topics of a received stream: the meter that a topic names, and the role of its messages."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

from meteragent.domain.identity import SourceTopic

_DESCRIPTOR = "privacy"


class Role(Enum):
    """The role of a topic's messages: records or descriptors."""

    RECORD = "record"
    DESCRIPTOR = "descriptor"


class Place(NamedTuple):
    """The stream and the meter that a topic names, and the role of its messages."""

    stream: str
    meter: str
    role: Role


@dataclass(frozen=True, slots=True)
class StreamTopic:
    """The topic of a stream's records, with a segment for the meter. Descriptors are below that topic."""

    stream: str
    records: SourceTopic

    @classmethod
    def parse(cls, stream: str, template: str) -> Self:
        """Parse a topic such as ``private/{meter}/power``. Raises ValueError if it is invalid."""
        return cls(stream, SourceTopic.parse(template))

    @property
    def filters(self) -> tuple[str, str]:
        """The filters of records and of descriptors. The filter of descriptors also matches ``…/privacy``."""
        return self.records.filter, f"{self.records.filter}/{_DESCRIPTOR}/#"

    def place_of(self, topic: str) -> Place | None:
        """Return the stream, the meter and the role of a topic; None if it does not belong to this stream."""
        meter = self.records.meter_of(topic)
        if meter is not None:
            return Place(self.stream, meter, Role.RECORD)
        head, separator, tail = topic.rpartition(f"/{_DESCRIPTOR}")
        if separator and (not tail or tail.rfind("/") == 0):
            meter = self.records.meter_of(head)
        return None if meter is None else Place(self.stream, meter, Role.DESCRIPTOR)
