"""Problems: one of a code and stream, with its cause and cure."""

import pytest

from meteragent.domain.problem import PROBLEMS, Alarms, make_problem


def test_a_problem_says_its_cause_and_its_stream() -> None:
    """The fields of its cause are filled in; one of the whole agent names no stream."""
    found = make_problem("clock_jumped", step="5 min")
    assert "5 min ahead" in found.cause
    assert found.text == found.cause
    assert make_problem("clock_jumped", "heat", step="5 min").text == f"stream heat: {found.cause}"
    assert found.cure == PROBLEMS["clock_jumped"].cure


def test_a_problem_that_is_not_explained_is_a_mistake() -> None:
    """Its code must be one of `PROBLEMS`."""
    with pytest.raises(KeyError):
        make_problem("nothing")


def test_alarms_stand_until_they_are_cleared() -> None:
    """Of each code and stream there is one, the newest; clearing another or none at all changes nothing."""
    alarms = Alarms()
    alarms.raise_("clock_jumped", step="5 min")
    alarms.raise_("no_clock", "a")
    alarms.raise_("no_clock", "b")
    alarms.raise_("clock_jumped", step="6 min")
    assert [(one.code, one.stream) for one in alarms.problems] == [
        ("clock_jumped", None),
        ("no_clock", "a"),
        ("no_clock", "b"),
    ]
    assert "6 min" in alarms.problems[0].text
    alarms.clear("no_clock", "a")
    alarms.clear("no_clock", "c")
    alarms.clear("no_clock")
    assert [one.stream for one in alarms.problems] == [None, "b"]
