"""The agent's vitals as text, as JSON, and for Prometheus.

Vitals hold counts, durations, charges, problems and names, never readings or released values. The times at
which messages arrive reveal when a home is busy (law 4), so the vitals stay on the device.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction

from meteragent.domain.counters import COUNTERS, FORMER_NAMES
from meteragent.domain.grid import duration_text
from meteragent.domain.problem import Problem, problem

LAG_S = 60.0
"""How long a message may be due before this counts as a problem."""
UNERASED_S = 10.0
"""How long the store's log may stay unerased before this is a problem; the product's own commands keep it
unerased for less than a second."""
_PAUSED = {
    "no usable clock": "no_clock",
    "no room in the store": "store_full",
    "the log is not erased": "unerased_stands",
}
METERS_MAX = 100
"""The largest number of meters for which a stream's charges are reported; a stream with more meters reports
none, because more labels would overload Prometheus."""


@dataclass(frozen=True, slots=True)
class StreamVitals:
    """The state of one stream.

    waiting         the number of messages that have not been delivered
    lag_s           how long the first of these messages has been due; 0 if none is due or there is no time
    meters          the number of meters that the agent knows
    spent_per_w     the epsilon that each meter spent over all of its streams since midnight UTC, in 1/W, by
                    public id; empty if there are more than `METERS_MAX` meters or there is no time
    shard           the stream's part of a fleet; None if it is not sharded
    refused_topics  the number of topics that the sink's broker refuses
    group           the group whose total includes the stream; None if the stream sends records
    has_keys        whether both operators' keys for the group's current slot are known; True without a group
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
    group: str | None = None
    has_keys: bool = True


@dataclass(frozen=True, slots=True)
class Vitals:
    """The state of the agent.

    stands      the reason why processing is paused; None while it runs
    raised      problems raised by parts of the agent; `problems` derives others from the other fields
    unerased_s  how long another reader has kept old accumulators in the store's log
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
        """The problems that require human attention; empty if there are none."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        if self.stands is not None:
            yield problem(_PAUSED[self.stands])
        elif self.unerased_s > UNERASED_S:
            yield problem("wal_not_erased")
        for stream in self.streams:
            if not stream.source_up:
                yield problem("source_down", stream.name)
            if not stream.sink_up:
                yield problem("sink_down", stream.name)
            elif not stream.has_keys:
                yield problem("no_keys", stream.name)
            if stream.refused_topics:
                yield problem("topic_refused", stream.name, topics=stream.refused_topics)
            if stream.lag_s > LAG_S:
                since_ms = round(stream.lag_s) * 1000
                yield problem("messages_wait", stream.name, waiting=stream.waiting, since_ms=since_ms)
        yield from self.raised


def as_text(vitals: Vitals) -> str:
    """Return the vitals as text for a terminal."""
    running = duration_text(round(vitals.running_s) * 1000, 2)
    lines = [f"meteragent {vitals.version}, running for {running}"]
    for item in vitals.problems:
        lines += [
            f"Problem: {item.text}",
            f"  What to do: {item.cure} ({item.code})",
        ]
    if not vitals.problems:
        lines.append("All is well.")
    for stream in vitals.streams:
        fleet = "" if stream.shard is None else f", shard {stream.shard}"
        meters = _count_of(stream.meters, "meter")
        messages = _count_of(stream.waiting, "message" if stream.group is None else "report")
        group = "" if stream.group is None else f", in the total of the group {stream.group}"
        lines.append(f"Stream {stream.name}{fleet}: {meters}{group}, {messages} waiting to be sent")
    if names := _nonzero(vitals):
        lines.append("Since the start:")
    lines += [f"  {name:<16} {vitals.counts[name]:>10,}  {COUNTERS[name]}" for name in names]
    return "\n".join(lines)


def _count_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _nonzero(vitals: Vitals) -> list[str]:
    return [name for name in COUNTERS if vitals.counts.get(name)]


