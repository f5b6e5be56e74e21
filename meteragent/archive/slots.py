"""Readings -> whole quanta of windows, as the agent's `window` reckons, many windows at once.

A power reading stands until the next one, for at most `hold`; an energy covers the interval that ends at its
time, but nothing that an earlier one covers; the rest is gap. A slot's value is rounded, floor(x/q + 1/2). Of
readings at the same time the least counts, so that the order in which they lie means nothing.

The agent differs in this only: it sees readings one after another, so of two at the same time the first
counts; what comes later than `lateness` is refused; a meter's first window begins after its first reading.

A window needs no other: it is given each reading whose span may touch it, also one that begins before it.
All is integers: sums of millionths times milliseconds, in two halves where one would not hold them.
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
    """Values over stretches of time: the window of each, from and to in ms after its start, the value."""

    window: Integers
    begin: Integers
    end: Integers
    values_u: Integers


class Ragged(NamedTuple):
    """Lists of numbers, end to end, and how many each has."""

    lengths: Integers
    numbers: Integers


def windows(
    starts_ms: Integers, lengths: Integers, times_ms: Integers, values_u: Integers, policy: Policy
) -> Ragged:
    """The slots of windows in whole quanta.

    Args:
        starts_ms: where windows start.
        lengths: how many readings each is given: those of the first window, of the second, and so on.
        times_ms: their times, in any order within a window.
        values_u: their values in millionths of the unit, clamped.
        policy: under what they are released.
    """
    window = np.repeat(np.arange(starts_ms.size), lengths)
    if not _in_order(window, times_ms, values_u):
        order = np.lexsort((values_u, times_ms, window))
        times_ms, values_u = times_ms[order], values_u[order]
    fresh = np.ones(window.size, np.bool_)
    fresh[1:] = (window[1:] != window[:-1]) | (times_ms[1:] != times_ms[:-1])
    if not fresh.all():
        window, times_ms, values_u = window[fresh], times_ms[fresh], values_u[fresh]
    at = times_ms - starts_ms[window]
    return filled(starts_ms, _spans(window, at, values_u, policy.usual), policy)


def _in_order(window: Integers, times_ms: Integers, values_u: Integers) -> bool:
    """Whether readings are by window, time and value."""
    same = window[1:] == window[:-1]
    step = np.diff(times_ms)
    return not (same & ((step < 0) | ((step == 0) & (np.diff(values_u) < 0)))).any()


def _spans(window: Integers, at: Integers, values_u: Integers, usual: Terms) -> Spans:
    """What each reading speaks for."""
    follows = window[1:] == window[:-1]
    if usual.kind is Kind.INTERVAL_ENERGY:
        begin, end = at - usual.interval_ms, at
        begin[1:] = np.where(follows, np.maximum(begin[1:], at[:-1]), begin[1:])
    else:
        begin, end = at, at + usual.hold_ms
        end[:-1] = np.where(follows, np.minimum(end[:-1], at[1:]), end[:-1])
    return Spans(window, begin, end, values_u)


def filled(starts_ms: Integers, spans: Spans, policy: Policy) -> Ragged:
    """The slots of windows over which values are known for some time; the rest is gap."""
    places, terms = policy.terms(starts_ms)
    lengths_ms = np.array([one.length_ms for one in terms], np.int64)[places][spans.window]
    begin, end = np.maximum(spans.begin, 0), np.minimum(spans.end, lengths_ms)
    inside = begin < end
    spans = Spans(spans.window[inside], begin[inside], end[inside], spans.values_u[inside])
    if len(terms) == 1:
        n = terms[0].n
        return Ragged(np.full(starts_ms.size, n), _quanta(terms[0], starts_ms.size, spans))
    lengths = np.array([one.n for one in terms], np.int64)[places]
    numbers, begins = np.empty(int(lengths.sum()), np.int64), np.cumsum(lengths) - lengths
    for place, one in enumerate(terms):
        mine = np.flatnonzero(places == place)
        among = np.cumsum(places == place) - 1
        own = places[spans.window] == place
        part = Spans(among[spans.window[own]], *(column[own] for column in spans[1:]))
        spots = begins[mine][:, np.newaxis] + np.arange(one.n)
        numbers[spots] = _quanta(one, mine.size, part).reshape(mine.size, one.n)
    return Ragged(lengths, numbers)


def _quanta(terms: Terms, count: int, spans: Spans) -> Integers:
    """The slots of `count` windows of these terms: (count * n)."""
    edges, places = _segments(terms)
    first = np.searchsorted(edges, spans.begin, side="right") - 1
    pieces = np.searchsorted(edges, spans.end, side="left") - first
    span = np.repeat(np.arange(first.size), pieces)
    segment = first[span] + np.arange(span.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    lasting_ms = np.minimum(spans.end[span], edges[segment + 1]) - np.maximum(
        spans.begin[span], edges[segment]
    )
    slot = places[segment]
    cell = spans.window[span] * terms.n + slot
    amount = spans.values_u[span] - terms.gap_u
    if terms.bands:
        told = slot >= 0
        cell, amount, lasting_ms = cell[told], amount[told], lasting_ms[told]
    return _rounded(terms, _sums(terms, count, cell, amount, lasting_ms))


def _sums(terms: Terms, count: int, cell: Integers, amount: Integers, lasting_ms: Integers) -> Integers:
    """What is known beyond the gap, summed by slot; Python's integers where 64 bits might not hold it."""
    if _fits(terms):
        sums = np.zeros(count * terms.n, np.int64)
        np.add.at(sums, cell, amount * lasting_ms)
        return sums
    halves = []
    for half in (amount >> _HALF_BITS, amount & ((1 << _HALF_BITS) - 1)):
        sums = np.zeros(count * terms.n, np.int64)
        np.add.at(sums, cell, half * lasting_ms)
        halves.append(sums.astype(object))
    both: Integers = (halves[0] << _HALF_BITS) + halves[1]
    return both


