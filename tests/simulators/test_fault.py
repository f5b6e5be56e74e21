"""simulators.homes.fault: what arrives of readings, and what the ground truth says was wrong."""

from dataclasses import fields, replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.units import DAY_MS
from simulators.homes.fault import NETWORK_MS, NONE, OVERTAKEN_MS, Arrivals, Faults, Row, count
from simulators.homes.meter import Readings
from tests.support.channels import FEW

START_MS = 20_000 * DAY_MS
SENT_MS = START_MS + 60_000 * np.arange(3 * 1440)
VALUES = np.arange(len(SENT_MS), dtype=np.float64)
MANY = Faults(0.1, 0.1, 0.1, 0.1, 0.6, 0.6, 0.6, 0.6)
NAMES = [one.name for one in fields(Faults)]


def strike(faults: Faults, part: slice = slice(None), seed: int = 0) -> tuple[Arrivals, list[Row]]:
    """What becomes of some minutes of home 5, whose readings are their numbers."""
    sent_ms = SENT_MS[part]
    return faults.strike(seed, 5, sent_ms, Readings(sent_ms + 7, VALUES[part]))


def messages(arrivals: Arrivals) -> list[tuple[float, ...]]:
    """All that is known of each message but its place among the readings given."""
    columns = arrivals.arrived_ms, arrivals.sent_ms, arrivals.times_ms, arrivals.values
    return [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def only(what: str, how_often: float) -> Faults:
    """One kind of fault."""
    return replace(NONE, **{what: how_often})


def test_nothing_goes_wrong() -> None:
    """Without faults every reading arrives once, in order, soon, and says what it said."""
    arrivals, rows = strike(NONE)
    assert rows == []
    assert arrivals.readings.tolist() == list(range(len(SENT_MS)))
    assert arrivals.times_ms.tolist() == (SENT_MS + 7).tolist()
    assert arrivals.values.tolist() == list(range(len(SENT_MS)))
    delays = arrivals.arrived_ms - SENT_MS
    assert 0 <= delays.min() < delays.max() < NETWORK_MS


@FEW
@given(cuts=st.lists(st.integers(0, len(SENT_MS)), max_size=4), seed=st.integers(0, 3))
def test_batches_do_not_show(cuts: list[int], seed: int) -> None:
    """Readings in parts suffer what they suffer together, also in episodes that go on over midnight."""
    arrivals, rows = strike(MANY, seed=seed)
    bounds = [0, *sorted(cuts), len(SENT_MS)]
    parts = [strike(MANY, slice(a, b), seed) for a, b in pairwise(bounds)]
    assert sorted(one for part, _ in parts for one in messages(part)) == sorted(messages(arrivals))
    assert [row for _, part in parts for row in part] == rows


def test_all_is_counted() -> None:
    """Messages are the readings, less those dropped and silenced, and the duplicates; all faults happen."""
    arrivals, rows = strike(MANY)
    found = count(rows)
    assert list(found) == NAMES
    assert min(found.values()) > 0
    assert len(arrivals) == len(SENT_MS) - found["drop"] - found["silence"] + found["duplicate"]
    assert (np.diff(arrivals.arrived_ms) >= 0).all()
    clean = np.setdiff1d(SENT_MS, [row.sent_ms for row in rows])
    told = dict(zip(arrivals.sent_ms.tolist(), messages(arrivals), strict=True))
    assert all(told[at][2] == at + 7 and told[at][0] - at < NETWORK_MS for at in clean.tolist())


def test_seeds_and_homes_differ() -> None:
    """Another seed or another home has other faults; seed 0 is a seed."""
    readings = Readings(SENT_MS, VALUES)
    tables = [MANY.strike(seed, home, SENT_MS, readings)[1] for seed, home in ((0, 5), (1, 5), (0, 6))]
    times = [{(row.sent_ms, row.fault) for row in table} for table in tables]
    assert len({frozenset(one) for one in times}) == 3


@pytest.mark.parametrize("what", ["drop", "duplicate", "reorder", "late"])
def test_how_often(what: str) -> None:
    """A fault of readings strikes the part of them that it should: within five standard deviations."""
    found = count(strike(only(what, 0.1))[1])
    assert found[what] == sum(found.values())
    assert found[what] == pytest.approx(432, abs=5 * (4320 * 0.09) ** 0.5)


def test_what_each_does() -> None:
    """A duplicate says the same again; one out of order comes after the next; a late one after 5 minutes."""
    twice, _ = strike(only("duplicate", 1))
    assert np.bincount(twice.readings).tolist() == [2] * len(SENT_MS)
    assert (twice.times_ms == twice.sent_ms + 7).all()
    overtaken, rows = strike(only("reorder", 0.1))
    struck = np.isin(overtaken.sent_ms, [row.sent_ms for row in rows])
    assert ((overtaken.arrived_ms - overtaken.sent_ms >= OVERTAKEN_MS) == struck).all()
    assert (np.diff(overtaken.readings) < 0).any()
    late, _ = strike(only("late", 1))
    assert 5 <= (late.arrived_ms - late.sent_ms).min() / 60_000 < 6
    assert 29 < (late.arrived_ms - late.sent_ms).max() / 60_000 <= 30.1


def test_episodes() -> None:
    """In a silence nothing comes, in a burst all at its end; a clock runs off, or stands off."""
    silent, rows = strike(only("silence", 1))
    assert not np.isin(silent.sent_ms, [row.sent_ms for row in rows]).any()
    burst, rows = strike(only("burst", 1))
    held = np.isin(burst.sent_ms, [row.sent_ms for row in rows])
    assert len(np.unique(burst.arrived_ms[held] // NETWORK_MS)) <= 2 * 3
    assert (burst.arrived_ms[~held] - burst.sent_ms[~held] < NETWORK_MS).all()
    skewed, rows = strike(only("skew", 1))
    off_ms = np.abs(skewed.times_ms - skewed.sent_ms - 7)[np.isin(skewed.sent_ms, [r.sent_ms for r in rows])]
    assert 0 < off_ms.max() <= 0.02 * 40 * 60_000
    assert len(np.unique(off_ms)) > 6
    jumped, rows = strike(only("jump", 1))
    off_ms = jumped.times_ms - jumped.sent_ms - 7
    assert len(np.unique(off_ms)) in (3, 4)
    assert np.flatnonzero(off_ms).size == len(rows)
    assert all(row.stamp_ms != row.sent_ms + 7 for row in rows)


def test_over_midnight() -> None:
    """Episodes go on over midnight: as many silences at midnight as a minute before, mostly the same."""
    midnights = START_MS + DAY_MS * np.arange(1, 4001)
    silent = []
    for sent_ms in (midnights - 60_000, midnights):
        _, rows = only("silence", 1).strike(0, 5, sent_ms, Readings(sent_ms, np.zeros(len(sent_ms))))
        silent.append({row.sent_ms // 60_000 for row in rows})
    before, after = silent
    # On average 20 of 1,440 minutes; five standard deviations.
    assert len(before) == pytest.approx(4000 * 20 / 1440, abs=5 * 56**0.5)
    assert len(after) == pytest.approx(4000 * 20 / 1440, abs=5 * 56**0.5)
    assert len({minute + 1 for minute in before} & after) > 0.8 * len(after)


def test_faults_are_independent() -> None:
    """Which readings one fault strikes says nothing of another: within five standard deviations."""
    _, rows = strike(Faults(0, 0.1, 0.1, 0.1, 0, 0, 0, 0))
    struck = {what: {row.sent_ms for row in rows if row.fault == what} for what in NAMES[1:4]}
    for one, other in combinations(struck, 2):
        assert len(struck[one] & struck[other]) == pytest.approx(43, abs=5 * 43**0.5)


def test_what_is_refused() -> None:
    """No probability, and times without readings."""
    with pytest.raises(ValueError, match="late must be a probability, not 2"):
        Faults(late=2)
    with pytest.raises(ValueError, match="0 readings need as many times"):
        NONE.strike(0, 0, SENT_MS, Readings(SENT_MS[:0], VALUES[:0]))
