"""A meter whose clock was fast and is set right: what it stamped in the future no longer counts."""

import pytest

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO
from meteragent.privacy import SeededBits
from tests.core.test_pipeline import records
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, message, stream

pytestmark = pytest.mark.usefixtures("half_quantum")
SLOT_MS = 5_000
POWER = terms_with(TERMS, length_ms=SLOT_MS, step_ms=SLOT_MS, hold_ms=20_000, high_u=10_000 * MICRO)
FAST_MS = 20_000


def values(terms: Terms, sent: list[tuple[int, int, int]]) -> tuple[dict[int, float], Counts]:
    """Return the value of each slot, for readings (arrival, time, watts) in order of arrival."""
    counts, disk = Counts(), MemoryDisk()
    pipeline = Pipeline(stream(terms, ahead_ms=60_000), disk.snapshot(), Spending(), SeededBits(1), counts)
    found: dict[int, float] = {}
    for arrived_ms, time_ms, watts in sent:
        reading = message(time_ms, watts, received_ms=arrived_ms, token=arrived_ms)
        effects = pipeline.feed([reading], BASE_MS + arrived_ms, BASE_MS + arrived_ms)
        found |= {parse_time(t) - BASE_MS: value for t, value in records(effects)}
    return found, counts


def test_readings_from_the_future_give_way() -> None:
    """The load doubles when the clock, 20 s fast, is set right: its slots are those of the new readings."""
    fast = [(at_ms, at_ms + FAST_MS, 1000) for at_ms in range(0, 60_000, 1000)]
    right = [(at_ms, at_ms, 2000) for at_ms in range(60_000, 120_000, 1000)]
    found, counts = values(POWER, fast + right)
    assert {found[at_ms] for at_ms in range(65_000, 110_000, SLOT_MS)} == {2000}
    assert found[60_000] == 2000
    assert (counts["from_future"], counts["duplicate"], counts["late"]) == (FAST_MS // 1000, 0, 0)


@pytest.mark.parametrize("lag_ms", [1_500, 3_000, 9_300])
def test_readings_may_be_on_the_way_for_seconds(lag_ms: int) -> None:
    """What stood at the split was stamped in the future, too: it ends with the first right reading."""
    fast = [(at_ms, at_ms + FAST_MS, 1000) for at_ms in range(0, 60_000, 1000)]
    right = [(at_ms, at_ms - lag_ms, 2000) for at_ms in range(60_000, 120_000, 1000)]
    found, counts = values(POWER, fast + right)
    assert {found[at_ms] for at_ms in range(60_000, 110_000, SLOT_MS)} == {2000}
    assert (counts["duplicate"], counts["late"]) == (0, 0)


@pytest.mark.parametrize("late_ms", [30_000, 12_000])
def test_a_late_message_of_a_fast_clock_proves_nothing(late_ms: int) -> None:
    """It is not stamped near its arrival: redelivered, or only delayed."""
    fast = [(at_ms, at_ms + FAST_MS, 1000) for at_ms in range(0, 60_000, 1000)]
    _, counts = values(POWER, [*fast, (60_000, 60_000 - late_ms, 1000)])
    assert counts["from_future"] == 0


def test_a_clock_that_is_slightly_fast_is_believed() -> None:
    """Messages of a clock 4 s fast that take a few seconds arrive near their time, and drop nothing."""
    sent = [(at_ms, at_ms + 4_000 - (at_ms // 1000 * 7) % 4 * 1000, 1000) for at_ms in range(0, 60_000, 1000)]
    _, counts = values(POWER, sent)
    assert counts["from_future"] == 0
