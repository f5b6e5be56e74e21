"""The numbers of finite mechanisms are computed in without rounding (meteragent.privacy.channel.exponential).

mpmath with 60 digits is the oracle for their values.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meteragent.privacy.channel import Number, exp
from tests.support.channels import FEW

terms = st.lists(
    st.tuples(
        st.fractions(-9, 9, max_denominator=9),
        st.fractions(Fraction(-7, 2), Fraction(7, 2), max_denominator=4),
    ),
    max_size=3,
)


def from_terms(sum_of: list[tuple[Fraction, Fraction]]) -> Number:
    """The sum of c e^r."""
    return sum((c * exp(r) for c, r in sum_of), exp(0) - 1)


def with_mpmath(sum_of: list[tuple[Fraction, Fraction]]) -> Any:
    """The same with 60 digits."""
    parts = (
        mpmath.mpf(c.numerator) / c.denominator * mpmath.e ** (mpmath.mpf(r.numerator) / r.denominator)
        for c, r in sum_of
    )
    return mpmath.fsum(parts)


@FEW
@given(terms, terms, terms)
def test_numbers_are_a_field(a: Any, b: Any, c: Any) -> None:
    """Sums, products and quotients obey their laws exactly, and subtraction undoes addition."""
    x, y, z = map(from_terms, (a, b, c))
    assert x * (y + z) == z * x + y * x
    assert (x + y) - y == x
    assert -(x - y) == y - x
    if y != 0:
        assert x / y * y == x
        assert (x / y + z / y) * y == x + z
        assert 1 / (1 / y) == y
    if y != 0 and z != 0:
        assert (x / y + x / z) * (y * z) == x * (z + y)
        assert (x / y < z / y) == ((x < z) if y > 0 else (x > z))


@given(terms, terms)
def test_order_and_bounds_agree_with_60_digits(a: Any, b: Any) -> None:
    """Numbers are ordered as their values are, and lie between their bounds, which are close."""
    with mpmath.workdps(60):
        x, y = from_terms(a), from_terms(b)
        u, v = with_mpmath(a), with_mpmath(b)
        assume(abs(v) > 1e-30 and abs(u - v) > 1e-30)
        assert (x < y) == (u < v)
        quotient, value = x / y, u / v
        lo, hi = quotient.bounds(100)
        assert mpmath.mpf(lo.numerator) / lo.denominator <= value + abs(value) * mpmath.mpf(10) ** -50
        assert mpmath.mpf(hi.numerator) / hi.denominator >= value - abs(value) * mpmath.mpf(10) ** -50
        assert hi - lo <= max(abs(lo), abs(hi)) / 2**100
        assert float(quotient) == pytest.approx(float(value), rel=1e-15, abs=0)
        if value > 0:
            assert quotient.log() == pytest.approx(float(mpmath.log(value)), rel=1e-15, abs=1e-30)


def test_numbers_that_agree_to_a_hundred_digits_are_told_apart() -> None:
    """No precision is enough for all comparisons; as much is used as each one takes."""
    with mpmath.workdps(120):
        near = Fraction(int(mpmath.floor(mpmath.e * 10**100)), 10**100)
    assert near < exp(1) < near + Fraction(1, 10**100)
    assert exp(Fraction(1, 3)) * exp(Fraction(2, 3)) == exp(1) != near
    assert exp(1) + near > 2 * near


def test_what_is_far_from_one_is_as_exact() -> None:
    """Very large and very small numbers keep their digits, and their logarithms."""
    assert float(exp(300)) == pytest.approx(math.exp(300), rel=1e-13)
    assert float(1 / (exp(300) + exp(299))) == pytest.approx(math.exp(-300) / (1 + math.exp(-1)), rel=1e-13)
    assert exp(2000).log() == 2000
    assert (1 + exp(-30)).log() == pytest.approx(math.exp(-30), rel=1e-12)
    assert float(exp(0) - 1) == 0


@pytest.mark.parametrize(
    "operation", [lambda x: x + 0.5, lambda x: 0.5 * x, lambda x: x < 0.5, lambda x: x / 0.5]
)
def test_a_float_is_no_exact_number(operation: Callable[[Any], Any]) -> None:
    """A float among exact numbers is refused, and never equal to one."""
    with pytest.raises(TypeError):
        operation(exp(1))
    assert exp(0) != 1.0


def test_what_has_no_value_is_refused() -> None:
    """Division by zero, and the logarithm of what is not positive."""
    with pytest.raises(ZeroDivisionError):
        exp(1) / (exp(0) - 1)
    with pytest.raises(ZeroDivisionError):
        1 / (exp(1) - exp(1))
    with pytest.raises(ValueError, match="positive"):
        (1 - exp(1)).log()


def test_a_number_shows_what_it_is() -> None:
    """The text is the formula."""
    assert repr((1 - exp("1/2")) / (1 + exp("1/2"))) == "(1 + -1 e^1/2)/(1 + 1 e^1/2)"
    assert repr(exp(0) - 1) == "0"
