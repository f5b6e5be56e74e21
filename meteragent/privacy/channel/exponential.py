"""Exact numbers for the probabilities of a channel: quotients of sums of c e^r, with rational c and r.

The finite mechanisms of the papers have probabilities such as 1/(m + e^epsilon) or
(1 - e^-epsilon)/(1 + e^-epsilon): rational functions of powers of e with rational exponents. These numbers
form a field, so computation needs no rounding. A sum of terms c e^r is represented by its exponents and
coefficients, and a number is a quotient of two such sums. By the theorem of Lindemann and Weierstrass,
e^r1, e^r2 .. are linearly independent over the rationals if r1, r2 .. are different rationals. So a sum is
zero if and only if all its coefficients are zero. The sign of any other sum is decided by certified bounds on
its terms with increasing precision; since the sum is not zero, finitely many bits suffice. So `<`, `==` and
`max` are exact, even if a mechanism is exactly as private as it claims and two numbers are equal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any

from meteragent.privacy.exact import Exact, exp_neg_bounds, ln_bounds, to_rational

Sum = Mapping[Fraction, Fraction]
"""A sum of terms c e^r as {r: c}, without zero coefficients."""

_ZERO = Fraction(0)
_ONE: Sum = {_ZERO: Fraction(1)}
_FLOAT_BITS = 64
_LOG_BITS = 128  # the logarithm of a number near 1 is small


@total_ordering
@dataclass(frozen=True, eq=False, repr=False)
class Number:
    """The quotient of two sums, which compares exactly with Numbers, Fractions and ints.

    The operators + - * / take Numbers, Fractions and ints. Division by zero raises ZeroDivisionError. An
    operand of another type, such as a float, raises TypeError, except that `==` returns False. `float` is
    correct to the last bit or two. Create numbers with `to_number` and `exp`.
    """

    numerator: Sum
    denominator: Sum

    def __add__(self, other: Any) -> "Number":
        if not (operand := _operand(other)):
            return NotImplemented
        if not self.numerator or not operand.numerator:
            return self if self.numerator else operand
        if self.denominator == operand.denominator:
            return Number(_add(self.numerator, operand.numerator), self.denominator)
        numerator = _add(
            _multiply(self.numerator, operand.denominator), _multiply(operand.numerator, self.denominator)
        )
        return Number(numerator, _multiply(self.denominator, operand.denominator))

    def __mul__(self, other: Any) -> "Number":
        if not (operand := _operand(other)):
            return NotImplemented
        return Number(
            _multiply(self.numerator, operand.numerator), _multiply(self.denominator, operand.denominator)
        )

    def __truediv__(self, other: Any) -> "Number":
        if not (operand := _operand(other)):
            return NotImplemented
        return _divide(
            _multiply(self.numerator, operand.denominator), _multiply(self.denominator, operand.numerator)
        )

    def __neg__(self) -> "Number":
        return Number({r: -c for r, c in self.numerator.items()}, self.denominator)

    def __sub__(self, other: Any) -> "Number":
        return self + -operand if (operand := _operand(other)) else NotImplemented

    def __rsub__(self, other: Any) -> "Number":
        return (-self).__add__(other)

    def __rtruediv__(self, other: Any) -> "Number":
        return operand / self if (operand := _operand(other)) else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return not (self + -operand).numerator if (operand := _operand(other)) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        if not (operand := _operand(other)):
            return NotImplemented
        return (self + -operand).sign < 0

    __hash__ = None  # type: ignore[assignment]  # equal numbers may be written as different quotients

    @property
    def sign(self) -> int:
        """The sign: -1, 0 or 1."""
        return _sign(self.numerator) * _sign(self.denominator)

    def bounds(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return rational bounds on this number with a relative difference of at most 2^-bits."""
        if not self.numerator:
            return _ZERO, _ZERO
        k = bits + 8
        while True:
            a_lo, a_hi, a_scale = _enclosure(self.numerator, k)
            b_lo, b_hi, b_scale = _enclosure(self.denominator, k)
            if (a_lo > 0 or a_hi < 0) and (b_lo > 0 or b_hi < 0):
                quotients = (Fraction(a * b_scale, b * a_scale) for a in (a_lo, a_hi) for b in (b_lo, b_hi))
                lo, *_, hi = sorted(quotients)
                shift_lo, shift_hi = _power_of_e(max(self.numerator) - max(self.denominator), k)
                lo, hi = lo * (shift_lo if lo > 0 else shift_hi), hi * (shift_hi if hi > 0 else shift_lo)
                if hi - lo <= min(abs(lo), abs(hi)) / 2**bits:
                    return lo, hi
            k *= 2

    def log(self) -> float:
        """Return the natural logarithm, to a few last digits or 2^-120. Raises ValueError unless positive."""
        if not self > 0:
            raise ValueError(f"only a positive number has a logarithm, not {float(self)}")
        lo, hi = self.bounds(_LOG_BITS)
        return float(Fraction(ln_bounds(lo, _LOG_BITS)[0] + ln_bounds(hi, _LOG_BITS)[1], 2 << _LOG_BITS))

    def __float__(self) -> float:
        return float(sum(self.bounds(_FLOAT_BITS)) / 2)

    def __repr__(self) -> str:
        numerator, denominator = _format_sum(self.numerator), _format_sum(self.denominator)
        return numerator if self.denominator == _ONE else f"({numerator})/({denominator})"


