"""Many meters under one dithered window: the store as it is written, and what leaves, as arrays.

All windows are of one meter each, so that they are independent. Readings stand long; nothing is clamped.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.decode import wrap_single
from meteragent.domain.commit import Commit, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy import SeededBits
from meteragent.privacy.sampling import SecretBits
from meteragent.store import schema
from tests.support import bare_numbers
from tests.support.stores import TERMS
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, stream

POWER = terms_with(TERMS, rounding="dithered", hold_ms=2 * TERMS.step_ms)
"""Half hours of whole watts, level 1 at 220 W."""

COARSE = replace(POWER, radius=Fraction(1))
"""a = 1: the noise is of the size of a quantum, so that rounding shows."""

STEP_MS = POWER.step_ms
Integers = NDArray[np.int64]


@dataclass
class Stored:
    """The accumulators of open slots by meter, as a store's states say, and all that is kept beside them."""

    accumulators: list[int]
    windows: list[dict[str, Any]]


def known(terms: Terms, meters: int, **changes: Any) -> Stream:
    """A stream of plain numbers from a number of meters."""
    return stream(terms, decode=wrap_single(bare_numbers.decode), max_meters=meters, **changes)


def core(terms: Terms, meters: int, bits: SecretBits, snapshot: Snapshot | None = None) -> Pipeline:
    """A start from what a store holds."""
    return Pipeline(known(terms, meters), snapshot or Snapshot({}, {}, {}), Spending(), bits, Counts())


def said(loads_w: Iterable[float], at_ms: int) -> list[Message]:
    """A reading of each meter at a time after BASE_MS."""
    return [
        Message(f"meters/m{meter}/power", b"%g" % load_w, False, BASE_MS + at_ms, None)
        for meter, load_w in enumerate(loads_w)
    ]


def feed(running: Pipeline, messages: list[Message], at_ms: int) -> Commit:
    """One turn."""
    return running.feed(messages, BASE_MS + at_ms, BASE_MS + at_ms).commit


def stored(commit: Commit) -> Stored:
    """What the states of a commit say once they are bytes."""
    states = [json.loads(schema.encode_state(state)) for state in commit.states.values() if state is not None]
    windows = [window for state in states for window in state["windows"]]
    windows.sort(key=lambda window: (int(window["public_id"][1:]), window["start_ms"]))
    slots = [slot[1] for window in windows for slot in window["slots"]]
    return Stored(slots, windows)


def opened(loads_w: list[float], bits: SecretBits, terms: Terms = POWER) -> tuple[Pipeline, Stored]:
    """Meters with these loads, ten seconds into their first slot: the core, and its store."""
    running = core(terms, len(loads_w), bits)
    feed(running, said(loads_w, -1000), -1000)
    feed(running, [], 0)
    return running, stored(feed(running, said(loads_w, 10_000), 10_000))


def again(commit: Commit, terms: Terms, meters: int, bits: SecretBits) -> Pipeline:
    """A start from the bytes of a commit's states: all that survives a crash."""
    states = {
        meter: schema.decode_state(schema.encode_state(state))
        for meter, state in commit.states.items()
        if state is not None
    }
    marks = {meter: state.next_ms for meter, state in states.items()}
    return core(terms, meters, bits, Snapshot(marks, states, {terms.id: terms}))


def released(load_w: float, meters: int, seed: int, terms: Terms = COARSE) -> Integers:
    """What leaves of a constant load in one slot, in quanta, with a restart in its middle."""
    loads = [load_w] * meters
    running = core(terms, meters, SeededBits(seed))
    feed(running, said(loads, -1000), -1000)
    feed(running, [], 0)
    middle = feed(running, said(loads, STEP_MS // 2), STEP_MS // 2)
    running = again(middle, terms, meters, SeededBits(seed + 1))
    rows = feed(running, said(loads, STEP_MS // 2), STEP_MS).outgoing
    return np.array([json.loads(row.payload)["value"] for row in rows if not row.retain], np.int64)


def of_a_register() -> Stored:
    """The store after a span of ten seconds that a slot's start cuts."""
    terms = terms_with(POWER, kind=Kind.REGISTER, unit="Wh", interval_ms=3_600_000)
    running = core(terms, 1, SeededBits(5))
    feed(running, said([7], -5003), -5003)
    feed(running, [], 0)
    return stored(feed(running, said([8], 5010), 5010))


def of_three_slots() -> list[Stored]:
    """The store as each slot of a window of three opens."""
    running = core(terms_with(POWER, step_ms=STEP_MS // 3), 1, SeededBits(6))
    feed(running, said([100], -1000), -1000)
    return [stored(feed(running, [], place * STEP_MS // 3)) for place in range(3)]
