"""Prices from a topic: committed before their time, once, within the bound, and there after a crash."""

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.prices import AHEAD_MS, Prices
from meteragent.core.stream import Effects
from meteragent.core.window import Window
from meteragent.decode.price import decode_prices
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError, StoreError
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.prices import PRICE_MS, Price
from meteragent.domain.reading import Message
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO
from meteragent.privacy import SeededBits
from meteragent.privacy.inference import success_bound
from meteragent.store import read_only, transaction
from meteragent.store.examine import examine_content
from meteragent.store.schema import decode_prices as stored_prices
from meteragent.store.schema import encode_prices
from tests.support.configurations import written
from tests.support.stores import altering, open_store
from tests.support.weighted import QUIET
from tests.support.world import stream

TOPIC = "prices/day-ahead"
DAY_START_MS = parse_time("2033-05-16T00:00:00Z")
WEIGHTS = f"[window.weights]\nbound = 0.5\ndefault = 0.25\ntopic = '{TOPIC}'\n"


def schedule(privacy: str = f"hide = '110Wh'\nquantum = 0.000001\n{QUIET}") -> Schedule:
    """Windows of a day whose prices come from a topic."""
    window = "length = '24h'\nahead = '0s'"
    text = written(privacy=privacy, window=window, source="hold = '2h'") + WEIGHTS
    return config.schedule(config.parse(text).stream[0])


def price_message(at_ms: int, *rows: tuple[int, int, object], token: object = None) -> Message:
    """A message with prices (start, end, price), which arrives at `at_ms`."""
    document = [
        {"start": iso_time(start), "end": iso_time(end), "price": price} for start, end, price in rows
    ]
    return Message(TOPIC, json.dumps(document).encode(), True, at_ms, token)


def reading(at_ms: int, watts: int) -> Message:
    """A reading that arrives at once."""
    return Message("meters/m1/power", f'{{"t":{at_ms},"power":{watts}}}'.encode(), False, at_ms, None)


class Agent:
    """A pipeline with a store, if there is a path, whose memory may be lost at any commit."""

    def __init__(self, known: Schedule, path: Path | None = None) -> None:
        self.known, self.path, self.counts = known, path, Counts()
        self.records: list[dict[str, object]] = []
        self.pipeline = self._start(Snapshot({}, {}, {}))

    def _start(self, snapshot: Snapshot) -> Pipeline:
        settings = stream(self.known, price_topic=TOPIC)
        return Pipeline(settings, snapshot, Spending(), SeededBits(1), self.counts)

    def feed(self, now_ms: int, *messages: Message) -> Effects:
        """Feed messages at a time, and write what the core asks for."""
        effects = self.pipeline.feed(messages, now_ms, now_ms)
        if self.path is not None:
            with_store(self.path, lambda store: transaction.commit(store, effects.commit, [], None, DAY_MS))
        self.records += [
            json.loads(row.payload, parse_float=Decimal)
            for row in effects.commit.outgoing
            if not row.retain and b'"value"' in row.payload
        ]
        return effects

    def crash(self) -> None:
        """Lose the memory: what was not committed is gone."""
        assert self.path is not None
        snapshots: list[Snapshot] = []
        with_store(self.path, lambda store: snapshots.append(store.snapshot("main")))
        self.pipeline = self._start(snapshots[0])


def with_store(path: Path, use: object) -> None:
    """Use a store that is open for this alone."""
    store = open_store(path)
    try:
        use(store)  # type: ignore[operator]
    finally:
        store.close()


def amount(prices: Sequence[float], watts: Sequence[int]) -> float:
    """What 24 hours cost."""
    return sum(price * power / 1000 for price, power in zip(prices, watts, strict=True))


