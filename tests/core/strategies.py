"""Hypothesis strategies: terms of a few milliseconds, and programs of what can happen to an agent."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from meteragent.core.stream import Stream
from meteragent.domain.commit import Receiver
from meteragent.domain.grid import Band, EpochGrid
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Profile
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, UNITS, Kind
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, World, stream


class Grid(NamedTuple):
    """What a restart may change without changing what a reading means or how long it counts."""

    n: int
    step_ms: int
    level: int
    quantum_u: int
    gap_u: int
    range_u: tuple[int, int]


VALUES = (0, 1, 499_999, 500_000, MICRO, 7 * MICRO + 3, 1000 * MICRO, -5 * MICRO, 10**14)
"""Readings in millionths: the edges of rounding, the ordinary, the negative, the impossible."""

RISE_U = 100 * MICRO
"""What a register rises in a millisecond, beside what is sent."""

grids = st.builds(
    Grid,
    n=st.integers(1, 4),
    step_ms=st.integers(1, 6),
    level=st.sampled_from([500, 1000]),
    quantum_u=st.sampled_from([1, 100_000, MICRO]),
    gap_u=st.sampled_from([0, 3 * MICRO]),
    range_u=st.sampled_from([(0, 20_000 * MICRO), (-10 * MICRO, 900 * MICRO)]),
)

meanings = st.builds(
    lambda kind, clock, lateness, span, modulus: terms_with(
        TERMS,
        kind=kind,
        unit=UNITS[kind][0],
        clock=clock,
        lateness_ms=lateness,
        hold_ms=span if kind is Kind.POWER else 0,
        interval_ms=0 if kind is Kind.POWER else span,
        modulus_u=modulus if kind is Kind.REGISTER else None,
    ),
    st.sampled_from(list(Kind)),
    st.sampled_from(list(Clock)),
    st.sampled_from([0, 0, 1, 5, 14]),
    st.integers(1, 12),
    st.sampled_from([None, 1000 * RISE_U]),
)
"""Terms in everything but the grid."""


def on_grid(terms: Terms, grid: Grid) -> Terms:
    """Terms with another grid, noise, lattice, gap and range."""
    return terms_with(
        terms,
        length_ms=grid.n * grid.step_ms,
        step_ms=grid.step_ms,
        level=Fraction(grid.level),
        quantum_u=grid.quantum_u,
        gap_u=grid.gap_u,
        low_u=grid.range_u[0],
        high_u=grid.range_u[1],
    )


all_terms = st.builds(on_grid, meanings, grids)


class Uneven(NamedTuple):
    """A calendar of a few milliseconds: windows of several lengths in turn, in equal slots or in bands.

    `parts` are, for each window, its stretches: how long each lasts and in which slot it counts.
    """

    grid: Grid
    parts: tuple[tuple[tuple[int, int], ...], ...]
    banded: bool


class Turns(Schedule):
    """The schedule of an uneven calendar."""

    uneven: Uneven

    @classmethod
    def of(cls, terms: Terms, uneven: Uneven) -> "Turns":
        """Its first window starts at the Unix epoch."""
        self = cls(on_grid(terms, uneven.grid), EpochGrid(1))
        object.__setattr__(self, "uneven", uneven)
        return self

    def _starts_ms(self) -> list[int]:
        """Where the windows of one turn start, and where the next turn does."""
        lengths = [sum(ms for ms, _ in parts) for parts in self.uneven.parts]
        return list(accumulate(lengths, initial=0))

    def first_start_ms(self, time_ms: int) -> int:
        """The first start of a window at or after a time."""
        *starts_ms, turn_ms = self._starts_ms()
        begun_ms = time_ms - time_ms % turn_ms
        return min(s for start in starts_ms for s in (begun_ms + start, begun_ms + turn_ms) if s >= time_ms)

    def terms_at(self, start_ms: int) -> Terms:
        """The terms of the window that starts at `start_ms`."""
        starts_ms = self._starts_ms()
        at = starts_ms.index(start_ms % starts_ms[-1])
        length_ms = starts_ms[at + 1] - starts_ms[at]
        usual, parts = self.usual, self.uneven.parts[at]
        if not self.uneven.banded:
            return terms_with(usual, length_ms=length_ms, step_ms=length_ms)
        bands: dict[int, list[tuple[int, int]]] = {}
        ends_ms = list(accumulate((ms for ms, _ in parts), initial=0))
        for (start, end), (_, place) in zip(pairwise(ends_ms), parts, strict=True):
            bands.setdefault(place, []).append((start, end))
        found = tuple(Band(str(place), tuple(stretches)) for place, stretches in bands.items())
        durations = tuple((band.name, band.duration_ms) for band in found)
        return terms_with(usual, shape=Profile(length_ms, durations), places=found)


_PARTS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=6).map(tuple)
uneven = st.builds(Uneven, grids, st.lists(_PARTS, min_size=1, max_size=4).map(tuple), st.booleans())
any_grid = st.one_of(grids, uneven)


def scheduled(terms: Terms, grid: Grid | Uneven) -> Schedule:
    """The windows of a stream of the small world: on the epoch grid, or on an uneven calendar."""
    if isinstance(grid, Uneven):
        return Turns.of(terms, grid)
    known = on_grid(terms, grid)
    return Schedule(known, EpochGrid(known.length_ms))


schedules = st.builds(scheduled, meanings, any_grid)
by_the_wall = st.builds(scheduled, meanings.map(lambda terms: replace(terms, clock=Clock.WALL)), any_grid)

streams = st.builds(
    stream,
    schedules,
    receivers=st.sampled_from(["private/{meter}/power", "other/{meter}"]).map(
        lambda topic: (Receiver("main", topic),)
    ),
    pseudonym_key=st.sampled_from([None, b"one key", b"another"]),
    ahead_ms=st.sampled_from([0, 3, 100]),
    forget_ms=st.sampled_from([1, 20, 10**9]),
    spread_ms=st.sampled_from([0, 7]),
    max_meters=st.sampled_from([1, 100]),
)


class Late(NamedTuple):
    """A reading, and how long it takes to arrive in each of two worlds."""

    time_ms: int
    value_u: int
    delays: tuple[int, int]


late_readings = st.lists(
    st.builds(
        Late,
        st.integers(1, 59),
        st.sampled_from(VALUES),
        st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    ),
    min_size=5,
    max_size=30,
    unique_by=lambda reading: reading.time_ms,
)


class Send(NamedTuple):
    """A meter publishes a reading that is `age_ms` old; a negative age is ahead of the clock."""

    meter: str
    age_ms: int
    value_u: int


class Pack(NamedTuple):
    """A meter publishes a message of several readings, as (age, value)."""

    meter: str
    readings: tuple[tuple[int, int], ...]


class Wait(NamedTuple):
    """Time passes, and the agent does nothing."""

    ms: int


class Turn(NamedTuple):
    """The agent takes a turn, and dies before or after its transaction, or not at all."""

    fails: str


class Reconnect(NamedTuple):
    """The connection is lost and comes again: what is not acknowledged is delivered again."""


class Stand(NamedTuple):
    """Slots stop closing (a catch-up begins) or close again."""

    still: bool


class Restart(NamedTuple):
    """A crash, and a start with another of the configurations."""

    which: int


Step = Send | Pack | Wait | Turn | Reconnect | Stand | Restart


def shown(world: World, age_ms: int, value_u: int) -> tuple[int, int]:
    """The time and the value of a reading; a register's rises all the time, to its modulus."""
    time_ms, terms = world.now_ms - age_ms, world.stream.terms
    if terms.readings.kind is Kind.REGISTER:
        value_u += (time_ms - BASE_MS) * RISE_U
        value_u = value_u % terms.readings.modulus_u if terms.readings.modulus_u else value_u
    return time_ms, value_u


