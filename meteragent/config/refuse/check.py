"""Checks of one stream, and the keys that their results depend on."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from meteragent.config.model import Stream, Window
from meteragent.config.shapes import SLOT_KEYS
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of

Problems = Iterator[ConfigError]
"""Refusals. If they come from a check of one stream, their keys are relative to that stream."""

GRID = (*(f"window.{key}" for key in SLOT_KEYS), "window.timezone", "privacy.preset", "privacy.space")
"""Keys that determine the windows and slots of a stream."""

AMOUNTS = (
    *("source.kind", "source.unit", "source.interval", "source.profile", "source.value", "source.part"),
)
"""Keys that determine the size, in W, of the unit of a stream's numbers."""

PROMISE = (
    *GRID,
    *AMOUNTS,
    "privacy.metric",
    "privacy.level",
    "privacy.hide",
    "privacy.radius",
    "privacy.quantum",
)
"""Keys that determine the noise."""


WITHOUT_SLOTS = frozenset(Window.model_fields).difference(SLOT_KEYS, ["timezone"])
"""The keys of `[window]` that determine neither windows nor slots."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one stream, which yields nothing if one of its keys has already been refused."""

    problems: Callable[[Stream], Problems]
    keys: tuple[Path, ...]

    def __call__(self, stream: Stream, wrong_paths: Collection[Path]) -> Problems:
        """Yield refusals, unless they could result from a key that has already been refused."""
        if not any(depends(key, path) for key in self.keys for path in wrong_paths):
            yield from self.problems(stream)


def reads(*keys: str) -> Callable[[Callable[[Stream], Problems]], Check]:
    """Return a decorator that turns a function into a check; `keys` are the keys and tables that it reads."""

    def check(problems: Callable[[Stream], Problems]) -> Check:
        """Return a check that calls `problems`."""
        return Check(problems, tuple(map(path_of, keys)))

    return check


def depends(key: Path, path: Path) -> bool:
    """Return whether two paths are equal or one lies within the other."""
    shorter = min(len(key), len(path))
    return key[:shorter] == path[:shorter]


def repeated(values: Iterable[object]) -> Iterator[int]:
    """Yield the place of each value that equals an earlier one."""
    earlier = set[object]()
    for place, value in enumerate(values):
        if value in earlier:
            yield place
        earlier.add(value)


def not_allowed(stream: Stream, allowed: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield the table and the name of each key that is set in one of these tables but not allowed there."""
    for table, names in allowed.items():
        for name in sorted(getattr(stream, table).model_fields_set.difference(names)):
            yield table, name
