"""The model, computed from the definitions: which reading applies at which time, and when this is decided.

It implements first windows, `forget`, budgets, receivers and acknowledgements independently of the core;
`meter` implements sample-and-hold and lateness.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from meteragent.domain.units import DAY_MS
from simulators.simtest.model.meter import Arrival, Decided, Meter
from simulators.simtest.model.open_windows import ClosedSlot, OpenWindow
from simulators.simtest.model.other_stores import Topics
from simulators.simtest.model.phases import as_meter
from simulators.simtest.model.prices import PriceBook, Row
from simulators.simtest.model.registers import MaskedSlot
from simulators.simtest.model.spec import WindowSpec
from simulators.simtest.model.stream_spec import StreamSpec

_WAIT_MS = 7 * DAY_MS
"""How long a meter must have had no reading to be forgotten, while readings may be waiting in a broker. After
that time, a broker would have dropped the readings."""


class Model:
    """All meters of one stream, in one process of the agent.

    `opened_windows`, `redrawn`, `lost`, `closed_slots` and `changed_meters` grow until the checker clears
    them. `lost` holds the slots of registers that got new noise. `exceeds` returns whether the budget
    forbids a window of a meter, and charges the window if the budget allows it. `topics` holds the topics
    that are known to be this store's.
    """

    def __init__(
        self,
        stream: StreamSpec,
        topics: Topics,
        marks: dict[str, int],
        floor_ms: int,
        exceeds: Callable[[str, int, Fraction], bool],
        book: PriceBook,
    ) -> None:
        self.stream = stream
        self.book = book
        self.meters: dict[str, Meter] = {}
        self.topics = topics
        self.marks = marks
        self.outcomes: Counter[str] = Counter()
        self.opened_windows: list[tuple[str, OpenWindow]] = []
        self.redrawn: list[tuple[str, int, int, WindowSpec]] = []
        self.lost: list[tuple[str, int, int]] = []
        self.closed_slots: list[ClosedSlot] = []
        self.changed_meters: set[str] = set()
        self._floor_ms = floor_ms
        self._exceeds = exceeds
        self._wall = stream.ordinary.clock == "wall"

    def restore(self, name: str, meter: Meter, next_ms: int, slot: MaskedSlot | None) -> None:
        """Restore a meter from its last commit, for the present settings.

        Its next window starts at `next_ms` or later, and `slot` is the slot that waits for its register.
        """
        meter.ordinary, meter.book = self.stream.ordinary, self.book
        meter = as_meter(meter)
        meter.windows = [window for window in meter.windows if self._is_wanted(window)]
        meter.next_ms = self._boundary(name, next_ms)
        is_open = slot is not None and any(w.start_ms == slot.window_ms for w in meter.windows)
        meter.masked_slot = slot if is_open else None
        meaning = meter.ordinary.readings.meaning
        if any(window.spec.readings.meaning != meaning for window in meter.windows):
            meter.lose()
            end_ms = max(window.end_ms for window in meter.windows)
            if end_ms > meter.covered_ms:
                prices = PriceBook(self.book.rows)
                meter.stretches.append(Decided(meter.covered_ms, end_ms, None, prices))
                meter.covered_ms = end_ms
        for window in meter.windows:
            window.resume(meter.covered_ms)
        self.meters[name] = meter
        self.topics.ask(self.stream.destinations_of(name))

    def _is_wanted(self, window: OpenWindow) -> bool:
        """Return whether a receiver that got a window when it opened still gets one of its slots."""
        ends_ms = window.spec.ends_ms(window.start_ms)
        return bool(window.queues & self.stream.queues_at(window.start_ms, ends_ms))

    def feed(self, batch: list[Arrival], now_ms: int, closing_ms: int) -> list[Any]:
        """Process a batch and let time pass; return the tokens to acknowledge, in any order."""
        catching_up = closing_ms < now_ms
        free: list[Any] = self._take_prices(batch, now_ms)
        readings = [arrival for arrival in batch if arrival.prices is None]
        for arrival in self._drop_replaced(readings, free):
            arrival_ms = min(arrival.received_ms, now_ms)
            free += self._pass(arrival_ms, closing_ms, catching_up)
            free += self._arrive(arrival, arrival_ms, catching_up)
        free += self._pass(now_ms, closing_ms, catching_up)
        for name, meter in self.meters.items():
            self.lost += [(name, *slot) for slot in meter.lost]
            self.outcomes["register_lost"] += len(meter.lost)
            meter.lost.clear()
            free += meter.release()
        return free

    def _take_prices(self, batch: Sequence[Arrival], now_ms: int) -> list[Any]:
        """Take the prices of a batch before its readings; return the tokens of the messages with prices."""
        rule = self.stream.ordinary.price
        messages = [(arrival.prices, arrival.token) for arrival in batch]
        for prices, _ in messages:
            if prices is not None and rule is not None:
                self.outcomes.update(self.book.take(prices, rule.bound_u, now_ms))
        return [token for prices, token in messages if prices is not None]

    def check_prices(self, prices: tuple[Row, ...] | None, now_ms: int) -> None:
        """Check the prices of a transaction; `prices` is None if the transaction does not change them."""
        self.book.check_commit(prices, min([now_ms, *(meter.covered_ms for meter in self.meters.values())]))

    def _drop_replaced(self, batch: Sequence[Arrival], free: list[Any]) -> list[Arrival]:
        """Return a batch without readings that a later one with the same meter and arrival time replaces.

        The tokens of these readings are appended to `free`. If readings have times of their own, none is
        replaced.
        """
        if not self.stream.is_stamped:
            return list(batch)
        counting = []
        for index, arrival in enumerate(batch):
            later = batch[index + 1 :]
            if arrival.refused is None and any(_is_of_one_moment(arrival, other) for other in later):
                self.outcomes["replaced"] += 1
                free.append(arrival.token)
            else:
                counting.append(arrival)
        return counting

    def _boundary(self, name: str, time_ms: int) -> int:
        earliest_ms = max(time_ms, self.marks.get(name, 0), self._floor_ms)
        return self.stream.windows.first_ms(earliest_ms)

    def _pass(self, open_ms: int, close_ms: int, is_catching_up: bool) -> list[Any]:
        if not self._wall:
            return []
        names = sorted(self.meters)
        return [
            t for name in names for t in self._advance(name, open_ms, min(open_ms, close_ms), is_catching_up)
        ]

    def _advance(self, name: str, open_ms: int, close_ms: int, is_catching_up: bool) -> Iterator[Any]:
        """Open windows up to `open_ms` and close slots up to `close_ms`, in time order.

        Yield the tokens of readings that need not be held any longer. A meter with neither a next nor an open
        window is forgotten.
        """
        meter = self.meters[name]
        while True:
            oldest = meter.windows[0] if meter.windows else None
            opens_ms = open_ms + 1 if meter.next_ms is None else meter.next_ms
            if oldest is not None:
                slot_index, end_ms = oldest.next_close()
                due_ms = end_ms + oldest.spec.lateness_ms
                if due_ms <= close_ms and due_ms <= opens_ms:
                    before_ms = meter.covered_ms
                    yield from meter.decide(end_ms)
                    self._settle(name, meter, before_ms)
                    self.changed_meters.add(name)
                    self._close(name, meter, slot_index, due_ms)
                    continue
            if opens_ms <= open_ms:
                self._open(name, meter, opens_ms, is_catching_up)
                continue
            break
        if meter.next_ms is None and not meter.windows:
            yield from meter.tokens()
            del self.meters[name]
            self.topics.forget(self.stream.destinations_of(name))
            self.changed_meters.add(name)
            self.outcomes["forgotten"] += 1

    def _close(self, name: str, meter: Meter, slot_index: int, due_ms: int) -> None:
        """Close a slot of a meter's oldest window."""
        window = meter.windows[0]
        if window.spec.is_peak:
            energy = window.largest_energy(meter.covered_ms, meter.energy)
        else:
            energy = meter.slot_energy(window.spec, window.start_ms, slot_index)
        self.closed_slots.append(ClosedSlot(name, window.start_ms, slot_index, window.spec, due_ms, energy))
        window.open_slots.remove(slot_index)
        if not window.open_slots:
            del meter.windows[0]

    def _settle(self, name: str, meter: Meter, before_ms: int) -> None:
        """Charge a peak's noise once the first part since a restart is over, if the budget allows it."""
        time_ms = meter.covered_ms - 1
        for window in meter.windows:
            if window.needs_noise(before_ms, meter.covered_ms):
                exceeds = self._exceeds(name, time_ms, window.spec.charge)
                window.charge(meter.covered_ms, exceeds=exceeds)
                if exceeds:
                    self.outcomes["over_budget"] += 1
                else:
                    self.redrawn.append((name, window.start_ms, time_ms, window.spec))

    def _open(self, name: str, meter: Meter, start_ms: int, is_catching_up: bool) -> None:
        self.changed_meters.add(name)
        spec = self.stream.windows.at(start_ms)
        patience_ms = max(self.stream.forget_ms, _WAIT_MS) if is_catching_up else self.stream.forget_ms
        if self._wall and meter.idle_windows * self.stream.ordinary.length_ms >= patience_ms:
            meter.next_ms = None
            return
        meter.next_ms = start_ms + spec.length_ms
        meter.idle_windows += 1
        queues = self.stream.queues_at(start_ms, spec.ends_ms(start_ms))
        places = {item for item in self.stream.destinations_of(name) if item[0] in queues}
        clear_places = self.topics.clear_places(places, start_ms)
        self.outcomes["held"] += len(places) - len(clear_places)
        if places and not clear_places:
            return
        self.marks[name] = meter.next_ms
        if not clear_places:
            return
        if self.stream.has_keys is not None and not self.stream.has_keys(start_ms):
            self.outcomes["no_keys"] += 1
            return
        if self._exceeds(name, start_ms, spec.charge):
            self.outcomes["over_budget"] += 1
        else:
            queues = frozenset(queue for queue, _ in clear_places)
            meter.windows.append(OpenWindow(start_ms, spec, list(range(spec.n)), queues))
            self.opened_windows.append((name, meter.windows[-1]))
            self.topics.announced |= clear_places

    def _arrive(self, arrival: Arrival, arrival_ms: int, is_catching_up: bool) -> list[Any]:
        reason = arrival.refused or self._refusal(arrival)
        if reason is not None:
            self.outcomes[reason] += 1
            return [arrival.token]
        is_present = arrival.meter in self.meters
        meter = self._meter_of(arrival)
        dropped = meter.set_right(arrival) if self._wall else None
        counts, tokens = meter.take(arrival, is_stamped=self.stream.is_stamped)
        tokens = [*(dropped or ()), *tokens]
        if counts or not is_present or dropped is not None:
            self.changed_meters.add(arrival.meter)
        self.outcomes["accepted" if counts else "not"] += 1
        if not counts:
            return tokens
        if not self._wall:
            arrival_ms = meter.newest_ms or 0
            tokens += self._advance(arrival.meter, arrival_ms, arrival_ms, is_catching_up)
        before_ms = meter.covered_ms
        tokens += meter.decide_passed(arrival_ms)
        self._settle(arrival.meter, meter, before_ms)
        return tokens

    def _refusal(self, arrival: Arrival) -> str | None:
        if arrival.time_ms > arrival.received_ms + self.stream.ahead_ms:
            return "refused_ahead"
        if arrival.meter in self.meters:
            return None
        if self._wall and arrival.time_ms <= arrival.received_ms - self.stream.forget_ms:
            return "late"
        return "refused_meters" if len(self.meters) >= self.stream.max_meters else None

    def _meter_of(self, arrival: Arrival) -> Meter:
        """Return an arrival's meter; a new or forgotten meter starts at its next boundary."""
        meter = self.meters.get(arrival.meter)
        if meter is None or meter.next_ms is None:
            first_ms = self._boundary(arrival.meter, arrival.received_ms if self._wall else arrival.time_ms)
            if meter is None:
                meter = as_meter(Meter(self.stream.ordinary, first_ms, first_ms, book=self.book))
                self.meters[arrival.meter] = meter
                self.topics.ask(self.stream.destinations_of(arrival.meter))
            meter.next_ms = first_ms
        return meter


def _is_of_one_moment(arrival: Arrival, other: Arrival) -> bool:
    """Return whether two readings of a meter, or of a phase of it, are stamped with the same time."""
    moments = [(a.refused, a.meter, a.phase, a.received_ms) for a in (arrival, other)]
    return moments[0] == moments[1]
