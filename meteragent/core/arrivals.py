"""What arrives of each meter and phase, and the judgement of it: does it count, and if not, why?

The core notes the outcome of each message and reading at the `Arrival` of its *origin*: a meter, or a phase
of a meter. No value is among it, and it stays in memory. `Arrivals.problems` judges each origin by itself, so
a good meter hides no other, and names no meter (law 4). `arrival_rows` names the meters, for those who ask on
the device.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import NamedTuple

from meteragent.core.register_judgement import Verdict
from meteragent.domain.counters import REFUSALS, Counts
from meteragent.domain.problem import Problem, make_problem
from meteragent.domain.units import DAY_MS, MINUTE_MS

STEP_MS = MINUTE_MS
"""The longest step of the clock: the machine may have slept, or its clock may have been set."""
BAD_FOR_MS = MINUTE_MS
"""How long messages must be refused, or readings clamped or doubted, before this is a problem."""
# NOTE: these six are chosen; false and missed problems in the field would settle them.
BAD_MIN = 3
"""The smallest number of refused messages, or clamped or doubted readings, that is a problem after
`BAD_FOR_MS`. For a wrong zone, one message is enough."""
BAD_AT_ONCE_MIN = 5
"""The number of such messages that is a problem at once, before the first accepted reading."""
UNREADABLE_MIN = 100
"""The number of unreadable messages that is a problem even if that many are usual."""
RECENT_COUNT = 32
"""How many of an origin's newest messages, readings or rises are judged together."""
RECENT_COUNT_MIN = 12
"""The smallest number of messages whose refused share can be a problem."""
BAD_PART = 4
"""Every fourth message refused is a problem."""

_COUNTS = {"accepted", "early"}
_READ = {"refused_ahead", "late", "duplicate"}
"""Outcomes of messages that were decoded: the profile is right."""
_UNREADABLE = set(REFUSALS) - {"refused_ahead", "refused_zone", "refused_meters", "refused_unavailable"}
_REFUSED = {*REFUSALS, "late"}
_IDLE = {*_REFUSED, "duplicate"}
"""Outcomes of messages that are not used; duplicates, because a time that stands still is a fault."""
_EMPTY = {"refused_missing", "refused_unavailable"}
"""Refusals of messages that may belong to something other than a meter."""
_UNHEARD = {"retained", "other_shard"}
"""Outcomes of messages that the meter has not just sent, or that are another agent's: as good as silence."""
_ODD = _UNREADABLE - _EMPTY
_NO_COUNTS = Counter[str]()
"""The counts of each origin that has none, which share this object; it stays empty."""
_RECENT_BITS = (1 << RECENT_COUNT) - 1

DAILY_EVENT_LIMITS = {"register_jump": 1, "register_reset": 3}
"""How many events of a meter within a day are a problem, by their counter, which is the problem's code."""

CODES = (
    "no_message",
    "wrong_zone",
    "clock_behind",
    "all_late",
    "wrong_profile",
    "phase_silent",
    "none_counts",
    "no_readings",
    "none_accepted",
    "some_refused",
    *DAILY_EVENT_LIMITS,
    "register_doubted",
    "register_steps",
    "all_clamped",
    "some_clamped",
)
"""The codes of problems; if several hold for an origin, the first is given."""


class Limits(NamedTuple):
    """How long, in ms, the intake may be silent before this is a problem; None: for ever.

    first_ms  nothing has arrived since the start
    meter_ms  a meter's readings have stopped
    phase_ms  a phase has stopped while others of its meter go on; None: it stands for `stands_ms`
    """

    first_ms: int | None
    meter_ms: int | None
    phase_ms: int | None
    stands_ms: int | None = None


class ArrivalRow(NamedTuple):
    """An origin: its messages, how long ago the last one came and the last one counted, and the judgement.

    `phase` is None for a meter without phases; `code` is None if nothing is wrong.
    """

    meter: str
    phase: str | None
    messages: int
    heard_ago_ms: int | None
    counted_ago_ms: int | None
    code: str | None


@dataclass(slots=True, eq=False)
class BadSeries:
    """A series of readings or rises, of whose newest at least every `part`-th is bad."""

    part: int
    bad_count: int = 0
    since_ms: int = 0
    _bits: int = 0
    _count: int = 0

    def note_bad(self, now_ms: int, *, is_bad: bool) -> None:
        """Note a reading or rise; the series ends when too few of the newest are bad."""
        if not self.bad_count:
            self._bits = self._count = 0
            self.since_ms = now_ms
        self._bits = (self._bits << 1 | is_bad) & _RECENT_BITS
        self._count = min(self._count + 1, RECENT_COUNT)
        is_going_on = self.part * self._bits.bit_count() >= self._count
        self.bad_count = self.bad_count + is_bad if is_going_on else 0

    def is_long(self, now_ms: int) -> bool:
        """Return whether enough were bad for long enough."""
        return self.bad_count >= BAD_MIN and now_ms - self.since_ms >= BAD_FOR_MS


