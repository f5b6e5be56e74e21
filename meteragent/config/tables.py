"""The streams that a file's tables define: in a group's total, one for each share, or one for each preset.

Nested streams. `privacy.shares` divides the level of one table among streams of several lengths. Each stream
hides the same energy at its share of the level, so for any change in the load, the levels of all streams add
up to at most the configured level (THEORY 3.8). The streams share their source, so fine and coarse slots come
from the same readings, and a receiver can combine them (`meteragent.consume.nested`).

Receivers. Receivers of the same preset share one stream. A shared stream's noise is drawn and charged once,
so a second copy of a record reveals nothing more. Streams of other presets add to the charges of the meter. A
stream is named after its preset and not after its receivers, because the name is a key of the ledger.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from meteragent.config.model import Config, Crowd, Privacy, Receiver, Sink, Stream
from meteragent.config.shapes import preset, window_of
from meteragent.config.terms import finer_step, level, usual_length_ms
from meteragent.config.value import parse_length
from meteragent.crowd.group import Group, parse_group
from meteragent.domain.metric import Metric
from meteragent.domain.presets import PRESETS
from meteragent.domain.refusal import text_of_file
from meteragent.domain.shapes import Space
from meteragent.domain.units import HOUR_MS, MICRO, UNIT_FACTOR, Kind

if TYPE_CHECKING:
    from meteragent.store.grants import Action

NO_TOPIC = "{meter}"
"""A stand-in for the topic of a sink with receivers or with a crowd, which have topics of their own."""
_RECEIVER_KEYS = Receiver.model_fields.keys() & Sink.model_fields.keys()


def expand_tables(config: Config) -> Config:
    """Return a configuration with the streams that its tables define. Raises what `group_of` raises."""
    if config.receiver:
        streams = shared_streams(config)
        return config.with_streams(streams, config.key_prefixes * len(streams))
    pairs = [
        (part, prefix)
        for stream, prefix in config.prefixed_streams
        for part in nested_streams(with_group_terms(stream))
    ]
    return config.with_streams([part for part, _ in pairs], [prefix for _, prefix in pairs])


def with_group_terms(stream: Stream) -> Stream:
    """Return a stream with the terms of its group, if it has one. Raises ConfigError as `group_of` does."""
    if stream.sink.crowd is None:
        return stream
    group = group_of(stream.sink.crowd)
    privacy = {
        "level": group.level,
        "radius": group.hide_wh,
        "quantum": group.quantum_wh,
        "hide": None,
        "space": Space.SHARE,
        "metric": Metric.LINF,
    }
    window = {"length": 1000 * group.slot_s, "step": None, "blocks": None}
    sink = {"topic": f"crowd/{group.name}/report/{{meter}}"}
    return stream.with_changes(group=group, window=window, privacy=privacy, sink=sink)


def group_of(settings: Crowd) -> Group:
    """Read the file of a group. Raises ConfigError if it is refused."""
    return parse_group(text_of_file(settings.group))


def nested_streams(stream: Stream) -> tuple[Stream, ...]:
    """Return the streams of a table, from fine to coarse: one per share, or one if there are no shares."""
    shares = stream.privacy.shares
    if shares is None:
        return (stream,)
    return tuple(_of_share(stream, length, shares[length]) for length in sorted(shares, key=parse_length_ms))


def parse_length_ms(length: str) -> int:
    """Return the length of an ordinary window, in ms."""
    return usual_length_ms(parse_length(length))


def _of_share(stream: Stream, length: str, share: Fraction) -> Stream:
    """Return the stream that belongs to one share."""
    length_or_ms, hide_wh = parse_length(length), stream.privacy.hide or preset(stream).hide_wh
    follows_calendar = isinstance(length_or_ms, str)
    status = stream.sink.status
    return stream.with_changes(
        name=f"{stream.name}-{length}",
        privacy={
            "shares": None,
            "level": share * level(stream),
            "hide": hide_wh,
            "quantum": _quantum(stream, hide_wh, usual_length_ms(length_or_ms)),
        },
        window={"length": length_or_ms, "timezone": stream.window.timezone if follows_calendar else None},
        sink={
            "topic": f"{stream.sink.topic}/{length}",
            "status": None if status is None else f"{status}/{length}",
        },
    )


def _quantum(stream: Stream, hide_wh: Fraction, window_ms: int) -> Fraction:
    """Return the quantum of a stream's values in whole millionths; as energy, it is at most the preset's.

    If less is hidden than with the preset, the quantum is proportionally finer, so that rounding up does
    not enlarge the radius by a greater fraction.
    """
    numbers = preset(stream)
    quantum_wh = numbers.quantum * Fraction(usual_length_ms(numbers.length), HOUR_MS)
    quantum = quantum_wh * min(Fraction(1), hide_wh / numbers.hide_wh) / UNIT_FACTOR[stream.source.unit]
    if stream.source.kind is Kind.POWER:
        quantum = quantum * HOUR_MS / window_ms
    return quantum if (quantum * MICRO).denominator == 1 else finer_step(quantum)


def shared_streams(config: Config) -> list[Stream]:
    """Return a stream for each preset of a file's receivers; its sink is the `first_receiver`."""
    by_preset: dict[str, list[Receiver]] = {}
    for receiver in config.receiver:
        by_preset.setdefault(receiver.preset, []).append(receiver)
    [base] = config.stream
    return [_with_peers(for_preset(base, name), peers) for name, peers in by_preset.items()]


