"""Receivers: one stream for each preset, shared by all receivers of that preset.

The records of receivers of the same preset differ only in topic and broker, so these receivers share one
stream. Its noise is drawn and charged once, so a second copy of a record reveals nothing more.
Streams of other presets add to the charges of the meter. A stream is named after its preset and not after its
receivers, because the name is a key of the ledger.
"""

from collections.abc import Sequence

from meteragent.config.broker import Receiver
from meteragent.config.model import Config, Privacy, Sink, Stream
from meteragent.config.shapes import window_of
from meteragent.domain.presets import PRESETS

NO_TOPIC = "{meter}"
"""A stand-in for the topic of a sink with receivers or with a crowd, which have topics of their own."""

_RECEIVER_KEYS = {name: name for name in Receiver.model_fields if name in Sink.model_fields}


def shared_streams(config: Config) -> list[Stream]:
    """Return the streams of a file with receivers: one for each preset, in the order of the file.

    For tools that use only one sink, a stream's sink is its `first_receiver`.
    """
    by_preset: dict[str, list[Receiver]] = {}
    for receiver in config.receiver:
        by_preset.setdefault(receiver.preset, []).append(receiver)
    [base] = config.stream
    return [
        link(of_preset(base, name), first_receiver(peers)).shared_by(peers)
        for name, peers in by_preset.items()
    ]


def first_receiver(peers: Sequence[Receiver]) -> Receiver:
    """Return the receiver for tools that use only one: the first that is not paused, or else the first."""
    return next((receiver for receiver in peers if not receiver.paused), peers[0])


def of_preset(base: Stream, name: str) -> Stream:
    """Return the stream of a preset: the file's stream with the preset's slots and noise.

    The bands and the time zone of the file stay if the preset uses them. All other settings are the file's.
    """
    preset = PRESETS.get(name)  # an unknown preset is refused later
    window = base.window if preset is None else window_of(preset, base.window)
    privacy = Privacy(preset=name, accept=base.privacy.accept, budget=base.privacy.budget)
    return base.model_copy(update={"name": f"{base.name}-{name}", "window": window, "privacy": privacy})


def link(stream: Stream, receiver: Receiver) -> Stream:
    """Return a stream with the receiver's broker, login and topic as its sink."""
    keys = {name: getattr(receiver, name) for name in _RECEIVER_KEYS}
    fields_set = receiver.model_fields_set & keys.keys()
    sink = stream.sink.model_copy(update=keys)
    sink.model_fields_set.difference_update(keys.keys() - fields_set)
    return stream.model_copy(update={"sink": sink})
