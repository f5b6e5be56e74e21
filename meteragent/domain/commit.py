"""The types of all values that may be stored or sent. None of them can hold a raw reading.

Each item of a commit is public (times, terms, charges), hidden by noise that was drawn before any reading was
added (accumulators; THEORY 3.4), or independent of the readings (noise bounds, sealed pads).
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain import identity
from meteragent.domain.prices import Price
from meteragent.domain.terms import Terms
from meteragent.domain.units import ENERGY_UNIT, HOUR_MS
from meteragent.privacy.exact import round_half_up


class Slot(NamedTuple):
    """A slot's index, and *noise + dither + energy so far* (law 3); in a peak, the largest part's energy."""

    slot_index: int
    accumulator: int


class SealedPad(NamedTuple):
    """The pad of a crowd's slot, which only the helper can open, together with the operators' keys.

    `helper_key` is only the id of the helper's key. `leader_public` is the leader's public key itself, so
    that an agent that restarts after midnight can close the previous day's last slot.
    """

    helper_key: bytes
    pad: bytes
    leader_public: bytes


class Destination(NamedTuple):
    """Where a meter's messages for one receiver go: the receiver's queue in the outbox, and a sink topic."""

    queue: str
    topic: str


class OpenWindow(NamedTuple):
    """A window from its opening until its last slot closes.

    Its records are sent under the name `public_id` to `destinations`, which are fixed when the window opens.
    `noise_bound` is the secret R of THEORY 2.1; it is None once noise has been drawn for all n slots, and
    always in l1 and in crowds. Noise is drawn for the slots in the order of their indices; `draws` is the
    number of slots that have noise or, in a peak, the number of draws for its one slot. The open slot
    `masked_slot`, if any, holds a difference instead of an accumulator: the register at the newest integrated
    reading minus the accumulator, which is the register at the slot's start minus noise and dither.
    `sealed_pad` is the pad of a crowd's slot, whose accumulator starts with the negated pad, not with noise.
    """

    start_ms: int
    terms_id: str
    destinations: tuple[Destination, ...]
    public_id: str
    noise_bound: int | None
    draws: int
    slots: tuple[Slot, ...]
    masked_slot: int | None = None
    sealed_pad: SealedPad | None = None


class TimelineState(NamedTuple):
    """The state of one meter of one stream, as needed after a restart.

    All energy used before `integrated_until_ms` has been added to the slots. `standing_ms` is the time of the
    newest reading at or before that time, whose span may end later, and `newest_ms` the newest accepted
    timestamp; before any reading, both are None. `next_ms` is the start of the next window, and
    `idle_windows` the number of windows begun since the last reading.
    """

    integrated_until_ms: int
    standing_ms: int | None
    newest_ms: int | None
    next_ms: int
    idle_windows: int
    windows: tuple[OpenWindow, ...]


class Total(NamedTuple):
    """The running sum of all records under a public name from `since_ms` to `end_ms`, without gaps.

    `sum` is `HOUR_MS` times the energy in millionths of `unit`; `variance` is the variance of that energy's
    noise, in `unit`^2.
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
    def add_slot(
        cls,
        total: "Total | None",
        terms: Terms,
        window_start_ms: int,
        slot_index: int,
        release: tuple[int, float],
    ) -> "Total":
        """Return `total` plus a released slot; `release` is (quanta, standard deviation).

        The sum starts again at 0 if `total` is None, an earlier slot is missing, or the unit has changed.
        """
        from_ms, to_ms = terms.shape.extent_ms(slot_index)
        unit = ENERGY_UNIT[terms.readings.unit]
        if total is None or total.unit != unit or window_start_ms + from_ms > total.end_ms:
            total = cls(window_start_ms + from_ms, window_start_ms + from_ms, unit, 0, 0.0)
        quanta, deviation = release
        per_ms = HOUR_MS if terms.is_energy else terms.slot_ms(slot_index)
        return total._replace(
            end_ms=max(total.end_ms, window_start_ms + to_ms),
            sum=total.sum + quanta * terms.quantum_u * per_ms,
            variance=total.variance + (deviation * per_ms / HOUR_MS) ** 2,
        )