def first_receiver(peers: Sequence[Receiver]) -> Receiver:
    """Return the receiver for tools that use only one: the first that gets numbers, or else the first."""
    return next((receiver for receiver in peers if not receiver.state), peers[0])


def with_actions(config: Config, actions: Mapping[str, "Action"]) -> Config:
    """Return the configuration after `actions`, the last action on each receiver by the receiver's name."""
    verbs = {name: action.verb for name, action in actions.items()}

    def after(receivers: Sequence[Receiver]) -> tuple[Receiver, ...]:
        """Return the receivers, each as the last action on the receiver has left it."""
        return tuple(item.after_action(verbs.get(item.name, "")) for item in receivers)

    streams = (_with_peers(stream, after(stream.receivers)) for stream in config.stream)
    return config.model_copy(update={"stream": tuple(streams), "receiver": after(config.receiver)})


def _with_peers(stream: Stream, peers: Sequence[Receiver]) -> Stream:
    """Return a stream with its receivers, if any; tools for one sink see only its `first_receiver`."""
    return sent_to(stream, first_receiver(peers)).with_receivers(peers) if peers else stream


def for_preset(base: Stream, name: str) -> Stream:
    """Return the file's stream with a preset's slots and noise; keep bands and zone that the preset needs."""
    preset = PRESETS.get(name)  # an unknown preset is refused later
    window = base.window if preset is None else window_of(preset, base.window)
    privacy = Privacy(preset=name, accept=base.privacy.accept, budget=base.privacy.budget)
    return base.model_copy(update={"name": f"{base.name}-{name}", "window": window, "privacy": privacy})


def sent_to(stream: Stream, receiver: Receiver) -> Stream:
    """Return a stream with the receiver's broker, login and topic as its sink."""
    sink = stream.sink.model_copy(update={name: getattr(receiver, name) for name in _RECEIVER_KEYS})
    sink.model_fields_set.difference_update(_RECEIVER_KEYS - receiver.model_fields_set)
    return stream.model_copy(update={"sink": sink})


def streams_by_receiver(stream: Stream) -> dict[str, Stream]:
    """Return the stream as sent to each receiver that gets it, by name; "" is the stream's own sink."""
    if not stream.receivers:
        return {"": stream}
    return {item.name: sent_to(stream, item) for item in stream.receivers if not item.state}
