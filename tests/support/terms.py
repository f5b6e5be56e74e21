"""Terms that differ from fields_of_terms in some fields, wherever these fields stand."""

from dataclasses import fields, replace
from typing import Any

from meteragent.domain.grid import Band
from meteragent.domain.readings import ReadingRules
from meteragent.domain.shapes import Means, Profile, Shape
from meteragent.domain.terms import Terms

_READINGS = {item.name for item in fields(ReadingRules)}
_SLOTS = {"length_ms", "step_ms"}


def terms_with(terms: Terms, **changes: Any) -> Terms:
    """Return terms with other fields: of theirs, of their readings, or `length_ms` and `step_ms`."""
    readings = {name: value for name, value in changes.items() if name in _READINGS}
    slots = {name: value for name, value in changes.items() if name in _SLOTS}
    fields_of_terms = {name: value for name, value in changes.items() if name not in _READINGS | _SLOTS}
    if readings:
        fields_of_terms["readings"] = replace(terms.readings, **readings)
    if slots:
        fields_of_terms["shape"] = _in_slots(fields_of_terms.get("shape", terms.shape), **slots)
    return replace(terms, **fields_of_terms)


def _in_slots(shape: Shape, length_ms: int | None = None, step_ms: int | None = None) -> Shape:
    """Return a shape with another length, and with other slots or parts where it has any."""
    steps: dict[str, Any] = {}
    if step_ms is not None:
        steps["every_ms" if isinstance(shape, Means) else "part_ms"] = step_ms
    return replace(shape, length_ms=shape.length_ms if length_ms is None else length_ms, **steps)


def in_bands(terms: Terms, bands: tuple[Band, ...], length_ms: int | None = None) -> Terms:
    """Return terms whose slots are the bands of a mean day, in these places of a window."""
    durations = tuple((band.name, band.duration_ms) for band in bands)
    return replace(terms, shape=Profile(length_ms or terms.length_ms, durations), places=bands)
