"""A window that releases a share of its energy; the rest, a pad, goes to the helper (docs/crowd.md 4).

With P the pad, u the dither, S the energy so far and L one quantum in accumulator units, the accumulator is

    A = (u + S - P L) mod 2^64 L,     released: floor(A / L) = (m - P) mod 2^64,     m = floor((u + S) / L)

No noise is added here, because the operators add it to the sum of all homes. P is sealed when the window
opens, and then dropped. A is uniform whatever the use, so one copy of A reveals nothing without the pad.

For a register's slot, too, the store keeps A itself, as for bands, so an outage without redelivery is gap.
"""

from dataclasses import dataclass
from typing import Protocol

from meteragent.core.window import Window
from meteragent.crowd.share import MODULUS
from meteragent.domain.commit import OpenWindow, Outgoing, SealedPad
from meteragent.domain.terms import Terms
from meteragent.privacy.bits import Bits


class Crowd(Protocol):
    """The cryptography of a stream whose windows release shares."""

    def may_open(self, label: str, start_ms: int) -> bool:
        """Return whether `label` can be a home's label, and the slot's two keys are known and differ.

        The slot starts at `start_ms`.
        """
        ...

    def open(self, label: str, start_ms: int, lattice: int, bits: Bits) -> tuple[int, SealedPad]:
        """Draw a pad and a dither; return the accumulator and the sealed pad."""
        ...

    def close(self, window: OpenWindow, terms: Terms) -> bytes:
        """Return the report of a complete slot, with its share sealed."""
        ...


@dataclass(slots=True)
class ShareWindow(Window):
    """An open window that releases a share of its energy."""

    def begin(self, crowd: Crowd, bits: Bits, integrated_until_ms: int) -> None:
        """Open the slot with a pad; count its already integrated time as gap."""
        lattice = self.terms.lattice(0)
        self.slots[0], self.sealed_pad = crowd.open(self.public_id, self.start_ms, lattice, bits)
        self.draws = 1
        self._fill_gap(0, integrated_until_ms)

    def report(self, crowd: Crowd, leave_ms: int) -> Outgoing:
        """Close the slot and return its report, which is due at `leave_ms`.

        The report is not sent after the group's deadline for the slot.
        """
        until_ms = self.end_ms + (0 if self.terms.crowd is None else self.terms.crowd.deadline_ms)
        payload = crowd.close(self.state(), self.terms)
        self.slots.clear()
        return Outgoing(self.topic, payload, leave_ms, False, until_ms=until_ms)

    def state(self, _standing: tuple[int, int] | None = None) -> OpenWindow:
        """Reduce the accumulator modulo 2^64 L, and return what the store keeps of the window."""
        for slot_index in self.slots:
            self.slots[slot_index] %= MODULUS * self.terms.lattice(slot_index)
        return Window.state(self)
