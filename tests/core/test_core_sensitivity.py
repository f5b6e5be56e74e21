"""The sensitivity of the whole core: how far two loads within d, read at the same times, move what leaves.

The privacy of a window follows from its mechanism's once every released value moves by no more than the value
of its slot can, and the same slots leave. Both lives see the same random bits and all that can happen: late,
doubled and missing readings, and starts from what is on disk.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from meteragent import config
from meteragent.agent.parts import core_of
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy.sampling import SeededBits
from meteragent.store import schema
from tests.support.world import MemoryDisk

START_MS = 1_795_305_600_000
LENGTH_S = 120
LAST_S = 5 * LENGTH_S
SETTLED_S = LAST_S + 2 * LENGTH_S
"""By then everything has closed, whatever the lateness."""
WHOLE_W = 18
"""Loads are multiples of it: their energy in any whole number of seconds has four decimals at most."""
INTERVAL_S = 15

Load = Sequence[int]
"""Power by the second, from one interval before the start."""


class Arrival(NamedTuple):
    """A reading of a second that arrives at a second, perhaps twice, and perhaps before a crash."""

    at_s: int
    time_s: int
    phase: int
    times: int = 1
    crash: bool = False


class Form(NamedTuple):
    """How a meter's stream is configured."""

    kind: str
    n: int = 1
    phases: bool = False
    parts: bool = False
    lateness_s: int = 0
    hold_s: int = 60
    range_u: tuple[int, int] = (0, 20_000)

    @property
    def quantum(self) -> Decimal:
        """In W or Wh."""
        return Decimal(1 if self.kind == "power" else "0.01")

    @property
    def is_sum(self) -> bool:
        """Whether two registers or powers are added, as phases, or subtracted, as parts."""
        return self.phases or self.parts

    def moved(self, d_w: int) -> Fraction:
        """Return by how much `d_w` in all of a slot moves its value."""
        return Fraction(d_w) if self.kind == "power" else Fraction(d_w * LENGTH_S, self.n * 3600)

    @property
    def most(self) -> int:
        """The largest load for which the claim holds, in WHOLE_W: a register's is ten times the range."""
        return min(500, 10 * self.range_u[1] // WHOLE_W - 50) if self.kind == "register" else 500

    def stream(self) -> Stream:
        """Return the stream as the core knows it."""
        lines = {
            "power": f'unit = "W"\nhold = "{self.hold_s}s"',
            "interval_energy": f'unit = "Wh"\ninterval = "{INTERVAL_S}s"',
            "register": 'unit = "Wh"',
        }
        phases = 'phases = ["a", "b"]' if self.phases else ""
        topic = "m/{meter}/{phase}" if self.phases else "m/h/a" if self.parts else "m/{meter}/a"
        parts = 'meter = "h"\n[[source.part]]\ntopic = "m/h/b"\nsign = "-"' if self.parts else ""
        low, high = self.range_u
        text = f"""
            [source]
            topic = "{topic}"
            profile = "json"
            value = "p"
            time = "t"
            kind = "{self.kind}"
            {lines[self.kind]}
            {phases}
            {parts}
            [window]
            length = "{LENGTH_S}s"
            step = "{LENGTH_S // self.n}s"
            lateness = "{self.lateness_s}s"
            gap = {max(low, 0) * (INTERVAL_S / 3600 if self.kind == "interval_energy" else 1)}
            range = [{low}, {high}]
            [privacy]
            radius = {200 * self.quantum}
            quantum = {self.quantum}
            [sink]
            topic = "o/{{meter}}"
        """
        known = config.parse(text).stream[0]
        return core_of(known, Fraction(0), None, b"s" * 32)


class Life:
    """A core over a small disk, driven as the runner drives it; the broker delivers again after a crash."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.left: dict[str, Fraction] = {}
        self._stream = stream
        self._bits = SeededBits(seed)
        self._disk = MemoryDisk()
        self._standing: dict[int, Message] = {}
        self._start()

    def _start(self) -> None:
        known = self._disk.snapshot()
        states = {m: schema.decode_state(schema.encode_state(state)) for m, state in known.states.items()}
        self._core = Pipeline(self._stream, replace(known, states=states), Spending(), self._bits, Counts())

    def crash(self, now_ms: int) -> None:
        """Start again from what is on disk."""
        self._start()
        for message in list(self._standing.values()):
            self._commit(self._core.feed([message], now_ms, now_ms))

    def feed(self, message: Message, now_ms: int) -> None:
        """Take in a message."""
        self._standing[message.token] = message
        self._commit(self._core.feed([message], now_ms, now_ms))

    def turn(self, now_ms: int) -> None:
        """Let the time pass."""
        self._commit(self._core.feed([], now_ms, now_ms))

    def _commit(self, effects: Effects) -> None:
        self._disk.write(effects.commit)
        for token in effects.acknowledge:
            self._standing.pop(token, None)
        for row in effects.commit.outgoing:
            record = json.loads(row.payload)
            if "value" in record:
                assert record["t"] not in self.left
                self.left[record["t"]] = Fraction(str(record["value"]))


def reading_value(form: Form, load: Load, time_s: int) -> Fraction:
    """Return what the meter says at a second, in the stream's unit."""
    until = time_s + INTERVAL_S
    if form.kind == "power":
        return Fraction(load[until])
    if form.kind == "interval_energy":
        return Fraction(sum(load[until - INTERVAL_S : until]), 3600)
    return 1000 + Fraction(sum(load[:until]), 3600)


def released(
    form: Form, loads: Sequence[Load], arrivals: Sequence[Arrival], seed: int
) -> dict[str, Fraction]:
    """Return what leaves of the loads of all phases: the start of each slot and its value."""
    life = Life(form.stream(), seed)
    life.turn(START_MS)
    for at_s in range(SETTLED_S):
        for token, arrival in enumerate(arrivals):
            if arrival.at_s == at_s:
                now_ms = START_MS + at_s * 1000 + 17
                phase = arrival.phase if form.is_sum else 0
                value = reading_value(form, loads[phase], arrival.time_s)
                payload = f'{{"p":{float(value):.4f},"t":{START_MS + arrival.time_s * 1000}}}'.encode()
                for time in range(arrival.times):
                    life.feed(Message(f"m/h/{'ab'[phase]}", payload, False, now_ms, 2 * token + time), now_ms)
                if arrival.crash:
                    life.crash(now_ms)
        if at_s % 30 == 0:
            life.turn(START_MS + at_s * 1000 + 18)
    return life.left


forms = st.builds(
    Form,
    st.sampled_from(["power", "interval_energy", "register"]),
    st.sampled_from([1, 2, 4]),
    st.just(value=False),
    st.just(value=False),
    lateness_s=st.sampled_from([0, 5, 30]),
    hold_s=st.sampled_from([10, 60, 300]),
    range_u=st.sampled_from([(0, 20_000), (-5000, 5000), (90, 1000)]),
).flatmap(lambda form: st.sampled_from([form, form._replace(phases=form.kind != "interval_energy")]))

parts = st.builds(
    Form,
    st.sampled_from(["power", "register"]),
    st.sampled_from([1, 2, 4]),
    st.just(value=False),
    st.just(value=True),
    lateness_s=st.sampled_from([0, 5, 30]),
    hold_s=st.sampled_from([10, 60, 300]),
    range_u=st.just((-20_000, 20_000)),
)
"""Differences of two loads that the range holds."""

arrivals = st.lists(
    st.builds(
        lambda time_s, delay_s, *beside: Arrival(time_s + delay_s, time_s, *beside),
        st.integers(0, LAST_S - 1),
        st.sampled_from([0, 0, 0, 0, 0, 0, 3, 20, 80]),
        st.integers(0, 1),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from([False] * 19 + [True]),
    ),
    min_size=20,
    max_size=80,
)


def loads_of(whole_w: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    """Loads that stay for some time: powers in multiples of WHOLE_W."""
    pieces = st.lists(st.tuples(whole_w, st.integers(1, LENGTH_S)), min_size=1, max_size=12)

    def flat(pieces: list[tuple[int, int]]) -> list[int]:
        flat = [WHOLE_W * power for power, lasts_s in pieces for _ in range(lasts_s)]
        return (flat * (LAST_S + INTERVAL_S))[: LAST_S + INTERVAL_S]

    return pieces.map(flat)


@given(data=st.data(), form=forms, arrivals=arrivals, seed=st.integers(0, 2**32))
def test_what_leaves_moves_no_further_than_the_load(
    data: st.DataObject, form: Form, arrivals: list[Arrival], seed: int
) -> None:
    """Within d the same slots leave, and |y - y'| <= q ceil(m/q), m the most that d moves a slot's value."""
    moves_no_further(data, form, arrivals, seed)


@given(data=st.data(), form=parts, arrivals=arrivals, seed=st.integers(0, 2**32))
def test_a_difference_moves_no_further_than_both_loads(
    data: st.DataObject, form: Form, arrivals: list[Arrival], seed: int
) -> None:
    """Powers and registers of two topics, of which one is subtracted: m is twice that of one."""
    moves_no_further(data, form, arrivals, seed, least_w=0)


def moves_no_further(
    data: st.DataObject, form: Form, arrivals: list[Arrival], seed: int, least_w: int = -1000
) -> None:
    """Compare what leaves of two loads of each phase within d, none of which is below `least_w`."""
    phases = 2 if form.is_sum else 1
    d = data.draw(st.sampled_from([1, 2, 12, 50]))
    bases = [data.draw(loads_of(st.integers(0, form.most))) for _ in range(phases)]
    deltas = [data.draw(loads_of(st.sampled_from([-d, d, d, 0, 1]))) for _ in range(phases)]
    pairs = [zip(*both, strict=True) for both in zip(bases, deltas, strict=True)]
    others = [[max(a + b, least_w) for a, b in pair] for pair in pairs]
    one, other = (released(form, loads, arrivals, seed) for loads in (bases, others))
    assert one.keys() == other.keys()
    quantum = Fraction(form.quantum)
    limit = quantum * ceil(form.moved(phases * d * WHOLE_W) / quantum)
    furthest = max((abs(one[t] - other[t]) for t in one), default=0)
    event(f"{form.kind}: {'none' if not one else int(4 * furthest / limit)} quarters")
    assert furthest <= limit


def test_a_difference_reaches_the_bound() -> None:
    """Two loads that move apart, one of which is subtracted, move a slot by both."""
    form = Form("register", 2, parts=True, lateness_s=30, range_u=(-20_000, 20_000))
    arrivals = [Arrival(time_s, time_s, phase) for time_s in range(0, LAST_S, 15) for phase in (0, 1)]
    flat = [100 * WHOLE_W] * (LAST_S + INTERVAL_S)
    apart = [[power + sign * 50 * WHOLE_W for power in flat] for sign in (1, -1)]
    one, other = released(form, [flat, flat], arrivals, 7), released(form, apart, arrivals, 7)
    full = form.moved(2 * 50 * WHOLE_W)
    moves = [other[t] - one[t] for t in one]
    assert full - Fraction(form.quantum) <= max(moves) <= full + Fraction(form.quantum)


@pytest.mark.parametrize(
    ("lateness_s", "arrivals"),
    [
        (5, [(0, 0, 0), (262, 262, 1), (372, 372, 1), (372, 372, 0)]),
        (30, [(0, 0, 0), (283, 263, 1), (280, 280, 0), (291, 291, 0), (320, 300, 1)]),
    ],
    ids=["one sum", "two sums"],
)
def test_a_phase_above_the_range_that_waits_is_believed_at_a_slot_s_end(
    lateness_s: int, arrivals: list[tuple[int, int, int]]
) -> None:
    """What one phase uses more and the other less moves nothing, though one is above the range alone."""
    form = Form("register", 4, phases=True, lateness_s=lateness_s, range_u=(-5000, 5000))
    lasts_s = LAST_S + INTERVAL_S
    within, above = ([[w * WHOLE_W] * lasts_s for w in watts] for watts in ((0, 260), (-50, 310)))
    one, other = (released(form, loads, [Arrival(*at) for at in arrivals], 0) for loads in (within, above))
    assert max(abs(one[t] - other[t]) for t in one) <= Fraction(form.quantum)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("lateness_s", [0, 30])
@pytest.mark.parametrize(("power_w", "share"), [(900, 1), (19_980, 1), (20_000, 1), (30_000, 0), (90_000, 0)])
def test_registers_reach_the_bound_within_the_range(
    n: int, lateness_s: int, power_w: int, share: int
) -> None:
    """The change counts in full up to the range, not at all beyond it, and never for more.

    A doubted rise above the range that made a gap would move a slot by its whole energy at the limit.
    """
    form = Form("register", n, lateness_s=lateness_s)
    times = range(0, LAST_S, 15)
    arrivals = [Arrival(time_s, time_s, 0) for time_s in times]
    low = [power_w // WHOLE_W * WHOLE_W] * (LAST_S + INTERVAL_S)
    high = [power + 50 * WHOLE_W for power in low]
    one, other = (released(form, [load], arrivals, 7) for load in (low, high))
    assert one.keys() == other.keys()
    quantum, full = Fraction(form.quantum), form.moved(50 * WHOLE_W)
    moves = [abs(one[t] - other[t]) for t in one]
    assert max(moves) <= quantum * ceil(full / quantum)
    if share and power_w < 19_000 and lateness_s:  # without lateness, a slot's last reading is late
        assert max(moves) >= quantum * (full // quantum)
    if not share:
        assert max(moves) == 0


@given(data=st.data(), lateness_s=st.sampled_from([0, 5, 30]), seed=st.integers(0, 2**32))
def test_registers_around_their_limits_move_no_further(
    data: st.DataObject, lateness_s: int, seed: int
) -> None:
    """Loads that go in and out of the range, up to ten times it, move a slot by no more than they differ."""
    form = Form("register", data.draw(st.sampled_from([1, 2, 4])), lateness_s=lateness_s, range_u=(90, 1000))
    d = data.draw(st.sampled_from([1, 12]))
    load = data.draw(loads_of(st.sampled_from([0, 4, 5, 6, 54, 55, 56, 60, 300])))
    moved = data.draw(loads_of(st.sampled_from([-d, d])))
    arrivals = [
        Arrival(time_s, time_s, 0) for time_s in range(0, LAST_S, data.draw(st.sampled_from([5, 15, 40])))
    ]
    other = [max(power + more, 0) for power, more in zip(load, moved, strict=True)]
    one, two = (released(form, [series], arrivals, seed) for series in (load, other))
    assert one.keys() == two.keys()
    quantum = Fraction(form.quantum)
    furthest = max((abs(one[t] - two[t]) for t in one), default=0)
    event(f"{int(4 * furthest / form.moved(d * WHOLE_W))} quarters")
    assert furthest <= quantum * ceil(form.moved(d * WHOLE_W) / quantum)
