"""The problems that an agent can have: code, cause and cure, without a reading or a meter's name (law 4)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from meteragent.domain.counters import COUNTERS
from meteragent.domain.grid import duration_text
from meteragent.texts import english_texts


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a code: its cause and cure, which may have fields, and its section in docs."""

    cause: str
    cure: str
    section: str = ""


_CAUSES = english_texts("problem.")
PROBLEMS = {code: Meaning(_CAUSES[code], cure) for code, cure in english_texts("cure.").items()}
"""Every problem of the agent, by its code. Codes are stable, because alarms and scripts use them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A condition that needs a person's attention, in one stream or in the agent (`stream` is None).

    `fields` fill in the cause's text; those that end in `_ms` are in ms, and `reasons` lists counters of
    refusals, separated by spaces. If a field `of` counts all meters, `meters` of them are affected.
    """

    code: str
    cause: str
    cure: str
    stream: str | None = None
    fields: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The cause as a sentence, preceded by the stream's name and the number of affected meters."""
        meters, of = self.fields.get("meters"), int(self.fields.get("of", 1))
        cause = self.cause if of == 1 else f"{meters} of {of} meters: {self.cause}"
        return cause if self.stream is None else f"stream {self.stream}: {cause}"


def make_problem(code: str, stream: str | None = None, **fields: str | int) -> Problem:
    """Create a problem of the agent. Raises KeyError if its code is unknown or a field is missing."""
    return make_service_problem(PROBLEMS, code, fields, stream)


def make_service_problem(
    meanings: Mapping[str, Meaning], code: str, fields: Mapping[str, str | int], stream: str | None = None
) -> Problem:
    """Create a problem of another service, whose codes have these `meanings`."""
    meaning, texts = meanings[code], dict(format_fields(fields, duration_text, COUNTERS.__getitem__))
    return Problem(code, meaning.cause.format(**texts), meaning.cure.format(**texts), stream, fields)


def connection_advice(code: str, side: str) -> str:
    """Return the cure for a failed connection of `side`, such as sink; empty if `code` is empty."""
    return PROBLEMS[code].cure.format(side=side) if code else ""


def format_fields(
    fields: Mapping[str, str | int], duration: Callable[[int, int], str], meaning: Callable[[str], str]
) -> Iterator[tuple[str, str | int]]:
    """Yield the fields of a cause, formatted for a language; `meaning` maps a counter to its text."""
    for name, value in fields.items():
        if name.endswith("_ms"):
            yield name.removesuffix("_ms"), duration(int(value), 2)
        elif name == "reasons":
            yield name, "; ".join(f"{meaning(reason)} ({reason})" for reason in str(value).split())
        else:
            yield name, value


class Alarms:
    """The problems that have been raised and not cleared, at most one for each code and stream."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, str | None], Problem] = {}

    def raise_(self, code: str, stream: str | None = None, **fields: str | int) -> None:
        """Raise a problem; it replaces an active problem with the same code and stream."""
        self._active[code, stream] = make_problem(code, stream, **fields)

    def clear(self, code: str, stream: str | None = None) -> None:
        """Clear a problem; do nothing if it is not raised."""
        self._active.pop((code, stream), None)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that have not been cleared, oldest first."""
        return tuple(self._active.values())