class ReleasedSlot(NamedTuple):
    """A released slot: its descriptor's id, the start of its window, and the slot's end."""

    descriptor_id: str
    window_ms: int
    end_ms: int


class Outgoing(NamedTuple):
    """A message to send to a receiver, byte for byte, at `due_ms` (wall clock) or later.

    `queue` is the receiver's queue in the outbox. `slot` is set only for a slot's record or report.
    `until_ms` is set only for a report to a crowd, which must not be sent at or after this time.
    """

    queue: str
    topic: str
    payload: bytes
    due_ms: int
    retain: bool
    slot: ReleasedSlot | None = None
    until_ms: int | None = None


class Descriptor(NamedTuple):
    """The latest descriptor of a receiver's topic, which is retained and sent again on each connection."""

    queue: str
    topic: str
    id: str
    payload: bytes


class Charge(NamedTuple):
    """A charge: the start of the UTC day to which it belongs, and epsilon in 1/W.

    The day is that of the window's start or, if a peak's noise is drawn again, of its last integrated part.
    """

    day_ms: int
    epsilon_per_w: Fraction


@dataclass(slots=True)
class Commit:
    """Everything that one step of the core asks the store to write in one transaction.

    `marks`: for each meter, the time before which none of its windows opens any more (law 1; never lowered).
    `charges`: how many windows opened, and how many peaks drew noise again, by charge and meter (law 2).
    `redrawn`: the meters charged for a peak whose noise was drawn again after a restart. `states`: the new
    state of each meter, or None to delete the state of a forgotten meter, in the order in which the meters'
    messages arrived, so that meters that report together share pages of the database. `terms`: the terms to
    which states refer, by id. `outgoing`: the messages to send, in order. `totals`: running totals by public
    name. `prices`: all prices of the stream that are still needed, or None if they have not changed.
    """

    stream: str
    clock_ms: int
    marks: dict[str, int] = field(default_factory=dict)
    charges: dict[Charge, Counter[str]] = field(default_factory=dict)
    redrawn: set[str] = field(default_factory=set)
    states: dict[str, TimelineState | None] = field(default_factory=dict)
    terms: dict[str, Terms] = field(default_factory=dict)
    descriptors: list[Descriptor] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    totals: dict[str, Total] = field(default_factory=dict)
    prices: tuple[Price, ...] | None = None

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        rows = self.marks or self.charges or self.states or self.outgoing or self.descriptors
        return bool(rows) or self.prices is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of the store for one stream when the agent starts.

    `floor_ms`: the time before which no window of any meter opens because a store was lost or restored, or 0.
    `announced`: the id of the latest descriptor at each destination. The other fields are as in `Commit`.
    """

    marks: dict[str, int]
    states: dict[str, TimelineState]
    terms: dict[str, Terms]
    floor_ms: int = 0
    announced: dict[Destination, str] = field(default_factory=dict)
    totals: dict[str, Total] = field(default_factory=dict)
    prices: tuple[Price, ...] = ()


class Receiver(NamedTuple):
    """A receiver of a stream, and the period for which it gets the stream; all of this is public (law 4).

    It gets windows that start at or after `since_ms`, and in these windows the slots that end by `until_ms`,
    if that is set. A stream's sink gets everything. `queue` names the receiver's queue in the outbox, and
    `topic` is the template of its topics.
    """

    queue: str
    topic: str
    since_ms: int = 0
    until_ms: int | None = None

    def has_slot(self, window_ms: int, end_ms: int) -> bool:
        """Return whether the receiver gets a slot, given the start of its window and the slot's own end."""
        return window_ms >= self.since_ms and (self.until_ms is None or end_ms <= self.until_ms)

    def destination(self, public_id: str) -> Destination:
        """Return the destination of the messages about a meter."""
        return Destination(self.queue, identity.render_topic(self.topic, public_id))


class Budget(NamedTuple):
    """The largest sum of a meter's charges (1/W) in each period of `period_ms`, in whole UTC days."""

    epsilon_per_w: Fraction
    period_ms: int
