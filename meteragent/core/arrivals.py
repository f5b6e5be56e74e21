"""Judge what arrives from each meter and phase: are its readings used, and if not, why?

An *origin* is a meter, or a phase of a meter. The core notes the outcome of each message and reading, but no
value, in the `OriginHistory` of its origin, in memory only. Each origin is judged by itself, so that a good
meter does not mask a bad one. `Arrivals.problems` names no meter (law 4); only `arrival_rows`, which is for
people at the device, does.
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
"""The longest step of the intake's clock: if more time has passed, the machine may have slept."""
BAD_FOR_MS = MINUTE_MS
"""How long messages must be refused, or readings clamped or doubted, before this is a problem."""
# NOTE: these six limits are guesses; false and missed problems in the field would settle them.
BAD_MIN = 3
"""The smallest number of refused messages, or clamped or doubted readings, that is a problem after
`BAD_FOR_MS`. For a wrong zone, one message is enough."""
BAD_AT_ONCE_MIN = 5
"""The number of refused messages, or clamped readings, that is a problem at once if there are no others."""
UNREADABLE_MIN = 100
"""The number of unreadable messages in a row that is a problem in any case."""
RECENT_COUNT = 32
"""How many of an origin's newest messages, readings or rises are judged together."""
RECENT_COUNT_MIN = 12
"""The smallest number of messages whose share of refused ones is judged."""
BAD_PART = 4
"""Messages, readings or rises are a problem if at least one in this many is bad."""

_ACCEPTED = {"accepted", "early"}
_READ = {"refused_ahead", "late", "duplicate"}
"""Outcomes that show that a message was decoded, so that the profile is right."""
_UNREADABLE = set(REFUSALS) - {"refused_ahead", "refused_zone", "refused_meters", "refused_unavailable"}
_REFUSED = {*REFUSALS, "late"}
_IDLE = {*_REFUSED, "duplicate"}
"""Outcomes of unused messages; duplicates are among them, because a time that never changes is a fault."""
_EMPTY = {"refused_missing", "refused_unavailable"}
"""Refusals of messages that may belong to something other than a meter."""
_UNHEARD = {"retained", "other_shard"}
"""Outcomes that do not end a silence: the message was not just sent, or is for another agent."""
_ODD = _UNREADABLE - _EMPTY
_NO_COUNTS = Counter[str]()
"""An empty counter, never changed, that all origins without counts share."""
_RECENT_BITS = (1 << RECENT_COUNT) - 1

DAILY_EVENT_LIMITS = {"register_jump": 1, "register_reset": 3}
"""The number of a meter's events in a day that is a problem, by counter; a problem's code is the counter."""

CODES = (
    *("no_message", "wrong_zone", "clock_behind", "all_late", "wrong_profile", "phase_silent", "none_counts"),
    *("no_readings", "none_accepted", "some_refused", "reading_gaps", *DAILY_EVENT_LIMITS),
    *("register_doubted", "register_steps", "all_clamped", "some_clamped"),
)
"""The codes of problems, in order of precedence: if an origin has several, the first is reported."""


class Limits(NamedTuple):
    """How long, in ms, a silence may last before it is a problem; None: for ever.

    first_ms   nothing has arrived since the start
    meter_ms   a meter's readings have stopped
    phase_ms   a phase has stopped, but others of its meter have not; None: it may be silent for `stands_ms`
    """

    first_ms: int | None
    meter_ms: int | None
    phase_ms: int | None
    stands_ms: int | None = None


class ArrivalRow(NamedTuple):
    """An origin's number of messages, the ages of the newest and of the newest used message, and its problem.

    `phase` is None for a meter without phases; `code` is None without a problem.
    """

    meter: str
    phase: str | None
    messages: int
    heard_ago_ms: int | None
    counted_ago_ms: int | None
    code: str | None


@dataclass(slots=True, eq=False)
class BadSeries:
    """A run of readings or rises that lasts while at least one in `part` of the newest is bad."""

    part: int
    bad_count: int = 0
    since_ms: int = 0
    _bits: int = 0
    _count: int = 0

    def note_bad(self, now_ms: int, *, is_bad: bool) -> None:
        """Note a reading or rise; end the run if too few of the newest are bad."""
        if not self.bad_count:
            self._bits = self._count = 0
            self.since_ms = now_ms
        self._bits = (self._bits << 1 | is_bad) & _RECENT_BITS
        self._count = min(self._count + 1, RECENT_COUNT)
        is_going_on = self.part * self._bits.bit_count() >= self._count
        self.bad_count = self.bad_count + is_bad if is_going_on else 0

    def is_long(self, now_ms: int) -> bool:
        """Return whether at least `BAD_MIN` were bad, over at least `BAD_FOR_MS`."""
        return self.bad_count >= BAD_MIN and now_ms - self.since_ms >= BAD_FOR_MS


