"""How numbers are written for people, in reports and in refusals."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.figures import exact_text, three_figures
from meteragent.report import format as written
from meteragent.report.plan.render import share_of_home
from meteragent.tools.lines import format_column

LEVELS = st.fractions(min_value=0, max_value=1000, max_denominator=10**6)


@given(st.fractions())
def test_an_exact_number_is_read_back(number: Fraction) -> None:
    """An exact number is written exactly, and as a fraction only if it has no finite decimal form."""
    text = exact_text(number)
    assert Fraction(text) == number
    assert "e" not in text.lower()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(220), "220"),
        (Fraction("12.50"), "12.5"),
        (Fraction(1, 10**7), "0.0000001"),
        (Fraction(1, 3), "1/3"),
        (Fraction(-5000), "-5000"),
    ],
)
def test_exact_numbers(number: Fraction, text: str) -> None:
    """A decimal as short as it can be; a third stays a third."""
    assert exact_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (999.4, "999"),
        (999.5, "1,000"),
        (-1234.5678, "-1,235"),
        (Fraction(2, 3), "0.667"),
    ],
)
def test_three_figures(number: float | Fraction, text: str) -> None:
    """Three figures below a thousand, whole numbers with separators from there on."""
    assert three_figures(number) == text


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (659.5, "W", "659 W"),
        (659.6, "W", "660 W"),
        (999.5, "W", "999 W"),
        (999.7, "W", "1,000 W"),
        (0.1234, "kWh", "0.123 kWh"),
    ],
)
def test_a_tie_goes_to_the_whole_quanta_inside(number: float, unit: str, text: str) -> None:
    """An amount has three figures and its unit, and a half is rounded down."""
    assert written.amount_text(number, unit) == text


def test_energies_are_in_one_unit() -> None:
    """Small and large, in Wh, so that an event and the hidden energy can be compared at a glance."""
    assert [written.energy_text(wh) for wh in (38, Fraction(220, 2), 42_000)] == [
        "38 Wh",
        "110 Wh",
        "42,000 Wh",
    ]


@pytest.mark.parametrize(
    ("level", "rate", "odds"),
    [
        (Fraction(1), "1", "e^1 = 2.72"),
        (Fraction(48), "48", "e^48 (hides nothing)"),
        (Fraction(1, 3), "0.333", "e^0.334 = 1.4"),
        (Fraction(12, 11), "1.09", "e^1.1 = 3"),
        (Fraction(1440, 7), "206", "e^206 (hides nothing)"),
        (Fraction(10830), "10,830", "e^10,830 (hides nothing)"),
        (Fraction("0.125"), "0.125", "e^0.125 = 1.13"),
        (Fraction(9), "9", "e^9 (hides nothing)"),
        (Fraction("1.0043"), "1", "e^1.01 = 2.75"),
        (Fraction("6.00999"), "6.01", "e^6.02 = 412"),
    ],
)
def test_levels_and_odds(level: Fraction, rate: str, odds: str) -> None:
    """A level is exact if it is short, and the odds are e to its power; no level is too large to write."""
    assert (written.level_text(level), written.odds_text(level)) == (rate, odds)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=600))
def test_odds_are_a_right_equation_that_understates_nothing(level: Fraction) -> None:
    """The factor is that of the exponent beside it; neither is smaller than those of the level."""
    exponent_text, is_stated, factor_text = written.odds_text(level).removeprefix("e^").partition(" = ")
    exponent = float(exponent_text.removesuffix(" (hides nothing)").replace(",", ""))
    assert bool(is_stated) is (math.exp(exponent) < 1000)
    if (level * 1000).denominator > 1:
        assert exponent >= float(level)
    if is_stated:
        factor = float(factor_text.replace(",", ""))
        assert factor == pytest.approx(math.exp(exponent), rel=0.006)
        if (level * 1000).denominator > 1:
            assert factor >= math.exp(level) * (1 - 1e-9)


@given(LEVELS)
def test_a_level_is_right_to_three_figures(level: Fraction) -> None:
    """Whatever the level, what is written is off by less than half of its third figure."""
    number = float(written.level_text(level).replace(",", ""))
    assert math.isclose(number, float(level), rel_tol=5.0001e-3)


def test_homes_and_their_share() -> None:
    """One home or many, and a power beside a home's 330 W: a percentage, or how many times."""
    assert [written.mean_label(count) for count in (1, 1000)] == ["one home", "the mean of 1,000 homes"]
    assert [share_of_home(watts) for watts in (33, 1.1, 3299, 3300)] == [
        "10%",
        "0.333%",
        "1,000%",
        "10 times",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (428.04, "428"),
        (-99.96, "-100"),
        (-1234.5, "-1234"),
        (1e6, "1000000"),
    ],
)
def test_a_column_has_no_power_of_ten(number: float, text: str) -> None:
    """Three figures, whole from 100 on, and always plain digits."""
    assert format_column(number) == text
