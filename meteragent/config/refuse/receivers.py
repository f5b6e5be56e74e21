"""Refusals for receivers: excluded settings, repeated names, wrong times and conflicting topics."""

from collections.abc import Callable, Collection, Iterator

from meteragent.config.model import Config, Stream
from meteragent.config.receivers import NO_TOPIC, link, of_preset
from meteragent.config.refuse import together
from meteragent.config.refuse.check import WITHOUT_SLOTS, Problems, depends, not_allowed, repeated
from meteragent.config.shapes import keys_needed
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of
from meteragent.domain.presets import PRESETS
from meteragent.domain.terms import Clock

_ALLOWED = {
    "window": WITHOUT_SLOTS.union(["timezone"], *(keys_needed(preset) for preset in PRESETS.values())),
    "privacy": ("accept",),
    "sink": ("pseudonym_key_file", "spread", "inflight"),
}
"""The keys that may be set beside receivers; they apply to all receivers."""

_REASONS = {
    "window": "each receiver's preset sets the windows",
    "privacy": "each receiver names its preset",
    "sink": "each receiver has a broker and a topic of its own",
}
_SINGLE_SINK_KEYS = ("sink.total", "sink.status", "sink.home_assistant")
_SINGLE_SINK = "it is for a single sink"

StreamProblems = Callable[[Stream, set[Path]], Problems]


def receivers(
    config: Config, wrong_paths: Collection[Path], stream_problems: StreamProblems, *, flat: bool
) -> Problems:
    """Yield the refusals of a file with receivers; `wrong_paths` holds the refused paths of the stream."""
    if not flat:
        expected = (
            "[source] and [window] instead of [[stream]], or a [[stream]] for each receiver instead of"
            " [[receiver]]"
        )
        yield ConfigError("receiver", "tables together with [[stream]]", expected)
        return
    if config.archive is not None:
        yield ConfigError("archive", "a table together with [[receiver]]", "a file of its own")
    yield from _conflicts(config.stream[0], wrong_paths)
    yield from _names_and_times(config)
    yield from _links(config, wrong_paths, stream_problems)


def _conflicts(stream: Stream, wrong_paths: Collection[Path]) -> Iterator[ConfigError]:
    """Yield refusals of all settings that shared streams cannot have, and of the event clock."""
    for table, name in not_allowed(stream, _ALLOWED):
        key = f"{table}.{name}"
        if key == "sink.topic" and stream.sink.topic == NO_TOPIC:
            continue
        reason = _SINGLE_SINK if key in _SINGLE_SINK_KEYS else _REASONS[table]
        if not any(depends(path_of(key), path) for path in wrong_paths):
            yield ConfigError(key, "a value", f"no {name} together with [[receiver]]: {reason}")
    if stream.window.clock is Clock.EVENT:
        expected = "'wall': a receiver's start and end are times of the wall clock"
        yield ConfigError("window.clock", "'event'", expected)


def _names_and_times(config: Config) -> Iterator[ConfigError]:
    """Yield refusals of repeated names and client ids, and of an end that is not after the start."""
    for number in repeated(receiver.name for receiver in config.receiver):
        value, expected = repr(config.receiver[number].name), "a different name for each receiver"
        yield ConfigError(f"receiver[{number}].name", value, expected)
    for number in repeated((receiver.url, receiver.client_id) for receiver in config.receiver):
        if (client_id := config.receiver[number].client_id) is not None:
            expected = "a different client id for each receiver at a broker"
            yield ConfigError(f"receiver[{number}].client_id", repr(client_id), expected)
    for number, receiver in enumerate(config.receiver):
        if receiver.start is not None and receiver.end is not None and receiver.end <= receiver.start:
            value = "a time that is not after the start"
            yield ConfigError(f"receiver[{number}].end", value, "a time after the start")


def _links(config: Config, wrong_paths: Collection[Path], stream_problems: StreamProblems) -> Problems:
    """Yield the refusals of each receiver's stream, broker and topic; shared keys are refused only once."""
    [base] = config.stream
    keys, links, wrong_by_link = set[str](), [], []
    for number, receiver in enumerate(config.receiver):
        prefix, wrong_keys = f"receiver[{number}].", set(wrong_paths)
        stream = link(of_preset(base, receiver.preset), receiver)
        for problem in stream_problems(stream, wrong_keys):
            receiver_problem = _under_receiver_key(problem, prefix)
            if receiver_problem.key not in keys:
                keys.add(receiver_problem.key)
                yield receiver_problem
        links.append(stream)
        wrong_by_link.append(wrong_keys)
    prefixes = [f"receiver[{number}]." for number in range(len(links))]
    for problem in together.topics(links, prefixes, wrong_by_link):
        problem.key = problem.key.replace("].sink.", "].")
        yield problem


def _under_receiver_key(problem: ConfigError, prefix: str) -> ConfigError:
    """Return a problem of a receiver's stream under its key in the file."""
    if problem.key == "privacy.preset":
        problem.key = f"{prefix}preset"
    elif problem.key.startswith("sink.") and problem.key != "sink.pseudonym_key_file":
        problem.key = prefix + problem.key.removeprefix("sink.")
    return problem
