"""Integrate readings into the slots of many windows at once; the agent's `core.window` fills one at a time.

A power reading holds until the next reading, for at most `hold`. An energy covers the interval that ends at
its time, except for any part that an earlier energy covers. All other time is a gap. A slot's value x is
rounded to floor(x/q + 1/2) quanta, where q is the quantum. If several readings have the same time, only the
smallest value is used (`readings.merge_equal_times`). The agent's results differ: it uses the first reading
of several at one time, refuses readings later than `lateness`, begins a meter's first window after its first
reading, and dithers values. A window gets every reading whose span may overlap it. A sum is an integer in
millionths of the unit times milliseconds, computed in two halves if it might overflow 64 bits.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meteragent.archive.policy import Integers, Policy
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up

_HALF_BITS = 20
_INT64_BITS = 62


class Spans(NamedTuple):
    """Values over stretches of time, as columns.

    `window` is the index of the window, `begin` and `end` are in ms after the window's start, and `values_u`
    are in millionths of the unit.
    """

    window: Integers
    begin: Integers
    end: Integers
    values_u: Integers


class Ragged(NamedTuple):
    """Several lists of numbers: the `lengths` of the lists, and all their `numbers` in one array."""

    lengths: Integers
    numbers: Integers


def integrate(
    starts_ms: Integers, lengths: Integers, times_ms: Integers, values_u: Integers, policy: Policy
) -> Ragged:
    """Integrate readings into the slots of windows, in whole quanta, under the policy's terms of each.

    `starts_ms` and `lengths` are each window's start and number of readings. `times_ms` (ascending within a
    window) and `values_u` (clamped, in millionths) are the readings of all windows, one window after another.
    """
    window = np.repeat(np.arange(starts_ms.size), lengths)
    offset_ms = times_ms - starts_ms[window]
    return fill_slots(starts_ms, _spans(window, offset_ms, values_u, policy.usual), policy)


def _spans(window: Integers, offset_ms: Integers, values_u: Integers, usual: Terms) -> Spans:
    """Return sorted readings' spans: of power, until the next reading; of energy, since the previous one."""
    is_same_window = window[1:] == window[:-1]
    if usual.readings.kind is Kind.INTERVAL_ENERGY:
        begin, end = offset_ms - usual.readings.interval_ms, offset_ms
        begin[1:] = np.where(is_same_window, np.maximum(begin[1:], offset_ms[:-1]), begin[1:])
    else:
        begin, end = offset_ms, offset_ms + usual.readings.hold_ms
        end[:-1] = np.where(is_same_window, np.minimum(end[:-1], offset_ms[1:]), end[:-1])
    return Spans(window, begin, end, values_u)


def fill_slots(starts_ms: Integers, spans: Spans, policy: Policy) -> Ragged:
    """Integrate spans into the slots of windows, in whole quanta. Time without a span is a gap."""
    terms_index, terms = policy.terms(starts_ms)
    lengths_ms = np.array([window_terms.length_ms for window_terms in terms], np.int64)[terms_index][
        spans.window
    ]
    begin, end = np.maximum(spans.begin, 0), np.minimum(spans.end, lengths_ms)
    is_nonempty = begin < end
    spans = Spans(
        spans.window[is_nonempty], begin[is_nonempty], end[is_nonempty], spans.values_u[is_nonempty]
    )
    if len(terms) == 1:
        n = terms[0].n
        return Ragged(np.full(starts_ms.size, n), _quanta(terms[0], starts_ms.size, spans))
    lengths = np.array([window_terms.n for window_terms in terms], np.int64)[terms_index]
    numbers, begins = np.empty(int(lengths.sum()), np.int64), np.cumsum(lengths) - lengths
    for index, window_terms in enumerate(terms):
        is_member = terms_index == index
        rows, rank = np.flatnonzero(is_member), np.cumsum(is_member) - 1
        is_selected = is_member[spans.window]
        group_spans = Spans(rank[spans.window[is_selected]], *(column[is_selected] for column in spans[1:]))
        slots = begins[rows][:, np.newaxis] + np.arange(window_terms.n)
        numbers[slots] = _quanta(window_terms, rows.size, group_spans).reshape(rows.size, window_terms.n)
    return Ragged(lengths, numbers)


