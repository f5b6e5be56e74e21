"""What descriptors state about each kind of window, in one row for each kind.

In addition, all descriptors state `space`, `n`, `length`, `step` and `metric`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.domain.figures import three_figures
from meteragent.domain.grid import iso_duration
from meteragent.domain.shapes import (
    UNKNOWN_BAND,
    Amount,
    Bands,
    Curve,
    Excess,
    Means,
    Peak,
    PriceSource,
    Profile,
    Shape,
    Space,
)
from meteragent.domain.units import MICRO
from meteragent.wire.number import BOUNDS, DURATION_SCHEMA, EXACT_SCHEMA, UNIT_SCHEMA, parse_ms, read_exact

Facts = Mapping[str, Any]

TWO_OPERATORS = {"mechanism": "two-operator-laplace", "noise": "operators"}
"""The facts about the noise of a group's total, to which two operators add noise (docs/crowd.md)."""


class ShapeRow(NamedTuple):
    """What a descriptor states about one kind of window.

    fields   the fields that only descriptors of this kind (and perhaps few others) contain, each with its
             JSON Schema
    write    returns these fields of a shape
    read     returns the shape from a descriptor's facts, `length` and `step`; may raise ValueError,
             TypeError, KeyError, AttributeError or ZeroDivisionError. None if no such descriptor is sent
    words    returns the words after the quantity in the name of a sensor
    """

    fields: Mapping[str, Mapping[str, Any]]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Facts, int, int], Shape] | None
    words: Callable[[Any], str] = lambda _: ""


def _bands_of(shape: Profile | Bands) -> dict[str, Any]:
    return {"bands": {name: iso_duration(ms) for name, ms in shape.bands}}


def _read_durations(facts: Facts) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, 0 if (name, text) == (UNKNOWN_BAND, "PT0S") else parse_ms(text))
        for name, text in facts["bands"].items()
    )


def _weights_of(shape: Amount) -> dict[str, Any]:
    bound, default = (str(Fraction(price_u, MICRO)) for price_u in (shape.bound_u, shape.default_u))
    return {"weights": {"bound": bound, "default": default, "unit": shape.currency, "source": shape.source}}


def _read_amount(facts: Facts, length_ms: int, _step_ms: int) -> Shape:
    weights = facts["weights"]
    bound_u, default_u = (read_exact(weights[name]) * MICRO for name in ("bound", "default"))
    if bound_u.denominator != 1 or default_u.denominator != 1:
        raise ValueError("prices have at most six decimals")
    source = PriceSource(weights["source"])
    return Amount(length_ms, weights["unit"], bound_u.numerator, default_u.numerator, source)


def _with_constant(kind: type[Curve | Peak], name: str, value: Any, description: str) -> ShapeRow:
    """Return the row of a kind of window that adds one field, which always has the same value."""

    def read(facts: Facts, length_ms: int, step_ms: int) -> Shape:
        """Return the shape. Raises ValueError if the field has another value."""
        if repr(facts[name]) != repr(value):  # 1 is equal to True, but is another value in JSON
            raise ValueError(f"{name} is not {value}")
        return kind(length_ms, step_ms)

    return ShapeRow({name: {"const": value, "description": description}}, lambda _: {name: value}, read)


_BANDS = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": BOUNDS["bands"].high,
    "additionalProperties": {"anyOf": [DURATION_SCHEMA, {"const": "PT0S"}]},
    "description": "The name of each band, and its duration in a window.",
}
_PARTS = {
    "bound": EXACT_SCHEMA,
    "default": EXACT_SCHEMA,
    "unit": UNIT_SCHEMA,
    "source": {"enum": [*PriceSource]},
}
_WEIGHTS = {
    "type": "object",
    "required": list(_PARTS),
    "properties": _PARTS,
    "description": "Prices per kWh: values are amounts in `unit`.",
}


ROWS: dict[Space, ShapeRow] = {
    Space.LINF: ShapeRow({}, lambda _: {}, lambda _, length_ms, step_ms: Means(length_ms, step_ms)),
    Space.CURVE: _with_constant(Curve, "reconstruction", "steps", "A curve is constant within each slot."),
    Space.PROFILE: ShapeRow(
        {"bands": _BANDS}, _bands_of, lambda facts, length_ms, _: Profile(length_ms, _read_durations(facts))
    ),
    Space.BANDS: ShapeRow(
        {"bands": _BANDS}, _bands_of, lambda facts, length_ms, _: Bands(length_ms, _read_durations(facts))
    ),
    Space.WEIGHTED: ShapeRow({"weights": _WEIGHTS}, _weights_of, _read_amount),
    Space.PEAK: _with_constant(Peak, "each_draw", True, "A peak is charged for each draw of its noise."),
    Space.ABOVE: ShapeRow(
        {"threshold_w": EXACT_SCHEMA | {"description": "Values are the energy above this power."}},
        lambda shape: {"threshold_w": str(shape.threshold_w)},
        lambda facts, length_ms, _: Excess(length_ms, read_exact(facts["threshold_w"])),
        lambda shape: f" above {three_figures(shape.threshold_w)} W",
    ),
    # The leader publishes the descriptor of the total.
    Space.SHARE: ShapeRow({}, lambda shape: {**TWO_OPERATORS, "crowd": shape.group_id}, None),
}

OWN_FIELDS = {name: schema for row in ROWS.values() for name, schema in row.fields.items()}
"""The fields that belong to some kinds of windows only, with their JSON Schemas."""


def shape_fields(shape: Shape) -> dict[str, Any]:
    """Return the descriptor's fields about the kind of window."""
    return {"space": str(shape.space), **ROWS[shape.space].write(shape)}


def read_shape(facts: Facts, length_ms: int, step_ms: int) -> Shape:
    """Return the shape of a descriptor. Raises ValueError unless its fields make one kind of window."""
    row = ROWS[Space(facts["space"])]
    if row.read is None:
        raise ValueError("no descriptor of records has this space")
    if wrong_fields := (OWN_FIELDS.keys() & facts.keys()) ^ row.fields.keys():
        raise ValueError(f"fields are missing or of another space: {_quote_fields(wrong_fields)}")
    with suppress(ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
        shape = row.read(facts, length_ms, step_ms)
        if shape.is_sound():
            return shape
    raise ValueError(f"these fields do not make a window: {_quote_fields(('length', 'step', *row.fields))}")


def _quote_fields(fields: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(fields)))
