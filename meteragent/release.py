"""The public side: value types of what may be stored and may leave.

A commit is all that one step of the core asks the store to write, in one transaction. Everything
in it is either public (times, terms, charges) or hidden by noise that was drawn before the first
reading was added (accumulators; THEORY 3.4). A raw reading has no place in these types.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

MICRO = 10**6
"""Values are whole millionths of the unit (names end in `_u`)."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class Kind(StrEnum):
    """What a reading means; stated, never guessed (law 5)."""

    POWER = "power"
    INTERVAL_ENERGY = "interval_energy"
    REGISTER = "register"


class Clock(StrEnum):
    """Whose time opens and closes windows: the wall clock, or each meter's newest timestamp."""

    WALL = "wall"
    EVENT = "event"


class Space(StrEnum):
    """What the slots of a window are: a vector, the blocks of a curve, or the bands of a mean day."""

    LINF = "linf"
    CURVE = "curve"
    PROFILE = "profile"


Rounding = Literal["half-up", "dithered"]
"""How a slot's energy S becomes whole quanta of L accumulator units: floor(S / L + 1/2), or
floor((S + u) / L) with u uniform on {0, ..., L - 1}, which is S / L on average (THEORY-2 A.1)."""


class Band(NamedTuple):
    """Hours of the day as one slot, and where it lies: (from, to) in ms after its window's start."""

    name: str
    stretches: tuple[tuple[int, int], ...]


UNIT_FACTOR = {"W": 1, "kW": 1000, "Wh": 1, "kWh": 1000}
"""How many W or Wh one of the unit is."""

ENERGY_UNIT = {"W": "Wh", "kW": "kWh", "Wh": "Wh", "kWh": "kWh"}
"""The energy that one of the unit is, over an hour if it is a power."""

UNITS = {Kind.POWER: ("W", "kW"), Kind.INTERVAL_ENERGY: ("Wh", "kWh"), Kind.REGISTER: ("Wh", "kWh")}
"""The units that fit a kind."""


_CAME_LATER = (", rounding='half-up'", ", every_ms=None", ", dead_band=None", ", counters=1")


@dataclass(frozen=True)  # without slots: what follows from the fields is worked out once
class Terms:
    """The terms of a release: a window finishes under those it opened with (law 1).

    `radius` and `quantum_u` (millionths) are in the stream's unit; epsilon = level / radius.
    `hold_ms` is used by power (how long a reading stands), `interval_ms` by interval energy (what
    a reading covers) and by a register (the hour that its rates are per). `gap_u`, `low_u`, `high_u` are
    a reading's value where there is none and the range it is clamped to, in millionths of the unit (of
    a register, per hour).

    A window's slots are equal stretches of `step_ms`, or `bands`, in the order in which they begin; then
    `step_ms` is what the shortest of them lasts in all. `timezone` is that of the local calendar.
    `others_per_day` is what the meter's other streams charge it on a day, as epsilon in 1/W. `modulus_u` is
    where a register begins again at 0, if that is known. `rounding` is how a slot's value becomes whole
    quanta; stored terms and descriptors without it are half-up.

    `every_ms` is how far apart readings are at most (0: they are sent on change), `dead_band` how far the
    power may be from what was sent last, or the step in which an energy is counted, in the unit; None: not
    known. `counters` are truncated and summed in one number.
    """

    kind: Kind
    unit: str
    clock: Clock
    length_ms: int
    step_ms: int
    lateness_ms: int
    level: Fraction
    radius: Fraction
    quantum_u: int
    hold_ms: int
    interval_ms: int
    gap_u: int
    low_u: int
    high_u: int
    preset: str | None = None
    space: Space = Space.LINF
    timezone: str | None = None
    bands: tuple[Band, ...] = ()
    others_per_day: Fraction = Fraction(0)
    modulus_u: int | None = None
    rounding: Rounding = "half-up"
    every_ms: int | None = None
    dead_band: Fraction | None = None
    counters: int = 1

    @cached_property
    def id(self) -> str:
        """A name for exactly these terms: 16 hex digits.

        What has the default of a field that came later has no part in it: stores keep the names they gave.
        """
        named = repr(self)
        for default in _CAME_LATER:
            named = named.replace(default, "")
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    @cached_property
    def n(self) -> int:
        """Slots in a window."""
        return len(self.bands) or self.length_ms // self.step_ms

    def stretches(self, place: int) -> tuple[tuple[int, int], ...]:
        """Where a slot lies in its window: (from, to) in ms after the window's start, in order."""
        if self.bands:
            return self.bands[place].stretches
        return ((place * self.step_ms, (place + 1) * self.step_ms),)

    def slot_ms(self, place: int) -> int:
        """How long a slot lasts in all."""
        if not self.bands:
            return self.step_ms
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches(place))

    @cached_property
    def epsilon(self) -> Fraction:
        """The privacy parameter, in 1/unit: level / radius (DESIGN 2)."""
        return self.level / self.radius

    @cached_property
    def quantum(self) -> Fraction:
        """The lattice of slot values, in the unit."""
        return Fraction(self.quantum_u, MICRO)

    def lattice(self, place: int) -> int:
        """One quantum in a slot's accumulator (THEORY 3.4's q*T).

        A slot's value is sum(value * duration) / T, T the slot for power (a mean) and the interval for
        energy (a sum), so an accumulator counts in millionths of the unit times milliseconds.
        """
        return self.quantum_u * (self.slot_ms(place) if self.kind is Kind.POWER else self.interval_ms)

    @property
    def radius_w(self) -> Fraction:
        """The radius as power over a slot, in W; of bands that are energies, over the longest."""
        base = self.radius * UNIT_FACTOR[self.unit]
        if self.kind is Kind.POWER:
            return base
        return base * _HOUR_MS / max(map(self.slot_ms, range(len(self.bands))), default=self.step_ms)

    @property
    def hides_wh(self) -> Fraction:
        """The energy moved within a slot that is hidden: radius * step (THEORY 3.5)."""
        base = self.radius * UNIT_FACTOR[self.unit]
        return base * self.step_ms / _HOUR_MS if self.kind is Kind.POWER else base

    @cached_property
    def epsilon_per_w(self) -> Fraction:
        """The charge of one window in 1/W, the one unit in which charges of streams add."""
        return self.level / self.radius_w

    @property
    def per_day(self) -> Fraction:
        """What a meter is charged on a day of 24 hours, as epsilon in 1/W."""
        return self.epsilon_per_w * _DAY_MS / self.length_ms


