"""The log of a stream's first minutes: the first reading, or why there is none, and the first number.

If the first readings are all outside `window.range`, one line says that they are clamped to this range.

No line contains a value or a count, so that the log reveals little more than that readings have started (law
4). After the first reading, `health` reports missing readings.
"""

import logging
from collections.abc import Collection, Sequence

from meteragent import config as settings
from meteragent.domain.counters import COUNTERS, REFUSALS, Counts
from meteragent.domain.grid import duration_text
from meteragent.domain.problem import PROBLEMS
from meteragent.domain.units import HOUR_MS, MINUTE_MS
from meteragent.store.outbox import WaitingRow

FIRST_MS = MINUTE_MS
"""How long a connected stream may have no usable reading before a warning is logged; each warning doubles the
time to the next one."""
LONGEST_MS = HOUR_MS
"""The longest time between two warnings about missing readings."""
STEP_MS = MINUTE_MS
"""Of the time between two updates, at most this counts as waiting; if more has passed, the clock was set or
the machine slept."""
FEWEST = 5
"""The smallest number of first readings that cause a warning if all of them were clamped."""

_CLOCK = {"refused_ahead", "late"}
"""Counters of messages that indicate a wrong clock."""
_NO_READING = (*REFUSALS, "retained", "other", "late", "duplicate", "shed", "oversized")
"""Counters of messages that yield no usable reading."""

_log = logging.getLogger("meteragent")


class FirstMinutes:
    """The first minutes of one stream; `update` is called in every round of its runner."""

    def __init__(self, stream: settings.Stream, counts: Counts, now_ms: int) -> None:
        self._stream = stream
        self._counts = counts
        self._updated_ms = now_ms
        self._waited_ms, self._pause_ms, self._due_ms = 0, FIRST_MS, FIRST_MS
        self._has_reading = self._has_left = self._has_range_checked = False
        self._row_ids: list[int] = []

    def on_commit(self, rows: Sequence[WaitingRow]) -> None:
        """Note the numbers in the rows of a commit, which are not retained, until the first has left."""
        if self._has_left:
            return
        self._row_ids += [row.id for row in rows if not row.retain]
        if self._stream.group is None:
            del self._row_ids[1:]  # only a report can be too late, so no later number can be the first

    def note_answers(self, unmarked_ids: Collection[int], late_ids: Collection[int]) -> None:
        """Log the first number that the broker has confirmed.

        Both collections hold the ids of rows until the outbox marks them: `unmarked_ids` those that are
        confirmed or too late, `late_ids` those that are too late.
        """
        self._row_ids = [row_id for row_id in self._row_ids if row_id not in late_ids]
        if self._row_ids and self._row_ids[0] in unmarked_ids:
            self._has_left = True
            self._row_ids.clear()
            noun = "number" if self._stream.group is None else "report"
            _log.info(
                "stream %s: the first %s has left, and the broker has confirmed it", self._stream.name, noun
            )

    def update(self, now_ms: int, *, connected: bool) -> None:
        """Log the stream's first reading, and from time to time why there is none.

        The range of the first readings is also checked.
        """
        elapsed_ms = min(max(now_ms - self._updated_ms, 0), STEP_MS)
        self._updated_ms = now_ms
        if self._has_reading:
            self._check_range()
            return
        if self._counts["accepted"] or self._counts["early"]:
            self._has_reading = True
            _log.info("stream %s: the first reading has arrived", self._stream.name)
        elif connected:
            self._waited_ms += elapsed_ms
            if self._waited_ms >= self._due_ms:
                self._pause_ms = min(2 * self._pause_ms, LONGEST_MS)
                self._due_ms = self._waited_ms + self._pause_ms
                self._warn()

    def _check_range(self) -> None:
        """Log once if all of the first readings, at least `FEWEST`, were clamped."""
        accepted_count, clamped_count = self._counts["accepted"], self._counts["clamped"]
        if self._has_range_checked or clamped_count == accepted_count < FEWEST:
            return
        self._has_range_checked = True
        if clamped_count == accepted_count:
            _log.warning(
                "stream %s: all readings so far are outside window.range, and are clamped to it. %s",
                self._stream.name,
                PROBLEMS["all_clamped"].cure,
            )

    def _warn(self) -> None:
        """Log why no reading has arrived, if `why_none` returns a reason."""
        if reason := why_none(self._stream, self._counts, self._waited_ms // MINUTE_MS * MINUTE_MS):
            _log.warning("stream %s: %s", self._stream.name, reason)


def why_none(stream: settings.Stream, counts: Counts, waited_ms: int) -> str | None:
    """Return why a stream has no reading, and a cure.

    Returns None if a shard of a fleet gets no messages, because the shard may have no meters.
    """
    wait_text, topic = duration_text(waited_ms), stream.source.topic
    names = sorted(filter(counts.get, _NO_READING), key=lambda name: -counts[name])
    if names:
        reasons = "; ".join(f"{COUNTERS[name]} ({name})" for name in names)
        text = f"messages arrive on {topic}, but none in {wait_text} was a reading: {reasons}."
        return f"{text} {_cure(names)}"
    if stream.source.shard is not None:
        return None
    return (
        f"no message arrived on {topic} in {wait_text}. Check that the meter is on, that source.topic is"
        f" right, and that this user may read it: `meteragent discover --url {stream.source.url}` lists what"
        " the broker sends."
    )


def _cure(names: Sequence[str]) -> str:
    """Return a cure; `names` are the counters of unusable messages, the most frequent first."""
    if names[0] in _CLOCK:
        return "Check the clocks of this machine (`timedatectl`) and of the meter."
    if names[0] == "retained":
        return "The meter itself sends nothing: check that it is on and connected."
    return (
        "Compare source.profile, source.value and source.topic with the messages: `meteragent tap` shows why"
        " each is refused, and `meteragent discover` proposes a configuration."
    )
