"""Exact parameters and certified bounds (meteragent.privacy.exact)."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.exact import exp_neg_bounds, ln_bounds, positive, power_bounds, to_rational


def test_exact_numbers_pass() -> None:
    """A Fraction, an int, a Decimal and a string that writes a number are exact parameters."""
    assert to_rational("a", Fraction(1, 220)) == to_rational("a", "1/220") == Fraction(1, 220)
    assert to_rational("a", 3) == Fraction(3)
    assert to_rational("a", Decimal("0.1")) == to_rational("a", "0.1") == Fraction(1, 10)


def test_a_float_is_refused_with_what_to_write() -> None:
    """A float parameter is refused and the error shows the exact number to write instead."""
    with pytest.raises(TypeError, match=r"epsilon must be exact.*Fraction\('0.1'\)"):
        to_rational("epsilon", 0.1)


@pytest.mark.parametrize(("value", "text"), [(np.float32(0.5), "'0.5'"), (np.int64(3), "'3'")])
def test_a_number_of_an_array_is_refused_with_what_to_write(value: object, text: str) -> None:
    """A number that an array held is one of the machine's, and the error shows it written exactly."""
    with pytest.raises(TypeError, match=rf"epsilon must be exact.*Fraction\({text}\)"):
        to_rational("epsilon", value)


@pytest.mark.parametrize("value", ["", "one", "1/0", "nan", "inf", Decimal("inf"), Decimal("nan")])
def test_what_writes_no_finite_number_is_refused(value: object) -> None:
    """A string or Decimal that is not a finite number is a ValueError that shows an example."""
    with pytest.raises(ValueError, match=r"epsilon must be a finite number such as '1/220'"):
        to_rational("epsilon", value)


@pytest.mark.parametrize("value", [None, complex(1), True])
def test_what_is_no_rational_is_refused(value: object) -> None:
    """Nothing, complex numbers and truth values are not exact parameters."""
    with pytest.raises(TypeError, match="must be exact"):
        to_rational("a", value)


@pytest.mark.parametrize("value", [0, Fraction(-1, 3)])
def test_a_parameter_at_or_below_zero_is_refused(value: Fraction) -> None:
    """Epsilon, quantum and a are above zero."""
    with pytest.raises(ValueError, match="positive"):
        positive("a", value)


@given(num=st.integers(-(10**6), 10**9), den=st.integers(1, 10**6), k=st.integers(1, 300))
def test_the_bounds_of_a_power_of_e_hold_and_are_close(num: int, den: int, k: int) -> None:
    """2^k e^-x lies between the two integers, for every x >= -1, and they are at most 6 apart."""
    num = max(num, -den)
    lo, hi = exp_neg_bounds(num, den, k)
    with mpmath.workprec(k + 64):
        assert lo <= mpmath.ldexp(mpmath.exp(-mpmath.mpf(num) / den), k) <= hi
    assert hi - lo <= 6


@given(base=st.integers(0, 2**40), slack=st.integers(0, 3), n=st.integers(1, 3000))
def test_the_bounds_of_a_power_hold(base: int, slack: int, n: int) -> None:
    """2^w x^n lies between the two integers, for every x between the bounds given."""
    lo, hi = power_bounds(base, base + slack, n, 40)
    assert lo <= Fraction(base, 2**40) ** n * 2**40
    assert hi >= Fraction(base + slack, 2**40) ** n * 2**40


def test_the_bounds_of_a_power_are_close_below_one() -> None:
    """With n's own bits of extra precision, the bounds of x^n cost less than a unit for x <= 1."""
    for n in (1, 2, 30, 1440):
        w = 40 + n.bit_length() + 4
        base = (1 << w) - (1 << w) // (2 * n)
        lo, hi = power_bounds(base, base, n, w)
        assert hi - lo <= 1 << w - 40


@given(x=st.fractions(min_value=Fraction(1, 10**9)), k=st.integers(1, 300))
def test_the_bounds_of_a_logarithm_hold_and_are_close(x: Fraction, k: int) -> None:
    """ln_bounds enclose 2^k ln x between integers at most 4 apart, for any rational x > 0."""
    lo, hi = ln_bounds(x, k)
    with mpmath.workdps(200):
        exact = mpmath.ldexp(mpmath.log(mpmath.mpf(x.numerator) / x.denominator), k)
        assert lo <= exact <= hi
    assert hi - lo <= 4
