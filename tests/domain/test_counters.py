"""Counts: of names that are explained, of a part and of the whole, as text."""

import pytest

from meteragent.domain.counters import COUNTERS, PUBLIC, Counts


def test_a_name_without_an_explanation_is_refused() -> None:
    """A counter that `COUNTERS` does not explain is a mistake of ours, and counts nowhere."""
    counts = Counts()
    part = counts.make_part()
    for one in (counts, part):
        with pytest.raises(KeyError):
            one.add("nothing")
    assert (counts, part) == ({}, {})


def test_a_part_counts_in_the_whole() -> None:
    """What a stream counts the agent counts, too; what other streams count is none of its."""
    whole = Counts()
    one, other = whole.make_part(), whole.make_part()
    one.add("received", 3)
    other.add("received")
    other.make_part().add("late")
    assert (one, other, whole) == ({"received": 3}, {"received": 1, "late": 1}, {"received": 4, "late": 1})


def test_counts_are_text_in_the_order_of_their_list() -> None:
    """What never happened is not named; of public counters only those are that tell nothing of a meter."""
    counts = Counts()
    assert counts.as_text() == counts.as_text(is_public=True) == "nothing"
    for name in reversed(COUNTERS):
        counts.add(name, 2)
    assert counts.as_text() == " ".join(f"{name}=2" for name in COUNTERS)
    assert counts.as_text(is_public=True) == " ".join(f"{name}=2" for name in COUNTERS if name in PUBLIC)
    assert "received" not in PUBLIC