@pytest.mark.parametrize("crashes", [False, True])
def test_each_price_counts_in_its_hour_also_after_a_crash(tmp_path: Path, crashes: bool) -> None:
    """Prices of 12 hours, silence for 12 hours: the default; kill -9 at any hour loses no committed price."""
    agent = Agent(schedule(), tmp_path / "store.db" if crashes else None)
    hourly = [0.01 * hour for hour in range(12)]
    start_ms = DAY_START_MS
    agent.feed(start_ms - HOUR_MS, reading(start_ms - HOUR_MS, 100))
    rows = [(start_ms + h * HOUR_MS, start_ms + (h + 1) * HOUR_MS, price) for h, price in enumerate(hourly)]
    effects = agent.feed(start_ms - 1000, price_message(start_ms - 1000, *rows, token="prices"))
    assert "prices" in effects.acknowledge
    assert effects.commit.prices is not None
    watts = [100 + 50 * hour for hour in range(24)]
    for hour, power in enumerate(watts):
        at_ms = start_ms + hour * HOUR_MS
        if crashes and hour % 5 == 4:
            before_ms = at_ms - HOUR_MS
            agent.crash()
            agent.feed(at_ms, reading(before_ms, watts[hour - 1]))  # the broker sends it again
        agent.feed(at_ms, reading(at_ms, power))
    agent.feed(start_ms + DAY_MS, reading(start_ms + DAY_MS, 0))
    [record] = [row for row in agent.records if row["t"] == iso_time(start_ms)]
    expected = amount([*hourly, *[0.25] * 12], watts)
    assert math.isclose(float(str(record["value"])), expected, abs_tol=2e-6)
    assert agent.counts["prices"] == 12


def test_a_price_whose_time_has_begun_is_refused_and_none_is_replaced() -> None:
    """Late by a millisecond, again, with odd times, too far ahead: each is counted, and changes nothing."""
    agent, at_ms = Agent(schedule()), DAY_START_MS
    hour = at_ms + HOUR_MS, at_ms + 2 * HOUR_MS
    agent.feed(at_ms, price_message(at_ms, (*hour, 0.3)))
    wrong: dict[str, tuple[int, int, float]] = {
        "price_late": (at_ms, at_ms + HOUR_MS, 0.1),
        "price_conflict": (hour[0] + PRICE_MS, hour[1], 0.4),
        "price_repeated": (*hour, 0.3),
        "price_times": (hour[1] + 1, hour[1] + HOUR_MS, 0.1),
    }
    for name, row in wrong.items():
        effects = agent.feed(at_ms, price_message(at_ms, row))
        assert (agent.counts[name], effects.commit.prices) == (1, None)
    agent.feed(at_ms, price_message(at_ms, (*hour, 0.4), (hour[0], hour[1] + HOUR_MS, 0.3)))
    assert agent.counts["price_conflict"] == 3
    agent.feed(at_ms, price_message(at_ms, (at_ms + AHEAD_MS, at_ms + AHEAD_MS + HOUR_MS, 0.1)))
    agent.feed(at_ms, price_message(at_ms, (hour[1], hour[1], 0.1)))
    assert agent.counts["price_times"] == 3
    effects = agent.feed(at_ms, price_message(at_ms, (hour[1], hour[1] + HOUR_MS, -7)))
    assert agent.counts["price_clamped"] == 1
    assert effects.commit.prices == ((*hour, 300_000), (hour[1], hour[1] + HOUR_MS, -500_000))
    assert agent.counts["prices"] == 2


def test_prices_are_kept_for_a_meter_that_is_yet_to_come() -> None:
    """A meter whose windows begin later than those of others, such as after a restore, needs none of them."""
    agent, at_ms = Agent(schedule()), DAY_START_MS
    floor = Snapshot({"m1": at_ms + 3 * DAY_MS}, {}, {})
    agent.pipeline = agent._start(floor)
    agent.feed(at_ms + 1, reading(at_ms + 1, 100))
    tomorrow = at_ms + DAY_MS, at_ms + 2 * DAY_MS
    agent.feed(at_ms + 2, price_message(at_ms + 2, (*tomorrow, 0.3)))
    effects = agent.feed(at_ms + 3, price_message(at_ms + 3, (tomorrow[1], tomorrow[1] + DAY_MS, 0.4)))
    assert effects.commit.prices is not None
    assert len(effects.commit.prices) == 2


