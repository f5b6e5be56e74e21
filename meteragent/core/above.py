"""A window that releases the energy above a threshold: the integral of the power's excess over the threshold.

Each reading counts as max(value - threshold, 0), which changes by no more than the reading does. So the
energy above a threshold changes by no more than the energy that a change of the load adds and removes, and
the noise that hides such a change in the total energy also hides it here (THEORY-2 A.14). The energy used
*while* the power is above a threshold is a different quantity: when the power rises above the threshold, that
energy jumps by the threshold times the duration.
"""

from dataclasses import dataclass

from meteragent.core.window import Window


@dataclass(slots=True)
class AboveWindow(Window):
    """An open window that releases the energy above the threshold of its terms."""

    def put(self, slot_index: int, duration_ms: int, value_u: int | None) -> None:
        """Add the excess of a value (None: the gap value) over the threshold, for `duration_ms`.

        A value other than None is first clamped to the range.
        """
        terms = self.terms
        if value_u is not None:
            value_u = self._excess_u(min(max(value_u, terms.low_u), terms.high_u))
            self.slots[slot_index] += value_u * duration_ms
            self.slots_with_reading.add(slot_index)
        else:
            self.slots[slot_index] += self._gap_u * duration_ms

    @property
    def _gap_u(self) -> int:
        """The excess of the gap value over the threshold."""
        return self._excess_u(self.terms.gap_u)

    def _excess_u(self, value_u: int) -> int:
        """Return the excess of `value_u` over the threshold, or 0 if there is none."""
        return max(value_u - (self.terms.threshold_u or 0), 0)
