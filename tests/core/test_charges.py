"""Charges of a step: counted by what is quick to compare, and yet each window's own."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Charges, Spending
from meteragent.domain.commit import Charge
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS
from tests.support.witness import TERMS

KINDS = (TERMS, replace(TERMS, lateness_ms=TERMS.lateness_ms + 1), replace(TERMS, radius=3 * TERMS.radius))
"""Terms: two that differ and cost the same, and one that costs less."""


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2 * DAY_MS), st.sampled_from(KINDS))))
def test_windows_are_charged_as_one_by_one(opened: list[tuple[str, int, Terms]]) -> None:
    """What is taken is each window at its epsilon, on its day, once; and it is taken once."""
    assert len({terms.epsilon_per_w for terms in KINDS}) == 2 < len({terms.id for terms in KINDS})
    charges, plain = Charges(Spending()), Counter[tuple[Charge, str]]()
    for meter, start_ms, terms in opened:
        assert charges.add(meter, start_ms, terms)
        plain[Charge(start_ms // DAY_MS * DAY_MS, terms.epsilon_per_w), meter] += 1
    taken = charges.take_charges()
    assert {(kind, meter): n for kind, windows in taken.items() for meter, n in windows.items()} == plain
    assert charges.take_charges() == {}
