"""The state of a running collector, and the problems that it can have. Neither names a meter."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from meteragent.domain.problem import Meaning, Problem, make_service_problem
from meteragent.service.vitals import Figure, Vitals, count_figures

REFUSED_S = 3600
"""How long, in seconds, a refused message is reported as a problem."""

COUNTERS = {
    "messages": "messages received, including refused ones",
    "written": "records written",
    "repeated": "records that were there already",
    "refused": "messages refused",
}

PROBLEMS = {
    "collect_source_down": Meaning(
        "no connection to the broker",
        "Check that the broker runs, and source.url, the user and the password; the log gives the reason.",
        "collect.md#watch",
    ),
    "collect_sink_down": Meaning(
        "the database or the dataset cannot be written: messages wait at the broker",
        "Check that the database runs and has room, and database.url, or the folder of the dataset; the log "
        "gives the reason. Nothing is lost.",
        "collect.md#watch",
    ),
    "records_refused": Meaning(
        "messages were refused in the last hour: {names}",
        "The log names the reason and the stream; with --log-level DEBUG, it names the topic as well.",
        "collect.md#watch",
    ),
}
"""The problems of a collector, by their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectVitals(Vitals):
    """The state of a collector.

    source_up    whether it is connected to the broker
    sink_up      whether the last write to the database or the dataset succeeded
    refusals     the number of refused messages by reason
    refused_ago  how long ago, in seconds, a message was last refused, by reason
    """

    source_up: bool
    sink_up: bool
    refusals: Mapping[str, int]
    refused_ago: Mapping[str, float]

    @property
    def is_waiting(self) -> bool:
        """Whether no message has arrived yet."""
        return not self.counts.get("messages")

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that need attention; empty if all is well."""
        return tuple(make_service_problem(PROBLEMS, code, fields) for code, fields in self._problems())

    def _problems(self) -> Iterator[tuple[str, dict[str, str | int]]]:
        if not self.source_up:
            yield "collect_source_down", {}
        if not self.sink_up:
            yield "collect_sink_down", {}
        if reasons := sorted(name for name, ago_s in self.refused_ago.items() if ago_s < REFUSED_S):
            yield "records_refused", {"names": ", ".join(reasons)}

    def metrics(self) -> Iterator[Figure]:
        """Yield the metrics of a collector."""
        sides = [({"side": "source"}, self.source_up), ({"side": "sink"}, self.sink_up)]
        yield Figure("collect_connected", "gauge", "1: there is a connection", sides)
        yield from count_figures("collect_", COUNTERS, self.counts)
        refusals = [({"reason": name}, count) for name, count in sorted(self.refusals.items())]
        yield Figure("collect_refusals_total", "counter", "refused messages, by reason", refusals)