def to_number(name: str, value: Any) -> Number:
    """Return `value`, a Number or an exact value, as a Number. Raises as `to_rational` does."""
    return value if isinstance(value, Number) else Number(_constant(to_rational(name, value)), _ONE)


def exp(exponent: Exact) -> Number:
    """Return e^exponent, exactly. Raises as `to_rational` does."""
    return Number({to_rational("exponent", exponent): Fraction(1)}, _ONE)


def _operand(value: object) -> Number | None:
    if isinstance(value, Number):
        return value
    if isinstance(value, int | Fraction):
        return Number(_constant(Fraction(value)), _ONE)
    return None


def _constant(c: Fraction) -> Sum:
    return {_ZERO: c} if c else {}


def _divide(numerator: Sum, denominator: Sum) -> Number:
    """Divide two sums; a denominator of one term is divided out, so most numbers have the denominator 1."""
    if not denominator:
        raise ZeroDivisionError("division by the number zero")
    if len(denominator) > 1:
        return Number(numerator, denominator)
    ((r, c),) = denominator.items()
    return Number({s - r: d / c for s, d in numerator.items()}, _ONE)


def _add(terms: Sum, addends: Sum) -> Sum:
    total = dict(terms)
    for r, c in addends.items():
        total[r] = total.get(r, _ZERO) + c
    return {r: c for r, c in total.items() if c}


def _multiply(a: Sum, b: Sum) -> Sum:
    """Multiply two sums; a factor of one term only shifts exponents and scales coefficients."""
    if len(a) == 1:
        ((r, c),) = a.items()
        return {r + s: c * d for s, d in b.items()} if r else {s: c * d for s, d in b.items()}
    if len(b) == 1:
        return _multiply(b, a)
    total: dict[Fraction, Fraction] = {}
    for r, c in a.items():
        for s, d in b.items():
            total[r + s] = total.get(r + s, _ZERO) + c * d
    return {r: c for r, c in total.items() if c}


def _sign(terms: Sum) -> int:
    """Return the sign, -1, 0 or 1; bounds are needed only if the coefficients have different signs."""
    signs = {c.numerator > 0 for c in terms.values()}
    if len(signs) < 2:
        return sum(1 if positive else -1 for positive in signs)
    k = _FLOAT_BITS
    while True:
        lo, hi, _ = _enclosure(terms, k)
        if lo > 0 or hi < 0:
            return 1 if lo > 0 else -1
        k *= 2


def _enclosure(terms: Sum, k: int) -> tuple[int, int, int]:
    """Return lo, hi and scale: the sum divided by its largest power of e lies in [lo/scale, hi/scale]."""
    top, scale = max(terms), math.lcm(*(c.denominator for c in terms.values()))
    lo = hi = 0
    for r, c in terms.items():
        low, high = _exp_neg(top - r, k)
        size = c.numerator * (scale // c.denominator)
        lo, hi = lo + size * (low if size > 0 else high), hi + size * (high if size > 0 else low)
    return lo, hi, scale << k


@lru_cache(maxsize=1 << 12)
def _exp_neg(exponent: Fraction, k: int) -> tuple[int, int]:
    """Return integers that enclose 2^k e^-exponent, for an exponent >= 0."""
    return exp_neg_bounds(exponent.numerator, exponent.denominator, k) if exponent else (1 << k, 1 << k)


def _power_of_e(exponent: Fraction, k: int) -> tuple[Fraction, Fraction]:
    """Return bounds on e^exponent with a relative difference of a few times 2^-k."""
    size = abs(exponent)
    k += 2 * -(-size.numerator // size.denominator)  # e^-size > 2^-2size
    low, high = _exp_neg(size, k)
    lo, hi = Fraction(low, 2**k), Fraction(high, 2**k)
    return (lo, hi) if exponent < 0 else (1 / hi, 1 / lo)


def _format_sum(terms: Sum) -> str:
    texts = [f"{c} e^{r}" if r else str(c) for r, c in sorted(terms.items())]
    return " + ".join(texts) if texts else "0"
