"""A weighted window: the sum of price times energy, added to noise that is drawn first.

Theory of operation
-------------------
The window has one slot. With w(t) the price at t, in millionths of the currency per kWh, the accumulator is

    A = z * L + u + sum of w * value * ms,    released: floor(A / L)

where z is the noise, u the dither, and L = quantum * 10^6 * (1 kWh in the readings' unit) * (ms in an hour or
interval). So A has the properties of any other window's accumulator: A is a whole number, A modulo L is
uniform, and one copy of A is as private as `window` states. The use of a register between two readings is
spread evenly over the span, whatever the prices.

For a register's slot the store keeps A itself, as for bands, so an outage without redelivery is gap. Storing
a difference of registers (`register`) would require one price for all time since the slot's start.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from meteragent.core.above import AboveWindow
from meteragent.core.peak import PeakWindow
from meteragent.core.prices import Prices
from meteragent.core.shares import ShareWindow
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import MeteragentError
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.weights import Price, Weights, pieces


@dataclass(slots=True)
class WeightedWindow(Window):
    """An open window that releases an amount: energy times price.

    book  the prices of the topic; unused if the terms have a table
    """

    book: Prices = field(default_factory=Prices)

    def slot_of_power(self, _from_ms: int, _to_ms: int) -> int | None:
        """Return None, because the price may change within any stretch of time."""
        return None

    def draw(self, noise: int, integrated_until_ms: int, dither: int | None = None) -> None:
        """Open the slot with its noise and dither; count its already integrated time as gap."""
        Window.draw(self, noise, self.start_ms, dither)
        self.add(self.start_ms, integrated_until_ms, None)

    def add(self, start_ms: int, end_ms: int, value: int | RegisterUse | None) -> None:
        """Add a value (None: the gap value) over a stretch of time, multiplied by the prices of that time."""
        terms, from_ms, to_ms = self.terms, max(start_ms, self.start_ms), min(end_ms, self.end_ms)
        if from_ms >= to_ms:
            return
        if value is not None:
            self.slots_with_reading.add(0)
        if isinstance(value, RegisterUse):
            value = value.within(terms.low_u, terms.high_u)
        elif value is not None:
            value = min(max(value, terms.low_u), terms.high_u)
        for piece_from_ms, piece_to_ms, price_u in self._pieces(from_ms, to_ms):
            if isinstance(value, RegisterUse):
                units = value.between(piece_from_ms, piece_to_ms)
            else:
                units = (terms.gap_u if value is None else value) * (piece_to_ms - piece_from_ms)
            self.slots[0] += price_u * units

    def seal(self, integrated_until_ms: int) -> None:
        """Count the remaining time of the slot as gap."""
        if self.slots:
            self.add(integrated_until_ms, self.end_ms, None)

    def _pieces(self, from_ms: int, to_ms: int) -> Iterable[Price]:
        """Return the pieces of a stretch of time, cut at changes of price, each with its price."""
        weights, start_ms = self._weights, self.start_ms
        if not weights.is_table:
            return _clamp(pieces(self.book.rows, weights.default_u, from_ms, to_ms), weights.bound_u)
        return _shift(
            pieces(weights.prices, weights.default_u, from_ms - start_ms, to_ms - start_ms), start_ms
        )

    @property
    def _weights(self) -> Weights:
        """The weights of the terms. Raises MeteragentError if the terms have none."""
        if self.terms.weights is None:
            raise MeteragentError("the terms of a weighted window have no weights")
        return self.terms.weights

    def _open_slot_at(self, _time_ms: int) -> int | None:
        """Return None, because the accumulator is stored unchanged."""
        return None


def _clamp(prices: Iterable[Price], bound_u: int) -> Iterator[Price]:
    """Clamp prices to a window's bound, which may differ from the bound under which they were accepted."""
    for from_ms, to_ms, price_u in prices:
        yield from_ms, to_ms, min(max(price_u, -bound_u), bound_u)


def _shift(prices: Iterable[Price], shift_ms: int) -> Iterator[Price]:
    """Shift prices in time by `shift_ms`."""
    for from_ms, to_ms, price_u in prices:
        yield from_ms + shift_ms, to_ms + shift_ms, price_u


def window_of(terms: Terms) -> type[Window]:
    """Return the class of the windows that open under these terms."""
    if terms.crowd is not None:
        return ShareWindow
    if terms.space is Space.PEAK:
        return PeakWindow
    if terms.space is Space.ABOVE:
        return AboveWindow
    return Window if terms.weights is None else WeightedWindow


def restored(state: OpenWindow, terms: Terms) -> Window:
    """Restore an open window from its state in the store."""
    window = window_of(terms)(
        state.start_ms,
        terms,
        state.terms_id,
        state.topic,
        state.public_id,
        state.noise_bound,
        state.draws,
        dict(state.slots),
    )
    window.masked_slot, window.sealed_pad = state.masked_slot, state.sealed_pad
    return window
