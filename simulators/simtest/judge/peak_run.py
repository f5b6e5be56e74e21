"""The accumulator that a peak must have on disk, computed from the largest part's energy and the noise.

Each process draws new noise. The accumulator is the largest, over the processes, of the noise plus the energy
of the largest part that the process has seen.
"""

from dataclasses import dataclass

from meteragent.domain.commit import OpenWindow
from simulators.invariant import check
from simulators.simtest.model.meter import Meter
from simulators.simtest.model.open_windows import ClosedSlot


@dataclass
class PeakRun:
    """The noise of a peak's window in one process.

    `draws` counts the draws in all processes. `before` is the accumulator with which the process began, or
    None if the process opened the window. `mask` is noise plus dither, or None until an accumulator reveals
    it; until then `mask_max` is an upper bound on `mask`, or None if no bound is known.
    """

    draws: int = 1
    before: int | None = None
    mask: int | None = None
    mask_max: int | None = None

    def resume(self, accumulator: int) -> None:
        """Begin a new process with the accumulator on disk."""
        self.before, self.mask, self.mask_max = accumulator, None, None

    def check_state(self, meter: Meter, on_disk: OpenWindow, key: object) -> None:
        """Check law 3: the one number on disk is the largest sum of noise and a part's energy so far."""
        [window] = [window for window in meter.windows if window.start_ms == on_disk.start_ms]
        [(slot_index, accumulator)] = on_disk.slots
        energy = window.largest_energy(meter.covered_ms, meter.energy)
        check(on_disk.draws == self.draws, "a peak's noise is drawn without a charge, or too late", key)
        check((slot_index, on_disk.noise_bound) == (0, None), "a peak's state is more than one number", key)
        check(self._is_possible(accumulator, energy), "a peak is not its noise plus the largest part", key)

    def _is_possible(self, accumulator: int, energy: int | None) -> bool:
        """Return whether an accumulator can be the larger of `before` and mask + energy; record the mask."""
        if energy is None:
            return accumulator == self.before
        if self.mask is not None:
            return accumulator == max(self.mask + energy, accumulator if self.before is None else self.before)
        if self.before is None or accumulator > self.before:
            self.mask = accumulator - energy
            return self.mask_max is None or self.mask <= self.mask_max
        mask_max = accumulator - energy
        self.mask_max = mask_max if self.mask_max is None else min(mask_max, self.mask_max)
        return accumulator == self.before

    def check_release(self, slot: ClosedSlot, quanta: int, key: object) -> None:
        """Check the released value, in quanta, as far as the noise is known."""
        lattice, accumulators = slot.spec.lattice(0), [] if self.before is None else [self.before]
        if self.mask is not None and slot.energy is not None:
            accumulators.append(self.mask + slot.energy)
        is_known = self.mask is not None or slot.energy is None
        lowest = max((accumulator // lattice for accumulator in accumulators), default=quanta)
        is_possible = quanta == lowest or (not is_known and quanta > lowest)
        check(is_possible, "a peak is not its noise plus the largest part", key)