@dataclass(slots=True, eq=False)
class RegisterFindings:
    """What the readings of an origin's register turned out to be, and what is wrong with them."""

    _events_ms: dict[str, list[int]] = field(default_factory=dict)
    _doubted: BadSeries = field(default_factory=partial(BadSeries, 1))
    _contradicted: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    _outside: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    _is_high: bool = False
    _still_count: int = 0  # readings without use, since the rises began to be outside the range

    def note_event(self, name: str, now_ms: int) -> None:
        """Note an event of `DAILY_EVENT_LIMITS`."""
        self._events_ms[name] = [*self._events_ms.get(name, ()), now_ms][-DAILY_EVENT_LIMITS[name] :]

    def note_verdict(self, verdict: Verdict, now_ms: int) -> None:
        """Note a verdict. Of readings that are doubted in a row, only the first is noted as contradicted."""
        is_doubted = verdict in {Verdict.HIGH, Verdict.LOW}
        if not (is_doubted and self._doubted.bad_count):
            is_bad = is_doubted or verdict is Verdict.CONTRADICTED
            self._contradicted.note_bad(now_ms, is_bad=is_bad)
        if verdict is not Verdict.CONTRADICTED:
            self._doubted.note_bad(now_ms, is_bad=is_doubted)
        self._is_high = verdict is Verdict.HIGH
        if verdict in {Verdict.USE, Verdict.CLAMPED}:
            self._outside.note_bad(now_ms, is_bad=verdict is Verdict.CLAMPED)
            self._still_count *= self._outside.bad_count > 0
        if self._outside.bad_count:
            self._still_count += verdict is Verdict.STILL

    def code(self, now_ms: int) -> str | None:
        """Return what is wrong, as one of `CODES`; None if nothing is."""
        for name, times_ms in self._events_ms.items():
            if len(times_ms) == DAILY_EVENT_LIMITS[name] and now_ms - times_ms[0] < DAY_MS:
                return name
        if self._doubted.is_long(now_ms) and self._is_high:
            return "all_clamped"
        if self._doubted.is_long(now_ms) or self._contradicted.is_long(now_ms):
            return "register_doubted"
        if self._outside.is_long(now_ms):
            return "register_steps" if self._still_count >= self._outside.bad_count else "all_clamped"
        return None


@dataclass(slots=True, eq=False)
class Doubts:
    """The bad times and values among an origin's readings that counted."""

    clock_errors: BadSeries = field(default_factory=partial(BadSeries, 1))
    clamped: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    all_clamped: BadSeries = field(default_factory=partial(BadSeries, 1))
    is_clamped: bool = False  # the last reading, which is noted after it was accepted

    def note_counted(self, now_ms: int, *, is_off: bool) -> bool:
        """Note a reading that counted, and whether the one before was clamped; return whether doubts stay."""
        self.clock_errors.note_bad(now_ms, is_bad=is_off)
        if not self.is_clamped:
            self.all_clamped.note_bad(now_ms, is_bad=False)
        self.clamped.note_bad(now_ms, is_bad=self.is_clamped)
        self.is_clamped = False
        return bool(self.clock_errors.bad_count or self.clamped.bad_count or self.all_clamped.bad_count)


