"""Refusals of settings that would break the promise or contradict each other, each with its expected value.

Each check names the keys that it reads (`check.reads`). A check is skipped if one of these keys is malformed
or was refused by an earlier check, because what the check would find might only follow from that error.
"""

import difflib
import re
from collections.abc import Collection, Sequence
from itertools import chain

from meteragent.config import nested
from meteragent.config.crowd import counted
from meteragent.config.model import Config, Stream
from meteragent.config.receivers import shared_streams
from meteragent.config.refuse import (
    bands,
    crowd,
    privacy,
    receivers,
    shape,
    shares,
    source,
    tariff,
    together,
    weights,
    window,
)
from meteragent.config.refuse.check import GRID, Problems, depends, reads
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of
from meteragent.domain.presets import PRESETS
from meteragent.domain.refusal import raise_all

_DIVISION_KEYS = (
    *("privacy.shares", "privacy.preset", "privacy.level", "privacy.hide", "window.timezone"),
    *("source.kind", "source.unit"),
)
"""Keys without which a table cannot be divided into nested streams."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


def refuse(config: Config, *, flat: bool) -> None:
    """Raise ConfigError with all refusals of a configuration, if there are any.

    If `flat`, the file has one stream, whose keys are named without `stream[0]`.
    """
    raise_all(problems(config, flat=flat))


def problems(config: Config, *, flat: bool, wrong_paths: Collection[Path] = ()) -> Problems:
    """Yield all refusals that do not depend on `wrong_paths`, which the form has already refused."""
    prefixes = ["" if flat else f"stream[{number}]." for number in range(len(config.stream))]
    wrong_by_stream = _by_stream(len(config.stream), wrong_paths)
    if any(path[:1] == ("receiver",) for path in wrong_paths):
        return  # the form has dropped the list, so the streams are unknown
    if config.receiver:
        yield from receivers.receivers(config, wrong_by_stream[0], _stream_problems, flat=flat)
        yield from _shared_table_problems(_with_presets(config), wrong_by_stream, wrong_paths)
        return
    for stream, prefix, wrong_keys in zip(config.stream, prefixes, wrong_by_stream, strict=True):
        for problem in _table_problems(stream, wrong_keys):
            yield problem.under(prefix)
    # Shares and groups are applied first, because the names and topics that they set can also conflict.
    group_streams = [
        stream if _is_without_group(wrong_keys) else counted(stream)
        for stream, wrong_keys in zip(config.stream, wrong_by_stream, strict=True)
    ]
    parts = [
        (part, prefix, wrong_keys)
        for stream, prefix, wrong_keys in zip(group_streams, prefixes, wrong_by_stream, strict=True)
        for part in (nested.parts(stream) if _may_be_divided(wrong_keys) else (stream,))
    ]
    streams, prefixes_of_parts, wrong_by_part = zip(*parts, strict=True)
    yield from _first_per_key(together.names(streams, prefixes_of_parts, wrong_by_part))
    yield from _first_per_key(together.topics(streams, prefixes_of_parts, wrong_by_part))
    yield from _first_per_key(together.prices(streams, prefixes_of_parts, wrong_by_part))
    if config.archive is not None:
        yield from together.archive(config.stream, prefixes, wrong_by_stream)
    yield from _shared_table_problems(config, wrong_by_stream, wrong_paths)


def _shared_table_problems(
    config: Config, wrong_by_stream: Sequence[set[Path]], wrong_paths: Collection[Path]
) -> Problems:
    """Yield the refusals of tariffs and the page."""
    yield from tariff.tariffs(config, wrong_by_stream, _relative_paths(("tariff",), wrong_paths))
    if config.page is not None:
        yield from together.page(config.page, _relative_paths(("page",), wrong_paths))


def _with_presets(config: Config) -> Config:
    """Convert a file with receivers into a file with one stream for each preset that exists."""
    peers = tuple(receiver for receiver in config.receiver if receiver.preset in PRESETS)
    streams = shared_streams(config.model_copy(update={"receiver": peers})) if peers else config.stream
    return config.with_streams(streams, range(len(streams)))


def _by_stream(count: int, wrong_paths: Collection[Path]) -> list[set[Path]]:
    """Return the relative wrong paths in each stream, or the empty path if the stream itself is wrong."""
    shared_paths: set[Path] = {()} if () in wrong_paths or ("stream",) in wrong_paths else set()
    by_stream = [set(shared_paths) for _ in range(count)]
    for path in wrong_paths:
        if path[:1] == ("stream",) and len(path) > 1:
            by_stream[int(path[1])].add(path[2:])
    return by_stream


def _relative_paths(table: Path, wrong_paths: Collection[Path]) -> set[Path]:
    """Return the relative wrong paths in a table, or the empty path if the table itself is wrong."""
    relative_paths = {path[len(table) :] for path in wrong_paths if path[: len(table)] == table}
    return relative_paths | {() for path in wrong_paths if path == table[: len(path)]}


def _table_problems(stream: Stream, wrong_paths: set[Path]) -> Problems:
    """Yield the refusals of one table and its streams, and add their keys to `wrong_paths`."""
    has_shares = stream.privacy.shares is not None or path_of("privacy.shares") in wrong_paths
    wrong_in_form = frozenset(wrong_paths)
    for problem in crowd.before(stream, wrong_in_form):
        wrong_paths.add(path_of(problem.key))
        yield problem
    if stream.sink.crowd is not None:
        is_unknown = _is_without_group(wrong_paths)
        wrong_paths |= set(map(path_of, GRID)) if is_unknown else set()
        yield from _stream_problems(stream if is_unknown else counted(stream), wrong_paths)
        return
    for check in (_preset, shares.beside, shares.nesting) if has_shares else ():
        for problem in check(stream, frozenset(wrong_paths)):
            wrong_paths.add(path_of(problem.key))
            yield problem
    if not has_shares:
        yield from _stream_problems(stream, wrong_paths)
    elif not _may_be_divided(wrong_paths):  # windows and noise are unknown in this case
        yield from _stream_problems(stream, wrong_paths | set(map(path_of, GRID)))
    else:
        refused_paths = wrong_paths - wrong_in_form
        by_part = [_stream_problems(part, set(wrong_in_form)) for part in nested.parts(stream)]
        for problem in _first_per_key(chain.from_iterable(by_part)):
            if path_of(problem.key) not in refused_paths:
                wrong_paths.add(path_of(problem.key))
                yield problem


def _is_without_group(wrong_paths: Collection[Path]) -> bool:
    """Return whether the file of a stream's group is unknown or was refused."""
    return any(depends(path_of("sink.crowd.group"), path) for path in wrong_paths)


