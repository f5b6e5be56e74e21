"""Checks of one stream, and the keys that their results depend on."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from meteragent.config.model import Stream
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of

Problems = Iterator[ConfigError]
"""Refusals. If they come from a check of one stream, their keys are relative to that stream."""

GRID = (
    *("window.length", "window.step", "window.blocks", "window.bands", "window.timezone"),
    *("window.band", "window.rest", "window.holidays", "window.weights", "window.threshold"),
    *("privacy.preset", "privacy.space"),
)
"""Keys that determine the windows and slots of a stream."""

AMOUNTS = ("source.kind", "source.unit", "source.interval", "source.profile", "source.value")
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
