"""Feeders on Spark: the same numbers as on one machine, to the last bit, and the same cells withheld."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from meteragent.consume import Cells, Descriptor, Rules, Series, Slots
from meteragent.consume import by_feeder as on_one_machine
from meteragent.spark.feeder import by_feeder
from tests.consume.test_consume_many import FINE, noisy, released, series
from tests.support.conformance_cases import JUNE, NOON, descriptor, terms_of
from tests.support.messages import HOURLY, KILO
from tests.support.stores import TERMS

HOMES, FEEDERS = 24, {"east": range(9), "north": range(9, 10), "west": range(10, 24)}


@pytest.fixture(scope="module")
def homes() -> list[Series]:
    """A day of homes, one of which uses as much as all others of its feeder; some have finer noise."""
    actual = []
    for number in range(HOMES):
        terms = FINE if number % 3 else TERMS
        watts = np.full((1, 48), 3000 if number == 2 else 300)
        quanta = watts * 10**6 // terms.quantum_u
        actual.append(series(terms, noisy(quanta, terms, number)[0].tolist(), f"m{number}"))
    return actual


def feeder_of() -> dict[str, str]:
    """Which feeder a meter is of."""
    return {f"m{number}": name for name, numbers in FEEDERS.items() for number in numbers}


def told(frame: Any) -> dict[str, Any]:
    """A frame's columns, in order of feeder and time, as those of `Cells`."""
    table: pa.Table = frame.toArrow().sort_by([("feeder", "ascending"), ("start", "ascending")])
    return {name: table[name].to_numpy() for name in table.column_names}


def assert_same(frame: Any, expected: Cells) -> None:
    """Every number is the same, to the last bit."""
    actual, columns = told(frame), expected.columns()
    assert set(actual) == set(columns)
    for name, column in columns.items():
        if name in ("start", "end"):
            assert (actual[name].astype("datetime64[ms]") == column).all()
        elif name == "feeder":
            assert actual[name].tolist() == column.tolist()
        else:
            assert actual[name].astype(column.dtype).tobytes() == column.tobytes(), name


@pytest.mark.parametrize("rules", [Rules(at_least=10), Rules(at_least=2, share=0.11, error=0.2)])
def test_numbers_are_those_of_one_machine(spark: SparkSession, homes: list[Series], rules: Rules) -> None:
    """Totals, means, deviations, intervals and what is withheld, whatever the partitions."""
    table, descriptors = released(homes)
    releases = spark.createDataFrame(table).repartition(3)
    feeders = spark.createDataFrame(list(feeder_of().items()), "meter string, feeder string")
    expected = on_one_machine(Slots.of(homes), feeder_of(), rules, 0.9)
    assert_same(by_feeder(releases, descriptors, feeders, rules, 0.9), expected)
    assert set(expected.shown.tolist()) == {True, False}


def test_capacities_are_a_column(spark: SparkSession, homes: list[Series]) -> None:
    """The rule on public facts, too; without feeders all meters are one."""
    table, descriptors = released(homes)
    releases = spark.createDataFrame(table)
    capacity = {f"m{number}": 5.5 + 10 * (number == 3) for number in range(HOMES)}
    rows = [(meter, feeder, capacity[meter]) for meter, feeder in feeder_of().items()]
    feeders = spark.createDataFrame(rows, "meter string, feeder string, capacity double")
    rules = Rules(share=0.25, capacity=capacity)
    expected = on_one_machine(Slots.of(homes), feeder_of(), rules)
    assert_same(by_feeder(releases, descriptors, feeders, rules), expected)
    assert set(expected.shown.tolist()) == {True, False}
    assert_same(by_feeder(releases, descriptors), on_one_machine(Slots.of(homes)))
    lacking = feeders.replace({5.5: None}, subset=["capacity"])
    assert not told(by_feeder(releases, descriptors, lacking, rules))["shown"].any()


def test_windows_of_several_slots(spark: SparkSession) -> None:
    """Each slot of a window is a cell of its own; decimals are exact."""
    homes = [series(replace(HOURLY), [100, 200, 300, -400, 500, 600] * 2, name) for name in ("a", "b")]
    table, descriptors = released(homes)
    actual = by_feeder(spark.createDataFrame(table), descriptors, rules=Rules(share=0.6))
    assert_same(actual, on_one_machine(Slots.of(homes), rules=Rules(share=0.6)))


def test_what_has_no_total_is_refused(spark: SparkSession) -> None:
    """No descriptors, unlike ones, and a coverage of all, before anything runs."""
    home = series(TERMS, [1])
    table, (terms,) = released([home])
    releases = spark.createDataFrame(table)
    other: Descriptor = released([series(KILO, [1])])[1][0]
    for descriptors in ([], [terms, other]):
        with pytest.raises(ValueError, match="totals need at least one slot, and one kind and unit"):
            by_feeder(releases, descriptors)
    with pytest.raises(ValueError, match="between 0 and 1"):
        by_feeder(releases, [terms], coverage=1)
    with pytest.raises(ValueError, match="`feeders` has no column `capacity`"):
        by_feeder(releases, [terms], rules=Rules(share=0.5, capacity={"m1": 1.0}))


def test_what_is_no_load_has_no_total(spark: SparkSession) -> None:
    """Peaks, bands and energies above a threshold are refused, and amounts where energies are compared."""
    releases = spark.createDataFrame(released([series(TERMS, [1])])[0])
    terms = {
        name: Descriptor.parse(descriptor(terms_of(name, start), start))
        for name, start in {"peak": JUNE, "tariff": JUNE, "above": NOON, "amount": JUNE}.items()
    }
    for name, rules in (("peak", Rules()), ("above", Rules()), ("amount", Rules(share=0.5))):
        with pytest.raises(ValueError, match="neither energies nor means of the load"):
            by_feeder(releases, [terms[name]], rules=rules)
    with pytest.raises(ValueError, match="the bands of mean days have no total"):
        by_feeder(releases, [terms["tariff"]])
    by_feeder(releases, [terms["amount"]])