@dataclass(slots=True, eq=False)
class Arrival:
    """What has arrived of one origin since the agent started; times are those of the intake's clock."""

    message_count: int = 0
    heard_ms: int | None = None
    counted_ms: int | None = None
    clock_error_ms: int = 0
    registers: RegisterFindings | None = None
    _counts_since: Counter[str] = field(default_factory=lambda: _NO_COUNTS)  # since a reading counted
    _first_ms: int | None = None
    _idle_ms: int | None = None
    _usual_count: int = 0
    _recent: int = 0  # a bit for each of the newest messages, set if it was refused as odd
    _odd: Counter[str] = field(default_factory=lambda: _NO_COUNTS)
    _doubts: Doubts | None = None  # from a bad time or value on, until all are well again

    def note_outcome(self, outcome: str, now_ms: int, clock_error_ms: int = 0) -> None:
        """Note an outcome by its counter's name; its time was `clock_error_ms` off the arrival."""
        if clock_error_ms:
            self.clock_error_ms = clock_error_ms
        if outcome in _COUNTS:
            self.counted_ms = now_ms
            self._recent = self._recent << 1 & _RECENT_BITS
            if self._counts_since or self._doubts is not None or clock_error_ms:
                self._end_faults(now_ms, is_off=clock_error_ms != 0)
        else:
            self._counts_since = self._counts_since or Counter()
            self._counts_since[outcome] += 1
            if outcome in _UNHEARD:
                return
            if outcome in _IDLE and self._idle_ms is None:
                self._idle_ms = now_ms
            if is_odd := outcome in _ODD:
                self._odd = self._odd or Counter()
                self._odd[outcome] += 1
            self._recent = (self._recent << 1 | is_odd) & _RECENT_BITS
        self.message_count += 1
        self.heard_ms = now_ms
        if self._first_ms is None:
            self._first_ms = now_ms

    def _end_faults(self, now_ms: int, *, is_off: bool) -> None:
        if self._counts_since:
            self._usual_count = max(self._usual_count, self._count_since(_IDLE))
            self._counts_since, self._idle_ms = _NO_COUNTS, None
        doubts = self._doubts or Doubts()
        self._doubts = doubts if doubts.note_counted(now_ms, is_off=is_off) else None

    def note_clamped(self, now_ms: int) -> None:
        """Note that the last reading was clamped."""
        doubts = self._doubts = self._doubts or Doubts()
        if not doubts.is_clamped:
            doubts.all_clamped.note_bad(now_ms, is_bad=True)
        doubts.is_clamped = True

    @property
    def is_no_meter(self) -> bool:
        """Whether all that came is messages without a value."""
        return self.counted_ms is None and set(self._counts_since) <= _EMPTY | _UNHEARD | {"other"}

    def code(self, now_ms: int, limits: Limits) -> str | None:
        """Return what is wrong, as one of `CODES`; None if nothing is."""
        refused_count = self._count_since(_REFUSED)
        is_refusing = self._idle_ms is not None and now_ms - self._idle_ms >= BAD_FOR_MS
        if is_refusing and (cause := self._cause()):
            return cause
        if limits.first_ms is not None and (code := self._time_code(now_ms, limits.first_ms)):
            return code
        if limits.meter_ms is not None and now_ms - (self.counted_ms or 0) > limits.meter_ms:
            return "no_readings"
        if self.counted_ms is None and self._first_ms is not None:
            is_long = limits.first_ms is not None and now_ms - self._first_ms > limits.first_ms
            is_due = refused_count >= (BAD_MIN if is_refusing else BAD_AT_ONCE_MIN) or is_long
            return "none_accepted" if is_due else None
        count = min(self.message_count, RECENT_COUNT)
        if count >= RECENT_COUNT_MIN and BAD_PART * self._recent.bit_count() >= count:
            return "some_refused"
        return self._value_code(now_ms)

    def _time_code(self, now_ms: int, limit_ms: int) -> str | None:
        """Return what is wrong if no message is accepted any more, or with the times of accepted ones."""
        if self.counted_ms is None:
            return None
        is_long = self._idle_ms is not None and now_ms - self._idle_ms > limit_ms
        if is_long and self._count_since(_IDLE) >= self._fewest_messages:
            return "none_counts"
        if self._doubts is not None and self._doubts.clock_errors.is_long(now_ms):
            return "all_late" if self.clock_error_ms < 0 else "clock_behind"
        return None

    def _value_code(self, now_ms: int) -> str | None:
        """Return what is wrong with the values of accepted readings."""
        if self.registers is not None:
            return self.registers.code(now_ms)
        if (doubts := self._doubts) is None:
            return None
        is_first = BAD_AT_ONCE_MIN <= doubts.all_clamped.bad_count == self.message_count
        if doubts.is_clamped and (is_first or doubts.all_clamped.is_long(now_ms)):
            return "all_clamped"
        is_mixed = doubts.clamped.bad_count >= RECENT_COUNT // BAD_PART and doubts.clamped.is_long(now_ms)
        return "some_clamped" if is_mixed else None

    def _cause(self) -> str | None:
        """Return why all messages have been refused; None if the outcomes indicate no cause."""
        since = self._counts_since
        if since["refused_zone"]:
            return "wrong_zone"
        if since["refused_ahead"] >= BAD_MIN and not since["late"]:
            return "clock_behind"
        if since["late"] >= BAD_MIN and not since["refused_ahead"]:
            return "all_late"
        if self._count_since(_UNREADABLE) >= self._fewest_messages and not self._count_since(_READ):
            return "wrong_profile"
        return None

    @property
    def _fewest_messages(self) -> int:
        """The smallest number of messages that is a problem if none of them counts."""
        # A topic filter with a wildcard may also match messages that are no readings.
        return max(BAD_MIN, min(2 * self._usual_count + 1, UNREADABLE_MIN))

    def refusal_counts(self, code: str) -> Counter[str]:
        """Return the refusals to which a problem is due, by the name of their counter."""
        since = self._odd if code == "some_refused" else self._counts_since
        return Counter({name: count for name, count in since.items() if name in _IDLE or name == "other"})

    def _count_since(self, names: Iterable[str]) -> int:
        return sum(self._counts_since[name] for name in names)


