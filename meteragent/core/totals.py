"""Running totals: the sum of a meter's released energies since the last missing slot, and the sum's variance.

A total starts again at 0 after a missing slot, and when the unit changes.
"""

from collections.abc import Mapping

from meteragent.core.window import Window
from meteragent.domain.commit import Commit, Outgoing, Total
from meteragent.wire import total
from meteragent.wire.descriptor import TermsDescriptor


class Totals:
    """The running totals of a stream, by public id, because a total under two ids would link the ids."""

    __slots__ = ("_totals",)

    def __init__(self, totals: Mapping[str, Total]) -> None:
        self._totals = dict(totals)

    def add(
        self,
        window: Window,
        slot_index: int,
        quanta: int,
        descriptor: TermsDescriptor,
        leave_ms: int,
        commit: Commit,
    ) -> None:
        """Add a released slot to its meter's total; the total's message leaves at `leave_ms`."""
        public_id = window.public_id
        previous_total, release = self._totals.get(public_id), (quanta, descriptor.terms.sd)
        new_total = Total.with_slot(previous_total, window.terms, window.start_ms, slot_index, release)
        self._totals[public_id] = commit.totals[public_id] = new_total
        payload = total.message(descriptor.id, public_id, new_total, window.slot_end_ms(slot_index))
        commit.outgoing.append(Outgoing(total.topic(window.topic), payload, leave_ms, False))
