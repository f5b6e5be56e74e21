"""The forms of an archive: which there are, what fits, how numbers are read; errors that name the column."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.archive import layout
from meteragent.archive import readings as archive
from meteragent.archive.acceptance import layout_of
from meteragent.archive.number import to_millionths, to_milliseconds, whole_quanta
from meteragent.archive.policy import FIRST_MS, Policy
from meteragent.domain.errors import ArchiveError
from tests.support.archives import (
    AUTUMN_MS,
    DAY_MS,
    ENERGY,
    LOCAL_DAY,
    QUARTERS,
    SPRING_MS,
    TIME,
    policy,
    readings,
)

DAY = policy(window=QUARTERS)
SECRET = 31_415_926


def wide(
    values: list[Any], kind: pa.DataType = None, starts_ms: list[int] | None = None, under: Policy = DAY
) -> list[list[int]]:
    """The quanta of rows of the wide form."""
    starts = [FIRST_MS + at * DAY_MS for at in range(len(values))] if starts_ms is None else starts_ms
    columns = [
        pa.array(["m"] * len(values)),
        pa.array(starts, TIME),
        pa.array(values, pa.list_(pa.int32() if kind is None else kind)),
    ]
    batch = pa.record_batch(columns, names=["meter", "time", "value"])
    actual: list[list[int]] = layout.read_wide(batch, under)[0].column("quanta").to_pylist()
    return actual


def schema(**other: pa.DataType) -> pa.Schema:
    """Columns of the long form, some of them of another type."""
    return pa.schema({"meter": pa.string(), "time": TIME, "value": pa.float64()} | other)


def test_the_form_follows_from_the_type() -> None:
    """A list of numbers is a window, a number a reading; names, dictionaries and long lists are as good."""
    assert layout_of(schema(), DAY) == "long"
    assert layout_of(schema(value=pa.decimal128(9, 3), meter=pa.int64()), DAY) == "long"
    assert layout_of(schema(meter=pa.dictionary(pa.int32(), pa.string())), DAY) == "long"
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.float32()), pa.list_(pa.int64(), 96)):
        assert layout_of(schema(value=kind), DAY) == "wide"


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ("meter", pa.float64(), "strings"),
        ("time", pa.timestamp("us"), "time zone"),
        ("time", pa.int64(), "time zone"),
        ("value", pa.string(), "numbers"),
        ("value", pa.list_(pa.string()), "list of numbers"),
        ("value", pa.decimal256(60, 2), "numbers"),
    ],
)
def test_a_wrong_type_is_named(column: str, kind: pa.DataType, expected: str) -> None:
    """The error says which column, what it is, and what it should be."""
    with pytest.raises(ArchiveError, match=f"column '{column}': found .*{expected}"):
        layout_of(schema(**{column: kind}), DAY)


def test_a_missing_column_is_named() -> None:
    """With those that there are."""
    with pytest.raises(ArchiveError, match=r"column 'kwh'.*'meter', 'time', 'value'"):
        layout_of(schema(), policy(window=QUARTERS, archive="value = 'kwh'"))


def test_a_column_that_is_there_twice_is_refused() -> None:
    """Which of the two is meant is not guessed."""
    with pytest.raises(ArchiveError, match="column 'value': more than one has this name"):
        layout_of(schema().append(schema().field("value")), DAY)


def test_a_row_is_a_window() -> None:
    """Numbers are slots; a null is the gap, a null list a window of gaps; what is out of range is clamped."""
    under = policy(window=f"{QUARTERS}\ngap = 7")
    rows = wide([[5] * 95 + [None], None, [-1, 30_000, *range(94)]], under=under)
    assert rows == [[5] * 95 + [7], [7] * 96, [0, 20_000, *range(94)]]


def test_parts_of_slots_are_their_means() -> None:
    """Quarters in a slot of an hour: the exact mean, rounded half up; of a day of 23 hours as well."""
    hours = policy(window="length = '1d'\nstep = '1h'")
    assert wide([[1, 1, 1, 3] + [0] * 92], under=hours) == [[2] + [0] * 23]
    local = policy(window=LOCAL_DAY, privacy="preset = 'day'\nquantum = 1\nhide = '3kWh'")
    rows = wide([[10] * 92, [20] * 100], starts_ms=[SPRING_MS, AUTUMN_MS], under=local)
    assert rows == [[10], [20]]


def test_energies_of_slots_are_sums() -> None:
    """Quarters of energy in slots of an hour are added, and clamped one by one."""
    hours = policy(source=ENERGY, window="length = '1d'\nstep = '1h'\nrange = [0, 4000]")
    assert wide([[1, 2, 3, 4, 5000, 0, 0, 0] + [1] * 88], under=hours) == [[10, 1000] + [4] * 22]


def test_which_end_of_an_interval_a_time_marks_is_never_guessed() -> None:
    """Interval energies in rows of readings need `source.stamp`; a row that is a window has its start."""
    unstated = policy(source=ENERGY.replace("stamp = 'end'", ""), window=QUARTERS)
    with pytest.raises(ArchiveError, match=r"source\.stamp: found nothing; expected 'end'"):
        layout_of(schema(), unstated)
    assert layout_of(schema(value=pa.list_(pa.int64())), unstated) == "wide"
    assert layout_of(schema(), policy(source=ENERGY, window=QUARTERS)) == "long"


@pytest.mark.parametrize(
    ("values", "start_ms"),
    [
        ([[1] * 95], FIRST_MS),
        ([[1] * 97], FIRST_MS),
        ([[]], FIRST_MS),
        ([[1] * 96], FIRST_MS + 900_000),
        ([[1] * 96], FIRST_MS - 1),
    ],
    ids=["short", "long", "empty", "off the grid", "before 1990"],
)
def test_rows_that_do_not_fit_are_refused(values: list[Any], start_ms: int) -> None:
    """Another number of slots, another start: an error, not a guess."""
    with pytest.raises(ArchiveError, match=r"^rows that do not .*: 1 of 1$|1990 to 2100: 1;"):
        wide(values, starts_ms=[start_ms])


@pytest.mark.parametrize("order", [1, -1])
def test_rows_may_have_other_numbers_than_their_neighbours(order: int) -> None:
    """A row of twice as many numbers is read beside a usual or missing one; none hides a short one."""
    rows: list[Any] = [[1] * 96, [1, 3] * 96, None][::order]
    assert wide(rows) == [[1] * 96, [2] * 96, [0] * 96][::order]
    with pytest.raises(ArchiveError, match=r"rows that do not .*: 1 of 4$"):
        wide([*rows, [1] * 95][::order])


def test_energies_have_one_number_for_each_interval() -> None:
    """Half hours where intervals are quarters mean another thing, and are refused."""
    under = policy(source=ENERGY, window=QUARTERS)
    with pytest.raises(ArchiveError):
        wide([[1] * 48], under=under)


SCALES = ("1", "1000", "0.1", "1/3", "0.000001")


@given(st.sampled_from(SCALES), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_are_exact(scale: str, numbers: list[int]) -> None:
    """Any integer times the scale, floor(x + 1/2) in millionths, clamped."""
    under = policy(window=QUARTERS, source=f"scale = '{scale}'")
    actual = to_millionths(pa.array(numbers, pa.int64()), under)
    assert actual.values_u.tolist() == [expected(Fraction(number), under) for number in numbers]
    assert actual.is_clamped.sum() == sum(outside(Fraction(number), under) for number in numbers)


@pytest.mark.parametrize("scale", ["1", "0.5", "3", "0.001"])
@pytest.mark.parametrize("quantum", ["1", "0.5", "2"])
@given(numbers=st.lists(st.integers(-12, 112) | st.integers(-(2**31), 2**31 - 1), max_size=5))
def test_whole_quanta_need_no_rounding(scale: str, quantum: str, numbers: list[int]) -> None:
    """Integers that are whole quanta each, and in the range, are what rounding makes of them; others wait."""
    window = "length = '1d'\nstep = '15min'\nrange = [-10, 100]"
    under = policy(source=f"scale = '{scale}'", window=window, privacy=f"quantum = '{quantum}'")
    column, usual = pa.array(numbers, pa.int32()), under.usual
    actual = to_millionths(column, under)
    made = whole_quanta(column, under)
    simple = Fraction(scale) / Fraction(quantum) == Fraction(scale) // Fraction(quantum)
    assert (made is not None) == (bool(numbers) and simple and not actual.is_clamped.any())
    if made is not None:
        expected = (2 * actual.values_u + usual.quantum_u) // (2 * usual.quantum_u)
        assert made.dtype == np.dtype(np.int64)
        assert made.tolist() == expected.tolist()
    for other in (pa.array([*numbers, None], pa.int32()), pa.array([1.0])):
        assert whole_quanta(other, under) is None


@given(st.sampled_from(SCALES), st.lists(st.decimals(-(10**9), 10**9, places=7), min_size=1))
def test_decimals_are_exact(scale: str, numbers: list[Decimal]) -> None:
    """As integers, whatever their digits; also of as many as Spark gives them."""
    under = policy(window=QUARTERS, source=f"scale = '{scale}'")
    for kind in (pa.decimal128(20, 7), pa.decimal128(38, 18)):
        actual = to_millionths(pa.array([*numbers, None], kind), under)
        assert actual.values_u.tolist()[:-1] == [expected(Fraction(number), under) for number in numbers]
        assert actual.valid.tolist() == [True] * len(numbers) + [False]


def test_unsigned_and_small_integers_are_exact() -> None:
    """Every type of integers is read as itself."""
    for kind, most in (
        (pa.uint64(), 2**64 - 1),
        (pa.uint8(), 255),
        (pa.int8(), 127),
        (pa.uint32(), 2**32 - 1),
    ):
        actual = to_millionths(pa.array([0, 100, most, None], kind), DAY)
        assert actual.values_u.tolist() == [0, 10**8, min(most * 10**6, 2 * 10**10), 0]
        assert actual.valid.tolist() == [True, True, True, False]


@given(st.lists(st.floats(), min_size=1))
def test_floats_are_rounded(numbers: list[float]) -> None:
    """floor(x * 10^6 + 1/2) in double precision; a number that is not finite is not a value."""
    actual = to_millionths(pa.array(numbers, pa.float64(), from_pandas=False), DAY)
    finite = [math.isfinite(number) for number in numbers]
    assert actual.valid.tolist() == finite
    for number, value_u in zip(numbers, actual.values_u.tolist(), strict=True):
        if math.isfinite(number):
            assert abs(value_u - expected(Fraction(number), DAY)) <= 1


def expected(number: Fraction, under: Policy) -> int:
    """What the agent makes of a number."""
    value_u = math.floor(number * under.scale + Fraction(1, 2))
    return min(max(value_u, under.usual.readings.low_u), under.usual.readings.high_u)


def outside(number: Fraction, under: Policy) -> bool:
    """Whether a number is out of range."""
    value_u = math.floor(number * under.scale + Fraction(1, 2))
    return not under.usual.readings.low_u <= value_u <= under.usual.readings.high_u


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_rounded_down(unit: str) -> None:
    """To whole milliseconds, from any unit and zone."""
    at = datetime(2026, 3, 1, 12, 0, 0, 999_999 if unit in {"us", "ns"} else 0, UTC)
    column = pa.array([at], pa.timestamp(unit, tz="Europe/Amsterdam"))
    assert to_milliseconds(column, "time").tolist() == [int(at.timestamp() * 1000)]


@pytest.mark.parametrize("seconds", [FIRST_MS // 1000 - 1, 2**62, 4_133_980_800])
def test_times_of_another_age_are_refused(seconds: int) -> None:
    """A time before 1990 or after 2100 is a mistake of units."""
    with pytest.raises(ArchiveError, match="column 't': rows with a time outside the years 1990 to 2100: 1;"):
        to_milliseconds(
            pa.array([FIRST_MS // 1000, seconds], pa.int64()).cast(pa.timestamp("s", tz="UTC")), "t"
        )


def test_errors_hold_no_value() -> None:
    """Whatever is wrong with a row: what was measured is not repeated."""
    wrong: list[Callable[[], object]] = [
        lambda: wide([[SECRET] * 95]),
        lambda: wide([[SECRET] * 96], starts_ms=[FIRST_MS + 900_000]),
        lambda: to_millionths(pa.array([str(SECRET)]), DAY),
    ]
    for call in wrong:
        with pytest.raises(ArchiveError) as caught:
            call()
        assert str(SECRET) not in repr(caught.value)
        assert caught.value.__context__ is None


@given(st.data())
def test_what_engines_gather_is_the_same(data: st.DataObject) -> None:
    """Readings given to every window that they may touch, in any order: the windows of the long form."""
    under = policy(window="length = '30min'", source="hold = '20min'")
    rows = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, 1),
                st.integers(0, 40).map(lambda at: FIRST_MS + at * 400_000),
                st.none() | st.integers(0, 3000),
            ),
            min_size=1,
        )
    )
    item = readings([(meter, at, None if w is None else w * 10**6) for meter, at, w in rows])
    opened = archive.opened_windows(item.meter, item.time_ms, under)
    direct = {
        (int(m), int(s)): q
        for some, ragged in archive.integrate_windows(
            archive.merge_equal_times(item).readings, opened, under, 1000
        )
        for m, s, q in zip(some.meter, some.start_ms, ragged.numbers.tolist(), strict=True)
    }
    touched: dict[tuple[str, int], list[tuple[int, int | None]]] = {}
    for meter, at, watts in data.draw(st.permutations(rows)):
        own = at - at % 1_800_000
        for start in (own, own + 1_800_000):
            if start < at + 1_200_000:
                touched.setdefault((str(meter), start), []).append((at, watts and watts * 10**6))
    kind = pa.list_(pa.struct([("time", TIME), ("value", pa.int64())]))
    names, starts = ([key[i] for key in touched] for i in (0, 1))
    columns = [pa.array(names), pa.array(starts, TIME), pa.array([*touched.values()], kind)]
    batch = pa.record_batch(columns, names=["meter", "start", "readings"])
    actual, _ = layout.read_grouped(batch, under)
    starts_ms = np.array(actual.column("start").cast(pa.int64()))
    quanta = [item for (item,) in actual.column("quanta").to_pylist()]
    keys = [
        (int(name), int(at)) for name, at in zip(actual.column("meter").to_pylist(), starts_ms, strict=True)
    ]
    assert dict(zip(keys, quanta, strict=True)) == direct


def test_floats_are_rounded_half_up() -> None:
    """To the nearest millionth, the middle upwards, below zero too."""
    under = policy(window=f"{QUARTERS}\nrange = [-1, 1]")
    actual = to_millionths(pa.array([1.5e-6, 2.4e-6, 2.6e-6, -1.5e-6, -2.6e-6, 0.0]), under)
    assert actual.values_u.tolist() == [2, 2, 3, -1, -3, 0]
