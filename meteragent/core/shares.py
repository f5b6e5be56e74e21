"""A window that releases a share of its energy; the rest, a pad, goes to the helper (docs/crowd.md 6).

With P the pad, u the dither, S the energy so far and L one quantum in accumulator units, the accumulator is

    A = (u + S - P L) mod 2^64 L,     released: floor(A / L) = (m - P) mod 2^64,     m = floor((u + S) / L)

No noise is added here, because the operators add it to the sum of all homes. P is sealed when the window
opens, and then dropped. A is uniform whatever the use, so one copy of A reveals nothing without the pad.

The store keeps A itself even for a register's slot, as for bands, so an outage without redelivery is gap.
"""

from dataclasses import dataclass

from meteragent.core.noise import Noise
from meteragent.core.stream import Crowd
from meteragent.core.window import Release, Window
from meteragent.crowd.share import MODULUS
from meteragent.domain.commit import OpenWindow, SealedPad
from meteragent.domain.shapes import Share
from meteragent.wire.record import RecordFormat


@dataclass(slots=True)
class ShareWindow(Window):
    """An open window that releases a share of its energy.

    crowd       what seals pads and shares
    sealed_pad  the pad, which only the helper can open; None until the window is open
    """

    crowd: Crowd | None = None
    sealed_pad: SealedPad | None = None

    def open_first_slot(self, noise: Noise, integrated_until_ms: int) -> None:
        """Open the slot with a new pad; any time in it that is already integrated is gap."""
        lattice = self.terms.steps_per_quantum[0]
        self.slots[0], self.sealed_pad = self._crowd.open(self.public_id, self.start_ms, lattice, noise.bits)
        self.draws = 1
        self.add_gap(0, self.start_ms, integrated_until_ms)

    def release_slot(self, _slot_index: int, _form: RecordFormat) -> Release:
        """Close the slot; return its report and the group's deadline for it, but no value."""
        shape = self.terms.shape
        assert isinstance(shape, Share), "only shares are reported to a crowd"
        payload = self._crowd.close(self.stored_state(), self.terms)
        self.slots.clear()
        return payload, None, self.end_ms + shape.deadline_ms

    def stored_state(self, _standing: tuple[int, int] | None = None) -> OpenWindow:
        """Reduce the accumulator modulo 2^64 L, and return what the store keeps of the window."""
        for slot_index in self.slots:
            self.slots[slot_index] %= MODULUS * self.terms.steps_per_quantum[slot_index]
        return Window.stored_state(self)._replace(sealed_pad=self.sealed_pad)

    @property
    def _crowd(self) -> Crowd:
        assert self.crowd is not None, "a window of a crowd has nothing to seal its share with"
        return self.crowd
