"""The parts of a question to `plan`, as people write them: hidden energy, shared numbers and error."""

import difflib
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.shapes import Space
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS, UNIT_FACTOR
from meteragent.report import event
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import MEAN_W, localise, percent_text
from meteragent.report.language import say

_ENERGY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(Wh|kWh)", re.ASCII)
_GOAL = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(%|Wh|kWh|W|kW)", re.ASCII)
_WORDS = re.compile(r"[a-z]+|\d+", re.ASCII)
ENERGY_MAX_WH = 10**7
"""The largest energy that a question may state and that the search tries."""
_EVENT_MAX_MS = 31 * DAY_MS
_ARTICLES = {"a", "an", "the"}
_ALIASES = {"television": "tv", "telly": "tv", "washer": "washing", "program": "programme", "empty": "away"}


class Change(NamedTuple):
    """A change to hide: an event, or any change by an energy; `name` is the wording of the question."""

    name: str
    energy_wh: Fraction
    event: Event | None = None

    @property
    def title(self) -> str:
        """The change in words, in the current language."""
        if self.event is not None:
            return self.event.title
        return say("plan.any_change", energy=localise(self.name))


class Share(NamedTuple):
    """Numbers to share: one for each `step_ms`, on the epoch grid or the calendar (`unit`).

    `blocks` is the number of values in a calendar window, or 0 if the module `setting` chooses it; `step_ms`
    is the total time that one value covers in an ordinary window. `quantum_w` is the coarsest quantum that is
    fine enough. `name` is the English name, which JSON uses. `words` are the names that a question may use.
    """

    name: str
    words: tuple[str, ...]
    step_ms: int
    quantum_w: Fraction
    unit: str | None = None
    blocks: int = 1
    space: Space = Space.LINF

    @property
    def title(self) -> str:
        """The name in the current language."""
        return say(f"share.{self.name.replace(' ', '_')}")

    @property
    def hours(self) -> Fraction:
        """The time that one number covers, in hours."""
        return Fraction(self.step_ms, HOUR_MS)

    @property
    def is_one(self) -> bool:
        """Whether one number covers all of `step_ms`, instead of one for each block or band of a day."""
        return self.blocks == 1

    @property
    def is_in_kwh(self) -> bool:
        """Whether people read the numbers as energies (of a day or a month) rather than as powers."""
        return self.step_ms >= DAY_MS and self.is_one


HALF_HOUR = Share("half hours", ("half-hourly values", "half hour", "30min"), 30 * MINUTE_MS, Fraction(1))
DAY = Share("days", ("daily values", "day", "1d", "daily"), DAY_MS, Fraction(1, 10), "1d")
MONTH = Share(
    "months", ("monthly values", "month", "1mo", "monthly", "bill"), 30 * DAY_MS, Fraction(1, 100), "1mo"
)
TYPICAL_DAY = Share(
    "a typical day of each month",
    ("a typical day of each month", "typical day", "typical", "profile"),
    30 * DAY_MS // 4,
    Fraction(1, 100),
    "1mo",
    4,
    Space.PROFILE,
)
SHARES = (HALF_HOUR, DAY, TYPICAL_DAY, MONTH)
"""The shares to choose from, finest first."""
CURVE = Share(
    "days as curves",
    ("daily load curves", "curve", "day curve"),
    DAY_MS,
    Fraction(1, 10),
    "1d",
    0,
    Space.CURVE,
)
"""A share whose number of blocks `setting` chooses."""
MORE_SHARES = (
    Share("quarter hours", ("quarter-hourly values", "quarter hour", "15min"), 15 * MINUTE_MS, Fraction(1)),
    Share("hours", ("hourly values", "hour", "1h", "60min", "hourly"), HOUR_MS, Fraction(1)),
    CURVE,
)


@dataclass(frozen=True, slots=True)
class Goal:
    """The error to reach: one standard deviation of the mean over the homes."""

    amount: Fraction
    unit: str

    @property
    def text(self) -> str:
        """The goal as people write it."""
        number = localise(f"{float(self.amount):g}")
        return percent_text(number) if self.unit == "%" else f"{number} {self.unit}"

    def power_w(self, share: Share) -> float:
        """Return the goal as the mean power over one number's time; `%` refers to `MEAN_W`, a home's mean.

        Raises ValueError if the goal is an energy, but the share is a power (bands, or blocks of a curve).
        """
        if self.unit == "%":
            return float(self.amount * MEAN_W / 100)
        base = self.amount * UNIT_FACTOR[self.unit]
        if self.unit in ("W", "kW"):
            return float(base)
        if not share.is_one:
            raise ValueError(
                f"a percentage such as 5%, or watts such as 20W: the numbers of {share.name!r} are powers"
            )
        return float(base / share.hours)


