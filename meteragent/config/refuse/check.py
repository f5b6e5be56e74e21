"""Checks of one stream, and the keys that their results depend on."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from meteragent.config.model import Stream, Window
from meteragent.config.shapes import SLOT_KEYS
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of

Refusals = Iterator[ConfigError]
"""Refusals. Those from a check of one stream have keys that are relative to that stream."""

GRID_KEYS = (*(f"window.{key}" for key in SLOT_KEYS), "window.timezone", "privacy.preset", "privacy.space")
"""Keys that determine the windows and slots of a stream."""

AMOUNT_KEYS = tuple(f"source.{key}" for key in ("kind", "unit", "interval", "profile", "value", "part"))
"""Keys that determine the size, in W, of the unit of a stream's numbers."""

PROMISE_KEYS = (
    *(*GRID_KEYS, *AMOUNT_KEYS, "privacy.metric"),
    *("privacy.level", "privacy.hide", "privacy.radius", "privacy.quantum"),
)
"""Keys that determine the noise."""

NO_SLOT_KEYS = frozenset(Window.model_fields).difference(SLOT_KEYS, ["timezone"])
"""The keys of `[window]` that determine neither windows nor slots."""


class Table(NamedTuple):
    """A stream, the prefix of its keys in the file, and the paths of its keys that have been refused."""

    stream: Stream
    prefix: str
    wrong_paths: set[Path]


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one stream, and the keys that it reads."""

    refusals: Callable[[Stream], Refusals]
    keys: tuple[str, ...]

    def __call__(self, stream: Stream, wrong_paths: set[Path]) -> Refusals:
        """Yield refusals and add their keys to `wrong_paths`; yield none if the check reads a refused key."""
        if not is_wrong(wrong_paths, *self.keys):
            for problem in self.refusals(stream):
                wrong_paths.add(path_of(problem.key))
                yield problem


def check_of(*keys: str) -> Callable[[Callable[[Stream], Refusals]], Check]:
    """Return a decorator that turns a function into a check; `keys` are the keys and tables that it reads."""
    return lambda problems: Check(problems, keys)


def is_wrong(wrong_paths: Collection[Path], *keys: str) -> bool:
    """Return whether one of the keys, a table around it or a key within it has been refused."""
    if not wrong_paths:
        return False
    return any(key[: len(path)] == path[: len(key)] for key in map(path_of, keys) for path in wrong_paths)


def first_per_key(problems: Refusals) -> Refusals:
    """Yield only the first problem of each key, because streams of one table often share a problem."""
    keys: set[str] = set()
    for problem in problems:
        if problem.key not in keys:
            keys.add(problem.key)
            yield problem


def repeated_places(values: Iterable[object]) -> Iterator[int]:
    """Yield the place of each value that equals an earlier one."""
    earlier = set[object]()
    for place, value in enumerate(values):
        if value in earlier:
            yield place
        earlier.add(value)