def _may_be_divided(wrong_paths: Collection[Path]) -> bool:
    """Return whether all keys that determine the nested streams are valid."""
    return not any(depends(path_of(key), path) for key in _DIVISION_KEYS for path in wrong_paths)


def _first_per_key(problems: Problems) -> Problems:
    """Yield only the first problem of each key, because streams of one table often share a problem."""
    keys: set[str] = set()
    for problem in problems:
        if problem.key not in keys:
            keys.add(problem.key)
            yield problem


def _stream_problems(stream: Stream, wrong_paths: set[Path]) -> Problems:
    """Yield the refusals of one stream, and add their keys to `wrong_paths`."""
    for check in _CHECKS:
        for problem in check(stream, frozenset(wrong_paths)):
            wrong_paths.add(path_of(problem.key))
            yield problem


@reads("name")
def _name(stream: Stream) -> Problems:
    """Yield a refusal unless the name is 1 to 64 letters, digits, - or _, and the first a letter or digit."""
    if not _NAME.fullmatch(stream.name):
        expected = "1 to 64 letters, digits, - and _, the first a letter or digit"
        yield ConfigError("name", repr(stream.name), expected)


@reads("privacy.preset")
def _preset(stream: Stream) -> Problems:
    """Yield a refusal of a preset that does not exist."""
    name = stream.privacy.preset
    if name not in PRESETS:
        matches = difflib.get_close_matches(name, PRESETS, n=1)
        expected = f"one of {', '.join(map(repr, PRESETS))}"
        yield ConfigError("privacy.preset", repr(name), expected, meant=repr(matches[0]) if matches else None)


@reads("sink.home_assistant", "sink.status")
def _home_assistant(stream: Stream) -> Problems:
    """Yield refusals of sink settings that Home Assistant cannot use."""
    sink = stream.sink
    if sink.home_assistant is None:
        return
    if sink.status is None:
        expected = "a topic such as 'meteragent/status', which shows Home Assistant whether the agent runs"
        yield ConfigError("sink.status", "nothing", expected)
    elif sink.status == f"{sink.home_assistant}/status":
        expected = "another topic, because Home Assistant announces its own start on this one"
        yield ConfigError("sink.status", repr(sink.status), expected)


_CHECKS = (
    *(_name, _preset),
    *(source.source_broker, source.sink_broker, source.unit, source.topic, source.parts),
    *(source.meter, source.kind),
    *(
        source.device,
        source.local_time,
        source.interval,
        source.stamp,
        source.meter_id,
        source.identifier,
        source.expressions,
    ),
    *(window.zone, window.alternatives, shape.keys, shape.numbers, bands.names, shape.hours, bands.cover),
    *(bands.interval, window.slots, weights.weights, window.limits, window.threshold, window.gap),
    *(privacy.alternatives, privacy.lattice, privacy.radius, privacy.receivable, privacy.noise),
    privacy.budget,
    *(shape.further, *crowd.CHECKS),
    _home_assistant,
)
"""The order matters: a check may rely on every key that the checks before it have not refused."""
