"""The topics of a received stream: the meter that a topic names, and what its messages are."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

from meteragent.domain.identity import SourceTopic

_DESCRIPTOR = "privacy"


class Role(Enum):
    """What the messages of a topic are."""

    RECORD = "record"
    DESCRIPTOR = "descriptor"


class Place(NamedTuple):
    """The stream and the meter that a topic names, and the role of its messages."""

    stream: str
    meter: str
    role: Role


@dataclass(frozen=True, slots=True)
class StreamTopic:
    """The topic of a stream's records, with a segment for the meter; descriptors are below it."""

    stream: str
    records: SourceTopic

    @classmethod
    def parse(cls, stream: str, template: str) -> Self:
        """Parse a topic such as ``private/{meter}/power``; raises ValueError."""
        return cls(stream, SourceTopic.parse(template))

    @property
    def filters(self) -> tuple[str, str]:
        """The filters of records and of descriptors; the second also matches ``…/privacy`` itself."""
        return self.records.filter, f"{self.records.filter}/{_DESCRIPTOR}/#"

    def place(self, topic: str) -> Place | None:
        """Return what a topic names; None if it belongs to another stream."""
        meter = self.records.meter(topic)
        if meter is not None:
            return Place(self.stream, meter, Role.RECORD)
        head, separator, tail = topic.rpartition(f"/{_DESCRIPTOR}")
        if separator and tail.count("/") <= 1 and not tail.strip("/").count("/"):
            meter = self.records.meter(head)
        return None if meter is None else Place(self.stream, meter, Role.DESCRIPTOR)
