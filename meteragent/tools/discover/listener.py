"""A log for each topic: the number of messages, their times, and the last few payloads."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from meteragent.config.model import Source
from meteragent.consume import Descriptor, Record
from meteragent.domain.errors import RecordError

TOPICS_MAX = 5_000
PAYLOADS_KEPT = 30
TIMES_KEPT = 1_000
PAYLOAD_MAX: int = Source.model_fields["max_payload"].default
DESCRIPTION_MAX = 2 * 2**20
"""The largest size, in bytes, of a description on a topic of `_DESCRIPTIONS`; only the newest is kept."""
_DESCRIPTIONS = ("/bridge/devices", "/$description")
KEPT_MAX = 32 * 2**20
"""The largest total size of all kept payloads, in bytes."""


@dataclass(slots=True)
class TopicLog:
    """The log of one topic; `times_ms` holds the times of arrival of messages that were not retained."""

    topic: str
    count: int = 0
    retained: int = 0
    times_ms: deque[int] = field(default_factory=lambda: deque(maxlen=TIMES_KEPT))
    payloads: deque[bytes] = field(default_factory=lambda: deque(maxlen=PAYLOADS_KEPT))

    @property
    def newest(self) -> bytes:
        """The newest payload that was kept, or b""."""
        return self.payloads[-1] if self.payloads else b""

    @property
    def is_ours(self) -> bool:
        """Whether the topic is a private stream: records or descriptors of meteragent."""
        for parse in (Record.parse, Descriptor.parse) if self.payloads else ():
            with suppress(RecordError):
                return parse(self.payloads[-1]) is not None
        return False


class Listener:
    """A bounded log of messages by topic; `shed` counts those on topics beyond `TOPICS_MAX`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.topics: dict[str, TopicLog] = {}
        self.shed = 0
        self._now_ms = now_ms
        self._room = KEPT_MAX

    @property
    def message_count(self) -> int:
        """The number of messages that arrived."""
        return sum(log.count for log in self.topics.values()) + self.shed

    def on_message(self, topic: str, payload: bytes, retain: bool) -> None:
        """Log a message, but not a payload that is too large; beyond `TOPICS_MAX`, only count messages."""
        if topic not in self.topics and len(self.topics) >= TOPICS_MAX:
            self.shed += 1
            return
        log = self.topics.setdefault(topic, TopicLog(topic))
        log.count += 1
        log.retained += retain
        if not retain:
            log.times_ms.append(self._now_ms())
        is_description = topic.endswith(_DESCRIPTIONS)
        if is_description:
            self._room += sum(map(len, log.payloads))
            log.payloads.clear()
        if len(payload) <= min(DESCRIPTION_MAX if is_description else PAYLOAD_MAX, self._room):
            self._room -= len(payload)
            if len(log.payloads) == PAYLOADS_KEPT:
                self._room += len(log.payloads[0])
            log.payloads.append(payload)


def cadence_ms(topics: Iterable[TopicLog]) -> int | None:
    """Return the median time between live messages on the same topic; None if no topic had two."""
    gaps = [b - a for log in topics for a, b in pairwise(log.times_ms)]
    return median_low(gaps) if gaps else None