@dataclass(slots=True, eq=False)
class RegisterFindings:
    """The verdicts on an origin's register readings, and the problem that follows from them."""

    _events_ms: dict[str, list[int]] = field(default_factory=dict)
    _doubted: BadSeries = field(default_factory=partial(BadSeries, 1))
    _contradicted: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    _outside: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    _is_high: bool = False
    _still_count: int = 0  # readings without use since the rises exceeded the range

    def note_event(self, name: str, now_ms: int) -> None:
        """Note an event of `DAILY_EVENT_LIMITS`."""
        self._events_ms[name] = [*self._events_ms.get(name, ()), now_ms][-DAILY_EVENT_LIMITS[name] :]

    def note_verdict(self, verdict: Verdict, now_ms: int) -> None:
        """Note a verdict; in a run of doubted readings, only the first one counts as contradicted."""
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
        """Return the problem's code, one of `CODES`; None without a problem."""
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
    """The wrong times and clamped values among an origin's used readings."""

    clock_errors: BadSeries = field(default_factory=partial(BadSeries, 1))
    clamped: BadSeries = field(default_factory=partial(BadSeries, BAD_PART))
    all_clamped: BadSeries = field(default_factory=partial(BadSeries, 1))
    is_clamped: bool = False  # whether the last reading was clamped; noted after its acceptance

    def note_counted(self, now_ms: int, *, is_off: bool) -> bool:
        """Note a used reading, and whether the previous one was clamped; return whether doubts remain."""
        self.clock_errors.note_bad(now_ms, is_bad=is_off)
        if not self.is_clamped:
            self.all_clamped.note_bad(now_ms, is_bad=False)
        self.clamped.note_bad(now_ms, is_bad=self.is_clamped)
        self.is_clamped = False
        return bool(self.clock_errors.bad_count or self.clamped.bad_count or self.all_clamped.bad_count)


@dataclass(slots=True, eq=False)
class OriginHistory:
    """What has arrived from one origin since the agent started; times are those of the intake's clock."""

    message_count: int = 0
    heard_ms: int | None = None
    counted_ms: int | None = None
    clock_error_ms: int = 0
    registers: RegisterFindings | None = None
    gaps_ms: int = 0
    apart_ms: int = 0  # how far apart readings were at `gaps_ms`, if they leave gaps
    _counts_since: Counter[str] = field(default_factory=lambda: _NO_COUNTS)  # since a reading was used
    _first_ms: int | None = None
    _idle_ms: int | None = None
    _usual_count: int = 0
    _recent: int = 0  # a bit for each of the newest messages, set if its outcome is in `_ODD`
    _odd: Counter[str] = field(default_factory=lambda: _NO_COUNTS)
    _doubts: Doubts | None = None  # None unless a recent time or value was bad

    def note_outcome(self, outcome: str, now_ms: int, clock_error_ms: int = 0) -> None:
        """Note a reading's outcome, a counter's name; `clock_error_ms` is its time minus its arrival."""
        if clock_error_ms:
            self.clock_error_ms = clock_error_ms
        if outcome in _ACCEPTED:
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
        """Whether none of the messages contained a value."""
        return self.counted_ms is None and set(self._counts_since) <= _EMPTY | _UNHEARD | {"other"}

    def code(self, now_ms: int, limits: Limits) -> str | None:
        """Return the problem's code, one of `CODES`; None without a problem."""
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
        """Return the code if messages are no longer accepted, or if accepted times are wrong."""
        if self.counted_ms is None:
            return None
        is_long = self._idle_ms is not None and now_ms - self._idle_ms > limit_ms
        if is_long and self._count_since(_IDLE) >= self._fewest_messages:
            return "none_counts"
        if self._doubts is not None and self._doubts.clock_errors.is_long(now_ms):
            return "all_late" if self.clock_error_ms < 0 else "clock_behind"
        return None

    def _value_code(self, now_ms: int) -> str | None:
        """Return the code if accepted readings leave gaps, or their values are wrong."""
        if now_ms - self.gaps_ms < BAD_PART * self.apart_ms:  # gaps that recur are noted again by then
            return "reading_gaps"
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
        """Return the code of the cause of the refusals; None if the outcomes do not show one."""
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
        """The smallest number of messages that is a problem if none of them is used."""
        # A topic filter with a wildcard may also match messages that are no readings.
        return max(BAD_MIN, min(2 * self._usual_count + 1, UNREADABLE_MIN))

    def refusal_counts(self, code: str) -> Counter[str]:
        """Return how many refusals explain a problem, by the name of their counter."""
        since = self._odd if code == "some_refused" else self._counts_since
        return Counter({name: count for name, count in since.items() if name in _IDLE or name == "other"})

    def _count_since(self, names: Iterable[str]) -> int:
        return sum(self._counts_since[name] for name in names)


