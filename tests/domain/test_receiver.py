"""When a receiver gets a stream: whole windows from its admission, and slots that end by its end."""

import pytest

from meteragent.domain.commit import Receiver


@pytest.mark.parametrize(
    ("window_ms", "end_ms", "expected"),
    [(10, 20, True), (9, 20, False), (10, 30, True), (10, 31, False), (30, 40, False)],
)
def test_windows_begin_after_the_admission_and_slots_end_by_the_end(
    window_ms: int, end_ms: int, expected: bool
) -> None:
    """Both limits are included."""
    assert Receiver("", "", 10, 30).has_slot(window_ms, end_ms) is expected


def test_without_an_end_every_later_slot_is_its_own() -> None:
    """Only the start of the window counts."""
    assert Receiver("", "", 10).has_slot(10, 2**62)
    assert not Receiver("", "", 10).has_slot(9, 2**62)
