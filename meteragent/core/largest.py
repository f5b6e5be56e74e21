"""A window that releases the largest mean power of any of its parts, such as quarter hours.

Theory of operation
-------------------
The window has one slot. Let z be its noise, u its dither, L one quantum in accumulator units, and S_k the
energy of part k in the same units. The accumulator is

    A = z * L + u + max_k S_k,    released: floor(A / L)

where the maximum is over the parts that have ended. Before the first part has ended, the maximum is the lower
limit of the range times the length of a part. Further parts can be included only with the mask z * L + u. But
A minus the mask is the measured energy of a part, so the store must not hold both A and the mask (theory
A.13). The store keeps A alone, and the mask exists only in memory. Nothing of the open part is stored either:
time is integrated in whole parts (`integrable_until_ms`), and the readings of a part are pending until the
part ends, so that the broker delivers them again after a crash.

After a restart the mask is gone. When the first part after the restart ends, a new mask is drawn and charged
like a new window on the day of that part, and A becomes the larger of A and the new mask plus the part's
energy. Of several parts that are integrated together, only the largest energy is used, and it is charged on
the day of the last part. `draws` counts the masks, and the record states this number.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from meteragent.core.window import Value, Window
from meteragent.domain.commit import OpenWindow


@dataclass(slots=True)
class LargestWindow(Window):
    """An open window that releases the largest of its parts.

    mask             z * L + u; None until noise is drawn, both when the window opens and after a restart
    part             the energy of the open part so far; None between parts, and whenever no integration is
                     under way
    unmasked_energy  the largest energy of the parts that wait for a mask from `redraw_noise`; None if no part
                     waits
    """

    mask: int | None = None
    part: int | None = None
    unmasked_energy: int | None = None

    @property
    def lacks_noise(self) -> bool:
        """Whether `redraw_noise` is due."""
        return self.unmasked_energy is not None

    def integrable_until_ms(self, time_ms: int) -> int:
        """Return the start of the part that contains `time_ms`, or `time_ms` itself if none does."""
        if not self.start_ms <= time_ms < self.end_ms:
            return time_ms
        return time_ms - (time_ms - self.start_ms) % self.terms.step_ms

    def slot_of_power(self, _from_ms: int, _to_ms: int) -> int | None:
        """Return None, because power is compared only when its part ends."""
        return None

    def open_slot(self, noise: int, integrated_until_ms: int, dither: int) -> None:
        """Open the window with its noise and dither; parts that are already integrated are gaps."""
        assert not self.draws, "noise of a window of parts is drawn again without a restart"
        self.noise_bound, part_end_ms = None, self.start_ms + self.terms.step_ms
        self._raise_maximum(self.accumulator_units(self.start_ms, part_end_ms, self.terms.readings.low_u))
        if integrated_until_ms >= part_end_ms:
            self._raise_maximum(self.accumulator_units(self.start_ms, part_end_ms, None))
        self.redraw_noise(noise, dither)

    def redraw_noise(self, noise: int, dither: int) -> None:
        """Mask the largest unmasked energy, if any, with a new dither and noise from a new noise bound."""
        energy, self.unmasked_energy = self.unmasked_energy, None
        if energy is not None:
            self.mask = self.mask_of(0, noise, dither)
            self.draws += 1
            self._raise_maximum(energy)

    def drop_unmasked_energy(self) -> None:
        """Give up the parts that wait for noise, because the budget forbids the charge for the noise."""
        self.unmasked_energy = None

    def _raise_maximum(self, energy: int) -> None:
        """Include a part's energy in the maximum; without a mask, keep it until `redraw_noise`."""
        if self.mask is None:
            waiting_energy = energy if self.unmasked_energy is None else self.unmasked_energy
            self.unmasked_energy = max(energy, waiting_energy)
        else:
            self.slots[0] = max(self.slots.get(0, self.mask + energy), self.mask + energy)

    def add_value(self, start_ms: int, end_ms: int, value: Value) -> None:
        """Add a value over a stretch of time to the parts it covers; a part's time before that is gap."""
        at_ms, to_ms = max(start_ms, self.start_ms), min(end_ms, self.end_ms)
        if value is not None and at_ms < to_ms:
            self.reading_bits = 1
        while at_ms < to_ms:
            part_ms = self.integrable_until_ms(at_ms)
            until_ms = min(to_ms, part_ms + self.terms.step_ms)
            energy = self.accumulator_units(part_ms, at_ms, None) if self.part is None else self.part
            energy += self.accumulator_units(at_ms, until_ms, value)
            is_whole = until_ms == part_ms + self.terms.step_ms
            self.part = None if is_whole else energy
            if is_whole:
                self._raise_maximum(energy)
            at_ms = until_ms

    def seal_slots(self, _integrated_until_ms: int) -> None:
        """Do nothing: the remaining parts are neither integrated nor used."""

    def close_slot(self, slot_index: int) -> int:
        """Remove the slot and return its released value in quanta: floor(A / L)."""
        assert self._is_masked, "a part of the window is open or waits for noise"
        return Window.close_slot(self, slot_index)

    def stored_state(self, _standing: tuple[int, int] | None = None) -> OpenWindow:
        """Return what the store keeps of the window: A, without the mask."""
        assert self._is_masked, "a part of the window is open or waits for noise"
        return Window.stored_state(self)

    @property
    def _is_masked(self) -> bool:
        return self.unmasked_energy is None and self.part is None


def integrable_until_ms(windows: Iterable[Window], until_ms: int) -> int:
    """Return the latest time, at most `until_ms`, up to which all `windows` can be integrated."""
    for window in windows:
        until_ms = window.integrable_until_ms(until_ms)
    return until_ms
