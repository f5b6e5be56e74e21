"""The agent's vitals: counts, durations, limits, charges, problems, names; never readings or released values.

The times at which messages arrive reveal when a home is busy (law 4), so the vitals stay on the device.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from meteragent import config as settings
from meteragent.config.source import every_ms, hold_ms, reports_on_change
from meteragent.core.arrivals import ArrivalRow, Limits
from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import Problem, make_problem
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS, Kind
from meteragent.service.vitals import Figure, Vitals, count_figures

LAG_S = 60.0
"""How long a message may be due before this is a problem."""
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


def intake_limits(stream: settings.Stream) -> Limits:
    """Return how long a stream, its meters and their phases may be silent; under the event clock, for ever.

    Before the first message, the limit is twice the usual time between readings, at least a minute, or an
    hour if that time is unknown; a phase has this limit while others send. A meter's limit is three times the
    usual time, at least an hour. If readings come on change, a meter may be silent until it is forgotten, a
    phase for the hold of a power, and a register for ever.
    """
    if stream.window.clock is Clock.EVENT:
        return Limits(None, None, None)
    usual_ms = every_ms(stream.source)
    is_on_change = reports_on_change(stream.source)
    soon_ms = max(MINUTE_MS, 2 * usual_ms) if usual_ms else HOUR_MS
    meter_ms = max(HOUR_MS, 3 * usual_ms)
    if is_on_change:
        meter_ms = max(meter_ms, settings.forget_ms(stream.source, stream.window.forget))
    elif not usual_ms:
        # A meter may send only once a slot, but a month-long slot must not hide a silence for a month.
        terms = settings.terms(stream)
        meter_ms = max(meter_ms, min(max(map(terms.slot_ms, range(terms.n))), DAY_MS))
    if not is_on_change:
        return Limits(soon_ms, meter_ms, soon_ms)
    stands_ms = hold_ms(stream.source) if stream.source.kind is Kind.POWER else None
    return Limits(soon_ms, meter_ms, None, stands_ms)


@dataclass(frozen=True, slots=True)
class StreamVitals:
    """The state of one stream.

    waiting         the number of messages that have not been delivered
    lag_s           how long the first of these messages has been due; 0 if none is due or there is no time
    spent_per_w     the epsilon that each meter spent over all of its streams since midnight UTC, in 1/W, by
                    public id; empty if there are more than `METERS_MAX` meters or there is no time
    shard           the stream's part of a fleet
    refused_topics  the number of topics that the sink's broker refuses
    group           the group whose total includes the stream; None if the stream sends records
    has_keys        whether both operators' keys for the group's current slot are known; True without a group
    faults          the codes of the problems that brokers name, by side ("source" or "sink")
    is_waiting      whether nothing has arrived since the start, for so short a time that this is no problem
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
    faults: Mapping[str, str] = field(default_factory=dict)
    is_waiting: bool = False
    arrivals: tuple[ArrivalRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVitals(Vitals):
    """The state of the agent.

    stands      the reason why processing is paused; None while it runs
    raised      problems raised by parts of the agent; `problems` derives others from the other fields
    unerased_s  how long another reader has kept old accumulators in the store's log
    """

    store_bytes: int
    stands: str | None
    streams: tuple[StreamVitals, ...]
    raised: tuple[Problem, ...] = ()
    unerased_s: float = 0.0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that require human attention; empty if there are none."""
        return tuple(self._problems())

    @property
    def is_waiting(self) -> bool:
        """Whether a stream waits for its first message."""
        return any(stream.is_waiting for stream in self.streams)

    def metrics(self) -> Iterator[Figure]:
        """Yield the metrics that only the agent has."""
        yield from count_figures("", COUNTERS, self.counts)
        yield from _gauges(self)

    def _problems(self) -> Iterator[Problem]:
        if self.stands is not None:
            yield make_problem(_PAUSED[self.stands])
        elif self.unerased_s > UNERASED_S:
            yield make_problem("wal_not_erased")
        for stream in self.streams:
            for side, is_up in (("source", stream.source_up), ("sink", stream.sink_up)):
                if code := stream.faults.get(side):
                    yield make_problem(code, stream.name, side=side)
                elif not is_up:
                    yield make_problem(f"{side}_down", stream.name)
            if stream.sink_up and not stream.has_keys:
                yield make_problem("no_keys", stream.name)
            if stream.refused_topics:
                yield make_problem("topic_refused", stream.name, topics=stream.refused_topics)
            if stream.lag_s > LAG_S:
                since_ms = round(stream.lag_s) * 1000
                yield make_problem("messages_wait", stream.name, waiting=stream.waiting, since_ms=since_ms)
        yield from self.raised


_STREAM_GAUGES: Mapping[str, tuple[str, Callable[[StreamVitals], float]]] = {
    "waiting_messages": ("messages that have not been delivered", lambda stream: stream.waiting),
    "lag_seconds": ("how long the first waiting message has been due", lambda stream: stream.lag_s),
    "refused_topics": ("topics that the sink's broker refuses", lambda stream: stream.refused_topics),
    "meters": ("meters that the agent knows", lambda stream: stream.meters),
}
"""The meaning and the value of each gauge that every stream has."""


def _gauges(vitals: AgentVitals) -> Iterator[Figure]:
    streams = vitals.streams
    text = "1: processing is paused, because of the clock, the store's size, or a log that is not erased"
    yield Figure("stands", "gauge", text, [({}, vitals.stands is not None)])
    yield Figure("store_bytes", "gauge", "the size of the store's file, in bytes", [({}, vitals.store_bytes)])
    sides = [
        ({"stream": stream.name, "side": side}, is_up)
        for stream in streams
        for side, is_up in (("source", stream.source_up), ("sink", stream.sink_up))
    ]
    yield Figure("connected", "gauge", "1: there is a connection to the broker", sides)
    for name, (text, value) in _STREAM_GAUGES.items():
        yield Figure(name, "gauge", text, [({"stream": stream.name}, value(stream)) for stream in streams])
    epsilons = [
        ({"stream": stream.name, "meter": meter}, float(epsilon))
        for stream in streams
        for meter, epsilon in stream.spent_per_w.items()
    ]
    text = f"epsilon spent since midnight UTC, in 1/W; absent for streams of more than {METERS_MAX} meters"
    yield Figure("spent_per_watt", "gauge", text, epsilons)
