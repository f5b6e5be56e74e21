"""How the agent is, for those who watch over it: in words, as JSON, for Prometheus.

Counts, times and public names, never values. What arrived when tells when a home is busy (law 4): all
of this stays on the device.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction

from meteragent.domain.counters import COUNTERS, FORMER_NAMES
from meteragent.domain.grid import format_duration
from meteragent.domain.problem import Problem, problem

LAG_S = 60.0
"""A record that has been due for longer is a sign that something is wrong."""
UNERASED_S = 10.0
"""Our own commands read for less than a second at a time."""
_STANDS = {
    "no clock": "no_clock",
    "no room in the store": "store_full",
    "the log is not erased": "unerased_stands",
}
LABELS = 100
"""Of more meters than this only the number is told: a label for each would burden who collects."""


@dataclass(frozen=True, slots=True)
class StreamVitals:
    """One stream: its connections, what waits to leave and since when, and what was spent today.

    `lag_s` is how long the first record that has not been delivered has been due; `spent_per_w` is
    epsilon in 1/W since midnight UTC, by the names under which meters leave. `shard` is its part of a fleet.
    `refused_topics` counts the topics that the sink's broker refuses.
    """

    name: str
    source_up: bool
    sink_up: bool
    waiting: int
    lag_s: float
    meters: int
    spent_per_w: Mapping[str, Fraction]
    shard: str | None = None
    refused_topics: int = 0


@dataclass(frozen=True, slots=True)
class Vitals:
    """The agent at a moment: `stands` says why nothing moves, where nothing does.

    `raised` are the problems that parts of the agent have raised; others follow from the figures.
    `unerased_s` is for how long another reader has kept old accumulators in the store's log.
    """

    version: str
    running_s: float
    store_bytes: int
    stands: str | None
    counts: Mapping[str, int]
    streams: tuple[StreamVitals, ...]
    raised: tuple[Problem, ...] = ()
    unerased_s: float = 0.0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What a person should look at; none: all is well."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        if self.stands is not None:
            yield problem(_STANDS[self.stands])
        elif self.unerased_s > UNERASED_S:
            yield problem("wal_not_erased")
        for stream in self.streams:
            if not stream.source_up:
                yield problem("source_down", stream.name)
            if not stream.sink_up:
                yield problem("sink_down", stream.name)
            if stream.refused_topics:
                yield problem("topic_refused", stream.name, topics=stream.refused_topics)
            if stream.lag_s > LAG_S:
                since = format_duration(round(stream.lag_s) * 1000)
                yield problem("messages_wait", stream.name, waiting=stream.waiting, since=since)
        yield from self.raised


def as_text(vitals: Vitals) -> str:
    """In words, for a person at a terminal."""
    running = format_duration(round(vitals.running_s) * 1000)
    lines = [f"meteragent {vitals.version}, running for {running}"]
    for one in vitals.problems:
        lines += [f"Problem: {one.text}", f"  What to do: {one.cure} ({one.code})"]
    if not vitals.problems:
        lines.append("All is well.")
    for stream in vitals.streams:
        fleet = "" if stream.shard is None else f", shard {stream.shard}"
        lines.append(f"Stream {stream.name}{fleet}: {stream.meters} meters, {stream.waiting} messages wait")
    lines += [f"  {name:<16} {vitals.counts[name]:>10,}  {COUNTERS[name]}" for name in _counted(vitals)]
    return "\n".join(lines)


def _counted(vitals: Vitals) -> list[str]:
    return [name for name in COUNTERS if vitals.counts.get(name)]


def as_json(vitals: Vitals) -> str:
    """The same facts as JSON; exact numbers are strings.

    `problems` are texts, `problem_codes` their codes, `problem_details` each with code, stream, cause, cure.
    """
    problems = vitals.problems
    former = {FORMER_NAMES[name]: count for name, count in vitals.counts.items() if name in FORMER_NAMES}
    facts = asdict(vitals) | {
        "counts": {**vitals.counts, **former},
        "healthy": not problems,
        "problems": [one.text for one in problems],
        "problem_codes": [one.code for one in problems],
        "problem_details": [asdict(one) for one in problems],
    }
    return json.dumps(facts, default=str)


def from_json(text: str) -> Vitals:
    """The inverse of `as_json`."""
    known = json.loads(text)
    streams = []
    for one in known["streams"]:
        spent = {meter: Fraction(epsilon) for meter, epsilon in one.pop("spent_per_w").items()}
        streams.append(StreamVitals(**one, spent_per_w=spent))
    facts = {field.name: known[field.name] for field in fields(Vitals)}
    raised = tuple(Problem(**one) for one in known["raised"])
    return Vitals(**facts | {"streams": tuple(streams), "raised": raised})


def as_metrics(vitals: Vitals) -> str:
    """The text format of Prometheus, version 0.0.4."""
    lines = [line for name, text in COUNTERS.items() for line in _counter(name, text, vitals.counts)]
    for name, text, rows in _gauges(vitals):
        lines += [f"# HELP meteragent_{name} {text}", f"# TYPE meteragent_{name} gauge"]
        lines += [f"meteragent_{name}{_labels(labels)} {value:.10g}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def _counter(name: str, text: str, counts: Mapping[str, int]) -> list[str]:
    lines = []
    former = FORMER_NAMES.get(name)
    for called, help_ in ((name, text), (former, f"the former name of {name}; will go")):
        if called is not None:
            full = f"meteragent_{called}_total"
            lines += [f"# HELP {full} {help_}", f"# TYPE {full} counter", f"{full} {counts.get(name, 0)}"]
    return lines


def _gauges(vitals: Vitals) -> Iterator[tuple[str, str, list[tuple[dict[str, str], float]]]]:
    streams = vitals.streams
    yield "info", "the version", [({"version": vitals.version}, 1)]
    yield "healthy", "1: there is no problem", [({}, not vitals.problems)]
    problems = [({"code": one.code, "stream": one.stream or ""}, 1.0) for one in vitals.problems]
    yield "problem", "1: a person should look at this; none is there while all is well", problems
    yield "stands", "1: everything stands, no clock or no room", [({}, vitals.stands is not None)]
    yield "running_seconds", "since the start", [({}, vitals.running_s)]
    yield "store_bytes", "the size of the store's file", [({}, vitals.store_bytes)]
    sides = [
        ({"stream": one.name, "side": side}, float(up))
        for one in streams
        for side, up in (("source", one.source_up), ("sink", one.sink_up))
    ]
    yield "connected", "1: there is a connection to the broker", sides
    waiting = [({"stream": one.name}, float(one.waiting)) for one in streams]
    yield "waiting_messages", "messages that have not been delivered", waiting
    lag = [({"stream": one.name}, one.lag_s) for one in streams]
    yield "lag_seconds", "how long the first of them has been due", lag
    refused = [({"stream": one.name}, float(one.refused_topics)) for one in streams]
    yield "refused_topics", "topics that the sink's broker refuses", refused
    yield "meters", "meters that are known", [({"stream": one.name}, float(one.meters)) for one in streams]
    spent = [
        ({"stream": one.name, "meter": meter}, float(epsilon))
        for one in streams
        for meter, epsilon in one.spent_per_w.items()
    ]
    yield "spent_per_watt", f"epsilon since midnight UTC in 1/W, of up to {LABELS} meters", spent


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + shown + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
