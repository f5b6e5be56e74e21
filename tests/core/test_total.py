"""The running total of what left: post-processing, sent on the schedule of the records, kept by the store."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.agent import parts
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.commit import Commit, Outgoing, Snapshot, Total
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import Band, parse_time
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy import SeededBits
from meteragent.store import restore_at, schema
from tests.core.test_pipeline import feed
from tests.support.configurations import written
from tests.support.stores import open_store, persist
from tests.support.terms import in_bands, terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, message, stream

HOUR_MS = 3_600_000
POWER = terms_with(TERMS, level=Fraction(1), length_ms=HOUR_MS, step_ms=HOUR_MS // 4, hold_ms=HOUR_MS)
ENERGY = terms_with(
    POWER, kind=Kind.INTERVAL_ENERGY, unit="kWh", hold_ms=0, interval_ms=HOUR_MS // 4, quantum_u=10
)


def core(terms: Terms = POWER, known: Snapshot | None = None, **how: Any) -> Pipeline:
    """A core that sends totals, with noise."""
    known = Snapshot({}, {}, {}) if known is None else known
    return Pipeline(stream(terms, **{"total": True, **how}), known, Spending(), SeededBits(1), Counts())


def rows(effects: Effects) -> list[Outgoing]:
    """What leaves, but for descriptors."""
    return [row for row in effects.commit.outgoing if not row.retain]


@pytest.mark.parametrize(
    ("terms", "unit", "hours"), [(POWER, "Wh", Fraction(1, 4)), (ENERGY, "kWh", Fraction(1))]
)
def test_a_total_is_the_sum_of_what_left(terms: Terms, unit: str, hours: Fraction) -> None:
    """Each record is followed by the total at its slot's end: an energy, exact, with its deviation."""
    pipeline = core(terms)
    feed(pipeline, message(1, 100))
    found = rows(feed(pipeline, now_ms=4 * HOUR_MS))
    assert len(found) == 2 * 4 * 3
    value, deviation = Fraction(0), terms.sd * float(hours)
    for count, (record, total) in enumerate(zip(found[::2], found[1::2], strict=True), 1):
        assert total.topic == f"{record.topic}/total"
        assert (total.due_ms, total.retain) == (record.due_ms, False)
        released, said = json.loads(record.payload, parse_float=Fraction), json.loads(total.payload)
        assert list(said) == ["v", "meter", "t", "value", "unit", "sd", "since", "d"]
        value += Fraction(released["value"]) * hours
        assert said["value"] == float(value)
        assert (said["unit"], said["d"], said["meter"]) == (unit, released["d"], "m1")
        assert parse_time(said["t"]) == parse_time(released["t"]) + terms.step_ms
        assert parse_time(said["since"]) == BASE_MS + HOUR_MS
        assert said["sd"] == float(f"{deviation * math.sqrt(count):.4g}")


