"""The state of a running operator: counts and times, but no share, pad or key, and no home."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from meteragent.domain.grid import iso_time
from meteragent.domain.problem import Meaning, Problem, make_service_problem
from meteragent.service.vitals import Figure, Vitals, count_figures

UNANSWERED_S = 900
"""How long, in seconds, a request, which is repeated, may be unanswered before this is a problem."""
OVERLOAD_S = 3600
"""How long, in seconds, a dropped or late message is reported as a problem."""

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
_WATCH = "crowd-operators.md#watch"

PROBLEMS = {
    "keys_ahead": Meaning(
        "the store is new, and the published key list is {ahead} ahead of the clock: homes refuse a new list",
        "If this machine's time is wrong, set it; if it is right, wait for that long, or agree on a new "
        "group.",
        _WATCH,
    ),
    "broker_down": Meaning(
        "no connection to the broker",
        "Check that the broker is running, and broker.url, the user and the password; see the log.",
        _WATCH,
    ),
    "messages_refused": Meaning(
        "the broker refuses messages to {topics}",
        "Allow this user to publish to these topics below crowd/{group}/.",
        _WATCH,
    ),
    "unanswered": Meaning(
        "the helper has not answered a request for {since}",
        "Ask the helper whether it is running and connected, and whether its clock is right.",
        _WATCH,
    ),
    "clock_ahead": Meaning(
        "the clock has jumped ahead by {ahead}, so no new keys are published",
        "Check this machine's time: if it is wrong, set it back; if it is right, restart the operator.",
        _WATCH,
    ),
    "overloaded": Meaning(
        "in the last hour, this machine was too slow to send its messages on time",
        "Look for other load on this machine, or use a faster one.",
        _WATCH,
    ),
    "no_requests": Meaning(
        "the leader has sent no request for the slot {slot}",
        "Ask the leader whether it is running and connected, and whether enough homes report.",
        _WATCH,
    ),
    "no_reports": Meaning(
        "no home has reported in time for the slot {slot}",
        "Check that homes are running and pin this group, and that the broker accepts them and this user.",
        _WATCH,
    ),
    "no_total": Meaning(
        "the last slot, {slot}, has no total: {result}",
        "docs/crowd-operators.md explains each reason.",
        _WATCH,
    ),
}
"""The problems of operators, by their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVitals(Vitals):
    """The state of an operator.

    waiting         the number of messages that the broker has not accepted yet
    unanswered_s    how long the leader's oldest request has been without an answer
    ahead_s         how far the wall clock has jumped ahead, while the jump is unconfirmed
    published_s     how far the key list from before the store was created is ahead of the clock
    loaded_s        how long ago a message was last dropped or late; None if none was since the start
    silent_slot_s   the start of the newest slot, if it had no report (leader) or no request (helper) in time
    refused_topics  the topics to which the broker does not let this user publish
    slots           the slots that were finished last: start, result and number of homes
    """

    group: str
    group_id: str
    is_connected: bool
    waiting: int
    unanswered_s: int
    ahead_s: int
    published_s: int
    loaded_s: float | None
    refused_topics: tuple[str, ...]
    silent_slot_s: int | None
    refusals: Mapping[str, int]
    slots: tuple[tuple[int, str, int], ...]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of an operator's metrics."""
        return {"group": self.group, "role": self.service}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that need attention; empty if all is well."""
        return tuple(make_service_problem(PROBLEMS, code, fields) for code, fields in self._problems())

    def _problems(self) -> Iterator[tuple[str, dict[str, str | int]]]:
        """Yield the codes of the problems, with the fields of their causes and cures."""
        if self.published_s:  # until the clock has passed that list, the operator does not connect
            yield "keys_ahead", {"ahead_ms": self.published_s * 1000}
        elif not self.is_connected:
            yield "broker_down", {}
        if self.refused_topics:
            yield "messages_refused", {"topics": ", ".join(self.refused_topics), "group": self.group}
        if self.unanswered_s > UNANSWERED_S:
            yield "unanswered", {"since_ms": self.unanswered_s * 1000}
        if self.ahead_s:
            yield "clock_ahead", {"ahead_ms": self.ahead_s * 1000}
        if self.loaded_s is not None and self.loaded_s < OVERLOAD_S:
            yield "overloaded", {}
        is_ahead = bool(self.ahead_s or self.published_s)  # while either lasts, silence is expected
        if self.silent_slot_s is not None and not is_ahead:
            code = "no_requests" if self.service == "helper" else "no_reports"
            yield code, {"slot": iso_time(self.silent_slot_s * 1000)}
        if self.slots and self.slots[-1][1] not in _RESULTS:
            slot_s, result, _ = self.slots[-1]
            yield "no_total", {"slot": iso_time(slot_s * 1000), "result": result}

    def metrics(self) -> Iterator[Figure]:
        """Yield the metrics of an operator."""
        for name, text, value in (
            ("connected", "1: there is a connection to the broker", self.is_connected),
            ("waiting_messages", "messages that the broker has not accepted yet", self.waiting),
            ("unanswered_seconds", "how long the oldest request has had no answer", self.unanswered_s),
        ):
            yield Figure(f"crowd_{name}", "gauge", text, [({}, value)])
        yield from count_figures("crowd_", COUNTERS, self.counts)
        refusals = [({"reason": name}, count) for name, count in sorted(self.refusals.items())]
        yield Figure("crowd_refusals_total", "counter", "refused messages and slots, by reason", refusals)
        results = [
            ({"result": name.removeprefix("slots_")}, count)
            for name, count in sorted(self.counts.items())
            if name.startswith("slots_")
        ]
        yield Figure("crowd_slots_total", "counter", "slots finished since the start, by result", results)
