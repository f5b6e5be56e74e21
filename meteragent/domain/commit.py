"""The public side: value types of what may be stored and may leave.

A commit is all that one step of the core asks the store to write, in one transaction. Everything
in it is either public (times, terms, charges) or hidden by noise that was drawn before the first
reading was added (accumulators; THEORY 3.4). A raw reading has no place in these types.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.terms import Terms
from meteragent.domain.units import ENERGY_UNIT, HOUR_MS, Kind
from meteragent.privacy.exact import round_half_up


class Slot(NamedTuple):
    """An open slot of a window: its place and *noise + dither + energy so far* (law 3)."""

    place: int
    accumulator: int


class OpenWindow(NamedTuple):
    """A window between its opening and its last slot's close.

    `noise_bound` is the secret R of THEORY 2.1, None once all n slots were drawn; `drawn` slots have had
    their uniform drawn from it, in order of their index and at most n ever; `slots` are those drawn and not
    yet closed. `topic` and `label` are where and under which name its records leave. `masked` is the place
    where the register at `covered_ms` minus the accumulator is kept: the register at the slot's start minus
    noise and dither.
    """

    start_ms: int
    terms: str
    topic: str
    label: str
    noise_bound: int | None
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
        return round_half_up(self.sum, HOUR_MS)

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
        per_ms = terms.slot_ms(place) if terms.kind is Kind.POWER else HOUR_MS
        return before._replace(
            end_ms=max(before.end_ms, window_ms + to_ms),
            sum=before.sum + quanta * terms.quantum_u * per_ms,
            variance=before.variance + (deviation * per_ms / HOUR_MS) ** 2,
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