def test_a_total_is_rounded_but_its_sum_is_not() -> None:
    """Ten minutes of watts are not a finite decimal: the message is rounded, the stored sum is exact."""
    terms = terms_with(POWER, step_ms=HOUR_MS // 6, quantum_u=1)
    sums = None
    for place in range(6):
        sums = Total.add_slot(sums, terms, 0, place, (1, 1.0))
    assert sums is not None
    assert sums.sum == HOUR_MS
    assert sums.value_u == 1
    assert Total.add_slot(None, terms, 0, 0, (2, 1.0)).value_u == 0
    assert Total.add_slot(None, terms, 0, 0, (3, 1.0)).value_u == 1
    assert Total.add_slot(None, terms, 0, 0, (-3, 1.0)).value_u == 0


def test_without_the_key_nothing_is_summed() -> None:
    """No total leaves and none is kept."""
    pipeline = core(POWER, total=False)
    feed(pipeline, message(1, 100))
    effects = feed(pipeline, now_ms=4 * HOUR_MS)
    assert not effects.commit.totals
    assert not [row for row in rows(effects) if row.topic.endswith("total")]


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_the_configuration_asks_for_it(wanted: str) -> None:
    """`sink.total` is what the core is told."""
    [known] = config.parse(written(sink=f"total = {wanted}")).stream
    told = parts.core_of(known, Fraction(0), parts.pseudonym_key(known), b"")
    assert told.total is (wanted == "true")


@given(st.sets(st.integers(2, 30), max_size=12), st.sampled_from(["before", "after"]))
def test_a_crash_neither_loses_nor_doubles(stops: set[int], fails: str) -> None:
    """Total and record are in one transaction: after any crash the total is the sum of what is on disk."""
    disk, left, now_ms = MemoryDisk(), list[Outgoing](), 0
    pipeline = core()
    disk.write(feed(pipeline, message(1, 100)).commit)
    for turn in range(31):
        now_ms += HOUR_MS // 5
        effects = feed(pipeline, now_ms=now_ms)
        if turn not in stops or fails == "after":
            disk.write(effects.commit)
            left += rows(effects)
        if turn in stops:
            pipeline = core(known=disk.snapshot())
    values = [json.loads(row.payload)["value"] for row in left]
    assert values
    for count in range(1, len(values) // 2 + 1):
        assert values[2 * count - 1] == sum(values[: 2 * count : 2]) / 4


def test_a_total_begins_anew_after_a_hole_another_unit_or_another_name() -> None:
    """It says what all of the time since holds; and a new pseudonym does not go on where the old one was."""
    first = Total.add_slot(None, POWER, 0, 0, (5, 1.0))
    assert Total.add_slot(first, POWER, 0, 1, (5, 1.0)).since_ms == 0
    assert Total.add_slot(first, POWER, 0, 2, (5, 1.0)).since_ms == HOUR_MS // 2
    assert Total.add_slot(first, ENERGY, 0, 1, (5, 1.0)).since_ms == HOUR_MS // 4
    disk = MemoryDisk()
    for key in (b"one", b"two"):
        pipeline = core(known=disk.snapshot(), pseudonym_key=key)
        start_ms = max((pipeline.deadline_ms(includes_closings=True) or 0) - BASE_MS, 0)
        disk.write(feed(pipeline, message(start_ms + 1, 100)).commit)
        disk.write(feed(pipeline, now_ms=start_ms + 3 * HOUR_MS).commit)
    assert len(disk.contents.totals) == 2


def test_the_total_of_bands_goes_on_from_window_to_window() -> None:
    """Bands leave when they end; hours without a band do not interrupt the total."""
    bands = (Band("a", ((0, 10), (40, 50))), Band("b", ((20, 30),)))
    terms = in_bands(POWER, bands, 60)
    sums: Total | None = None
    for window_ms in (0, 60):
        for place in (1, 0):
            sums = Total.add_slot(sums, terms, window_ms, place, (HOUR_MS, 0.0))
    assert sums is not None
    assert (sums.since_ms, sums.end_ms) == (0, 120)
    assert sums.sum == 2 * (20 + 10) * HOUR_MS * terms.quantum_u


def test_the_store_keeps_totals(tmp_path: Path) -> None:
    """Totals are saved with the commit in which they leave; with a restored store they start over."""
    total, path = Total(5, 7, "Wh", -(10**30), 0.1), tmp_path / "db"
    with open_store(path) as store:
        persist(store, Commit("main", 7, totals={"m": total}))
        persist(store, Commit("other", 7, totals={"m": total._replace(sum=1)}))
    with open_store(path) as store:
        assert store.snapshot("main").totals == {"m": total}
    restore_at(path, at_ms=9, now_ms=9)
    with open_store(path) as store:
        assert store.snapshot("main").totals == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1,2]", "7"])
def test_a_total_that_is_none_is_refused(text: str) -> None:
    """As every other text in the store."""
    with pytest.raises(StoreError, match="not readable"):
        schema.decode_total(text)
