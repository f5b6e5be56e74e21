"""The receivers of a configuration."""

from typing import NamedTuple

from meteragent import config
from meteragent.domain.grid import iso_time
from meteragent.report.language import say


class ReceiverRow(NamedTuple):
    """A receiver: its name, stream and preset, the address of its records, its times and its state."""

    name: str
    stream: str
    preset: str
    url: str
    topic: str
    start: str | None
    end: str | None
    is_paused: bool
    is_ended: bool

    @property
    def text(self) -> str:
        """The row in words."""
        parts = [say("receivers.row", name=self.name, preset=self.preset, url=self.url, topic=self.topic)]
        parts += [say("receivers.start", time=self.start)] if self.start else []
        parts += [say("receivers.end", time=self.end)] if self.end else []
        parts += [say("receivers.ended")] if self.is_ended else []
        parts += [say("receivers.paused")] if self.is_paused else []
        return ", ".join(parts)


def receivers(settings: config.Config) -> list[ReceiverRow]:
    """Return the receivers in the order of their streams."""
    return [
        ReceiverRow(
            name=receiver.name,
            stream=stream.name,
            preset=receiver.preset,
            url=config.sink_url(config.sent_to(stream, receiver)),
            topic=receiver.topic,
            start=None if receiver.start is None else iso_time(receiver.start),
            end=None if receiver.end is None else iso_time(receiver.end),
            is_paused=receiver.state == "paused",
            is_ended=receiver.state == "ended",
        )
        for stream in settings.stream
        for receiver in stream.receivers
    ]
