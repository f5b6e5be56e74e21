"""Formats: what goes out comes back, but for what docs/formats.md lists; wrong files are refused by name."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meteragent.consume import collect
from meteragent.domain.errors import FormatError
from meteragent.domain.grid import iso_time
from meteragent.domain.identity import fits_segment
from meteragent.domain.terms import Terms
from meteragent.formats import green_button, meter_readings, readings, table
from meteragent.formats.entry import Entry, Quality, entries_of
from meteragent.formats.table import Separator
from tests.support.messages import (
    ENERGY,
    HALF_HOUR_MS,
    HOURLY,
    KILO,
    KILO_ENERGY,
    NOON_MS,
    described,
    recorded,
)
from tests.support.stores import TERMS

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: fits_segment(name) and name == name.strip())
XML_NAMES = st.text("abcXYZ019-_.:äß<>&\"' ", min_size=1, max_size=12).filter(
    lambda name: fits_segment(name) and name == name.strip()
)
MEASURED: st.SearchStrategy[tuple[Quality, float | None, str]] = st.just(("measured", None, ""))
RELEASED: st.SearchStrategy[tuple[Quality, float | None, str]] = st.tuples(
    st.just("estimated"),
    st.floats(1e-3, 1e9, allow_nan=False),
    st.text("0123456789abcdef", min_size=8, max_size=8),
)


@st.composite
def entries(draw: st.DrawFn, names: st.SearchStrategy[str], step_ms: int) -> list[Entry]:
    """Draw the values of a few meters, at most one for each slot."""
    slots = st.tuples(names, st.integers(0, 200))
    rows = []
    for meter, slot in draw(st.lists(slots, min_size=1, max_size=20, unique=True)):
        start_ms = NOON_MS + slot * step_ms
        quality, deviation, d = draw(st.one_of(MEASURED, RELEASED))
        value = Fraction(draw(st.integers(-(10**8), 10**8)), draw(st.sampled_from([1000, 10**6])))
        unit = draw(st.sampled_from(["W", "kW", "Wh", "kWh"]))
        rows.append(Entry(meter, start_ms, start_ms + step_ms, value, unit, quality, deviation, "", d))
    return rows


@given(entries(NAMES, 1500), st.sampled_from([",", ";"]))
def test_csv_loses_nothing(values: list[Entry], separator: Separator) -> None:
    """Every entry comes back equal from either dialect, in order."""
    assert list(table.read(table.write(values, separator))) == values


@given(st.text("'=+-@a", min_size=1, max_size=5))
def test_no_cell_is_a_formula(name: str) -> None:
    """A name never begins a cell as a formula does, and comes back as it was."""
    entry = Entry(f"{name}x", NOON_MS, NOON_MS + 1, Fraction(-5), "W", "measured", None, name, "")
    assume(fits_segment(entry.meter))
    content = table.write([entry])
    cells = content.decode().splitlines()[1].split(",")
    assert {cells[0][0], cells[7][0]}.isdisjoint("=+-@")
    assert list(table.read(content)) == [entry]


@given(entries(XML_NAMES, HALF_HOUR_MS))
def test_green_button_loses_only_the_prefix_of_the_unit(values: list[Entry]) -> None:
    """Every entry comes back with its exact value in W or Wh, its quality, deviation and descriptor."""
    names = {value.meter for value in values}
    back = sorted(green_button.read(green_button.write(values, NOON_MS)))
    expected = [
        value._replace(value=value.base_value, unit=value.unit.removeprefix("k"), sd=value.base_sd)
        for value in values
    ]
    assert {entry.meter for entry in back} == names
    assert sorted(back) == sorted(expected)


@given(entries(XML_NAMES, HALF_HOUR_MS))
def test_meter_readings_have_every_value(values: list[Entry]) -> None:
    """Each value is in the payload with its meter, its end, its unit and its quality."""
    root = ET.fromstring(meter_readings.write(values))
    space = meter_readings.NAMESPACE
    rows = []
    for reading in root:
        meter = reading.findtext(f"{space}Meter/{space}Names/{space}name")
        for block in reading.iter(f"{space}IntervalBlocks"):
            code = block.find(f"{space}ReadingType")
            assert code is not None
            for value in block.iter(f"{space}IntervalReadings"):
                quality = value.find(f"{space}ReadingQualities/{space}ReadingQualityType")
                assert quality is not None
                texts = value.findtext(f"{space}timeStamp"), Fraction(value.findtext(f"{space}value") or "")
                rows.append((meter, *texts, code.get("ref", "").split(".")[15:17], quality.get("ref")))
    units = {"W": ["0", "38"], "kW": ["3", "38"], "Wh": ["0", "72"], "kWh": ["3", "72"]}
    qualities = {"estimated": "2.8.0", "measured": "2.0.0"}
    expected = [
        (value.meter, iso_time(value.end_ms), value.value, units[value.unit], qualities[value.quality])
        for value in values
    ]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


def series_of(terms: Terms) -> list[Entry]:
    """Return the entries of a released series of a meter."""
    messages = [described(terms), *recorded(terms, [5, -3, 1_000_000])]
    return list(entries_of(collect(messages).values()))


@pytest.mark.parametrize("terms", [TERMS, KILO, ENERGY, KILO_ENERGY, HOURLY])
def test_released_records_say_so(terms: Terms) -> None:
    """Released values are estimated, with deviation and descriptor, through CSV and Green Button."""
    values = series_of(terms)
    assert all(value.quality == "estimated" and value.sd and len(value.d) == 8 for value in values)
    assert list(table.read(table.write(values))) == values
    back = list(green_button.read(green_button.write(values, NOON_MS)))
    assert [(value.value, value.quality, value.d) for value in back] == [
        (value.base_value, "estimated", value.d) for value in values
    ]


def test_readings_are_those_of_sanitise() -> None:
    """An energy has the end of its interval, a power the start; the lines of [source] say what they are."""
    energies, powers = series_of(ENERGY), series_of(TERMS)
    assert readings.arrow_table(energies)["time"][0].as_py().isoformat() == "2026-11-20T12:30:00+00:00"
    assert readings.arrow_table(powers)["time"][0].as_py().isoformat() == "2026-11-20T12:00:00+00:00"
    assert [Fraction(value) for value in readings.arrow_table(powers)["value"].to_pylist()] == [5, -3, 10**6]
    assert readings.source_lines(energies) == 'kind = "interval_energy"\nunit = "Wh"\ninterval = "30min"'


GOOD = table.write([Entry("m1", NOON_MS, NOON_MS + 1000, Fraction(5, 2), "W")]).decode()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("meter,", "name,", "line 1: no column meter"),
        ("12:00:00Z", "12:00:00", "line 2: column start: expected a time with an offset"),
        ("12:00:01Z", "12:00:00Z", "line 2: column end: expected a time after start"),
        ("2.5", "2,5", "line 2: column unit"),
        ("2.5", '"2,5"', "line 2: column value: expected a number such as 311.5"),
        ("2.5", "2.5000001", "line 2: column value"),
        (",W,", ",VA,", "line 2: column unit: expected one of W, kW, Wh, kWh"),
        ("measured", "good", "line 2: column quality: expected one of measured, estimated"),
        ("m1", "", "line 2: column meter"),
        ("m1", "m\x9b1", "line 2: column meter"),
        (
            "2026-11-20T12:00:00Z",
            "1970-01-21T10:00:00Z",
            "line 2: column start: expected a time of the years 1990",
        ),
        (
            "2026-11-20T12:00:01Z",
            "2101-01-01T00:00:01Z",
            "line 2: column end: expected a time of the years 1990",
        ),
        ("unit,quality", "unit,value", "line 1: two columns value"),
    ],
)
def test_a_wrong_table_is_refused(old: str, new: str, text: str) -> None:
    """The refusal names line and column and what is expected, and repeats no value."""
    with pytest.raises(FormatError, match=re.escape(text)) as caught:
        list(table.read(GOOD.replace(old, new, 1).encode()))
    assert "2.5" not in str(caught.value)


@pytest.mark.parametrize("missing", ["", "null", "NaN", " N/A "])
def test_a_row_without_a_value_is_left_out(missing: str) -> None:
    """What programs write for no value is counted, and no other row is lost; a row cut short is wrong."""
    left_out = Counter[str]()
    rows = GOOD + "\n".join(GOOD.splitlines()[1:]).replace("2.5", missing).replace("m1", "m2")
    (value,) = table.read(rows.encode(), left_out)
    assert (value.meter, left_out) == ("m1", {"a value is missing": 1})
    with pytest.raises(FormatError, match="line 3: column"):
        list(table.read((GOOD + "m1,2026-11-20T12:00:00Z").encode()))


def test_the_first_line_of_a_spreadsheet_is_passed_over() -> None:
    """A line that only names the separator is none of the table."""
    assert list(table.read(b"sep=,\r\n" + GOOD.encode())) == list(table.read(GOOD.encode()))


def test_a_point_is_no_decimal_mark_beside_semicolons() -> None:
    """In the dialect with decimal commas, 1.234 could be a thousand: it is refused."""
    text = table.write([Entry("m1", NOON_MS, NOON_MS + 1000, Fraction(5, 2), "W")], ";").decode()
    assert ";2,5;" in text
    with pytest.raises(FormatError, match="a number such as 311,5"):
        list(table.read(text.replace("2,5", "2.5").encode()))


FEED = green_button.write([Entry("m1", NOON_MS, NOON_MS + HALF_HOUR_MS, Fraction(5), "Wh")], NOON_MS).decode()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("<espi:uom>72<", "<espi:uom>71<", "uom 71: expected 38 (W) or 72 (Wh)"),
        ("Behaviour>4<", "Behaviour>1<", "accumulationBehaviour 1"),
        ("Multiplier>0<", "Multiplier>3000000<", "powerOfTenMultiplier 3000000: expected -12 to 12"),
        ("<espi:commodity>1<", "<espi:commodity>7<", "expected electricity"),
        ("<espi:kind>12<", "<espi:flowDirection>19</espi:flowDirection><espi:kind>12<", "flowDirection"),
        ("<espi:value>5<", "<espi:value>5.5<", "value: expected a whole number"),
        ("espi:timePeriod", "espi:period", "no timePeriod"),
        ("ReadingType/1", "ReadingType/2", "not have exactly one ReadingType"),
        ("</atom:feed>", "", "not well-formed XML"),
    ],
)
def test_a_wrong_feed_is_refused(old: str, new: str, text: str) -> None:
    """Another quantity, a register, a missing element or a broken link is named."""
    count = -1 if "period" in new else 1
    with pytest.raises(FormatError, match=re.escape(text)):
        list(green_button.read(FEED.replace(old, new, count).encode()))


@pytest.mark.parametrize("deviation", ["abc", "nan", "1e9999"])
def test_a_title_of_another_form_states_no_deviation(deviation: str) -> None:
    """Only a decimal number in our own title is a standard deviation; other titles are free text."""
    title = f"<atom:title>estimated, standard deviation {deviation} Wh, descriptor d<"
    (value,) = green_button.read(FEED.replace("<atom:title>measured<", title).encode())
    assert value.value == 5
    assert value.sd is None


def test_a_document_type_is_refused() -> None:
    """Entities cannot expand: a document type ends the reading before anything in it counts."""
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
    with pytest.raises(FormatError, match="document type"):
        list(green_button.read(bomb.encode()))


def test_links_of_other_feeds_are_followed() -> None:
    """A block and a MeterReading that link to the same collection of blocks belong together.

    The power of ten multiplies the value.
    """
    text = FEED.replace("UsagePoint/1/MeterReading/1/IntervalBlock", "IntervalBlock/of/1")
    text = text.replace("powerOfTenMultiplier>0<", "powerOfTenMultiplier>3<")
    (value,) = green_button.read(text.encode())
    assert value == Entry("m1", NOON_MS, NOON_MS + HALF_HOUR_MS, Fraction(5000), "Wh")


CANNOT: dict[str, tuple[Entry, Callable[[list[Entry]], bytes], str]] = {
    "bands": (
        Entry("m", 0, 1000, Fraction(1), "Wh", band="night"),
        lambda values: green_button.write(values, 0),
        "bands",
    ),
    "milliseconds": (
        Entry("m", 0, 1500, Fraction(1), "Wh"),
        lambda values: green_button.write(values, 0),
        "fractions of a second",
    ),
    "48 bits": (
        Entry("m", 0, 1000, Fraction(2**47), "Wh"),
        lambda values: green_button.write(values, 0),
        "48 bits",
    ),
    "a length": (Entry("m", 0, 7000, Fraction(1), "Wh"), meter_readings.write, "length"),
    "decimals": (Entry("m", 0, 1000, Fraction(1, 3), "Wh"), table.write, "six decimal places"),
    "a control in a name": (
        Entry("m\0", 0, 1000, Fraction(1), "Wh"),
        lambda values: green_button.write(values, 0),
        "the name",
    ),
    "an escape in a name": (Entry("\x1b", 0, 60_000, Fraction(1), "Wh"), meter_readings.write, "the name"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_a_format_cannot_carry_is_refused(case: str) -> None:
    """A value is never bent to fit: the refusal says why, and which format has room for it."""
    entry, write, text = CANNOT[case]
    with pytest.raises(FormatError, match=text):
        write([entry])