def play(world: World, program: Sequence[Step], streams: Sequence[Stream]) -> None:
    """Let a program happen to a world."""
    for step in program:
        match step:
            case Send(meter, age_ms, value_u):
                world.send_pack(meter, shown(world, age_ms, value_u))
            case Pack(meter, readings):
                world.send_pack(meter, *(shown(world, *reading) for reading in readings))
            case Wait(ms):
                world.now_ms += ms
            case Turn(fails):
                world.feed(fails)
            case Reconnect():
                world.reconnect()
            case Stand(still):
                world.closing_ms = world.now_ms if still else None
            case Restart(which):
                world.crash(streams[which])
    world.closing_ms = None
    world.feed()


_SENDS: list[Step] = [
    Send(meter, age_ms, value_u) for meter in ("m1", "m2") for age_ms in range(-5, 16) for value_u in VALUES
]
_PACKS: list[Step] = [
    Pack("m1", tuple((age_ms + k * step_ms, value_u) for k in range(count)))
    for age_ms in (0, 1, 4)
    for step_ms in (0, 1, 3, 5)
    for count in (2, 4)
    for value_u in VALUES[3:6]
]
_WAITS: list[Step] = [Wait(ms) for ms in (1, 1, 2, 3, 4, 6, 9)]
_TROUBLES: list[Step] = [
    *(Turn(fails) for fails in ("before", "after")),
    Reconnect(),
    *(Restart(which) for which in range(3)),
    *(Stand(still) for still in (True, False)),
]


def _programs(*kinds: list[Step], size: int) -> st.SearchStrategy[list[Step]]:
    """Lists of steps, each first of one kind; the first reading comes early."""
    steps = st.one_of([st.sampled_from(kind) for kind in kinds])
    return st.lists(steps, min_size=size, max_size=2 * size).map(lambda found: [Send("m1", 0, MICRO), *found])


calm = _programs(_SENDS, _SENDS, _PACKS, _WAITS, [Turn("")], size=25)
"""Readings in any order, and time that passes."""
rough = _programs(_SENDS, _SENDS, _PACKS, _WAITS, _WAITS, [Turn("")], _TROUBLES, size=30)
"""The same, with crashes, lost connections, catch-ups and changed configurations."""