def test_a_price_that_comes_again_is_no_conflict() -> None:
    """The same time and value, before or in its time, clamped or not; another value is a conflict."""
    book, hour = Prices(), (DAY_START_MS + HOUR_MS, DAY_START_MS + 2 * HOUR_MS)
    assert book.add_price((*hour, 900_000), 500_000, DAY_START_MS) == ("prices", "price_clamped")
    assert book.add_price((*hour, 900_000), 500_000, DAY_START_MS) == ("price_repeated",)
    assert book.add_price((*hour, 900_000), 500_000, hour[0]) == ("price_repeated",)
    assert book.add_price((*hour, 400_000), 500_000, DAY_START_MS) == ("price_conflict",)
    assert book.add_price((*hour, 400_000), 500_000, hour[0]) == ("price_late",)
    assert book.rows == [(*hour, 500_000)]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "refused_empty"),
        (b"{", "refused_json"),
        (b"\xff", "refused_encoding"),
        (b"[" * 999, "refused_json"),
        (b"7", "refused_missing"),
        (b'{"start":"2033-05-16T00:00:00Z","price":1}', "refused_missing"),
        (b'{"start":"today","end":"2033-05-16T00:00:00Z","price":1}', "refused_time"),
        (b'{"start":1,"end":2,"price":1}', "refused_time"),
        (b'{"start":"2033-05-16T00:00:00Z","end":"2033-05-16T01:00:00Z","price":"1"}', "refused_type"),
        (b'{"start":"2033-05-16T00:00:00Z","end":"2033-05-16T01:00:00Z","price":NaN}', "refused_not_finite"),
    ],
)
def test_a_message_without_prices_is_refused(payload: bytes, reason: str) -> None:
    """It is acknowledged and counted by its reason, as a message without a reading is."""
    with pytest.raises(PayloadError) as caught:
        decode_prices(payload)
    assert caught.value.reason == reason
    agent = Agent(schedule())
    agent.feed(DAY_START_MS, Message(TOPIC, payload, False, DAY_START_MS, "token"))
    assert agent.counts[reason] == 1
    agent.feed(DAY_START_MS, Message(TOPIC, b" " * 2000, False, DAY_START_MS, "token"))
    assert agent.counts["refused_size"] == 1


rows_of = st.tuples(st.integers(-3, 30), st.integers(0, 9), st.integers(-(10**7), 10**7))


