"""Nested streams: `privacy.shares` divides the level of one table among streams of several lengths.

Each stream hides the same energy at its share of the level, so for any change in the load the levels of all
streams add up to at most the configured level (THEORY 3.8). The streams differ in name, windows, level,
quantum and topics, but not in their source, so fine and coarse slots come from the same readings, and a
receiver can combine them (`meteragent.consume.nested`).
"""

from fractions import Fraction

from meteragent.config.model import Config, Stream
from meteragent.config.shapes import preset
from meteragent.config.terms import finer_step, level, usual_ms
from meteragent.config.value import parse_length
from meteragent.domain.units import HOUR_MS, MICRO, UNIT_FACTOR, Kind


def expanded(config: Config) -> Config:
    """Return a configuration in which each table with shares is replaced by one stream per share."""
    streams = [(part, table) for table, stream in enumerate(config.stream) for part in parts(stream)]
    return config.with_streams([part for part, _ in streams], [table for _, table in streams])


def parts(stream: Stream) -> tuple[Stream, ...]:
    """Return the streams of a table, from fine to coarse: one per share, or one if there are no shares."""
    shares = stream.privacy.shares
    if shares is None:
        return (stream,)
    return tuple(_part(stream, length, shares[length]) for length in sorted(shares, key=ms_of))


def ms_of(length: str) -> int:
    """Return the length of an ordinary window, in ms."""
    return usual_ms(parse_length(length))


def _part(stream: Stream, length: str, share: Fraction) -> Stream:
    """Return the stream that belongs to one share."""
    length_or_ms, name = parse_length(length), f"{stream.name}-{length}"
    follows_calendar = isinstance(length_or_ms, str)
    privacy = {
        "shares": None,
        "level": share * level(stream),
        "hide": _hide_wh(stream),
        "quantum": _quantum(stream, usual_ms(length_or_ms)),
    }
    window = {"length": length_or_ms, "timezone": stream.window.timezone if follows_calendar else None}
    status = stream.sink.status
    sink = {
        "topic": f"{stream.sink.topic}/{length}",
        "status": None if status is None else f"{status}/{length}",
    }
    return stream.changed(name=name, privacy=privacy, window=window, sink=sink)


def _quantum(stream: Stream, window_ms: int) -> Fraction:
    """Return the quantum of a stream's values. Its energy is at most that of the preset's quantum.

    If less is hidden than with the preset, the quantum is proportionally finer, so that rounding up enlarges
    the radius by no greater fraction than with the preset. The quantum is also finer if it would not be a
    whole number of millionths of the unit.
    """
    numbers, hide_wh = preset(stream), _hide_wh(stream)
    quantum_wh = (
        numbers.quantum
        * Fraction(usual_ms(numbers.length), HOUR_MS)
        * min(Fraction(1), hide_wh / numbers.hide_wh)
    )
    quantum = quantum_wh / UNIT_FACTOR[stream.source.unit]
    if stream.source.kind is Kind.POWER:
        quantum = quantum * HOUR_MS / window_ms
    return quantum if (quantum * MICRO).denominator == 1 else finer_step(quantum)


def _hide_wh(stream: Stream) -> Fraction:
    """Return the energy that every stream hides: the configured energy, or else the preset's."""
    return stream.privacy.hide or preset(stream).hide_wh
