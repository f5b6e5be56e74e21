"""The state of a running operator: as JSON for its socket, as text for people, and as metrics for Prometheus.

It contains counts and times, but no share, pad or key, and does not show which homes reported.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from meteragent.domain.grid import duration_text, iso_time

UNANSWERED_S = 900
"""How long, in seconds, a request may be unanswered before this is a problem (it is repeated meanwhile)."""
OVERLOAD_S = 3600
"""How long, in seconds, a dropped or late message counts as a problem."""

COUNTERS = {
    "reports": "reports received, including refused ones",
    "requests": "chunks of requests received, including refused ones",
    "answers": "answers received, including refused ones",
    "sent": "messages sent, including repetitions",
    "dropped": "requests and answers dropped because waiting or work took too long, or the queue was full",
    "late": "messages sent after their scheduled instant, because the work took too long",
    "oversized": "messages skipped because they are larger than 4 MiB",
    "publish_refused": "messages that the broker refused",
}
_RESULTS = ("answer", "total")
PUBLISHED_CURE = (
    "if this machine's time is wrong, set it; if it is right, wait for that long, or agree on a new group"
)
JUMP_CURE = "check this machine's time: if it is wrong, set it back; if it is right, restart the operator"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that needs attention, and what to do about it."""

    code: str
    text: str
    cure: str


