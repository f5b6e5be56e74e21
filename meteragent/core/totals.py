"""Running totals: for each meter, the sum of all that was released, with its error."""

from collections.abc import Mapping

from meteragent.core.window import Window
from meteragent.domain.commit import Commit, Outgoing, Total
from meteragent.wire import total
from meteragent.wire.descriptor import TermsDescriptor


class Totals:
    """The running totals of a stream, by public id: one that continued under a new id would link both ids."""

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
        """Add a released slot to its meter's total, which leaves at `leave_ms`."""
        public_id = window.public_id
        before, released = self._totals.get(public_id), (quanta, descriptor.terms.sd)
        after = Total.after(before, window.terms, window.start_ms, slot_index, released)
        self._totals[public_id] = commit.totals[public_id] = after
        payload = total.message(descriptor.id, public_id, after, window.slot_end_ms(slot_index))
        commit.outgoing.append(Outgoing(total.topic(window.topic), payload, leave_ms, False))
