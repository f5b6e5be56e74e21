"""Close the slots of a stream's windows when they are due: make their messages and the running totals."""

from collections.abc import Mapping

from meteragent.core.stream import Effects, LiveStream
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import Commit, Destination, Outgoing, ReleasedSlot, Snapshot, Total
from meteragent.domain.terms import Clock
from meteragent.wire import total
from meteragent.wire.record import RecordFormat, RecordFormats


class Releases:
    """The messages of a stream's closed slots, and the running totals by public id."""

    def __init__(self, running: LiveStream, snapshot: Snapshot, formats: RecordFormats) -> None:
        stream, self._names, self._charges, self._noise, self._arrivals = running
        self._stream = stream
        self._is_on_wall_clock = stream.terms.clock is Clock.WALL
        self._formats = formats
        self._counts = running.arrivals.counts
        # Keyed by public id, because a total under two ids would link the ids.
        self._totals = dict(snapshot.totals)
        self.held_until_ms: Mapping[Destination, int] = {}

    def close_until(self, timeline: Timeline, clock_ms: int, now_ms: int, effects: Effects) -> None:
        """Close and release the slots of a timeline that are due by `clock_ms`."""
        while (closing := timeline.next_closing()) is not None and closing[0] <= clock_ms:
            due_ms, window, slot_index = closing
            effects.acknowledge += timeline.integrate_until(due_ms - window.terms.lateness_ms)
            self.redraw_missing_noise(timeline, effects.commit)
            leave_ms = due_ms + self._names[timeline.meter].delay_ms if self._is_on_wall_clock else now_ms
            self._release(window, slot_index, max(leave_ms, now_ms), effects)
            if not window.slots and window.draws >= window.terms.n:
                timeline.windows.remove(window)

    def _release(self, window: Window, slot_index: int, leave_ms: int, effects: Effects) -> None:
        if window.has_gap(slot_index):
            self._counts.add("gap_slots")
        window.reading_bits &= ~(1 << slot_index)
        self._counts.add("released")
        form, end_ms = self._formats[window.terms_id], window.slot_end_ms(slot_index)
        slot = ReleasedSlot(form.descriptor.id, window.start_ms, end_ms)
        payload, quanta, until_ms = window.release_slot(slot_index, form)
        destinations = self._stream.destinations_of_slot(window.destinations, window.start_ms, end_ms)
        total_payload = None
        if self._stream.total and quanta is not None:
            total_payload = self._add_to_total(window, slot_index, quanta, form, effects.commit)
        for destination in destinations:
            queue, topic = destination
            # No message precedes an older one on its topic. A receiver that lags does not delay the others.
            due_ms = max(leave_ms, self.held_until_ms.get(destination, 0))
            effects.commit.outgoing.append(Outgoing(queue, topic, payload, due_ms, False, slot, until_ms))
            if total_payload is not None:
                message = Outgoing(queue, total.total_topic(topic), total_payload, due_ms, False)
                effects.commit.outgoing.append(message)

    def _add_to_total(
        self, window: Window, slot_index: int, quanta: int, form: RecordFormat, commit: Commit
    ) -> bytes:
        """Add a released slot to its meter's total, or begin a new one; return the total's message."""
        public_id, release = window.public_id, (quanta, form.terms.sd)
        old_total = self._totals.get(public_id)
        new_total = Total.add_slot(old_total, window.terms, window.start_ms, slot_index, release)
        self._totals[public_id] = commit.totals[public_id] = new_total
        return total.total_message(form.descriptor.id, public_id, new_total, window.slot_end_ms(slot_index))

    def redraw_missing_noise(self, timeline: Timeline, commit: Commit) -> None:
        """Count the timeline's events; draw noise from a new noise bound for each window that lacks noise.

        The new noise of a lost slot masks a constant, so it is not charged. The new noise of a peak
        masks readings, so it is charged like a new window, on the day of the last integrated part, and
        its meter is added to `commit.redrawn`. If the budget forbids the charge, the parts that need
        the noise are not used.
        """
        for name in timeline.take_counts():
            self._arrivals.note_event(timeline.meter, name)
        if timeline.gaps is not None and timeline.gaps.apart_ms:
            self._arrivals.note_gaps(timeline.meter, timeline.gaps.apart_ms)
            timeline.gaps.apart_ms = 0
        for window in timeline.windows:
            if not window.lacks_noise:
                continue
            is_charged = window.terms.shape.is_redrawn
            if is_charged:
                if not self._charges.add(timeline.meter, timeline.integrated_until_ms - 1, window.terms):
                    window.drop_unmasked_energy()
                    self._counts.add("over_budget")
                    continue
                commit.redrawn.add(timeline.meter)
            _, noise = self._noise.draw_window(window.terms_id, window.terms.mechanism)
            window.redraw_noise(noise, self._noise.draw_dither(window.terms, window.lost_slot or 0))
            self._counts.add("peak_redrawn" if is_charged else "register_lost")