@dataclass(frozen=True, slots=True)
class Vitals:
    """The state of an operator.

    waiting         the number of messages that the broker has not accepted yet
    unanswered_s    how long the leader's oldest request has been without an answer
    ahead_s         how far the wall clock has jumped ahead, while the jump is unconfirmed
    published_s     how far the key list that was published before a new store is ahead of the clock
    loaded_s        how long ago a message was last dropped or late; None if none was since the start
    silent_slot_s   the start of the newest slot, if it had no report (leader) or no request (helper) in time
    refused_topics  the topics to which the broker does not let this user publish
    slots           the slots that were finished last: start, result and number of homes
    """

    version: str
    role: str
    group: str
    group_id: str
    running_s: float
    is_connected: bool
    waiting: int
    unanswered_s: int
    ahead_s: int
    published_s: int
    loaded_s: float | None
    refused_topics: tuple[str, ...]
    silent_slot_s: int | None
    counts: Mapping[str, int]
    refusals: Mapping[str, int]
    slots: tuple[tuple[int, str, int], ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that need attention; empty if all is well."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        if self.published_s:  # until the clock has passed that list, the operator does not connect
            yield Problem("keys_ahead", published_text(self.published_s), PUBLISHED_CURE)
        elif not self.is_connected:
            cure = "check that the broker is running, and broker.url, the user and the password; see the log"
            yield Problem("broker_down", "no connection to the broker", cure)
        if self.refused_topics:
            topics = ", ".join(self.refused_topics)
            cure = f"allow this user to publish to these topics below crowd/{self.group}/"
            yield Problem("topic_refused", f"the broker refuses messages to {topics}", cure)
        if self.unanswered_s > UNANSWERED_S:
            since = duration_text(self.unanswered_s * 1000, 2)
            cure = "ask the helper whether it is running and connected, and whether its clock is right"
            yield Problem("unanswered", f"the helper has not answered a request for {since}", cure)
        if self.ahead_s:
            yield Problem("clock_jumped", jump_text(self.ahead_s), JUMP_CURE)
        if self.loaded_s is not None and self.loaded_s < OVERLOAD_S:
            cure = "look for other load on this machine, or use a faster one"
            text = "in the last hour, this machine was too slow to send its messages on time"
            yield Problem("overloaded", text, cure)
        is_ahead = bool(self.ahead_s or self.published_s)  # while either lasts, silence is expected
        if self.silent_slot_s is not None and not is_ahead:
            yield self._silent(iso_time(self.silent_slot_s * 1000))
        if self.slots and self.slots[-1][1] not in _RESULTS:
            slot_s, result, _ = self.slots[-1]
            text = f"the last slot, {iso_time(slot_s * 1000)}, has no total: {result}"
            yield Problem("no_total", text, "docs/crowd-operators.md explains each reason")

    def _silent(self, slot: str) -> Problem:
        """Return the problem of a slot without a report or a request."""
        if self.role == "helper":
            cure = "ask the leader whether it is running and connected, and whether enough homes report"
            return Problem("no_requests", f"the leader has sent no request for the slot {slot}", cure)
        cure = (
            "check that homes are running and pin this group, and that the broker accepts them and this user"
        )
        return Problem("no_reports", f"no home has reported in time for the slot {slot}", cure)


def jump_text(ahead_s: int) -> str:
    """Return the text of the problem after a jump of the wall clock."""
    return f"the clock has jumped ahead by {duration_text(ahead_s * 1000, 2)}, so no new keys are published"


def published_text(lead_s: int) -> str:
    """Return the text of the problem if the list from before a new store is `lead_s` ahead of the clock."""
    lead = duration_text(lead_s * 1000, 2)
    return (
        f"the store is new, and the published key list is {lead} ahead of the clock: homes refuse a new list"
    )


def as_json(vitals: Vitals) -> str:
    """Return the vitals as JSON, with the problems."""
    problems = vitals.problems
    return json.dumps(
        asdict(vitals) | {"healthy": not problems, "problems": [asdict(item) for item in problems]}
    )


def from_json(text: str) -> Vitals:
    """Parse the vitals from the JSON that `as_json` returns."""
    document = json.loads(text)
    facts = {field.name: document[field.name] for field in fields(Vitals)}
    facts["refused_topics"] = tuple(facts["refused_topics"])
    facts["slots"] = tuple((slot_s, result, homes) for slot_s, result, homes in facts["slots"])
    return Vitals(**facts)


def as_text(vitals: Vitals) -> str:
    """Return the vitals as text for a terminal."""
    running = duration_text(round(vitals.running_s) * 1000, 2)
    lines = [f"meteragent {vitals.version}, {vitals.role} of {vitals.group}, running for {running}"]
    for problem in vitals.problems:
        lines += [f"Problem: {problem.text}", f"  What to do: {problem.cure} ({problem.code})"]
    if not vitals.problems:
        lines.append("All is well.")
    for slot_s, result, homes in vitals.slots[-3:]:
        count = f", homes: {homes:,}" if homes else ""
        lines.append(f"Slot {iso_time(slot_s * 1000)}: {result}{count}")
    lines += [f"  {name:<16} {vitals.counts[name]:>10,}" for name in COUNTERS if vitals.counts.get(name)]
    lines += [f"  {f'refused: {name}':<24} {count:>10,}" for name, count in sorted(vitals.refusals.items())]
    return "\n".join(lines)


def as_metrics(vitals: Vitals) -> str:
    """Return the vitals in the text format of Prometheus, version 0.0.4."""
    owner = f'group="{vitals.group}",role="{vitals.role}"'
    rows: list[tuple[str, str, str, list[tuple[str, float]]]] = [
        ("healthy", "gauge", "1 if there is no problem", [("", not vitals.problems)]),
        (
            "problem",
            "gauge",
            "1 for each current problem",
            [(f',code="{item.code}"', 1) for item in vitals.problems],
        ),
        ("connected", "gauge", "1 if there is a connection to the broker", [("", vitals.is_connected)]),
        (
            "waiting_messages",
            "gauge",
            "messages that the broker has not accepted yet",
            [("", vitals.waiting)],
        ),
        (
            "unanswered_seconds",
            "gauge",
            "how long the oldest request has been without an answer",
            [("", vitals.unanswered_s)],
        ),
        ("running_seconds", "gauge", "time since the start", [("", vitals.running_s)]),
    ]
    rows += [
        (f"{name}_total", "counter", text, [("", vitals.counts.get(name, 0))])
        for name, text in COUNTERS.items()
    ]
    refusals = [(f',reason="{name}"', float(count)) for name, count in sorted(vitals.refusals.items())]
    rows.append(("refusals_total", "counter", "refused messages and slots, by reason", refusals))
    slot_samples = [
        (f',result="{name.removeprefix("slots_")}"', float(count))
        for name, count in sorted(vitals.counts.items())
        if name.startswith("slots_")
    ]
    rows.append(("slots_total", "counter", "slots finished since the start, by result", slot_samples))
    lines = []
    for name, kind, text, values in rows:
        metric = f"meteragent_crowd_{name}"
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        lines += [f"{metric}{{{owner}{labels}}} {value:.10g}" for labels, value in values]
    return "\n".join(lines) + "\n"
