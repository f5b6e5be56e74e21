"""Combine fine and coarse streams of one meter into unbiased values with smaller errors (THEORY 3.8).

Before noise, the half-hourly energies that one stream releases for a day add up to the daily energy that
another stream releases with independent noise. Least squares combines both, so that they add up again
(`privacy.nested`).

A coarse number is combined only with a *complete* set of finer numbers, whose slots fill its window exactly.
If a record of a middle stream is missing (such as a day of a month), the finer records take its place.

The result is unbiased only if, before noise, the fine slots of a window add up to the coarse slot. They do if
one source feeds both streams with the same lateness, gap, range and calendar, which `privacy.shares` ensures.
Descriptors do not state all of these settings; streams that differ in what they do state are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Floats, Integers, Series, freeze
from meteragent.privacy import nested as error
from meteragent.privacy.accuracy import require_coverage
from meteragent.privacy.nested import Node, Path, Tree
from meteragent.privacy.table import Columns

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Nested(Columns):
    """The numbers of one stream after combination with the other streams of its meter, in `unit`.

    Each is unbiased, with the standard deviation `sd`; `low` .. `high` contains the measured value with
    probability `coverage`, for each number separately. Errors are dependent, so variances do not add up. A
    number that is not `combined` is unchanged.
    """

    meter: str
    time_ms: Integers
    end_ms: Integers
    values: Floats
    sd: Floats
    low: Floats
    high: Floats
    combined: Flags
    coverage: float
    unit: str

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return columns of equal length, for `to_pandas()` and `to_arrow()`; times are in UTC."""
        return {
            "time": self.time_ms.astype("datetime64[ms]"),
            "duration_s": (self.end_ms - self.time_ms) / 1000,
            "value": self.values,
            "sd": self.sd,
            "low": self.low,
            "high": self.high,
            "combined": self.combined,
        }


def nested(*streams: Series, coverage: float = 0.95) -> tuple[Nested, ...]:  # names: of nested streams
    """Combine the series of two or more streams of one meter, from fine to coarse, by least squares.

    The result has one item for each series, in the same order and with the same slots. Raises ValueError if
    there are fewer than two series; they do not share one meter, kind, unit and local calendar, or their
    sources are not read in the same way; a slot is not longer than every slot of the previous stream; slots
    are bands, or a window has several slots, whose noises are dependent; no energy follows from the values;
    or coverage is not between 0 and 1.
    """
    _check(streams, coverage)
    pieces: list[Tree] = []
    roots: list[Tree] = []
    for place in range(len(streams)):
        pieces, finished_trees = _attach(streams, place, pieces)
        roots += finished_trees
    return _make_results(streams, [*roots, *pieces], coverage)


def _check(streams: Sequence[Series], coverage: float) -> None:
    if len(streams) < 2:
        raise ValueError("there must be at least two nested streams: a fine one and coarser ones")
    require_coverage(coverage)
    if len({series.meter for series in streams}) != 1:
        raise ValueError("nested streams must belong to one meter")
    descriptors = [terms for series in streams for terms in series.descriptors.values()]
    if any(terms.shape.names or terms.mechanism.n != 1 for terms in descriptors):
        raise ValueError(
            "nested streams need windows of one slot: slots of the same window share a noise bound"
        )
    if any(_source_facts(terms) != _source_facts(descriptors[0]) for terms in descriptors):
        raise ValueError("nested streams must have the same kind and unit, and sources read in the same way")
    if len({terms.timezone for terms in descriptors if terms.timezone}) > 1:
        raise ValueError("nested streams must share one local calendar")
    lengths_ms = [series.end_ms - series.time_ms for series in streams]
    if any(fine.max() >= coarse.min() for fine, coarse in pairwise(lengths_ms)):
        raise ValueError("nested streams must go from fine to coarse, with longer slots in each")


def _source_facts(terms: Descriptor) -> tuple[Any, ...]:
    """Return a descriptor's facts about what its source measures and how the source is read."""
    return terms.kind, terms.unit, terms.facts.get("readings"), terms.facts.get("schedule")


