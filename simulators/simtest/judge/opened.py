"""The data that the invariants keep about opened windows and their messages, and the checks of these data."""

from dataclasses import dataclass, field
from typing import NamedTuple

from meteragent.domain.commit import OpenWindow
from simulators.invariant import check
from simulators.simtest.judge.crowd import ShareCheck
from simulators.simtest.judge.peak_run import PeakRun
from simulators.simtest.model.open_windows import ClosedSlot
from simulators.simtest.model.spec import WindowSpec

_CHANGED = "a slot's noise has changed, or the slot holds energy that was not measured"


class MessageKey(NamedTuple):
    """The topic and payload by which receivers distinguish messages."""

    topic: str
    payload: bytes


class Key(NamedTuple):
    """The key of a window: its stream, its meter and its start."""

    stream: str
    meter: str
    start_ms: int


@dataclass
class Window:
    """A window that was opened, with its noise and records so far.

    `public_id` is the meter's public id, and `destinations` are those of the receivers that got the window
    when it opened; `initial` holds each slot's accumulator without energy, that is, noise plus dither.
    `records` holds each slot's messages: one, or one for each receiver that gets the slot. `is_lost` says
    whether the remaining slots need not be released: the store was lost or restored, the stream was retired,
    or no receiver gets the window any longer. `lost_slots` are those of registers.
    """

    spec: WindowSpec
    public_id: str
    destinations: frozenset[tuple[str, str]]
    noise_bound: int | None = None
    draws: int = 0
    initial: dict[int, int] = field(default_factory=dict)
    records: dict[int, frozenset[MessageKey]] = field(default_factory=dict)
    is_lost: bool = False
    peak: PeakRun = field(default_factory=PeakRun)
    share: ShareCheck | None = None
    lost_slots: set[int] = field(default_factory=set)

    def lose(self, slot_index: int) -> None:
        """Note that a register's slot was lost: it has new noise, from a new noise bound."""
        self.lost_slots.add(slot_index)
        self.initial.pop(slot_index, None)

    def check_draws(self, key: Key, on_disk: OpenWindow, clock_ms: int) -> None:
        """Check when noise is drawn, and that a window has one noise bound, kept only as long as needed.

        In d_inf, each slot's noise is drawn when the slot begins, and the noise bound is kept until the last
        draw. In all other metrics there is no noise bound, and all noise is drawn when the window opens.
        """
        draws, spec = on_disk.draws, self.spec
        has_bound = on_disk.noise_bound is not None
        is_shared = not spec.is_in_all
        is_needed = is_shared and draws < spec.n
        check(has_bound == is_needed, "a noise bound is missing, or is kept without need", key)
        self.noise_bound = on_disk.noise_bound if self.noise_bound is None else self.noise_bound
        check(on_disk.noise_bound in (None, self.noise_bound), "a window has two noise bounds", key)
        starts_ms = [spec.slot_start_ms(key.start_ms, i) for i in range(spec.n)]
        begun_slots = sum(start_ms <= clock_ms for start_ms in starts_ms) if is_shared else spec.n
        check(draws <= spec.n, "a window has more draws than slots", key)
        # A restart may replace the wall clock by the event clock, which then finds slots whose noise has
        # already been drawn.
        self.draws, draws_before = draws, self.draws
        check(
            draws == max(begun_slots, draws_before, 1),
            "a slot's noise is drawn before or after the slot begins",
            key,
        )

    def check_initial(self, key: Key, slot_index: int, initial: int) -> None:
        """Check that a slot's noise and dither have not changed, and that the noise is within its bound."""
        noise, place = initial // self.spec.lattice(slot_index), (key, slot_index)
        recorded = self.initial.setdefault(slot_index, initial)
        check(recorded == initial, _CHANGED, place)
        has_bound = self.noise_bound is not None and slot_index not in self.lost_slots
        is_bounded = not has_bound or abs(noise) <= (self.noise_bound or 0)
        check(is_bounded, "the noise of a slot exceeds its bound", place)

    def check_rounding(self, key: Key, slot: ClosedSlot, quanta: int) -> None:
        """Check a record's value: floor(A / L).

        A is the accumulator, which is known if the slot was ever on disk, and L is one quantum. A peak is
        checked by `PeakRun.check_release`.
        """
        if slot.spec.is_peak:
            self.peak.check_release(slot, quanta, key)
            return
        initial, lattice = self.initial.get(slot.slot_index), slot.spec.lattice(slot.slot_index)
        if initial is not None:
            expected_quanta = (initial + (slot.energy or 0)) // lattice
            place = (key, slot.slot_index)
            check(quanta == expected_quanta, _CHANGED, place)
