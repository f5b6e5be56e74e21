"""Agents with a mistake in their prices, each of which the simulation test must find."""

from dataclasses import replace

import pytest

from meteragent.core.prices import PriceIntake, Prices
from meteragent.domain.prices import Price
from meteragent.domain.terms import Terms
from meteragent.store import Store


def takes_a_price_whose_time_has_begun(patch: pytest.MonkeyPatch) -> None:
    """A price may follow from what this home has used since."""
    add = Prices.add_price
    patch.setattr(
        Prices, "add_price", lambda self, row, bound_u, _now_ms: add(self, row, bound_u, row[0] - 1)
    )


def replaces_a_price(patch: pytest.MonkeyPatch) -> None:
    """The last price of a time counts."""
    add = Prices.add_price

    def newest(self: Prices, row: Price, bound_u: int, now_ms: int) -> tuple[str, ...]:
        names = add(self, row, bound_u, now_ms)
        if names == ("price_conflict",):
            self.rows = [one for one in self.rows if one[1] <= row[0] or row[1] <= one[0]]
            return add(self, row, bound_u, now_ms)
        return names

    patch.setattr(Prices, "add_price", newest)


def keeps_prices_in_memory(patch: pytest.MonkeyPatch) -> None:
    """A crash loses the prices that are still to come."""
    write = Store.write
    patch.setattr(Store, "write", lambda self, tx, commit: write(self, tx, replace(commit, prices=None)))


def drops_prices_too_early(patch: pytest.MonkeyPatch) -> None:
    """A price is dropped when its time is over, though readings of that time are on their way."""
    patch.setattr(PriceIntake, "_needed_from_ms", lambda _, now_ms, _integrated_ms: now_ms)


def counts_at_the_price_as_sent(patch: pytest.MonkeyPatch) -> None:
    """A price beyond the bound moves the amount by more than the noise hides."""
    add = Prices.add_price
    patch.setattr(Prices, "add_price", lambda self, row, _, now_ms: add(self, row, 2**62, now_ms))


def prices_are_those_of_the_end(patch: pytest.MonkeyPatch) -> None:
    """A stretch of time counts at the price of its end."""
    all_pieces = Prices.priced_pieces

    def last(self: Prices, terms: Terms, start_ms: int, from_ms: int, to_ms: int) -> list[Price]:
        *_, (_, _, price_u) = all_pieces(self, terms, start_ms, from_ms, to_ms)
        return [(from_ms, to_ms, price_u)]

    patch.setattr(Prices, "priced_pieces", last)


PRICE_MUTANTS = (
    (takes_a_price_whose_time_has_begun, "a counter is wrong", 8),
    (replaces_a_price, "a counter is wrong", 8),
    (keeps_prices_in_memory, "does not hold the commits", 7),
    (drops_prices_too_early, "a price that is needed is not on disk", 8),
    (counts_at_the_price_as_sent, "a counter is wrong", 7),
    (prices_are_those_of_the_end, "energy that was not measured", 8),
)
