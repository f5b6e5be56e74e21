"""One meter of the model whose readings are of a register: those that are good, and the use between them.

Time is decided up to the newest reading that is confirmed as good by readings up to the watermark, or when a
slot closes. Of doubted readings, the last two are held. After a restart, the masked slot is resumed or lost.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from simulators.simtest.model.meter import Arrival, Decided, Held, Meter
from simulators.simtest.model.registers import Count, MaskedSlot, Span, Use, is_usual, spans_of


@dataclass
class RegisterMeter(Meter):
    """One meter of one stream of registers."""

    def _ordered(self, until_ms: int | None = None) -> list[Count]:
        """Return the held readings in order of time, up to a time."""
        items = sorted((t, reading.value_u) for t, reading in self.readings.items())
        return [item for item in items if until_ms is None or item[0] <= until_ms]

    def _spans(self, readings: list[Count]) -> list[Span]:
        """Return the spans between those of the held readings that are good."""
        return spans_of(self.rules, readings)

    def take(self, arrival: Arrival, *, is_stamped: bool) -> tuple[bool, list[Any]]:
        """Accept a reading, unless it is older than the last good one; return the same as `Meter.take`."""
        time_ms, value_u, token = arrival.time_ms, arrival.value_u, arrival.token
        if self.standing_ms is not None and time_ms < self.standing_ms:
            return False, [token]
        reading = self.readings.get(time_ms)
        if reading is not None:
            gives_way = is_stamped and time_ms > self.covered_ms
            if not gives_way and reading.value_u != value_u:
                return False, [token]
            self.readings[time_ms] = Held(value_u, token)
            return gives_way, [reading.token]
        self.readings[time_ms] = Held(value_u, token)
        self.newest_ms = max(time_ms, self.newest_ms or 0)
        self.idle_windows = 0
        return True, self.free() if time_ms <= self.covered_ms else []

    def decide(self, until_ms: int) -> list[Any]:
        """Decide all time before `until_ms`, even by changes that are not settled; return dropped tokens."""
        tokens = self._resume(until_ms)
        if self.masked_slot is not None or until_ms <= self.covered_ms:
            return tokens
        for span in self._spans(self._ordered()):
            from_ms, to_ms = max(span.start_ms, self.covered_ms), min(span.end_ms, until_ms)
            if from_ms >= to_ms:
                continue
            if self.covered_ms < from_ms:
                self.stretches.append(Decided(self.covered_ms, from_ms, None))
            units = None if span.use_u is None else span.use_u * self.rules.interval_ms
            use = None if units is None else Use(span.start_ms, span.end_ms - span.start_ms, units)
            self.stretches.append(Decided(from_ms, to_ms, use))
            self.covered_ms = to_ms
        if self.covered_ms < until_ms:
            self.stretches.append(Decided(self.covered_ms, until_ms, None))
        self.covered_ms = until_ms
        return tokens + self.free()

    def free(self) -> list[Any]:
        """Drop the readings before the newest good one in decided time; return their tokens."""
        readings = self._ordered()
        if not readings or readings[0][0] > self.covered_ms:
            return []
        ends = [span.end_ms for span in self._spans(readings) if span.end_ms <= self.covered_ms]
        good_ms = max([readings[0][0], *ends])
        self.standing_ms = max(good_ms, self.standing_ms or 0)
        return self._drop(t for t, _ in readings if t < good_ms)

    def decide_passed(self, clock_ms: int) -> list[Any]:
        """Decide all time up to the newest good reading that the watermark settles; return dropped tokens."""
        frontier_ms = min((self.newest_ms or 0) - self.ruling.lateness_ms, clock_ms)
        tokens = self._resume(frontier_ms)
        if self.masked_slot is not None:
            return tokens
        readings = self._ordered(frontier_ms)
        spans = [span for span in self._spans(readings) if span.settled_ms is not None]
        if readings:
            good_ms = max([readings[0][0], *(span.end_ms for span in spans)])
            tokens += self.decide(self._whole_ms(good_ms))
        is_whole = self._whole_ms(frontier_ms) == frontier_ms
        return tokens + self._forget_doubted(frontier_ms) if is_whole else tokens

    def _whole_ms(self, time_ms: int) -> int:
        """Return the time up to which the open windows can be decided."""
        for window in self.windows:
            time_ms = window.whole_ms(time_ms)
        return time_ms

    def _forget_doubted(self, frontier_ms: int) -> list[Any]:
        """If there are more than three readings up to the watermark, drop those that can settle nothing."""
        readings = self._ordered(frontier_ms)
        if len(readings) <= 3:
            return []
        spans = self._spans(readings)
        good_ms = max([readings[0][0], *(span.end_ms for span in spans if span.settled_ms is not None)])
        doubted = [t for t, _ in readings if t > good_ms]
        waiting_ms = [span.end_ms for span in spans if span.settled_ms is None]
        return self._drop([t for t in doubted if t < waiting_ms[0]] if waiting_ms else doubted[:-2])

    # --- after a restart -----------------------------------------------------------------------

    def _resume(self, until_ms: int) -> list[Any]:
        """Resume or lose the masked slot, if any, once the readings show which; return the dropped tokens.

        The slot resumes at the reading with which it was stored, if that arrives again, or at a fitting
        reading that the next fitting one continues by a usual rise. Once the slot has ended, or two readings
        that do not fit show a usual rise, the slot resumes at the highest fitting reading, or is lost.
        """
        slot = self.masked_slot
        if slot is None:
            return []
        is_over = until_ms >= slot.end_ms
        readings = self._ordered(None if is_over else until_ms)
        explained = [reading for reading in readings if slot.turns(*reading) is not None]
        agreeing = [a for a, b in pairwise(explained) if a[0] <= slot.end_ms and self._goes_on(a, b)]
        elsewhere = [(a, b) for a, b in pairwise(readings) if a not in explained and b not in explained]
        is_over = is_over or any(self._goes_on(a, b) for a, b in elsewhere)
        inside = [reading for reading in explained if reading[0] <= slot.end_ms]
        highest = sorted(inside, key=lambda reading: (-reading[1], reading[0])) if is_over else []
        stored_at = [
            reading for reading in readings[:1] if reading[0] == self.standing_ms and reading in explained
        ]
        if chosen := (stored_at or agreeing or highest)[:1]:
            return self._resume_at(slot, *chosen[0])
        if not is_over:
            return self._drop(t for t, value_u in readings[:-2] if (t, value_u) not in explained[:1])
        self.lose()
        return self.free()

    def _goes_on(self, start: Count, end: Count) -> bool:
        """Return whether a reading continues another one by a usual rise."""
        has_moved = end[1] > start[1] or (self.rules.low_u < 0 and end[1] != start[1])
        return has_moved and is_usual(self.rules, start, end)

    def _resume_at(self, slot: MaskedSlot, time_ms: int, value_u: int) -> list[Any]:
        """Resume the masked slot by a reading; return the tokens of those before it."""
        rules = slot.spec.readings
        turned_u = (slot.turns(time_ms, value_u) or 0) * rules.modulus_u
        units = (value_u + turned_u - slot.register_u) * rules.interval_ms
        # Other readings may now be good, so the sum of phases at `covered_ms` may differ: use the new sum.
        span_ms = max(time_ms - self.covered_ms, 1)
        use = Use(self.covered_ms, span_ms, units, is_exact=True)
        self.stretches.append(Decided(self.covered_ms, self.covered_ms + span_ms, use))
        self.covered_ms, self.masked_slot = time_ms, None
        return self._drop(t for t, _ in self._ordered() if t < time_ms) + self.free()