def as_json(vitals: Vitals) -> str:
    """Return the vitals as JSON, with exact numbers as strings.

    Renamed counters appear under both names. `problems` holds the problems' texts, `problem_codes` their
    codes, and `problem_details` all fields of each problem.
    """
    problems = vitals.problems
    former = {FORMER_NAMES[name]: count for name, count in vitals.counts.items() if name in FORMER_NAMES}
    facts = asdict(vitals) | {
        "counts": {**vitals.counts, **former},
        "healthy": not problems,
        "problems": [item.text for item in problems],
        "problem_codes": [item.code for item in problems],
        "problem_details": [asdict(item) for item in problems],
    }
    return json.dumps(facts, default=str)


def from_json(text: str) -> Vitals:
    """Parse vitals from the JSON that `as_json` returns."""
    document = json.loads(text)
    streams = []
    for stream in document["streams"]:
        epsilons = {meter: Fraction(epsilon) for meter, epsilon in stream.pop("spent_per_w").items()}
        streams.append(StreamVitals(**stream, spent_per_w=epsilons))
    facts = {field.name: document[field.name] for field in fields(Vitals)}
    raised = tuple(Problem(**item) for item in document["raised"])
    return Vitals(**facts | {"streams": tuple(streams), "raised": raised})


def as_metrics(vitals: Vitals) -> str:
    """Return the vitals in the text format of Prometheus, version 0.0.4."""
    lines = [line for name, text in COUNTERS.items() for line in _counter(name, text, vitals.counts)]
    for name, text, rows in _gauges(vitals):
        lines += [f"# HELP meteragent_{name} {text}", f"# TYPE meteragent_{name} gauge"]
        lines += [f"meteragent_{name}{_labels(labels)} {value:.10g}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def _counter(name: str, text: str, counts: Mapping[str, int]) -> list[str]:
    lines = []
    former = FORMER_NAMES.get(name)
    for counter, help_ in ((name, text), (former, f"the former name of {name}, removed in the next version")):
        if counter is not None:
            metric = f"meteragent_{counter}_total"
            lines += [
                f"# HELP {metric} {help_}",
                f"# TYPE {metric} counter",
                f"{metric} {counts.get(name, 0)}",
            ]
    return lines


def _gauges(vitals: Vitals) -> Iterator[tuple[str, str, list[tuple[dict[str, str], float]]]]:
    streams = vitals.streams
    yield "info", "the version", [({"version": vitals.version}, 1)]
    yield "healthy", "1: there is no problem", [({}, not vitals.problems)]
    problems = [({"code": item.code, "stream": item.stream or ""}, 1.0) for item in vitals.problems]
    yield "problem", "1: a problem that needs attention; absent otherwise", problems
    yield (
        "stands",
        "1: processing is paused, because of the clock, the store's size, or a log that is not erased",
        [({}, vitals.stands is not None)],
    )
    yield "running_seconds", "seconds since the start", [({}, vitals.running_s)]
    yield "store_bytes", "the size of the store's file, in bytes", [({}, vitals.store_bytes)]
    sides = [
        ({"stream": stream.name, "side": side}, float(is_up))
        for stream in streams
        for side, is_up in (("source", stream.source_up), ("sink", stream.sink_up))
    ]
    yield "connected", "1: there is a connection to the broker", sides
    waiting = [({"stream": stream.name}, float(stream.waiting)) for stream in streams]
    yield "waiting_messages", "messages that have not been delivered", waiting
    lag = [({"stream": stream.name}, stream.lag_s) for stream in streams]
    yield "lag_seconds", "how long the first waiting message has been due", lag
    refused = [({"stream": stream.name}, float(stream.refused_topics)) for stream in streams]
    yield "refused_topics", "topics that the sink's broker refuses", refused
    yield (
        "meters",
        "meters that the agent knows",
        [({"stream": stream.name}, float(stream.meters)) for stream in streams],
    )
    epsilons = [
        ({"stream": stream.name, "meter": meter}, float(epsilon))
        for stream in streams
        for meter, epsilon in stream.spent_per_w.items()
    ]
    help_ = f"epsilon spent since midnight UTC, in 1/W; absent for streams of more than {METERS_MAX} meters"
    yield "spent_per_watt", help_, epsilons


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return "{" + pairs + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
