"""JMESPath on exact numbers: its functions count decimals as they stand in a document.

The library's own functions know integers and binary floats only. These read a document's decimals
and return decimals: sums and extremes are exact, a mean is exact where it terminates within 64 digits and
rounded half up there where it does not. Comparisons in filters are the library's, and exact too; but a
fraction written in an expression (`` `0.1` ``) is a binary float there, and `==` with one seldom holds.
"""

from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import jmespath
from jmespath import functions

from meteragent.decode.number import number_in, total
from meteragent.domain.errors import PayloadError

_MEAN = Context(prec=64, rounding=ROUND_HALF_UP)
_TYPES = {str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}


def _number(found: Any) -> Decimal:
    """A number of the document, or one written in the expression; raises TypeError for anything else."""
    if isinstance(found, Decimal):
        return found
    if isinstance(found, int | float) and not isinstance(found, bool):
        return Decimal(repr(found))
    raise TypeError("not a number")


def _alike(found: Iterable[Any]) -> list[Any]:
    """Things that can be put in order: all texts, or all numbers; raises TypeError for others."""
    things = list(found)
    return things if all(isinstance(one, str) for one in things) else [_number(one) for one in things]


class _Functions(functions.Functions):
    """JMESPath's functions of numbers; each raises TypeError for what is none."""

    @functions.signature({"types": []})
    def _func_abs(self, one: Any) -> Decimal:
        return _number(one).copy_abs()

    @functions.signature({"types": []})
    def _func_ceil(self, one: Any) -> Decimal:
        return _number(one).to_integral_value(ROUND_CEILING)

    @functions.signature({"types": []})
    def _func_floor(self, one: Any) -> Decimal:
        return _number(one).to_integral_value(ROUND_FLOOR)

    @functions.signature({"types": ["array"]})
    def _func_sum(self, numbers: list[Any]) -> Decimal:
        return total(map(_number, numbers))

    @functions.signature({"types": ["array"]})
    def _func_avg(self, numbers: list[Any]) -> Decimal | None:
        return _MEAN.divide(self._func_sum(numbers), len(numbers)) if numbers else None

    @functions.signature({"types": ["array"]})
    def _func_max(self, things: list[Any]) -> Any:
        return max(_alike(things), default=None)

    @functions.signature({"types": ["array"]})
    def _func_min(self, things: list[Any]) -> Any:
        return min(_alike(things), default=None)

    @functions.signature({"types": ["array"]})
    def _func_sort(self, things: list[Any]) -> list[Any]:
        return sorted(_alike(things))

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_max_by(self, things: list[Any], key: Any) -> Any:
        return max(_keyed(things, key), key=_first, default=(None, None))[1]

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_min_by(self, things: list[Any], key: Any) -> Any:
        return min(_keyed(things, key), key=_first, default=(None, None))[1]

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_sort_by(self, things: list[Any], key: Any) -> list[Any]:
        return [one for _, one in sorted(_keyed(things, key), key=_first)]

    @functions.signature({"types": []})
    def _func_to_number(self, one: Any) -> Decimal | None:
        try:
            return number_in(one) if isinstance(one, str) else _number(one)
        except (TypeError, PayloadError):
            return None

    @functions.signature({"types": []})
    def _func_type(self, one: Any) -> str:
        return _TYPES.get(type(one), "number")


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _keyed(things: list[Any], key: Any) -> list[tuple[Any, Any]]:
    """Things behind what an expression finds in each."""
    return list(zip(_alike(key.visit(key.expression, one) for one in things), things, strict=True))


def searcher(expression: str) -> Callable[[Any], Any]:
    """A function that finds an expression in a document; raises JMESPathError when it is none.

    What the function itself raises is not stated by the library.
    """
    compiled, options = jmespath.compile(expression), jmespath.Options(custom_functions=_Functions())
    return lambda document: compiled.search(document, options)