class Slot(NamedTuple):
    """An open slot of a window: its place and *noise + dither + energy so far* (law 3)."""

    place: int
    accumulator: int


class OpenWindow(NamedTuple):
    """A window between its opening and its last slot's close.

    `radius` is the secret R of THEORY 2.1, None once all n slots were drawn; `drawn` slots have had their
    uniform drawn from it, in order of their index and at most n ever; `slots` are those drawn and not yet
    closed. `topic` and `label` are where and under which name its records leave. `masked` is the place where
    the register at `covered_ms` minus the accumulator is kept: the register at the slot's start minus noise
    and dither.
    """

    start_ms: int
    terms: str
    topic: str
    label: str
    radius: int | None
    drawn: int
    slots: tuple[Slot, ...]
    masked: int | None = None


class TimelineState(NamedTuple):
    """What a restart needs of one meter of one stream.

    Time before `covered_ms` has been accounted for; `standing_ms` is the time of the newest
    reading that took part in that (earlier ones are wholly covered); `newest_ms` the newest
    timestamp accepted; `next_ms` where the next window starts; `idle` how many windows have
    opened since the last accepted reading.
    """

    covered_ms: int
    standing_ms: int | None
    newest_ms: int | None
    next_ms: int
    idle: int
    windows: tuple[OpenWindow, ...]


class Total(NamedTuple):
    """The running sum of all that left under a name since `since_ms`, up to `end_ms` without a hole.

    `sum` is in millionths of `unit` (an energy) times milliseconds, over an hour; `variance` that of its
    noise, in the unit squared.
    """

    since_ms: int
    end_ms: int
    unit: str
    sum: int
    variance: float

    @property
    def value_u(self) -> int:
        """The sum in millionths of the unit, rounded: floor(x + 1/2)."""
        return (2 * self.sum + _HOUR_MS) // (2 * _HOUR_MS)

    @classmethod
    def after(
        cls, before: "Total | None", terms: Terms, window_ms: int, place: int, left: tuple[int, float]
    ) -> "Total":
        """The sum with one more slot of a window that left, as quanta and standard deviation.

        It begins anew where a slot is missing before, or the unit is another.
        """
        (from_ms, _), *_ = terms.stretches(place)
        to_ms = terms.stretches(place)[-1][1]
        if terms.bands:
            from_ms, to_ms = 0, terms.length_ms
        unit = ENERGY_UNIT[terms.unit]
        if before is None or before.unit != unit or window_ms + from_ms > before.end_ms:
            before = cls(window_ms + from_ms, window_ms + from_ms, unit, 0, 0.0)
        quanta, deviation = left
        per_ms = terms.slot_ms(place) if terms.kind is Kind.POWER else _HOUR_MS
        return before._replace(
            end_ms=max(before.end_ms, window_ms + to_ms),
            sum=before.sum + quanta * terms.quantum_u * per_ms,
            variance=before.variance + (deviation * per_ms / _HOUR_MS) ** 2,
        )


class Outgoing(NamedTuple):
    """A message that will leave, byte for byte: not before `due_ms` (wall clock)."""

    topic: str
    payload: bytes
    due_ms: int
    retain: bool


class Descriptor(NamedTuple):
    """The latest descriptor of a sink topic, sent again at every connect (retained)."""

    topic: str
    id: str
    payload: bytes


class Charge(NamedTuple):
    """A kind of window that was opened: on a UTC day (its start, ms), at epsilon in 1/W."""

    day_ms: int
    epsilon_per_w: Fraction


@dataclass(slots=True)
class Commit:
    """What one step of the core asks the store to write in one transaction.

    `marks`: per meter, the end of the last interval ever opened (law 1; never lowered).
    `charges`: how many windows of each kind were opened, by meter (law 2).
    `states`: per meter, its new state; None deletes it (the meter is forgotten). They are in the order in
    which something came to their meters, as are their rows in the store: who reports together lies together.
    `terms`: terms that a state refers to, by id; `descriptors`: new ones; `outgoing`: in order. `totals`:
    running totals by the name under which a meter leaves.
    """

    channel: str
    clock_ms: int
    marks: dict[str, int] = field(default_factory=dict)
    charges: dict[Charge, Counter[str]] = field(default_factory=dict)
    states: dict[str, TimelineState | None] = field(default_factory=dict)
    terms: dict[str, Terms] = field(default_factory=dict)
    descriptors: list[Descriptor] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    totals: dict[str, Total] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.marks or self.charges or self.states or self.outgoing or self.descriptors)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the store knows of one channel when the agent starts.

    `floor_ms`: no window of any meter opens before it (after a lost or restored store);
    `announced`: the id of the latest descriptor of each sink topic; `totals`: by the name of a meter.
    """

    marks: dict[str, int]
    states: dict[str, TimelineState]
    terms: dict[str, Terms]
    floor_ms: int = 0
    announced: dict[str, str] = field(default_factory=dict)
    totals: dict[str, Total] = field(default_factory=dict)
