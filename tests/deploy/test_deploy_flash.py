"""The figures of flash wear in docs/operate.md: they are of commits as the agent makes them."""

from pathlib import Path

import pytest

from tests.commands.flash_wear import MANY, arrivals, batches, measure

HOUR_MS = 3_600_000


def test_what_is_collected_is_written_once(tmp_path: Path) -> None:
    """Through the real core and store there are as many commits a day as there are times of `flush` in it."""
    _, commits = measure(tmp_path, "appliance", 1, 900_000, None)
    assert commits == 96


@pytest.mark.parametrize(("meters", "flush_ms", "most"), [(1, 0, 1), (1, 60_000, 6), (20, 900_000, MANY + 1)])
def test_batches_are_those_of_the_agent(meters: int, flush_ms: int, most: int) -> None:
    """None is longer than `flush` or larger than half of what may be in flight, or goes over a slot's end."""
    messages = list(arrivals(meters, HOUR_MS))
    half_ms = messages[0].received_ms + HOUR_MS // 2
    actual = list(batches(iter(messages), flush_ms, [half_ms, half_ms + HOUR_MS]))
    assert [message for batch in actual for message in batch] == messages
    assert max(map(len, actual)) == most
    assert all(batch[-1].received_ms - batch[0].received_ms <= flush_ms for batch in actual)
    assert not any(batch[0].received_ms < half_ms <= batch[-1].received_ms for batch in actual)