def _fits(terms: Terms) -> bool:
    """Whether sums, with the gap and for rounding, hold in 64 bits."""
    largest = 2 * max(abs(terms.low_u), abs(terms.high_u), abs(terms.gap_u))
    longest_ms = max(_lasting(terms))
    lattice = max(terms.lattice(place) for place in range(terms.n))
    return (2 * largest * longest_ms + 2 * lattice).bit_length() < _INT64_BITS


def _rounded(terms: Terms, sums: Integers) -> Integers:
    """floor(A / lattice + 1/2), as `window.Window.close`."""
    lasting, lattice = _lasting(terms), [terms.lattice(place) for place in range(terms.n)]
    kind = sums.dtype
    whole = sums.reshape(-1, terms.n) + terms.gap_u * np.array(lasting, kind)
    each = np.array(lattice, kind)
    found: Integers = round_half_up(whole, each).astype(np.int64).ravel()
    return found


@lru_cache(maxsize=256)
def _lasting(terms: Terms) -> tuple[int, ...]:
    """How long each slot lasts, in ms."""
    return tuple(terms.slot_ms(place) for place in range(terms.n))


@lru_cache(maxsize=256)
def _segments(terms: Terms) -> tuple[Integers, Integers]:
    """The edges at which slots begin or end, and which slot lies between two of them (-1: none)."""
    if not terms.bands:
        return np.arange(terms.n + 1, dtype=np.int64) * terms.step_ms, np.arange(terms.n, dtype=np.int64)
    found = sorted((*part, place) for place in range(terms.n) for part in terms.stretches(place))
    edges = sorted({0, terms.length_ms, *(edge for begin, end, _ in found for edge in (begin, end))})
    of = {begin: place for begin, _, place in found}
    places = [of.get(edge, -1) for edge in edges[:-1]]
    return np.array(edges, np.int64), np.array(places, np.int64)
