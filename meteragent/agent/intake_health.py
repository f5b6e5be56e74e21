"""The health of a stream's intake: whether messages become readings that count, and if not, why.

Only the stream's counters are compared. No value, meter or time of a message is kept or shown (law 4).
"""

from collections.abc import Iterator

from meteragent import config as settings
from meteragent.config.source import every_ms, reports_on_change
from meteragent.domain.counters import REFUSALS, Counts
from meteragent.domain.problem import Problem, problem
from meteragent.domain.terms import Clock
from meteragent.domain.units import HOUR_MS

FEWEST = 5
"""The smallest number of refused messages, or of clamped readings, that indicates a problem; for a wrong
zone, one message is enough. A few bad messages now and then are normal."""
ENOUGH = 100
"""The number of unreadable messages that indicates a problem even if that many are usual."""
SOON_MS = 60_000
"""How long all messages must be refused, or all readings clamped, before this is a problem; at the start,
`FEWEST` such messages are a problem at once (`IntakeHealth`)."""
STEP_MS = 60_000
"""The longest time between two updates that counts in full as silence. If more has passed, the clock was set
or the machine slept, and only this time counts."""

_READ = {"refused_ahead", "late", "duplicate", "early", "accepted"}
"""Counters of decoded messages, each of which shows that the profile is correct."""
_UNREADABLE = sorted(
    set(REFUSALS) - {"refused_ahead", "refused_zone", "refused_meters", "refused_unavailable"}
)
_REFUSED = [*REFUSALS, "late"]
_NO_READING = ("late", "retained", "other", "other_shard", "duplicate")


def silence_ms(stream: settings.Stream) -> int | None:
    """Return how long a stream may go without a usable reading, in ms; None under the event clock.

    The limit is that of `first_silence_ms`. For a device that reports on change, and is silent while nothing
    changes, the limit is at least the longest slot and `window.forget`.
    """
    limit_ms = first_silence_ms(stream)
    if limit_ms is None or not reports_on_change(stream.source):
        return limit_ms
    return max(limit_ms, _longest_slot_ms(stream), settings.forget_ms(stream.source, stream.window.forget))


def first_silence_ms(stream: settings.Stream) -> int | None:
    """Return how long a stream may wait for its first usable reading, in ms; None under the event clock.

    The limit is an hour or three times the usual time between readings, whichever is longer. If that time is
    unknown, the limit is at least the longest slot, unless the device reports on change.
    """
    if stream.window.clock is Clock.EVENT:
        return None
    usual_ms = every_ms(stream.source)
    # Slots do not count otherwise: a slot of a month would hide a wrong topic for a month.
    is_unknown = not usual_ms and not reports_on_change(stream.source)
    return max(HOUR_MS, 3 * usual_ms, _longest_slot_ms(stream) if is_unknown else 0)


def _longest_slot_ms(stream: settings.Stream) -> int:
    """Return the length of the longest slot of a window, or of a part of a peak, in ms."""
    terms = settings.terms(stream)
    return max(terms.slot_ms(index) for index in range(terms.n)) if terms.bands else terms.step_ms


