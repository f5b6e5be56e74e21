"""The log of a stream's first minutes: the first reading, the first number, and each problem of the intake.

A problem is logged once in a run, in the words of `health`, without a value, a meter or a count of messages.
Once readings are accepted, problems that depend on values or on a silence are reported only by `health`: the
time of a log line would reveal when the load had such values (law 4).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from meteragent import config as settings
from meteragent.config.source import every_ms
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Problem
from meteragent.domain.terms import Clock
from meteragent.store.outbox import WaitingRow

TIME_PROBLEMS = {"wrong_zone", "clock_behind", "all_late", "none_accepted"}
"""Codes of problems that depend only on the times of readings or on a lack of readings: always logged."""
PAUSE_MS = 10_000
"""The shortest time between two checks for problems, each of which looks at all meters."""

_log = logging.getLogger("meteragent")


class FirstMinutes:
    """The first minutes of one stream; `update` is called in every round of its runner."""

    def __init__(self, stream: settings.Stream, counts: Counts) -> None:
        self._stream = stream
        self._counts = counts
        self._judged_ms: int | None = None
        self._codes = set[str]()
        self._has_reading = self._has_left = False
        self._row_ids: list[int] = []
        self._has_public_times = every_ms(stream.source) > 0 or stream.window.clock is Clock.EVENT

    def on_commit(self, rows: Sequence[WaitingRow]) -> None:
        """Note the ids of a commit's records or reports (rows not to be retained) until one is confirmed."""
        if self._has_left:
            return
        self._row_ids += [row.id for row in rows if not row.retain]
        if self._stream.group is None:
            del self._row_ids[1:]  # a record is never too late, so the first one is sent first

    def note_answers(self, unmarked_ids: Collection[int], late_ids: Collection[int]) -> None:
        """Log the first confirmed number; an unmarked row is confirmed unless its id is in `late_ids`."""
        self._row_ids = [row_id for row_id in self._row_ids if row_id not in late_ids]
        if self._row_ids and self._row_ids[0] in unmarked_ids:
            self._has_left = True
            self._row_ids.clear()
            noun = "number" if self._stream.group is None else "report"
            _log.info(
                "stream %s: the first %s has left, and the broker has confirmed it", self._stream.name, noun
            )

    def update(self, now_ms: int, problems: Callable[[], Iterable[Problem]]) -> None:
        """Log the first reading, and each of the intake's problems once, with what to do."""
        if not self._has_reading and (self._counts["accepted"] or self._counts["early"]):
            self._has_reading = True
            _log.info("stream %s: the first reading has arrived", self._stream.name)
        if self._judged_ms is None or not 0 <= now_ms - self._judged_ms < PAUSE_MS:
            self._judged_ms = now_ms
            for item in problems():
                if item.code not in self._codes and self._may_log(item.code):
                    self._codes.add(item.code)
                    _log.warning("%s. %s", item.text, item.cure)

    def _may_log(self, code: str) -> bool:
        """Return whether the time of a problem's log line reveals neither a value nor a silence (law 4)."""
        if code == "all_clamped":  # before any reading was within the range, this shows a wrong unit
            return self._counts["accepted"] == self._counts["clamped"]
        if code == "reading_gaps" and self._has_public_times:
            return True  # gaps of a device that may send only changes show when the load was steady
        return code in TIME_PROBLEMS or not self._has_reading
