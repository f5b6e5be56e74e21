"""Refusals of settings that would break the promise or contradict each other, with what is expected."""

import difflib
import re
from collections.abc import Collection, Sequence
from itertools import chain

from meteragent.config.model import Config, Receiver, Stream
from meteragent.config.refuse import privacy, source, tables, together, window
from meteragent.config.refuse.check import GRID_KEYS, Refusals, Table, check_of, first_per_key, is_wrong
from meteragent.config.tables import for_preset, nested_streams, sent_to, with_group_terms
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of
from meteragent.domain.presets import PRESETS

_DIVISION_KEYS = (
    *("privacy.shares", "privacy.preset", "privacy.level", "privacy.hide", "window.timezone"),
    *("source.kind", "source.unit"),
)
"""Keys without which a table cannot be divided into nested streams."""
_GROUP = "sink.crowd.group"
"""The key that names the file of a stream's group; if it is wrong, nothing is known of the group."""
_GRID = set(map(path_of, GRID_KEYS))
_FLAT = (
    "[source] and [window] instead of [[stream]], or a [[stream]] for each receiver instead of [[receiver]]"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


def all_refusals(config: Config, wrong_paths: Collection[Path] = ()) -> Refusals:
    """Yield all refusals that do not rely on keys in `wrong_paths`, which the form has already refused."""
    if any(path[:1] == ("receiver",) for path in wrong_paths):
        return  # `form` has dropped the list, so the streams are unknown
    streams = [
        Table(stream, prefix, _wrong_in(number, wrong_paths))
        for number, (stream, prefix) in enumerate(config.prefixed_streams)
    ]
    if config.receiver and any(config.key_prefixes):
        yield ConfigError("receiver", "tables together with [[stream]]", _FLAT)
    elif config.receiver:
        [base] = streams
        streams = [
            _receivers_table(base, receiver, number) for number, receiver in enumerate(config.receiver)
        ]
        yield from tables.receiver_refusals(config, base.wrong_paths)
        yield from _refusals_of_receivers(streams)
    else:
        yield from _refusals_of_tables(streams)
        if config.archive is not None:
            yield from together.archive_refusals(streams)
    yield from together.tariff_refusals(config, streams, wrong_paths)
    if config.page is not None:
        yield from together.page_refusals(config.page, wrong_paths)


def _wrong_in(number: int, wrong_paths: Collection[Path]) -> set[Path]:
    """Return the wrong paths in a stream, relative to it, or the empty path if the stream itself is wrong."""
    table = ("stream", number)
    return {path[2:] for path in wrong_paths if path[:2] == table or path in ((), ("stream",))}


def _receivers_table(base: Table, receiver: Receiver, number: int) -> Table:
    """Return the stream of a receiver as a table, whose prefix is the receiver's place in the file."""
    stream = sent_to(for_preset(base.stream, receiver.preset), receiver)
    return Table(stream, f"receiver[{number}].", set(base.wrong_paths))


def _refusals_of_receivers(receivers: Sequence[Table]) -> Refusals:
    """Yield the refusals of the stream that each receiver gets; shared keys are refused only once."""
    yield from first_per_key(
        problem.with_key(_key_of_receiver(problem.key, table.prefix))
        for table in receivers
        for problem in _stream_refusals(table.stream, table.wrong_paths)
    )
    for problem in together.topic_refusals(receivers):
        yield problem.with_key(problem.key.replace("].sink.", "]."))


def _key_of_receiver(key: str, prefix: str) -> str:
    """Return the key in the file for a key of a receiver's stream."""
    if key == "privacy.preset":
        return f"{prefix}preset"
    is_own = key.startswith("sink.") and key != "sink.pseudonym_key_file"
    return prefix + key.removeprefix("sink.") if is_own else key


def _refusals_of_tables(streams: Collection[Table]) -> Refusals:
    """Yield the refusals of each stream's table, and of conflicts between streams."""
    for table in streams:
        for problem in _table_refusals(table.stream, table.wrong_paths):
            yield problem.with_key(table.prefix + problem.key)
    # Shares and groups are applied first, because the names and topics that they set can also conflict.
    part_tables = [part for table in streams for part in _nested_tables(table)]
    for conflicts in (together.name_refusals, together.topic_refusals, together.price_topic_refusals):
        yield from first_per_key(conflicts(part_tables))


def _nested_tables(table: Table) -> list[Table]:
    """Return the streams that a table defines; the table itself if its keys are not valid."""
    stream, _, wrong_paths = table
    stream = stream if is_wrong(wrong_paths, _GROUP) else with_group_terms(stream)
    streams = (stream,) if is_wrong(wrong_paths, *_DIVISION_KEYS) else nested_streams(stream)
    return [table._replace(stream=part) for part in streams]


def _table_refusals(stream: Stream, wrong_paths: set[Path]) -> Refusals:
    """Yield the refusals of one table and its streams, and add their keys to `wrong_paths`."""
    wrong_in_form = frozenset(wrong_paths)
    yield from tables.crowd_refusals(stream, wrong_paths)
    if stream.sink.crowd is not None:
        is_unknown = is_wrong(wrong_paths, _GROUP)
        wrong_paths |= _GRID if is_unknown else set()
        yield from _stream_refusals(stream if is_unknown else with_group_terms(stream), wrong_paths)
    elif stream.privacy.shares is None and path_of("privacy.shares") not in wrong_paths:
        yield from _stream_refusals(stream, wrong_paths)
    else:
        for check in (_preset_refusals, *tables.SHARES_CHECKS):
            yield from check(stream, wrong_paths)
        if is_wrong(wrong_paths, *_DIVISION_KEYS):  # windows and noise are unknown in this case
            yield from _stream_refusals(stream, wrong_paths | _GRID)
            return
        refused_paths = wrong_paths - wrong_in_form
        by_part = [_stream_refusals(part, set(wrong_in_form)) for part in nested_streams(stream)]
        for problem in first_per_key(chain.from_iterable(by_part)):
            if path_of(problem.key) not in refused_paths:
                wrong_paths.add(path_of(problem.key))
                yield problem


def _stream_refusals(stream: Stream, wrong_paths: set[Path]) -> Refusals:
    """Yield the refusals of one stream, and add their keys to `wrong_paths`."""
    for check in _CHECKS:
        yield from check(stream, wrong_paths)


@check_of("name")
def _name_refusals(stream: Stream) -> Refusals:
    """Yield a refusal unless a name has 1 to 64 letters, digits, - or _ and starts with a letter or digit."""
    if not _NAME.fullmatch(stream.name):
        expected = "1 to 64 letters, digits, - and _, the first a letter or digit"
        yield ConfigError("name", repr(stream.name), expected)


@check_of("privacy.preset")
def _preset_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a preset that does not exist."""
    name = stream.privacy.preset
    if name not in PRESETS:
        matches = difflib.get_close_matches(name, PRESETS, n=1)
        expected = f"one of {', '.join(map(repr, PRESETS))}"
        yield ConfigError("privacy.preset", repr(name), expected, meant=repr(matches[0]) if matches else None)


@check_of("sink.home_assistant", "sink.status")
def _home_assistant_refusals(stream: Stream) -> Refusals:
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
    *(_name_refusals, _preset_refusals, *source.CHECKS, *window.CHECKS, *privacy.CHECKS),
    *(window.further_refusals, *tables.CROWD_CHECKS, _home_assistant_refusals),
)
"""The order matters: a check may rely on every key that the checks before it have not refused."""
