"""What time and sizes tell: noise is drawn when a slot opens, and what is drawn depends on no home."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.decode import wrap_single
from meteragent.domain.commit import Outgoing, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support import bare_numbers
from tests.support.stores import TERMS
from tests.support.world import BASE_MS, stream

HOMES = {"flat": [80] * 30, "busy": [3000 * (at % 7) for at in range(30)], "none": []}
"""Readings of half an hour."""


class CountedBits:
    """Seeded bits that note how many were asked for, call by call."""

    def __init__(self, seed: int) -> None:
        self.asked: list[int] = []
        self._bits = SeededBits(seed)

    def integer(self, k: int) -> int:
        """As Bits."""
        self.asked.append(k)
        return self._bits.integer(k)

    def array(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
        """As Bits."""
        self.asked.append(count * np.dtype(dtype).itemsize * 8)
        return self._bits.array(count, dtype)

    def discard(self) -> None:
        """As Bits."""


def core(bits: CountedBits, terms: Terms = TERMS, **how: Any) -> Pipeline:
    """A core with the default's terms."""
    known = stream(terms, decode=wrap_single(bare_numbers.decode), **how)
    return Pipeline(known, Snapshot({}, {}, {}), Spending(), bits, Counts())


def run(home: Sequence[int], seed: int, **how: Any) -> tuple[list[list[int]], list[Outgoing]]:
    """Two hours of a home whose readings come in the second half hour: what each turn draws, what leaves."""
    bits, left, drawn = CountedBits(seed), list[Outgoing](), list[list[int]]()
    running = core(bits, **how)

    def turn(batch: list[Message], now_ms: int) -> None:
        before = len(bits.asked)
        left.extend(running.feed(batch, BASE_MS + now_ms, BASE_MS + now_ms).commit.outgoing)
        drawn.append(bits.asked[before:])

    turn([Message("meters/m1/power", b"100", False, BASE_MS - 1, None)], -1)
    for at, watts in enumerate(home):
        turn([Message("meters/m1/power", b"%d" % watts, False, BASE_MS + at * 60_000, None)], at * 60_000)
    for due_ms in range(HOUR_MS // 2, 2 * HOUR_MS + 1, HOUR_MS // 2):
        turn([], due_ms)
    return drawn, [row for row in left if not row.retain]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_does_not_depend_on_the_home(seed: int) -> None:
    """Flat, busy or silent: the same random bits, in the same number of calls; so the same work."""
    asked = {name: [call for turn in run(home, seed)[0] for call in turn] for name, home in HOMES.items()}
    assert asked["flat"] == asked["busy"] == asked["none"]
    assert asked["flat"]


def test_readings_draw_nothing() -> None:
    """Nothing is drawn when a reading arrives, within a slot: noise was there before."""
    drawn, _ = run(HOMES["busy"], 1)
    readings = drawn[2 : 1 + len(HOMES["busy"])]
    assert readings
    assert not any(readings)


def test_closing_draws_nothing() -> None:
    """Where a slot closes later than the next one opens (lateness) its close draws nothing."""
    bits = CountedBits(1)
    terms = replace(TERMS, lateness_ms=1000)
    running = core(bits, terms)
    running.feed([Message("meters/m1/power", b"100", False, BASE_MS - 1, None)], BASE_MS, BASE_MS)
    end_ms = BASE_MS + TERMS.length_ms
    running.feed([], end_ms, end_ms)
    before = len(bits.asked)
    left = running.feed([], end_ms + 1000, end_ms + 1000).commit.outgoing
    assert [row for row in left if not row.retain]
    assert len(bits.asked) == before


def test_the_size_of_a_record_is_that_of_its_value() -> None:
    """Whatever the home did, two records of a meter differ in size by the digits of their value."""
    records = RecordFormat.of(describe_terms(TERMS))
    sizes = set()
    for quanta in (0, 7, -7, 512, -512, 123_456):
        record = records.encode("m1", BASE_MS, 0, quanta)
        sizes.add(len(record) - len(str(quanta)))
    assert len(sizes) == 1


@pytest.mark.parametrize("home", HOMES)
def test_records_are_due_on_the_schedule(home: str) -> None:
    """When a record is due follows from the schedule alone, whatever was read."""
    due = {row.due_ms - BASE_MS for row in run(HOMES[home], 1)[1]}
    assert due == {at * HOUR_MS // 2 for at in range(1, 5)}
    assert len({tuple(json.loads(row.payload)) for row in run(HOMES[home], 1)[1]}) == 1
