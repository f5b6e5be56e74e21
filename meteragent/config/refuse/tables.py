"""Refusals of tables that define other streams: in a crowd's total, nested, or shared by receivers."""

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from math import gcd

from meteragent.config.model import Config, Stream
from meteragent.config.refuse.check import NO_SLOT_KEYS, Refusals, check_of, is_wrong, repeated_places
from meteragent.config.refuse.window import zone_refusals
from meteragent.config.shapes import keys_needed, range_text
from meteragent.config.source import interval_ms, lateness_ms
from meteragent.config.tables import NO_TOPIC, group_of, nested_streams, parse_length_ms
from meteragent.config.terms import SHAPES_END_MS, SHAPES_FROM_MS, grid
from meteragent.config.value import parse_length
from meteragent.crowd.group import Group, is_label
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import count_text, exact_text
from meteragent.domain.grid import EpochGrid, format_duration
from meteragent.domain.lines import Path
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import SHAPES, Equal
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind


def _forbidden_keys(stream: Stream, allowed: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield the table and the name of each key that is set in one of these tables but not allowed there."""
    for table, names in allowed.items():
        for name in sorted(getattr(stream, table).model_fields_set.difference(names)):
            yield table, name


# Crowds -------------------------------------------------------------------------------------------

_BESIDE_CROWD = {"window": NO_SLOT_KEYS, "privacy": ("accept", "budget")}
"""The keys of `[window]` and `[privacy]` that may be set next to `sink.crowd`."""
_RECORD_KEYS = ("total", "home_assistant", "retain")
"""The sink's keys that concern records, which a home in a crowd does not send."""


@check_of("sink.crowd")
def crowd_refusals(stream: Stream) -> Refusals:
    """Yield refusals of a group's file and id, and of conflicting keys, before its terms are applied."""
    settings, group = stream.sink.crowd, None
    if settings is None:
        return
    try:
        group = group_of(settings)
    except ConfigError as refusal:
        for error in refusal.errors:
            place = f"{settings.group}: {error.key}: " if error.key else f"{settings.group}: "
            yield ConfigError("sink.crowd.group", f"{place}{error.found}", error.expected)
    else:
        if settings.id != group.id.hex():
            expected = f"{group.id.hex()!r}, if that is the id that both operators publish"
            yield ConfigError("sink.crowd.id", repr(settings.id), expected)
    yield from _conflicts_with_crowd(stream, group)


def _conflicts_with_crowd(stream: Stream, group: Group | None) -> Refusals:
    """Yield refusals of keys that the group determines or that concern records, and of the event clock."""
    terms = "" if group is None else f": {_terms_text(group)}"
    for table, name in _forbidden_keys(stream, _BESIDE_CROWD):
        yield ConfigError(f"{table}.{name}", "a value", f"no {name} together with sink.crowd{terms}")
    for name in _RECORD_KEYS:
        if name in stream.sink.model_fields_set:
            expected = f"no {name} together with sink.crowd: a home sends no records"
            yield ConfigError(f"sink.{name}", "a value", expected)
    if stream.sink.topic != NO_TOPIC:
        expected = "no topic together with sink.crowd, which has topics of its own"
        yield ConfigError("sink.topic", repr(stream.sink.topic), expected)
    if stream.window.clock is Clock.EVENT:
        yield ConfigError("window.clock", "'event'", "'wall': a report has a deadline")


def _terms_text(group: Group) -> str:
    """Return a group's terms in words, for the refusal of a key that could contradict them."""
    level, hide_wh, quantum_wh = map(exact_text, (group.level, group.hide_wh, group.quantum_wh))
    windows = f"windows of one slot of {format_duration(1000 * group.slot_s)}"
    return f"the group has {windows}, level {level}, and hides {hide_wh} Wh; quantum {quantum_wh} Wh"


@check_of("sink.crowd.group", "window.range")
def _limit_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a range beyond the group's range, because totals could then be implausible."""
    if (group := stream.group) is None:
        return
    limits_wh = group.lowest_wh, group.highest_wh
    (low, high), (lowest, highest) = stream.window.range, (wh * 3600 / group.slot_s for wh in limits_wh)
    if low < lowest or high > highest:
        expected = f"a range within the group's, [{exact_text(lowest)}, {exact_text(highest)}] W"
        yield ConfigError("window.range", range_text(stream), expected)


@check_of(
    "sink.crowd.group", "source.kind", "source.unit", "source.interval", "source.profile", "source.value"
)
def _lattice_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of an interval for which the group's quantum is not whole in units of accumulators."""
    source, group = stream.source, stream.group
    if group is None or source.kind is Kind.POWER:
        return
    per_quantum = group.quantum_wh * MICRO * interval_ms(source) / UNIT_FACTOR[source.unit]
    if per_quantum.denominator != 1:
        expected = f"whole seconds: the group's quantum is {exact_text(group.quantum_wh)} Wh"
        yield ConfigError("source.interval", repr(format_duration(interval_ms(source))), expected)


@check_of("sink.crowd.group", "source.meter", "sink.pseudonym_key_file")
def _label_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a meter's name that cannot be the home's label."""
    name = stream.source.meter
    if stream.group is None or name is None or stream.sink.pseudonym_key_file is not None:
        return
    if not is_label(name):
        expected = "the home's label: 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        yield ConfigError("source.meter", repr(name), expected)


@check_of(
    "sink.crowd.group", "sink.spread", "window.lateness", "window.catch_up", "source.kind", "source.interval"
)
def _deadline_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a group whose deadline may pass before the agent sends the report of a slot."""
    if stream.group is None:
        return
    delays_ms = lateness_ms(stream.source, stream.window), stream.sink.spread, stream.window.catch_up
    if 1000 * stream.group.deadline_s < sum(delays_ms):
        lateness, spread, catch_up = map(format_duration, delays_ms)
        expected = (
            f"lateness ({lateness}), sink.spread ({spread}) and window.catch_up ({catch_up}) that add up to"
            f" at most the group's deadline_s = {stream.group.deadline_s}"
        )
        yield ConfigError("sink.crowd.group", format_duration(sum(delays_ms)), expected)


CROWD_CHECKS = (_limit_refusals, _lattice_refusals, _label_refusals, _deadline_refusals)
"""The checks with a group's terms; the last one may refuse `sink.crowd.group`, which all others read."""

# Nested streams -----------------------------------------------------------------------------------

_BESIDE_SHARES = {
    "window": NO_SLOT_KEYS | {"timezone"},
    "privacy": ("shares", "preset", "level", "hide", "accept"),
}
"""The keys of `[window]` and `[privacy]` that may be set next to `privacy.shares`."""
_NOT_WITH_SHARES = {
    "window.length": "each share sets the length of its windows",
    "privacy.radius": "each length has its own radius; set privacy.hide",
    "privacy.quantum": "each length has its own lattice",
    "privacy.budget": "the same level is a different epsilon in each stream",
}
_SLOTS = "a window of nested streams is one slot"


@check_of("privacy.shares", "window", "privacy.preset")
def _share_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of every setting that nested streams exclude."""
    if stream.privacy.shares is None:
        return
    for table, name in _forbidden_keys(stream, _BESIDE_SHARES):
        reason = _NOT_WITH_SHARES.get(f"{table}.{name}", _SLOTS)
        yield ConfigError(f"{table}.{name}", "a value", f"no {name} together with privacy.shares: {reason}")
    if not issubclass(SHAPES[PRESETS[stream.privacy.preset].space], Equal):
        expected = f"a preset with equal slots, such as 'appliance', together with privacy.shares: {_SLOTS}"
        yield ConfigError("privacy.preset", repr(stream.privacy.preset), expected)


@check_of("privacy.shares", "privacy.preset", "window.timezone", "source.kind", "source.unit")
def _nesting_refusals(stream: Stream) -> Refusals:
    """Yield refusals of shares that do not divide the level, and of lengths whose windows do not nest."""
    if (shares := stream.privacy.shares) is None:
        return
    if len(shares) < 2:
        expected = (
            "two or more shares, such as { '30min' = 0.8, '1d' = 0.2 }; for one stream, set window.length"
        )
        yield ConfigError("privacy.shares", count_text(len(shares), "share"), expected)
        return
    total = sum(shares.values(), Fraction(0))
    if total > 1:
        expected = "shares that add up to at most 1, because together they spend the level"
        yield ConfigError("privacy.shares", f"a sum of {exact_text(total)}", expected)
    streams = nested_streams(stream)
    zone_problems = [problem for part in streams for problem in zone_refusals.refusals(part)]
    if zone_problems:
        yield zone_problems[0]
        return
    if stream.window.timezone is not None and not any(part.window.timezone for part in streams):
        expected = "no time zone, because no share is for local days, weeks or months"
        yield ConfigError("window.timezone", repr(stream.window.timezone), expected)
    lengths = sorted(shares, key=parse_length_ms)
    for fine, coarse in pairwise(zip(lengths, streams, strict=True)):
        yield from _misfits(*fine, *coarse)


def _misfits(fine: str, fine_stream: Stream, coarse: str, coarse_stream: Stream) -> Iterator[ConfigError]:
    """Yield a refusal if the windows of a stream do not fill the windows of the next coarser stream."""
    fine_grid, coarse_grid = grid(fine_stream), grid(coarse_stream)
    key, value = f"privacy.shares.{fine}", f"a share of {fine!r} together with one of {coarse!r}"
    if parse_length_ms(fine) == parse_length_ms(coarse):
        yield ConfigError(key, value, "lengths that differ")
    elif isinstance(coarse_grid, EpochGrid):
        if not isinstance(fine_grid, EpochGrid):
            expected = "'1w' or '1mo': local days fill no other length"
            yield ConfigError(f"privacy.shares.{coarse}", value, expected)
        elif coarse_grid.length_ms % fine_grid.length_ms:
            yield ConfigError(key, value, f"a length that divides {coarse!r}")
    elif not isinstance(fine_grid, EpochGrid):
        if parse_length(fine) == "1w":
            yield ConfigError(key, value, "'1d': weeks do not fill months")
    elif (common_ms := _common_ms(coarse_stream)) % fine_grid.length_ms:
        nearest = format_duration(gcd(common_ms, fine_grid.length_ms))
        expected = (
            f"a length that fills every {coarse!r} of {coarse_stream.window.timezone}, such as {nearest!r}"
        )
        yield ConfigError(key, value, expected)


def _common_ms(stream: Stream) -> int:
    """Return the largest length that divides every window boundary of a stream in ten years."""
    windows = grid(stream)
    start_ms = windows.first_start_ms(SHAPES_FROM_MS)
    common_ms = start_ms
    while start_ms < SHAPES_END_MS:
        start_ms = windows.end_ms(start_ms)
        common_ms = gcd(common_ms, start_ms)
    return common_ms


SHARES_CHECKS = (_share_refusals, _nesting_refusals)
"""The checks of a table before its level is divided."""

# Receivers ----------------------------------------------------------------------------------------

_BESIDE_RECEIVERS = {
    "window": NO_SLOT_KEYS.union(["timezone"], *(keys_needed(preset) for preset in PRESETS.values())),
    "privacy": ("accept",),
    "sink": ("pseudonym_key_file", "spread", "inflight"),
}
"""The keys that may be set next to receivers; they apply to all receivers."""
_NOT_WITH_RECEIVERS = {
    "window": "each receiver's preset sets the windows",
    "privacy": "each receiver names its preset",
    "sink": "each receiver has a broker and a topic of its own",
    **dict.fromkeys(("sink.total", "sink.status", "sink.home_assistant"), "it is for a single sink"),
}


def receiver_refusals(config: Config, wrong_paths: Collection[Path]) -> Refusals:
    """Yield refusals of settings that exclude receivers; `wrong_paths` are refused keys of the stream."""
    if config.archive is not None:
        yield ConfigError("archive", "a table together with [[receiver]]", "a file of its own")
    yield from _conflicts_with_receivers(config.stream[0], wrong_paths)
    yield from _name_and_time_refusals(config)


def _conflicts_with_receivers(stream: Stream, wrong_paths: Collection[Path]) -> Refusals:
    """Yield refusals of all settings that shared streams cannot have, and of the event clock."""
    for table, name in _forbidden_keys(stream, _BESIDE_RECEIVERS):
        key = f"{table}.{name}"
        is_stand_in = key == "sink.topic" and stream.sink.topic == NO_TOPIC
        if not is_stand_in and not is_wrong(wrong_paths, key):
            reason = _NOT_WITH_RECEIVERS.get(key, _NOT_WITH_RECEIVERS[table])
            yield ConfigError(key, "a value", f"no {name} together with [[receiver]]: {reason}")
    if stream.window.clock is Clock.EVENT:
        expected = "'wall': a receiver's start and end are times of the wall clock"
        yield ConfigError("window.clock", "'event'", expected)


def _name_and_time_refusals(config: Config) -> Refusals:
    """Yield refusals of repeated names and client ids, and of an end that is not after the start."""
    for number in repeated_places(receiver.name for receiver in config.receiver):
        value, expected = repr(config.receiver[number].name), "a different name for each receiver"
        yield ConfigError(f"receiver[{number}].name", value, expected)
    for number in repeated_places((receiver.url, receiver.client_id) for receiver in config.receiver):
        if (client_id := config.receiver[number].client_id) is not None:
            expected = "a different client id for each receiver at a broker"
            yield ConfigError(f"receiver[{number}].client_id", repr(client_id), expected)
    for number, receiver in enumerate(config.receiver):
        if receiver.start is not None and receiver.end is not None and receiver.end <= receiver.start:
            value = "a time that is not after the start"
            yield ConfigError(f"receiver[{number}].end", value, "a time after the start")
