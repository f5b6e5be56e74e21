"""Days of a register with all that goes wrong: the slots add up, and the order of arrival decides nothing."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO
from meteragent.privacy import SeededBits
from tests.core.test_judgement import NET, ROLLING, RULES, WH, Count, Day, days
from tests.core.test_pipeline import records
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, MemoryDisk, stream

pytestmark = pytest.mark.usefixtures("half_quantum")
SLOT_MS = HOUR_MS
LATENESS = 6
"""The lateness in periods: a doubt takes up to three, and messages are late by up to `LATE`."""
LATE = 2.5


def terms_of(day: Day, modulus_u: int | None = None, low_u: int = 0, step_wh: int = 1) -> Terms:
    """Return the terms of a stream that reads the day, whose slots are of an hour."""
    return terms_with(
        WH,
        length_ms=SLOT_MS,
        step_ms=SLOT_MS,
        modulus_u=modulus_u,
        low_u=low_u,
        dead_band=Fraction(step_wh),
        lateness_ms=LATENESS * period_ms(day.items),
    )


def period_ms(items: Sequence[Count]) -> int:
    """Return the time between two readings."""
    return items[1].time_ms - items[0].time_ms


def released(terms: Terms, items: Sequence[Count], delays_ms: Sequence[int]) -> dict[str, float]:
    """Return the slots of a day whose readings arrive late by so many milliseconds, some of them twice."""
    core = Pipeline(stream(terms), MemoryDisk().snapshot(), Spending(), SeededBits(1), Counts())
    arrivals = sorted((item.time_ms + late_ms, item) for item, late_ms in zip(items, delays_ms, strict=True))
    left: dict[str, float] = {}
    for number, (at_ms, item) in enumerate(arrivals):
        payload = f'{{"t":{BASE_MS + item.time_ms},"power":{item.value_u / MICRO:f}}}'.encode()
        batch = [
            Message("meters/m/power", payload, False, BASE_MS + at_ms, (number, time))
            for time in range(1 + number % 5 // 4)
        ]
        left |= records(core.feed(batch, BASE_MS + at_ms, BASE_MS + at_ms))
    end_ms = BASE_MS + items[-1].time_ms + 2 * SLOT_MS + terms.lateness_ms
    return left | dict(records(core.feed([], end_ms, end_ms)))


def delays(day: Day) -> st.SearchStrategy[list[int]]:
    """Delays of the readings after the first, with which the meter begins."""
    late_ms = st.integers(0, int(LATE * period_ms(day.items)))
    count = len(day.items) - 1
    return st.lists(late_ms, min_size=count, max_size=count).map(lambda later: [0, *later])


@given(st.data(), st.sampled_from([RULES, ROLLING]))
def test_the_order_of_arrival_decides_nothing(data: st.DataObject, rules: object) -> None:
    """With glitches, resets and rollovers: late and doubled readings leave what punctual ones do."""
    modulus_u = ROLLING.modulus_u if rules is ROLLING else None
    day = data.draw(days(ROLLING if rules is ROLLING else RULES))
    terms = terms_of(day, modulus_u)
    punctual = released(terms, day.items, [0] * len(day.items))
    assert released(terms, day.items, data.draw(delays(day))) == punctual


@given(st.data(), st.sampled_from([RULES, ROLLING]))
def test_slots_add_up_to_the_difference_of_the_counts(data: st.DataObject, rules: object) -> None:
    """A day's slots have what the counter says that was used outside resets, to a quantum a slot."""
    modulus_u = ROLLING.modulus_u if rules is ROLLING else None
    day = data.draw(days(ROLLING if rules is ROLLING else RULES))
    left = released(terms_of(day, modulus_u), day.items, data.draw(delays(day)))
    assert sum(left.values()) == pytest.approx(day.use_wh, abs=len(left))


@given(
    st.lists(st.integers(100, 333), min_size=20, max_size=90),
    st.sampled_from([100, 500, 1000]),
    st.sampled_from([0, NET.low_u]),
    st.data(),
)
def test_steps_add_up(uses: list[int], step: int, low_u: int, data: st.DataObject) -> None:
    """A counter that says whole steps, each more than the range holds, loses none of them."""
    items, count_wh = [], 7_000_000
    for index, wh in enumerate([0, *uses]):
        count_wh += wh
        items.append(Count(index * 60_000, count_wh // step * step * MICRO))
    day = Day(items, (items[-1].value_u - items[0].value_u) // MICRO, 0)
    left = released(terms_of(day, None, low_u, step), items, data.draw(delays(day)))
    assert sum(left.values()) == pytest.approx(day.use_wh, abs=len(left))
