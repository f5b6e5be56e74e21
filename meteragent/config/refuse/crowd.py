"""Refusals of a group's file and id, and of settings that a stream in a group's total cannot have."""

from collections.abc import Collection

from meteragent.config.crowd import group_of, limits_w
from meteragent.config.model import Stream
from meteragent.config.receivers import NO_TOPIC
from meteragent.config.refuse.check import WITHOUT_SLOTS, Problems, depends, not_allowed, reads
from meteragent.config.source import interval_ms, lateness_ms
from meteragent.crowd.group import Group, is_label
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.lines import Path, path_of
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind

_ALLOWED = {"window": WITHOUT_SLOTS, "privacy": ("accept", "budget")}
"""The keys of `[window]` and `[privacy]` that may be set beside `sink.crowd`."""
_RECORD_KEYS = ("total", "home_assistant", "retain")
"""The sink's keys that concern records, which a home in a crowd does not send."""


def before(stream: Stream, wrong_paths: Collection[Path]) -> Problems:
    """Yield the refusals that come before the group is applied: of its file, its id, and conflicting keys."""
    settings, group = stream.sink.crowd, None
    if settings is None or any(depends(path_of("sink.crowd"), path) for path in wrong_paths):
        return
    try:
        group = group_of(settings)
    except ConfigError as refusal:
        for error in refusal.errors or (refusal,):
            place = f"{settings.group}: {error.key}: " if error.key else f"{settings.group}: "
            yield ConfigError("sink.crowd.group", f"{place}{error.found}", error.expected)
    else:
        if settings.id != group.id.hex():
            expected = f"{group.id.hex()!r}, if that is the id that both operators publish"
            yield ConfigError("sink.crowd.id", repr(settings.id), expected)
    yield from _conflicts(stream, group)


def _conflicts(stream: Stream, group: Group | None) -> Problems:
    """Yield refusals of keys that the group determines or that concern records, and of the event clock."""
    terms = "" if group is None else f": {_terms(group)}"
    for table, name in not_allowed(stream, _ALLOWED):
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


def _terms(group: Group) -> str:
    """Return a group's terms in words, for the refusal of a key that could contradict them."""
    return (
        f"the group has windows of one slot of {format_duration(1000 * group.slot_s)}, level"
        f" {exact(group.level)}, and hides {exact(group.hide_wh)} Wh; quantum {exact(group.quantum_wh)} Wh"
    )


@reads(
    "sink.crowd.group", "sink.spread", "window.lateness", "window.catch_up", "source.kind", "source.interval"
)
def deadline(stream: Stream) -> Problems:
    """Yield a refusal of a group whose deadline may pass before the agent sends the report of a slot."""
    group, window = stream.group, stream.window
    if group is None:
        return
    late_ms = lateness_ms(stream.source, window)
    latest_ms = late_ms + stream.sink.spread + window.catch_up
    if 1000 * group.deadline_s < latest_ms:
        parts = (late_ms, stream.sink.spread, window.catch_up)
        lateness, spread, catch_up = map(format_duration, parts)
        expected = (
            f"lateness ({lateness}), sink.spread ({spread}) and window.catch_up ({catch_up}) that add up to"
            f" at most the group's deadline_s = {group.deadline_s}"
        )
        yield ConfigError("sink.crowd.group", format_duration(latest_ms), expected)


@reads("sink.crowd.group", "window.range")
def limits(stream: Stream) -> Problems:
    """Yield a refusal of a range beyond the group's range, because totals could then be implausible."""
    if stream.group is None:
        return
    (low, high), (lowest, highest) = stream.window.range, limits_w(stream.group)
    if low < lowest or high > highest:
        expected = f"a range within the group's, [{exact(lowest)}, {exact(highest)}] W"
        yield ConfigError("window.range", f"[{exact(low)}, {exact(high)}]", expected)


@reads("sink.crowd.group", "source.kind", "source.unit", "source.interval", "source.profile", "source.value")
def lattice(stream: Stream) -> Problems:
    """Yield a refusal of an interval for which the group's quantum is not whole in units of accumulators."""
    source, group = stream.source, stream.group
    if group is None or source.kind is Kind.POWER:
        return
    per_quantum = group.quantum_wh * MICRO * interval_ms(source) / UNIT_FACTOR[source.unit]
    if per_quantum.denominator != 1:
        expected = f"whole seconds: the group's quantum is {exact(group.quantum_wh)} Wh"
        yield ConfigError("source.interval", repr(format_duration(interval_ms(source))), expected)


@reads("sink.crowd.group", "source.meter", "sink.pseudonym_key_file")
def label(stream: Stream) -> Problems:
    """Yield a refusal of a meter's name that cannot be the home's label."""
    name = stream.source.meter
    if stream.group is None or name is None or stream.sink.pseudonym_key_file is not None:
        return
    if not is_label(name):
        expected = "the home's label: 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        yield ConfigError("source.meter", repr(name), expected)


CHECKS = (limits, lattice, label, deadline)
"""The checks of a stream with the terms of its group; the last check refuses the key that all others read."""
