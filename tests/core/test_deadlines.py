"""The order in which slots open and close, against a list that is sorted anew for every step."""

from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.deadlines import Deadlines

TIMES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")))


@given(openings=TIMES, closings=TIMES, open_ms=st.integers(0, 9), close_ms=st.integers(0, 12))
def test_what_is_due_is_taken_in_order(
    openings: list[tuple[int, str]], closings: list[tuple[int, str]], open_ms: int, close_ms: int
) -> None:
    """By time, closings first; closings of one time by public id, and none after the openings' limit."""
    deadlines = Deadlines()
    for time_ms, meter in openings:
        deadlines.add_opening(time_ms, meter)
    for time_ms, meter in closings:
        deadlines.add_closing(time_ms, "cba"["abc".index(meter)], meter)
    due: list[tuple[int, int, str, tuple[int | None, str]]] = []
    for time_ms, meter in openings:
        if time_ms <= open_ms:
            due.append((time_ms, 1, meter, (None, meter)))
    for time_ms, meter in closings:
        if time_ms <= min(open_ms, close_ms):
            due.append((time_ms, 0, "cba"["abc".index(meter)], (time_ms, meter)))
    expected = [item for *_, item in sorted(due, key=lambda entry: entry[:3])]
    assert list(deadlines.take_due(open_ms, close_ms)) == expected
    left_ms = [time_ms for time_ms, _ in openings if time_ms > open_ms]
    assert deadlines.next_due_ms(includes_closings=False) == min(left_ms, default=None)
    left_ms += [time_ms for time_ms, _ in closings if time_ms > min(open_ms, close_ms)]
    assert deadlines.next_due_ms(includes_closings=True) == min(left_ms, default=None)


def test_what_is_added_meanwhile_is_taken_in_its_turn() -> None:
    """An opening that schedules its closing is followed by it, before later openings."""
    deadlines, taken = Deadlines(), []
    deadlines.add_opening(1, "a")
    deadlines.add_opening(5, "b")
    for time_ms, meter in deadlines.take_due(9, 9):
        taken.append((time_ms, meter))
        if (time_ms, meter) == (None, "a"):
            deadlines.add_closing(3, "a", "a")
    assert taken == [(None, "a"), (3, "a"), (None, "b")]
    assert deadlines.next_due_ms(includes_closings=True) is None
