"""Whether a stream's messages become readings that count, and if none does, why.

Only counts of the whole stream are compared: no value, meter or time of a message is kept or told (law 4).
"""

from collections.abc import Iterator

from meteragent import config as settings
from meteragent.config.source import every_ms, reports_on_change
from meteragent.domain.counters import REFUSALS, Counts
from meteragent.domain.grid import format_duration
from meteragent.domain.problem import Problem, problem
from meteragent.domain.terms import Clock
from meteragent.domain.units import HOUR_MS

LEAST = 5
"""Fewer messages than this say nothing: devices send an odd one now and then."""
MOST = 100
"""So many messages say it in any case."""
SOON_MS = 60_000
"""For so long all messages must have been refused, or all readings clamped, before anybody is told."""
STEP_MS = 60_000
"""A clock that moves by more between two looks was set, or the machine slept: that was no silence."""

_READ = {"refused_ahead", "late", "duplicate", "early", "accepted"}
"""A message that ends up as one of these was understood: the profile is right."""
_UNREADABLE = sorted(set(REFUSALS) - {"refused_ahead", "refused_meters", "refused_unavailable"})
_NO_READING = ("late", "retained", "other", "other_shard", "duplicate")


def silence_ms(stream: settings.Stream) -> int | None:
    """Return for how long no reading of a stream may count; None: for any time.

    That is an hour, three periods of the readings or a slot, whichever is longest. A device that reports on
    change is silent as long as nothing changes: it has until `window.forget`. A replay ends when it ends.
    """
    if stream.window.clock is Clock.EVENT:
        return None
    terms = settings.terms(stream)
    longest_ms = max(terms.slot_ms(place) for place in range(terms.n)) if terms.bands else terms.step_ms
    limit_ms = max(HOUR_MS, 3 * every_ms(stream.source), longest_ms)
    if not reports_on_change(stream.source):
        return limit_ms
    return max(limit_ms, settings.forget_ms(stream.source, stream.window.forget))


class Hearing:
    """What became of a stream's messages since the last reading that counted.

    `look` is called whenever the runner goes round. How many unreadable messages come between two good
    readings is learnt: a topic with a wildcard brings some, and only more than twice as many are a sign.
    """

    def __init__(self, counts: Counts, silence_ms: int | None, now_ms: int) -> None:
        self._counts = counts
        self._silence_ms = silence_ms
        self._looked_ms = now_ms
        self._quiet_ms = self._refused_ms = self._clamped_ms = 0
        self._since = Counts(counts)
        self._refusing = self._clamping = False
        self._good = self._inside = self._accepted = self._usual = 0

    def look(self, now_ms: int, *, connected: bool) -> None:
        """Take in what was counted; time without a connection to the source is no silence."""
        passed_ms = min(max(now_ms - self._looked_ms, 0), STEP_MS) if connected else 0
        self._looked_ms = now_ms
        self._quiet_ms += passed_ms
        self._refused_ms += passed_ms if self._refusing else 0
        self._clamped_ms += passed_ms if self._clamping else 0
        counts = self._counts
        good = counts["accepted"] + counts["early"]
        if good != self._good:
            self._usual = max(self._usual, self._unreadable())
            self._good, self._quiet_ms = good, 0
            self._since = Counts(counts)
        self._refusing = any(counts[name] != self._since[name] for name in (*REFUSALS, "late"))
        inside = counts["accepted"] - counts["clamped"]
        if inside != self._inside:
            self._inside, self._accepted = inside, counts["accepted"]
        self._clamping = counts["accepted"] != self._accepted
        self._refused_ms = self._refused_ms if self._refusing else 0
        self._clamped_ms = self._clamped_ms if self._clamping else 0

    def problems(self, stream: str) -> Iterator[Problem]:
        """What is wrong now: the cause where the counts show it, else the silence."""
        cause = self._cause(stream)
        if cause is not None:
            yield cause
        elif self._silence_ms is not None and self._quiet_ms > self._silence_ms:
            yield self._silence(stream, self._silence_ms)
        clamped = self._counts["accepted"] - self._accepted
        if clamped >= LEAST and self._clamped_ms >= SOON_MS:
            yield problem("all_clamped", stream, count=clamped)

    def _cause(self, stream: str) -> Problem | None:
        """Return why every message is refused, where they say so."""
        if self._refused_ms < SOON_MS:
            return None
        came = self._counts - self._since
        if came["refused_ahead"] >= LEAST and not came["late"]:
            return problem("clock_behind", stream, count=came["refused_ahead"])
        if came["late"] >= LEAST and not came["refused_ahead"]:
            return problem("all_late", stream, count=came["late"])
        unreadable = self._unreadable()
        enough = max(LEAST, min(2 * self._usual + 1, MOST))
        if unreadable >= enough and not any(came[name] for name in _READ):
            return problem("wrong_profile", stream, count=unreadable, reasons=self._named(_UNREADABLE))
        return None

    def _silence(self, stream: str, limit_ms: int) -> Problem:
        named = self._named([*REFUSALS, *_NO_READING])
        came = f"what came: {named}" if named else "nothing came"
        return problem("no_readings", stream, limit=format_duration(limit_ms), came=came)

    def _unreadable(self) -> int:
        return sum(self._counts[name] - self._since[name] for name in _UNREADABLE)

    def _named(self, names: list[str]) -> str:
        """Name what came, the most frequent first."""
        came = self._counts - self._since
        found = sorted(((came[name], name) for name in names if came[name]), reverse=True)
        return ", ".join(f"{name} {count}" for count, name in found)