@given(rows=st.lists(rows_of, max_size=30), now=st.integers(-3, 30))
def test_no_price_ever_changes(rows: list[tuple[int, int, int]], now: int) -> None:
    """Whatever arrives: each quarter hour keeps its first price, in order, within the bound, after now."""
    book, first = Prices(), dict[int, int]()
    for start, length, price_u in rows:
        names = book.add_price(
            (start * PRICE_MS, (start + length) * PRICE_MS, price_u), 10**6, now * PRICE_MS
        )
        quarters = range(start, start + length)
        fits = bool(quarters) and start > now and not set(quarters) & first.keys()
        assert ("prices" in names) == fits
        if fits:
            first |= dict.fromkeys(quarters, min(max(price_u, -(10**6)), 10**6))
    kept = {
        quarter: price_u
        for start_ms, end_ms, price_u in book.rows
        for quarter in range(start_ms // PRICE_MS, end_ms // PRICE_MS)
    }
    assert kept == first
    assert book.rows == sorted(book.rows)
    book.prune_until(12 * PRICE_MS)
    assert all(end_ms > 12 * PRICE_MS for _, end_ms, _ in book.rows)
    assert stored_prices(encode_prices(book.rows)) == tuple(book.rows)


def test_damaged_prices_are_found(tmp_path: Path) -> None:
    """A changed digit in the store is damage, and found when the store is opened."""
    agent = Agent(schedule(), tmp_path / "store.db")
    agent.feed(
        DAY_START_MS, price_message(DAY_START_MS, (DAY_START_MS + HOUR_MS, DAY_START_MS + DAY_MS, 0.3))
    )
    with_store(tmp_path / "store.db", lambda store: examine_content(store.connection))

    with altering(tmp_path / "store.db") as connection:
        query = "UPDATE meta SET value = replace(value, '300000', '400000') WHERE key = 'prices/main'"
        assert connection.execute(query).rowcount == 1
    with pytest.raises(StoreError, match="prices"), read_only(tmp_path / "store.db"):
        pass
    for wrong in ("x", b"x", None):
        with pytest.raises(StoreError, match="prices"):
            stored_prices(wrong)


def test_an_open_window_keeps_its_bound() -> None:
    """A larger bound in a new configuration lets in larger prices; a window's noise covers its own bound."""
    terms = schedule().usual
    book = Prices([(DAY_START_MS, DAY_START_MS + DAY_MS, 9_000_000)])
    window = Window(DAY_START_MS, terms, terms.id, (), "m1", prices=book)
    window.open_slot(0, DAY_START_MS, 0)
    window.add_value(DAY_START_MS, DAY_START_MS + HOUR_MS, 7)
    assert window.slots[0] == 500_000 * 7 * HOUR_MS


# The mutant: a price that reacts to the load. An attacker finds it, who finds nothing in public prices. --


def released(terms: Terms, watts: Sequence[int], prices: Iterable[Price], seed: int) -> float:
    """The amount of a day that leaves for a load by hours."""
    window = Window(DAY_START_MS, terms, terms.id, (), "m1", prices=Prices(prices))
    bits = SeededBits(seed)
    mechanism = terms.mechanism
    noise = mechanism.draw_slot(mechanism.draw_noise_bound(bits), bits)
    window.open_slot(noise, DAY_START_MS, bits.integer(40) % terms.steps_per_quantum[0])
    for hour, power in enumerate(watts):
        window.add_value(DAY_START_MS + hour * HOUR_MS, DAY_START_MS + (hour + 1) * HOUR_MS, power * MICRO)
    return float(window.close_slot(0) * terms.quantum)


def public(_watts: Sequence[int]) -> list[Price]:
    """Prices of a market."""
    return [
        (DAY_START_MS + hour * HOUR_MS, DAY_START_MS + (hour + 1) * HOUR_MS, 20_000 * hour)
        for hour in range(24)
    ]


def reacting(watts: Sequence[int]) -> list[Price]:
    """Prices that double in the hours in which this home uses more than 330 W."""
    return [
        (start, end, 500_000 if watts[i] > 330 else 250_000) for i, (start, end, _) in enumerate(public(()))
    ]


@pytest.mark.parametrize(("rule", "is_found"), [(public, False), (reacting, True)])
def test_an_attacker_finds_a_price_that_reacts(rule: object, is_found: bool) -> None:
    """Two days that differ by 120 Wh over 11 hours: right in few more than half of the trials, or in all.

    The attacker is the best one for two laws that are shifts of each other: the nearer of the two means. With
    public prices its success stays below the limit of `check` plus 4 standard errors of 600 trials, which a
    sound agent exceeds once in 30,000.
    """
    without = [320] * 11 + [200] * 13
    added = [330 if hour < 11 else power for hour, power in enumerate(without)]
    added = [power + (1 if hour < 10 else 0) for hour, power in enumerate(added)]
    assert 0 < sum(added) - sum(without) <= 120
    terms = schedule("hide = '110Wh'").usual
    trials, right = 600, 0
    worlds = [(load, rule(load)) for load in (without, added)]  # type: ignore[operator]
    means = [
        sum(price / MICRO * power / 1000 for (_, _, price), power in zip(prices, load, strict=True))
        for load, prices in worlds
    ]
    middle = sum(means) / 2
    for trial in range(trials):
        load, prices = worlds[trial % 2]
        guess = (released(terms, load, prices, trial) > middle) == (means[1] > means[0])
        right += guess == (trial % 2 == 1)
    moved = Fraction(sum(added) - sum(without), 1000) * Fraction(1, 2)
    # What moves at half of the bound, with the quantum that the grid may add
    limit = success_bound(terms.mechanism, (moved + terms.quantum,))
    exceeds = right / trials > limit + 4 * math.sqrt(limit * (1 - limit) / trials)
    assert exceeds == is_found
    assert (right / trials > 0.99) == is_found