class IntakeHealth:
    """The counters of a stream since its last usable reading, and the problems that they indicate.

    `update` is called in every round of the runner. It records the largest number of unreadable messages
    between two usable readings (the usual number), because a topic filter with a wildcard may match messages
    of other kinds. More than twice the usual number (at least `FEWEST`), or `ENOUGH`, indicates a problem.
    Until the first usable reading, `FEWEST` refused messages are a problem at once, and until the first
    within the range, so are `FEWEST` readings that are all clamped.
    """

    def __init__(
        self, counts: Counts, silence_ms: int | None, now_ms: int, first_silence_ms: int | None = None
    ) -> None:
        """Start now.

        `first_silence_ms` is the limit until the first usable reading; None means `silence_ms`.
        """
        self._counts = counts
        self._silence_ms = silence_ms
        self._first_silence_ms = silence_ms if first_silence_ms is None else first_silence_ms
        self._update_ms = now_ms
        self._quiet_ms = self._refused_ms = self._clamped_ms = 0
        self._counts_before = Counts(counts)
        self._is_refusing = self._is_clamping = False
        self._decoded_count = self._in_range_count = self._accepted_count = self._usual_count = 0

    def update(self, now_ms: int, *, connected: bool) -> None:
        """Compare the counters with those at the last usable reading; ignore time without a connection."""
        elapsed_ms = min(max(now_ms - self._update_ms, 0), STEP_MS) if connected else 0
        self._update_ms = now_ms
        self._quiet_ms += elapsed_ms
        self._refused_ms += elapsed_ms if self._is_refusing else 0
        self._clamped_ms += elapsed_ms if self._is_clamping else 0
        counts = self._counts
        decoded_count = counts["accepted"] + counts["early"]
        if decoded_count != self._decoded_count:
            self._usual_count = max(self._usual_count, self._increase(_UNREADABLE))
            self._decoded_count, self._quiet_ms = decoded_count, 0
            self._counts_before = Counts(counts)
        self._is_refusing = any(counts[name] != self._counts_before[name] for name in _REFUSED)
        in_range_count = counts["accepted"] - counts["clamped"]
        if in_range_count != self._in_range_count:
            self._in_range_count, self._accepted_count = in_range_count, counts["accepted"]
        self._is_clamping = counts["accepted"] != self._accepted_count
        self._refused_ms = self._refused_ms if self._is_refusing else 0
        self._clamped_ms = self._clamped_ms if self._is_clamping else 0

    def problems(self, stream: str) -> Iterator[Problem]:
        """Yield the current problems: at most one about refusals or silence, and one about clamping."""
        cause = self._cause(stream)
        limit_ms = self._silence_ms if self._decoded_count else self._first_silence_ms
        if cause is not None:
            yield cause
        elif limit_ms is not None and self._quiet_ms > limit_ms:
            yield self._silence(stream, limit_ms)
        elif not self._decoded_count and self._increase(_REFUSED) >= FEWEST:
            yield problem("none_accepted", stream, reasons=self._list(_REFUSED))
        clamped_count = self._counts["accepted"] - self._accepted_count
        is_due = self._clamped_ms >= SOON_MS or not self._in_range_count
        if clamped_count >= FEWEST and is_due:
            yield problem("all_clamped", stream, count=clamped_count)

    def _cause(self, stream: str) -> Problem | None:
        """Return why all messages have been refused for `SOON_MS`.

        Returns None if this is not the case, or if the counters indicate no cause.
        """
        if self._refused_ms < SOON_MS:
            return None
        counts = self._counts - self._counts_before
        if counts["refused_zone"]:
            return problem("wrong_zone", stream, count=counts["refused_zone"])
        if counts["refused_ahead"] >= FEWEST and not counts["late"]:
            return problem("clock_behind", stream, count=counts["refused_ahead"])
        if counts["late"] >= FEWEST and not counts["refused_ahead"]:
            return problem("all_late", stream, count=counts["late"])
        unreadable = self._increase(_UNREADABLE)
        threshold = max(FEWEST, min(2 * self._usual_count + 1, ENOUGH))
        if unreadable >= threshold and not any(counts[name] for name in _READ):
            return problem("wrong_profile", stream, count=unreadable, reasons=self._list(_UNREADABLE))
        return None

    def _silence(self, stream: str, limit_ms: int) -> Problem:
        refusals = self._list([*REFUSALS, *_NO_READING])
        return problem("no_readings", stream, limit_ms=limit_ms, refusals=refusals or 0)

    def _increase(self, names: list[str]) -> int:
        """Return the sum of the increases of counters since the last usable reading."""
        return sum(self._counts[name] - self._counts_before[name] for name in names)

    def _list(self, names: list[str]) -> str:
        """List those of `names` whose counters have increased, the largest increase first."""
        counts = self._counts - self._counts_before
        rows = sorted(((counts[name], name) for name in names if counts[name]), reverse=True)
        return ", ".join(f"{name} {count}" for count, name in rows)