class Arrivals:
    """What has arrived of a stream's meters, and the judgement of it."""

    def __init__(
        self, name: str, phases: Sequence[str], max_meters: int, counts: Counts, error_max_ms: int = MINUTE_MS
    ) -> None:
        """Start; `error_max_ms` is how far the time of an accepted reading may be from its arrival."""
        self._name, self._max_meters, self._clock_error_max_ms = name, max_meters, error_max_ms
        self.now_ms, self.counts = 0, counts
        self._phases = tuple(dict.fromkeys(phases))
        self._advanced_ms: int | None = None
        self._places = {phase: place for place, phase in enumerate((None, *self._phases))}
        self._origins: dict[str, tuple[Arrival, ...]] = {}  # of each meter itself, then of its phases
        self._stray = Arrival()

    def advance_clock(self, now_ms: int, *, is_connected: bool) -> None:
        """Advance the clock to a time of the wall clock; it stands while the source is not connected."""
        if is_connected and self._advanced_ms is not None:
            self.now_ms += min(max(now_ms - self._advanced_ms, 0), STEP_MS)
        self._advanced_ms = now_ms

    def arrival_of(self, meter: str, phase: str | None = None) -> Arrival:
        """Return what has arrived of a meter or phase; beyond `max_meters` meters, it belongs to none."""
        origins = self._origins.get(meter)
        if origins is None:
            if len(self._origins) >= self._max_meters:
                return self._stray
            origins = self._origins[meter] = tuple([Arrival() for _ in self._places])
        return origins[self._places[phase]]

    def expect_meter(self, meter: str) -> None:
        """Expect readings of a meter that the store knows: its silence begins now."""
        self.arrival_of(meter).counted_ms = self.now_ms

    def count_outcome(self, arrival: Arrival | None, outcome: str, clock_error_ms: int = 0) -> None:
        """Count an outcome of an origin, if any; its time was `clock_error_ms` off the arrival."""
        if outcome in _COUNTS and abs(clock_error_ms) <= self._clock_error_max_ms:
            clock_error_ms = 0
        self.counts.add(outcome)
        (self._stray if arrival is None else arrival).note_outcome(outcome, self.now_ms, clock_error_ms)

    def note_clamped(self, meter: str) -> None:
        """Count that a meter's last reading was clamped."""
        self.counts.add("clamped")
        self.arrival_of(meter).note_clamped(self.now_ms)

    def note_event(self, meter: str, name: str) -> None:
        """Count what the use up to a meter's register reading was, by the name of its counter."""
        self.counts.add(name)
        if name in DAILY_EVENT_LIMITS:
            self._registers(self.arrival_of(meter)).note_event(name, self.now_ms)

    def note_verdict(self, arrival: Arrival, verdict: Verdict) -> None:
        """Note what a reading of an origin's register turned out to be."""
        self._registers(arrival).note_verdict(verdict, self.now_ms)

    def _registers(self, arrival: Arrival) -> RegisterFindings:
        if arrival.registers is None:
            arrival.registers = RegisterFindings()
        return arrival.registers

    def forget_meter(self, meter: str) -> None:
        """Forget a meter."""
        self._origins.pop(meter, None)

    def is_waiting(self, limits: Limits) -> bool:
        """Return whether nothing has arrived, for so short a time that this is no problem."""
        return not self._has_heard() and not self._is_silent(limits)

    def _has_heard(self) -> bool:
        arrivals = chain.from_iterable(self._origins.values())
        return any(arrival.heard_ms is not None for arrival in (self._stray, *arrivals))

    def _is_silent(self, limits: Limits) -> bool:
        return limits.first_ms is not None and self.now_ms > limits.first_ms

    def problems(self, limits: Limits) -> Iterator[Problem]:
        """Yield what is wrong, the most common first, each with the number of meters that have it."""
        if not self._has_heard():
            if self._is_silent(limits):
                yield make_problem("no_message", self._name, limit_ms=limits.first_ms or 0)
            return
        judged = {meter: self._judge(origins, limits) for meter, origins in self._meters().items()}
        if not judged and (code := self._stray.code(self.now_ms, limits)):
            judged[""] = code, [self._stray]
        for code, count in Counter(code for code, _ in judged.values() if code).most_common():
            arrivals = [arrival for key, group in judged.values() if key == code for arrival in group]
            fields = self._fields(code, arrivals, limits)
            yield make_problem(code, self._name, meters=count, of=len(judged), **fields)

    def _meters(self) -> dict[str, tuple[Arrival, ...]]:
        """Return the origins of each meter; those whose messages lack a value only if there are no others."""
        meters = {
            meter: origins
            for meter, origins in self._origins.items()
            if not all(arrival.is_no_meter for arrival in origins)
        }
        return meters or self._origins

    def _judge(self, origins: tuple[Arrival, ...], limits: Limits) -> tuple[str | None, list[Arrival]]:
        """Return what is wrong with a meter, and with which of its origins."""
        meter_arrival, *phases = origins
        newest_ms = _newest_ms(origins)
        silent = self._silent_phases(meter_arrival, phases, newest_ms, limits)
        arrivals_by_code, limits = defaultdict(list), self._own_limits(newest_ms, limits)
        for arrival in phases or [meter_arrival]:
            code = arrival.code(self.now_ms, limits) or ("phase_silent" if arrival in silent else None)
            arrivals_by_code[code].append(arrival)
        if phases:  # what is clamped is the sum, and events are noted there
            arrivals_by_code[meter_arrival.code(self.now_ms, Limits(None, None, None))].append(meter_arrival)
        code = min(filter(None, arrivals_by_code), key=CODES.index, default=None)
        return code, arrivals_by_code[code] if code else []

    def _own_limits(self, newest_ms: int, limits: Limits) -> Limits:
        """Return the limits of each phase: a silent one may stand while others go on."""
        is_standing = limits.phase_ms is None and self.now_ms - newest_ms <= (limits.meter_ms or 0)
        return limits._replace(meter_ms=None) if self._phases and is_standing else limits

    def _silent_phases(
        self, meter_arrival: Arrival, phases: list[Arrival], newest_ms: int, limits: Limits
    ) -> list[Arrival]:
        """Return the phases without which nothing of a meter counts, although others of them do."""
        unheard_phases = [arrival for arrival in phases if arrival.counted_ms is None]
        is_summed = self.now_ms - (meter_arrival.counted_ms or 0) <= (limits.phase_ms or BAD_FOR_MS)
        if is_summed or len(unheard_phases) == len(phases):
            return []
        limit_ms = limits.stands_ms if limits.phase_ms is None else limits.phase_ms
        oldest_ms = 0 if limit_ms is None else newest_ms - limit_ms
        return [arrival for arrival in phases if arrival.counted_ms is None or arrival.counted_ms < oldest_ms]

    def _fields(self, code: str, arrivals: list[Arrival], limits: Limits) -> dict[str, str | int]:
        if code == "no_readings":
            return {"limit_ms": limits.meter_ms or 0}
        if code == "phase_silent":
            return {"phases": len(self._phases)}
        if code in {"all_late", "clock_behind"}:
            errors_ms = sorted(abs(arrival.clock_error_ms) for arrival in arrivals)
            return {"off_ms": round(errors_ms[len(errors_ms) // 2], -3)}
        if code in {"wrong_profile", "none_accepted", "none_counts", "some_refused"}:
            reasons = sum((arrival.refusal_counts(code) for arrival in arrivals), Counter[str]())
            return {"reasons": " ".join(name for name, _ in reasons.most_common(3))}
        return {}

    def arrival_rows(self, limits: Limits) -> Iterator[ArrivalRow]:
        """Yield all origins, by meter and phase, with their judgement."""
        for meter, origins in sorted(self._origins.items()):
            code, arrivals = self._judge(origins, limits)
            own_limits = self._own_limits(_newest_ms(origins), limits)
            for phase, arrival in zip(self._phases or [None], origins[1:] or origins, strict=True):
                own_code = code if arrival in arrivals else arrival.code(self.now_ms, own_limits)
                heard_ago_ms, counted_ago_ms = self._ago(arrival.heard_ms), self._ago(arrival.counted_ms)
                yield ArrivalRow(meter, phase, arrival.message_count, heard_ago_ms, counted_ago_ms, own_code)

    def _ago(self, time_ms: int | None) -> int | None:
        return None if time_ms is None else self.now_ms - time_ms


def _newest_ms(origins: tuple[Arrival, ...]) -> int:
    return max(arrival.counted_ms or 0 for arrival in origins)