def _quanta(terms: Terms, count: int, spans: Spans) -> Integers:
    """Return the values of the slots of `count` windows in whole quanta, shape (count * n,)."""
    edges, slot_of_segment = _slot_segments(terms)
    first = np.searchsorted(edges, spans.begin, side="right") - 1
    pieces = np.searchsorted(edges, spans.end, side="left") - first
    span = np.repeat(np.arange(first.size), pieces)
    segment = first[span] + np.arange(span.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    overlap_ms = np.minimum(spans.end[span], edges[segment + 1]) - np.maximum(
        spans.begin[span], edges[segment]
    )
    slot = slot_of_segment[segment]
    cell = spans.window[span] * terms.n + slot
    amount = spans.values_u[span] - terms.readings.gap_u
    if terms.shape.names:
        is_in_band = slot >= 0
        cell, amount, overlap_ms = cell[is_in_band], amount[is_in_band], overlap_ms[is_in_band]
    return _round_sums(terms, _slot_sums(terms, count, cell, amount, overlap_ms))


def _slot_sums(terms: Terms, count: int, cell: Integers, amount: Integers, overlap_ms: Integers) -> Integers:
    """Return each slot's sum of (value - gap value) * ms, as Python integers if 64 bits might overflow."""
    if _fits_int64(terms):
        sums = np.zeros(count * terms.n, np.int64)
        np.add.at(sums, cell, amount * overlap_ms)
        return sums
    halves = []
    for half in (amount >> _HALF_BITS, amount & ((1 << _HALF_BITS) - 1)):
        sums = np.zeros(count * terms.n, np.int64)
        np.add.at(sums, cell, half * overlap_ms)
        halves.append(sums.astype(object))
    exact_sums: Integers = (halves[0] << _HALF_BITS) + halves[1]
    return exact_sums


def _fits_int64(terms: Terms) -> bool:
    """Return whether the sums, including the gap and a term for rounding, always fit in 64 bits."""
    largest = 2 * max(abs(terms.readings.low_u), abs(terms.readings.high_u), abs(terms.readings.gap_u))
    longest_ms = max(_durations_ms(terms))
    lattice = max(terms.steps_per_quantum)
    return (2 * largest * longest_ms + 2 * lattice).bit_length() < _INT64_BITS


def _round_sums(terms: Terms, sums: Integers) -> Integers:
    """Add gap * ms back to each slot's sum, and round the total to quanta: floor(total / lattice + 1/2).

    `core.window.Window.close_slot` rounds in the same way if the dither is half a quantum.
    """
    durations_ms, lattice = _durations_ms(terms), terms.steps_per_quantum
    totals = sums.reshape(-1, terms.n) + terms.readings.gap_u * np.array(durations_ms, sums.dtype)
    quanta: Integers = round_half_up(totals, np.array(lattice, sums.dtype)).astype(np.int64).ravel()
    return quanta


@lru_cache(maxsize=256)
def _durations_ms(terms: Terms) -> tuple[int, ...]:
    return tuple(terms.slot_ms(slot) for slot in range(terms.n))


@lru_cache(maxsize=256)
def _slot_segments(terms: Terms) -> tuple[Integers, Integers]:
    """Return the edges of all slots, in ms, and the slot between each edge and the next (-1 if none)."""
    if not terms.shape.names:
        return np.arange(terms.n + 1, dtype=np.int64) * terms.step_ms, np.arange(terms.n, dtype=np.int64)
    stretches = sorted((*part, slot) for slot, parts in enumerate(terms.stretches) for part in parts)
    edges = sorted({0, terms.length_ms, *(edge for begin, end, _ in stretches for edge in (begin, end))})
    slot_at = {begin: slot for begin, _, slot in stretches}
    slots = [slot_at.get(edge, -1) for edge in edges[:-1]]
    return np.array(edges, np.int64), np.array(slots, np.int64)
