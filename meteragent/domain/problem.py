"""The problems that an agent can have: each has a stable code, a cause and a cure.

A problem never contains a reading and never names a meter (law 4); it may state a number of meters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meteragent.domain.grid import duration_text


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a code: its cause (which may have fields to fill in), its cure, and a section.

    `section` is the anchor of a section with more detail in docs/signs.md.
    """

    cause: str
    cure: str
    section: str


PROBLEMS = {
    "no_clock": Meaning(
        "processing paused: no usable clock",
        "Set the system's clock: it is behind the newest time in the store. Nothing is lost.",
        "the-clock-is-wrong",
    ),
    "clock_jumped": Meaning(
        "the clock jumped {step} ahead: treated as a resumed snapshot, open windows dropped",
        "If a snapshot of this machine was resumed, there is nothing to do; the ledger states the time from "
        "which its charges are complete. Otherwise find out what sets the clock.",
        "the-clock-jumped",
    ),
    "store_full": Meaning(
        "processing paused: no room in the store",
        "Bring the sink's broker back, or raise store.max_mb and restart.",
        "the-store-is-full",
    ),
    "wal_not_erased": Meaning(
        "another program is reading the store and keeps its log from being erased",
        "Find it (`fuser -v` on the store's file) and stop it, or make it read in short transactions: while "
        "it reads, earlier sums of open slots stay on the disk. After ten minutes processing pauses.",
        "the-log-is-not-erased",
    ),
    "unerased_stands": Meaning(
        "processing paused: another program has kept the store's log from being erased for ten minutes",
        "Find it (`fuser -v` on the store's file) and stop it; processing then continues.",
        "the-log-is-not-erased",
    ),
    "source_down": Meaning(
        "no connection to the broker of the source",
        "Check that the broker runs, and source.url, the user and the password; the log gives the reason.",
        "a-connection-is-lost",
    ),
    "sink_down": Meaning(
        "no connection to the broker of the sink",
        "Check that the broker runs, and sink.url, the user and the password; the log gives the reason. "
        "Records wait in the store.",
        "a-connection-is-lost",
    ),
    "no_keys": Meaning(
        "the keys of the group's operators are missing for this slot: no slot opens, and nothing is reported",
        "Allow the sink's user to read crowd/NAME/keys/leader and crowd/NAME/keys/helper, and ask the "
        "operators whether they run; the log names a list that was refused.",
        "slots-of-a-crowd-do-not-open",
    ),
    "topic_refused": Meaning(
        "topics that the sink's broker refuses: {topics}; their messages wait, and are sent again each hour",
        "At the sink's broker, allow the agent's user to publish to sink.topic and to all topics below it; "
        "the broker's log names the topic. A restart sends the messages again at once.",
        "the-broker-refuses",
    ),
    "messages_wait": Meaning(
        "messages that wait: {waiting}, the first for {since}",
        "Check the log for refusals by the sink's broker. After a long outage this is the backlog, which "
        "clears by itself.",
        "records-wait",
    ),
    "other_agent": Meaning(
        "another agent releases {meters} of the meters to the same sink: their windows do not open here",
        "Stop one of the two agents. If the other has been removed for good, stop this one, run `meteragent "
        "ledger CONFIG --restored-at now` and start it again.",
        "another-agent-releases-a-meter",
    ),
    "no_readings": Meaning(
        "no reading has been accepted for more than {limit}; messages received instead: {refusals}",
        "Check that the meter is on, that it publishes on source.topic and that the broker lets the agent "
        "read it: `meteragent discover` shows the messages that arrive.",
        "no-reading-is-accepted",
    ),
    "none_accepted": Meaning(
        "no reading has been accepted yet: {reasons}",
        "`meteragent tap` shows why each message is refused. Compare source.profile, source.value and "
        "source.topic with it; if readings are late or ahead, check this machine's and the meter's clock.",
        "no-reading-is-accepted",
    ),
    "wrong_profile": Meaning(
        "none of {count} messages holds a reading: {reasons}",
        "Compare source.profile, source.value and source.topic with the meter's messages: `meteragent tap` "
        "shows them, `meteragent discover` proposes a configuration.",
        "messages-are-refused",
    ),
    "clock_behind": Meaning(
        "all {count} readings are ahead of this machine's clock",
        "Set this machine's clock (`timedatectl`), or the meter's if that is the wrong one.",
        "the-clock-is-wrong",
    ),
    "wrong_zone": Meaning(
        "the times of {count} readings differ from their arrival by whole hours",
        "Set source.timezone to the meter's time zone, or to 'arrival' to ignore the meter's times.",
        "the-clock-is-wrong",
    ),
    "all_late": Meaning(
        "all {count} readings came too late to count",
        "The meter's clock is behind, or this machine's is ahead: set the wrong one. If messages take a "
        "long time to arrive, raise window.lateness.",
        "readings-are-late",
    ),
    "all_clamped": Meaning(
        "all of the last {count} readings were outside window.range",
        "Check source.unit and source.scale: watts read as kilowatts are 1,000 times too large. If solar "
        "power is fed in, window.range must reach below 0.",
        "values-are-clamped",
    ),
}
"""Every problem, by its code. Codes are stable, because alarms and scripts use them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A condition that needs a person's attention, in one stream or in the agent (`stream` is None).

    `fields` are those of the cause; the names of fields in milliseconds end in `_ms`.
    """

    code: str
    cause: str
    cure: str
    stream: str | None = None
    fields: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The cause as a sentence, after the stream's name if there is one."""
        return self.cause if self.stream is None else f"stream {self.stream}: {self.cause}"


def problem(code: str, stream: str | None = None, **fields: str | int) -> Problem:
    """Create a problem with the `fields` of its cause filled in.

    Raises KeyError if `code` is unknown or a field of its cause is missing.
    """
    meaning = PROBLEMS[code]
    texts = {
        name.removesuffix("_ms"): duration_text(int(value), 2) if name.endswith("_ms") else value
        for name, value in fields.items()
    }
    return Problem(code, meaning.cause.format(**texts), meaning.cure, stream, fields)


class Alarms:
    """The problems that have been raised and not cleared, at most one for each code and stream."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, str | None], Problem] = {}

    def raise_(self, code: str, stream: str | None = None, **fields: str | int) -> None:
        """Raise a problem; it replaces an active problem with the same code and stream."""
        self._active[code, stream] = problem(code, stream, **fields)

    def clear(self, code: str, stream: str | None = None) -> None:
        """Clear a problem; do nothing if it is not raised."""
        self._active.pop((code, stream), None)

    @property
    def active(self) -> tuple[Problem, ...]:
        """The problems that have not been cleared, oldest first."""
        return tuple(self._active.values())
