"""The ledger: every window's eps, exact, before anything about it can leave."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.commit import Budget, Charge, Commit
from meteragent.domain.errors import StoreError
from meteragent.store import Store, commands, ledger
from meteragent.store.commands import DayCharge
from tests.support.stores import DAY_MS, LENGTH_MS, TERMS, fresh, open_store, opening, persist

EPSILON = TERMS.epsilon_per_w


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store, open."""
    with open_store(tmp_path / "db") as store:
        yield store


charges = st.dictionaries(
    st.builds(
        Charge,
        day_ms=st.integers(0, 9).map(lambda day: day * DAY_MS),
        epsilon_per_w=st.fractions(min_value=Fraction(1, 10**12), max_value=10**6),
    ),
    st.dictionaries(st.sampled_from(["a", "b", "é"]), st.integers(1, 10**9), min_size=1).map(Counter),
    max_size=4,
)
commits = st.lists(st.tuples(st.sampled_from(["main", "other"]), charges), max_size=4)


@given(commits, st.sampled_from([1, 2, 7]))
def test_sums_are_exact(commits: list[tuple[str, dict[Charge, Counter[str]]]], days: int) -> None:
    """What is spent is the exact sum over all commits and channels, on each day and in a period of days."""
    truth: dict[tuple[str, int, str], tuple[int, Fraction]] = {}
    period_ms = days * DAY_MS
    with fresh() as store:
        for stream, charges in commits:
            with store.transaction() as tx:
                ledger.debit_windows(tx, Commit(stream, 0, charges=charges))
                marks = {meter: 1 for windows in charges.values() for meter in windows}
                store.write(tx, Commit(stream, 0, marks=marks))
            for (day_ms, epsilon), windows in charges.items():
                for meter, opened in windows.items():
                    key = (meter, day_ms, stream)
                    count, total = truth.get(key, (0, Fraction(0)))
                    truth[key] = (count + opened, total + opened * epsilon)
        expected = [DayCharge(*key, *value) for key, value in sorted(truth.items())]
        assert list(commands.day_charges(store.connection)) == expected
        for meter in ("a", "b", "é"):
            mine = [row for row in expected if row.meter == meter]
            assert list(commands.day_charges(store.connection, meter)) == mine
            for start_ms in range(0, 10 * DAY_MS, period_ms):
                days_ms = range(start_ms, start_ms + period_ms)
                sums = sum(row.epsilon_per_w for row in mine if row.start_ms in days_ms)
                assert ledger.sum_charges(store.connection, meter, start_ms, period_ms) == sums


def test_budget_is_over_all_channels_of_a_meter(store: Store) -> None:
    """A transaction that would exceed a meter's budget over all its channels writes nothing at all."""
    budget = Budget(3 * EPSILON, DAY_MS)
    persist(store, opening(0, "m", "n"), budget=budget)
    persist(store, opening(0, "m", stream="other"), budget=budget)
    persist(store, opening(1, "m"), budget=budget)
    with pytest.raises(StoreError, match="budget"):
        persist(store, opening(2, "m", "n"), budget=budget)
    assert store.snapshot("main").marks == {"m": 2 * LENGTH_MS, "n": LENGTH_MS}
    assert ledger.sum_charges(store.connection, "m", 0, DAY_MS) == budget.epsilon_per_w
    persist(store, opening(1, "n"), budget=budget)
    persist(store, opening(48, "m"), budget=budget)


def test_budget_of_several_days(store: Store) -> None:
    """A period of several days is aligned to the epoch, and its days count together."""
    budget = Budget(2 * EPSILON, 2 * DAY_MS)
    persist(store, opening(0, "m"), budget=budget)
    persist(store, opening(48, "m"), budget=budget)
    with pytest.raises(StoreError):
        persist(store, opening(95, "m"), budget=budget)
    persist(store, opening(96, "m"), budget=budget)


def test_a_hair_above_the_budget(store: Store) -> None:
    """At the budget is not above it; the smallest fraction more is."""
    below = Budget(EPSILON - Fraction(1, 10**40), DAY_MS)
    with pytest.raises(StoreError):
        persist(store, opening(0, "m"), budget=below)
    persist(store, opening(0, "m"), budget=Budget(EPSILON, DAY_MS))


def test_one_transaction_may_exceed_by_itself(store: Store) -> None:
    """Several windows of one transaction count together."""
    charge = Charge(0, EPSILON)
    commit = Commit("main", 0, marks={"m": 3 * LENGTH_MS}, charges={charge: Counter(m=3)})
    with pytest.raises(StoreError):
        persist(store, commit, budget=Budget(2 * EPSILON, DAY_MS))
    persist(store, commit, budget=Budget(3 * EPSILON, DAY_MS))


def test_all_charges_are_known(store: Store) -> None:
    """A store that was never lost knows all its charges."""
    assert ledger.unknown_before_ms(store.connection) is None


def test_recent_charges(store: Store) -> None:
    """For the odometers every charge is known that lies in a period which a new window can still touch."""
    for k in (0, 48, 96, 97):
        persist(store, opening(k, "m"))
    persist(store, opening(50, "m", stream="other"))
    persist(store, opening(0, "n"))
    expected = [
        ("m", DAY_MS, EPSILON),
        ("m", DAY_MS, EPSILON),
        ("m", 2 * DAY_MS, 2 * EPSILON),
        ("n", 0, EPSILON),
    ]
    assert sorted(ledger.recent_charges(store.connection, DAY_MS, 3 * DAY_MS)) == expected


def test_recent_charges_for_a_new_channel(store: Store) -> None:
    """A new channel may open windows before its meter's mark: charges from where it may begin are known."""
    for k in (0, 48, 96):
        persist(store, opening(k, "m"))
    days = [day_ms for _, day_ms, _ in ledger.recent_charges(store.connection, DAY_MS, DAY_MS + 1)]
    assert days == [DAY_MS, 2 * DAY_MS]
