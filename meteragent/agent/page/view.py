"""What the page may know: plain data and functions, given by the agent, so that it can reach nothing else."""

import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.problem import Problem
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.report.guarantee import Guarantee

OWN = ""
"""Names the stream's own terms among those of presets."""

TOKEN_LEAST = 16
"""Characters of a token: fewer could be tried out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the page is served, under which names besides those of the loopback interface, and its token.

    Raises ConfigError when others could reach the page without a token, or guess it.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    hosts: frozenset[str] = frozenset()
    token: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what others could read."""
        if self.token is None and not is_loopback(self.host):
            expected = "a file with a token: page.listen can be reached from other machines"
            raise ConfigError("page.token_file", "nothing", expected)
        if self.token is not None and len(self.token) < TOKEN_LEAST:
            expected = f"at least {TOKEN_LEAST}, such as `openssl rand -hex 16` writes"
            raise ConfigError("page.token_file", f"a token of {len(self.token)} characters", expected)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Promises(NamedTuple):
    """What is promised of a stream, and what would be under each other preset.

    `schedules` are when windows start: the stream's, by the name `OWN`, and those of each preset.
    """

    own: Guarantee
    presets: Mapping[str, Guarantee]
    schedules: Mapping[str, Schedule]


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream: its terms, what is promised, and its meters.

    `promises` takes its time, and is asked for once. `topic` is where a meter's records leave; `meters` are
    those that the stream knows at present.
    """

    name: str
    terms: Terms
    promises: Callable[[], Promises]
    topic: Callable[[str], str]
    meters: Callable[[], Collection[str]]


class Message(NamedTuple):
    """A message that has left, byte for byte, and when the broker confirmed it."""

    topic: str
    payload: bytes
    left_ms: int


class Glance(NamedTuple):
    """How things stand for one meter.

    `spent` is epsilon in 1/W over all its streams: today, this month (both UTC), since the start. `lag_ms` is
    how long the oldest message has been due that has not left; None: there is none.
    """

    now_ms: int | None
    spent: Mapping[str, Fraction]
    last: Message | None
    outbox: int
    lag_ms: int | None
    source: bool
    sink: bool


async def _all_is_well() -> Sequence[Problem]:
    return ()


@dataclass(frozen=True, slots=True)
class View:
    """All that the page may know.

    `glance` is how a meter of a stream stands; `left` are the payloads of the latest records of a topic of a
    stream, at most so many, in order; `problems` are what a person should look at.
    """

    streams: Sequence[StreamView]
    glance: Callable[[str, str], Awaitable[Glance]]
    left: Callable[[str, str, int], Awaitable[Sequence[bytes]]]
    counts: Counts
    problems: Callable[[], Awaitable[Sequence[Problem]]] = _all_is_well


class Route(NamedTuple):
    """Another answer of the same server: a path, and what gives status, content type and body.

    One that is `open` tells its status without the token, but not its body.
    """

    path: str
    answer: Callable[[], Awaitable[tuple[int, str, bytes]]]
    open: bool = False
