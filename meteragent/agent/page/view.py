"""The page's view of the agent: plain data and functions.

These and the events in `viewers` are the page's only access to the agent.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.core.arrivals import ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.crowd.group import Group
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.problem import Problem
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.report.guarantee import Guarantee

TOKEN_MIN = 16
"""The length of the shortest token allowed, in bytes; a shorter token could be guessed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The page's address, its host names besides those of the loopback interface, and its token.

    Raises:
        ConfigError: other machines can reach the page without a token, or the token is too short.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    hosts: frozenset[str] = frozenset()
    token: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a page that other machines could read without a token, and a token that is too short."""
        if self.token is None and not is_loopback(self.host):
            expected = "a token file: other machines can reach page.listen"
            raise ConfigError("page.token_file", "nothing", expected)
        if self.token is not None and len(self.token) < TOKEN_MIN:
            expected = f"at least {TOKEN_MIN}, such as the output of `openssl rand -hex 16`"
            raise ConfigError("page.token_file", f"a token of {len(self.token)} characters", expected)


def is_loopback(host: str) -> bool:
    """Return whether `host` is an address that only this machine can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Promises(NamedTuple):
    """A stream's guarantee, its guarantees under other presets, and its schedule."""

    guarantee: Guarantee
    presets: Mapping[str, Guarantee]
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream: its terms, its guarantee, and its meters.

    `promises` is slow, so its result is kept. `topic` returns the topic of a meter's records, and
    `meters` returns the stream's meters. `group` is the group whose total includes the stream; None if the
    stream sends records. `arrivals` returns what has arrived of each meter and phase.
    """

    name: str
    terms: Terms
    promises: Callable[[], Promises]
    topic: Callable[[str], str]
    meters: Callable[[], Collection[str]]
    group: Group | None = None
    arrivals: Callable[[], Sequence[ArrivalRow]] = tuple


class Message(NamedTuple):
    """A sent message, byte for byte, and the time of the commit that marked it as delivered."""

    topic: str
    payload: bytes
    left_ms: int


class Allowance(NamedTuple):
    """A stream's budget in the current period: its limit, and what the meter has spent over all its streams.

    Both are epsilons in 1/W.
    """

    limit: Fraction
    spent: Fraction
    start_ms: int
    end_ms: int


class Interval(NamedTuple):
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float


class Period(NamedTuple):
    """The energy of a day or of a longer slot or window, in kWh."""

    start_ms: int
    end_ms: int
    energy: Interval


class Costs(NamedTuple):
    """A window's cost under each tariff, the cheapest tariff, and the sureness of this choice.

    `sureness` is None if there is only one tariff.
    """

    currency: str
    tariffs: Mapping[str, Interval]
    cheapest: str
    sureness: float | None


class BandWindow(NamedTuple):
    """A closed window of bands, with the energy of each band, in kWh.

    `costs` is None if there are no tariffs, or if they cannot price the window in a single currency.
    """

    start_ms: int
    end_ms: int
    bands: Mapping[str, Interval]
    costs: Costs | None = None


class History(NamedTuple):
    """One meter's released energies; periods and windows are in time order, and days are local to `zone`."""

    zone: str
    periods: Sequence[Period]
    windows: Sequence[BandWindow]


class Reports(NamedTuple):
    """The numbers of a stream's reports to a crowd, and the state of its keys.

    Since the stream started, the broker has confirmed `sent_count` reports, and `late_count` reports were too
    late. `waiting_count` is the number of reports that are neither confirmed nor too late. `last_ms` is the
    time of the latest of these confirmations; None if there is none. `has_keys` says whether both operators'
    keys for the current slot are known.
    """

    sent_count: int
    waiting_count: int
    late_count: int
    last_ms: int | None
    has_keys: bool


class Glance(NamedTuple):
    """The current state of one meter and its stream.

    `now_ms` is None while the clock shows no time. `spent` is epsilon in 1/W over all streams of the meter:
    today, this month (both UTC), and ever. `last_message` is the stream's last message, of any meter.
    `lag_ms` is how long the first undelivered message has been due; None if no message is due. `upcoming` is
    the slot to be released next; None if there is no such slot. `allowance` is None if the stream has no
    budget. `reports` is None if the stream sends records.
    """

    now_ms: int | None
    spent: Mapping[str, Fraction]
    last_message: Message | None
    waiting_count: int
    lag_ms: int | None
    source_is_connected: bool
    sink_is_connected: bool
    upcoming: Upcoming | None = None
    allowance: Allowance | None = None
    reports: Reports | None = None


async def _no_history(_stream: str, _meter: str) -> History:
    return History("UTC", (), ())


async def _all_is_well() -> Sequence[Problem]:
    return ()


@dataclass(frozen=True, slots=True)
class View:
    """The data available to the page.

    `glance` returns the state of a meter of a stream. `latest_payloads` returns the payloads of the latest
    records on a topic of a stream, up to a limit, oldest first; for a stream of reports, none. `problems`
    returns the current problems. `history` returns the history of a meter of a stream.
    """

    streams: Sequence[StreamView]
    glance: Callable[[str, str], Awaitable[Glance]]
    latest_payloads: Callable[[str, str, int], Awaitable[Sequence[bytes]]]
    counts: Counts
    problems: Callable[[], Awaitable[Sequence[Problem]]] = _all_is_well
    history: Callable[[str, str], Awaitable[History]] = _no_history


class Route(NamedTuple):
    """A further path on the page's server, and a function that returns the status, content type and body.

    To a request without the token, an `open` route answers with its status but not with its body.
    """

    path: str
    answer: Callable[[], Awaitable[tuple[int, str, bytes]]]
    open: bool = False