def _attach(streams: Sequence[Series], place: int, pieces: Sequence[Tree]) -> tuple[list[Tree], list[Tree]]:
    """Make each record of `streams[place]` the parent of the finer trees that fill its slot.

    A piece is a tree that may still get a parent. Return the pieces for the next stream, in time order and
    without overlaps, and the finished trees, which overlap a record's slot without filling it.
    """
    series = streams[place]
    slots = [_slot_of(streams, piece) for piece in pieces]
    starts_ms, ends_ms = np.array(slots, np.int64).reshape(-1, 2).T
    is_below, is_child = np.zeros((2, len(pieces)), np.bool_)
    pieces_above: list[Tree] = []
    for index in range(len(series.records)):
        start_ms, end_ms = int(series.time_ms[index]), int(series.end_ms[index])
        below_slice = slice(
            int(np.searchsorted(ends_ms, start_ms, "right")), int(np.searchsorted(starts_ms, end_ms))
        )
        fills = _fills(starts_ms[below_slice], ends_ms[below_slice], start_ms, end_ms)
        is_below[below_slice] = True
        is_child[below_slice] |= fills
        pieces_above.append(_tree(series, index, pieces[below_slice] if fills else (), (place, index)))
    rows = list(zip(pieces, is_below, is_child, strict=True))
    pieces_above += [piece for piece, has_overlap, _ in rows if not has_overlap]
    finished_trees = [piece for piece, has_overlap, has_parent in rows if has_overlap and not has_parent]
    return sorted(pieces_above, key=lambda piece: _slot_of(streams, piece)), finished_trees


def _fills(starts_ms: Integers, ends_ms: Integers, start_ms: int, end_ms: int) -> bool:
    """Return whether slots, in time order, fill the time from `start_ms` to `end_ms` exactly."""
    if not starts_ms.size or (starts_ms[0], ends_ms[-1]) != (start_ms, end_ms):
        return False
    return bool((ends_ms[:-1] == starts_ms[1:]).all())


def _slot_of(streams: Sequence[Series], piece: Tree) -> tuple[int, int]:
    place, index = piece.place
    return int(streams[place].time_ms[index]), int(streams[place].end_ms[index])


def _tree(series: Series, index: int, children: Sequence[Tree], place: tuple[int, int]) -> Tree:
    """Return the tree, in kWh, whose root is the record with the given index."""
    terms, weight = series.descriptor_of(series.records[index]), float(series.kwh_per_unit[index])
    kind = Node(terms.mechanism, terms.rounding, weight)
    return Tree.of(float(series.values[index]) * weight, kind, children, place)


def _make_results(streams: Sequence[Series], roots: Sequence[Tree], coverage: float) -> tuple[Nested, ...]:
    """Return the estimates of all trees for each stream, in the unit of its records."""
    columns = [np.zeros((4, len(series.records))) for series in streams]
    errors: dict[Path, tuple[float, float]] = {}
    for root in roots:
        for piece, kwh, path in root.estimates():
            if path not in errors:
                errors[path] = error.sd(path), error.half_width(path, coverage)
            place, index = piece.place
            is_combined = len(path) > 1 or bool(piece.children)
            columns[place][:, index] = kwh, *errors[path], is_combined
    return tuple(_result(series, column, coverage) for series, column in zip(streams, columns, strict=True))


def _result(series: Series, column: Floats, coverage: float) -> Nested:
    """Return a stream's result; the rows of `column` are values, sds, half-widths (kWh), and `combined`."""
    values, sd, half = column[:3] / series.kwh_per_unit
    is_combined = column[3] == 1
    return Nested(
        meter=series.meter,
        time_ms=series.time_ms,
        end_ms=series.end_ms,
        values=freeze(np.where(is_combined, values, series.values)),  # rounding must not change other values
        sd=freeze(sd),
        low=freeze(values - half),
        high=freeze(values + half),
        combined=freeze(is_combined),
        coverage=coverage,
        unit=series.unit,
    )