def parse_hide(text: str) -> Change:
    """Parse what to hide: ``kettle``, ``tv evening``, ``110Wh`` or ``2000W 30min``. Raises ValueError."""
    if match := _ENERGY.fullmatch(text.strip()):
        energy_wh = Fraction(match[1]) * UNIT_FACTOR[match[2]]
        if not 0 < energy_wh <= ENERGY_MAX_WH:
            raise ValueError("a positive energy of at most 10000kWh, such as 110Wh")
        return Change(f"{match[1]} {match[2]}", energy_wh)
    try:
        hidden_event = event.parse_event(text)
    except ValueError:
        hidden_event = _public_event(text)
    if hidden_event.duration_ms > _EVENT_MAX_MS:
        raise ValueError("an event of at most 31 days, such as '250W 7d'")
    return Change(hidden_event.name, hidden_event.energy_wh, hidden_event)


def _public_event(text: str) -> Event:
    """Find the public event whose name has all words of the text. Raises ValueError with a list of events."""
    words = _words(text)
    matches = [event for event in EVENTS if words and words <= _words(event.name)]
    exact_matches = [event for event in matches if words == _words(event.name)]
    if len(matches) == 1 or exact_matches:
        return (exact_matches or matches)[0]
    names = [event.name for event in matches or EVENTS]
    close_names = [] if matches else difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.5)
    choice = f"{close_names[0]!r}, or one of " if close_names else "one of "
    name_list = ", ".join(map(repr, names))
    raise ValueError(f"{choice}{name_list}; an energy such as 110Wh; or an event such as '2000W 30min'")


def _words(text: str) -> set[str]:
    words = _WORDS.findall(text.lower())
    return {_ALIASES.get(word, word) for word in words} - _ARTICLES


def parse_share(text: str) -> Share:
    """Parse what to share, such as ``half-hour``, ``day``, ``month`` or ``typical-day``."""
    plain = " ".join(_WORDS.findall(text.lower()))
    for candidate in (*SHARES, *MORE_SHARES):
        if plain in {form for word in candidate.words for form in name_forms(word)}:
            return candidate
    raise ValueError("half-hour, day, month or typical-day; also 15min, hour, curve or month-cost")


def parse_shares(text: str) -> Share | list[Share]:
    """Parse one share or, for nested streams, several, such as ``half-hour,day,month``."""
    words = text.split(",")
    return parse_share(text) if len(words) == 1 else list(map(parse_share, words))


def parse_goals(text: str) -> Goal | list[Goal | None]:
    """Parse the error to reach, or one error per share: in ``any,0.7kWh,1.5kWh``, ``any`` means no goal."""
    words = text.split(",")
    if len(words) == 1:
        return parse_goal(text)
    return [None if word.strip() == "any" else parse_goal(word) for word in words]


def name_forms(word: str) -> tuple[str, ...]:
    """Return a name, with single spaces between its words, and the same name with an s appended."""
    plain = " ".join(_WORDS.findall(word))
    return plain, f"{plain}s"


def parse_goal(text: str) -> Goal:
    """Parse the error to reach, such as ``5%``, ``20W`` or ``0.5kWh``."""
    match = _GOAL.fullmatch(text.strip())
    if match is None or not Fraction(match[1]):
        raise ValueError(f"a percentage of a home's {MEAN_W} W such as 5%, a power such as 20W, or 0.5kWh")
    return Goal(Fraction(match[1]), match[2])


def parse_homes(text: str) -> int:
    """Parse a number of homes. Raises ValueError if the text is not a whole number of at least 1."""
    plain = text.replace(",", "").replace("_", "")
    if not re.fullmatch(r"\d{1,9}", plain, re.ASCII) or not int(plain):
        raise ValueError("a whole number of at least 1, such as 1000")
    return int(plain)