class Arrivals:
    """What has arrived from a stream's meters, and the problems with it."""

    def __init__(
        self, name: str, phases: Sequence[str], max_meters: int, counts: Counts, error_max_ms: int = MINUTE_MS
    ) -> None:
        """Start without meters; an accepted reading's time may be up to `error_max_ms` off its arrival."""
        self._name, self._max_meters, self._clock_error_max_ms = name, max_meters, error_max_ms
        self.now_ms, self.counts = 0, counts
        self._phases = tuple(dict.fromkeys(phases))
        self._advanced_ms: int | None = None
        self._places = {phase: place for place, phase in enumerate((None, *self._phases))}
        self._origins: dict[str, tuple[OriginHistory, ...]] = {}  # by meter: its own, then each phase's
        self._stray = OriginHistory()

    def advance_clock(self, now_ms: int, *, is_connected: bool) -> None:
        """Advance the intake's clock to the wall clock's time; it stops while the source is disconnected."""
        if is_connected and self._advanced_ms is not None:
            self.now_ms += min(max(now_ms - self._advanced_ms, 0), STEP_MS)
        self._advanced_ms = now_ms

    def history_of(self, meter: str, phase: str | None = None) -> OriginHistory:
        """Return the history of a meter or phase; all meters beyond `max_meters` share one history."""
        origins = self._origins.get(meter)
        if origins is None:
            if len(self._origins) >= self._max_meters:
                return self._stray
            origins = self._origins[meter] = tuple([OriginHistory() for _ in self._places])
        return origins[self._places[phase]]

    def expect_meter(self, meter: str) -> None:
        """Expect readings from a meter known from the store, so that its silence is measured from now."""
        self.history_of(meter).counted_ms = self.now_ms

    def count_outcome(self, history: OriginHistory | None, outcome: str, clock_error_ms: int = 0) -> None:
        """Count a reading's outcome, and note it for its origin, if any; see `OriginHistory.note_outcome`."""
        if outcome in _ACCEPTED and abs(clock_error_ms) <= self._clock_error_max_ms:
            clock_error_ms = 0
        self.counts.add(outcome)
        (self._stray if history is None else history).note_outcome(outcome, self.now_ms, clock_error_ms)

    def note_clamped(self, meter: str) -> None:
        """Count and note that a meter's last reading was clamped."""
        self.counts.add("clamped")
        self.history_of(meter).note_clamped(self.now_ms)

    def note_event(self, meter: str, name: str) -> None:
        """Count an event of a meter's register, such as a reset, by the name of its counter."""
        self.counts.add(name)
        if name in DAILY_EVENT_LIMITS:
            self._registers(self.history_of(meter)).note_event(name, self.now_ms)

    def note_gaps(self, meter: str, apart_ms: int) -> None:
        """Note that a meter's readings, which are `apart_ms` apart, leave gaps that are a problem."""
        history = self.history_of(meter)
        history.gaps_ms, history.apart_ms = self.now_ms, apart_ms

    def note_verdict(self, history: OriginHistory, verdict: Verdict) -> None:
        """Note a verdict on a reading of an origin's register."""
        self._registers(history).note_verdict(verdict, self.now_ms)

    def _registers(self, history: OriginHistory) -> RegisterFindings:
        if history.registers is None:
            history.registers = RegisterFindings()
        return history.registers

    def forget_meter(self, meter: str) -> None:
        """Forget a meter."""
        self._origins.pop(meter, None)

    def is_waiting(self, limits: Limits) -> bool:
        """Return whether nothing has arrived yet, and too little time has passed for this to be a problem."""
        return not self._has_heard() and not self._is_silent(limits)

    def _has_heard(self) -> bool:
        histories = chain.from_iterable(self._origins.values())
        return any(history.heard_ms is not None for history in (self._stray, *histories))

    def _is_silent(self, limits: Limits) -> bool:
        return limits.first_ms is not None and self.now_ms > limits.first_ms

    def problems(self, limits: Limits) -> Iterator[Problem]:
        """Yield the problems, the most common first, each with the number of affected meters."""
        if not self._has_heard():
            if self._is_silent(limits):
                yield make_problem("no_message", self._name, limit_ms=limits.first_ms or 0)
            return
        judged = {meter: self._judge(origins, limits) for meter, origins in self._meters().items()}
        if not judged and (code := self._stray.code(self.now_ms, limits)):
            judged[""] = code, [self._stray]
        for code, count in Counter(code for code, _ in judged.values() if code).most_common():
            histories = [history for key, group in judged.values() if key == code for history in group]
            fields = self._fields(code, histories, limits)
            yield make_problem(code, self._name, meters=count, of=len(judged), **fields)

    def _meters(self) -> dict[str, tuple[OriginHistory, ...]]:
        """Return the origins of each meter; skip meters that sent no values, unless no meter did."""
        meters = {
            meter: origins
            for meter, origins in self._origins.items()
            if not all(history.is_no_meter for history in origins)
        }
        return meters or self._origins

    def _judge(
        self, origins: tuple[OriginHistory, ...], limits: Limits
    ) -> tuple[str | None, list[OriginHistory]]:
        """Return the code of a meter's problem, if any, and those of its origins that have it."""
        meter_history, *phases = origins
        silent = self._silent_phases(origins, limits)
        histories_by_code, limits = defaultdict(list), self._own_limits(origins, limits)
        for history in phases or [meter_history]:
            code = history.code(self.now_ms, limits) or ("phase_silent" if history in silent else None)
            histories_by_code[code].append(history)
        if phases:  # clamping and events concern the sum of the phases
            histories_by_code[meter_history.code(self.now_ms, Limits(None, None, None))].append(meter_history)
        code = min(filter(None, histories_by_code), key=CODES.index, default=None)
        return code, histories_by_code[code] if code else []

    def _own_limits(self, origins: tuple[OriginHistory, ...], limits: Limits) -> Limits:
        """Return a phase's limits; while another phase is heard, one that may be silent has no `meter_ms`."""
        is_standing = limits.phase_ms is None and self.now_ms - _newest_ms(origins) <= (limits.meter_ms or 0)
        return limits._replace(meter_ms=None) if self._phases and is_standing else limits

    def _silent_phases(self, origins: tuple[OriginHistory, ...], limits: Limits) -> list[OriginHistory]:
        """Return the silent phases that prevent a sum of a meter's phases."""
        meter_history, *phases = origins
        unheard_phases = [history for history in phases if history.counted_ms is None]
        is_summed = self.now_ms - (meter_history.counted_ms or 0) <= (limits.phase_ms or BAD_FOR_MS)
        if is_summed or len(unheard_phases) == len(phases):
            return []
        limit_ms = limits.stands_ms if limits.phase_ms is None else limits.phase_ms
        oldest_ms = 0 if limit_ms is None else _newest_ms(origins) - limit_ms
        return [history for history in phases if history.counted_ms is None or history.counted_ms < oldest_ms]

    def _fields(self, code: str, histories: list[OriginHistory], limits: Limits) -> dict[str, str | int]:
        if code == "no_readings":
            return {"limit_ms": limits.meter_ms or 0}
        if code == "reading_gaps":
            return {"apart_ms": round(max(history.apart_ms for history in histories), -3)}
        if code == "phase_silent":
            return {"phases": len(self._phases)}
        if code in {"all_late", "clock_behind"}:
            errors_ms = sorted(abs(history.clock_error_ms) for history in histories)
            return {"off_ms": round(errors_ms[len(errors_ms) // 2], -3)}
        if code in {"wrong_profile", "none_accepted", "none_counts", "some_refused"}:
            reasons = sum((history.refusal_counts(code) for history in histories), Counter[str]())
            return {"reasons": " ".join(name for name, _ in reasons.most_common(3))}
        return {}

    def arrival_rows(self, limits: Limits) -> Iterator[ArrivalRow]:
        """Yield a row for each origin, in order of meter and phase."""
        for meter, origins in sorted(self._origins.items()):
            code, histories = self._judge(origins, limits)
            own_limits = self._own_limits(origins, limits)
            for phase, history in zip(self._phases or [None], origins[1:] or origins, strict=True):
                own_code = code if history in histories else history.code(self.now_ms, own_limits)
                heard_ago_ms, counted_ago_ms = self._ago(history.heard_ms), self._ago(history.counted_ms)
                yield ArrivalRow(meter, phase, history.message_count, heard_ago_ms, counted_ago_ms, own_code)

    def _ago(self, time_ms: int | None) -> int | None:
        return None if time_ms is None else self.now_ms - time_ms


def _newest_ms(origins: tuple[OriginHistory, ...]) -> int:
    return max(history.counted_ms or 0 for history in origins)
