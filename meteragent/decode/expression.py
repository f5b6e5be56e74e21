"""Evaluate JMESPath expressions with exact numbers.

The jmespath library's functions support only integers and binary floats; those in this module calculate with
decimals. Minima and maxima are exact, and so are sums (`number.sum_clamped`). A mean is rounded half up to 64
digits. The library's comparisons in filters are exact, but a fraction in an expression (`` `0.1` ``) is a
binary float, which rarely equals a decimal.

Expressions come with profiles that strangers wrote. A short expression could double a list many times
(`[@,@][]|[@,@][]`), so an evaluation that takes more than `STEPS_MAX` steps is refused.
"""

from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import jmespath
from jmespath import functions, visitor

from meteragent.decode.number import parse_number, sum_clamped
from meteragent.domain.errors import PayloadError

STEPS_MAX = 500_000
"""The largest number of steps of an evaluation: nodes of the expression, and the sizes of their values."""
_MEAN_CONTEXT = Context(prec=64, rounding=ROUND_HALF_UP)
_SIZED = (list, dict, str)
_TYPES = {str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}


def _number(value: Any) -> Decimal:
    """Convert a number from a document or expression to a decimal. Raises TypeError for other values."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    raise TypeError("not a number")


def _sortable_values(values: Iterable[Any]) -> list[Any]:
    """Return the values as a sortable list. Raises TypeError unless all are strings or all are numbers."""
    items = list(values)
    return items if all(isinstance(item, str) for item in items) else [_number(item) for item in items]


class _Functions(functions.Functions):
    """JMESPath's numeric functions, for decimals."""

    @functions.signature({"types": []})
    def _func_abs(self, value: Any) -> Decimal:
        return _number(value).copy_abs()

    @functions.signature({"types": []})
    def _func_ceil(self, value: Any) -> Decimal:
        return _number(value).to_integral_value(ROUND_CEILING)

    @functions.signature({"types": []})
    def _func_floor(self, value: Any) -> Decimal:
        return _number(value).to_integral_value(ROUND_FLOOR)

    @functions.signature({"types": ["array"]})
    def _func_sum(self, numbers: list[Any]) -> Decimal:
        return sum_clamped(map(_number, numbers))

    @functions.signature({"types": ["array"]})
    def _func_avg(self, numbers: list[Any]) -> Decimal | None:
        return _MEAN_CONTEXT.divide(self._func_sum(numbers), len(numbers)) if numbers else None

    @functions.signature({"types": ["array"]})
    def _func_max(self, values: list[Any]) -> Any:
        return max(_sortable_values(values), default=None)

    @functions.signature({"types": ["array"]})
    def _func_min(self, values: list[Any]) -> Any:
        return min(_sortable_values(values), default=None)

    @functions.signature({"types": ["array"]})
    def _func_sort(self, values: list[Any]) -> list[Any]:
        return sorted(_sortable_values(values))

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_max_by(self, values: list[Any], key: Any) -> Any:
        return max(_sort_pairs(values, key), key=_sort_key, default=(None, None))[1]

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_min_by(self, values: list[Any], key: Any) -> Any:
        return min(_sort_pairs(values, key), key=_sort_key, default=(None, None))[1]

    @functions.signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_sort_by(self, values: list[Any], key: Any) -> list[Any]:
        return [value for _, value in sorted(_sort_pairs(values, key), key=_sort_key)]

    @functions.signature({"types": []})
    def _func_to_number(self, value: Any) -> Decimal | None:
        try:
            return parse_number(value) if isinstance(value, str) else _number(value)
        except (TypeError, PayloadError):
            return None

    @functions.signature({"types": []})
    def _func_type(self, value: Any) -> str:
        return _TYPES.get(type(value), "number")


def _sort_key(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _sort_pairs(values: list[Any], key: Any) -> list[tuple[Any, Any]]:
    """Return pairs of a sort key and a value; an expression computes the key from the value."""
    return list(
        zip(_sortable_values(key.visit(key.expression, value) for value in values), values, strict=True)
    )


class _Interpreter(visitor.TreeInterpreter):
    """An interpreter that raises ValueError when an evaluation takes more than `STEPS_MAX` steps."""

    def __init__(self) -> None:
        super().__init__(jmespath.Options(custom_functions=_Functions()))
        self._steps = 0

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a node. Raises ValueError beyond the limit."""
        value = super().visit(node, *args, **kwargs)
        # Only a multi-select puts a value in several places, so the sizes of its values are added up.
        is_copied = node["type"].startswith("multi_select")
        self._steps += _size(value) if is_copied else 1 + len(value) if isinstance(value, _SIZED) else 1
        if self._steps > STEPS_MAX:
            raise ValueError("an expression that takes too many steps")
        return value


def _size(value: Any) -> int:
    """Return the number of values in a nested list or object, including itself."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, values))


def compile_search(expression: str) -> Callable[[Any], Any]:
    """Compile an expression into a function of documents. Raises JMESPathError if it is invalid."""
    tree = jmespath.compile(expression).parsed
    return lambda document: _Interpreter().visit(tree, document)
