"""Peaks: the largest mean of a part, exactly; what the disk has of it; and what a restart costs."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.largest import LargestWindow
from meteragent.core.pipeline import Pipeline
from meteragent.core.window import RegisterUse
from meteragent.domain.codec import encode
from meteragent.domain.commit import Charge, Snapshot, TimelineState
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Peak
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.privacy import SeededBits
from meteragent.privacy.composition import Odometer
from meteragent.store.schema import decode_terms
from tests.support.configurations import settled, written
from tests.support.stores import TERMS
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, message, stream

QUARTER_MS = 15 * MINUTE_MS
QUIET = "level = 1000000000"
"""Noise that is zero but for a chance below e^-1000."""
SOURCES = {
    "power": "hold = '400d'",
    "register": "kind = 'register'\nunit = 'Wh'\nevery = '5min'\ndead_band = 0.001",
    "interval_energy": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '5min'",
}


def schedule(kind: str = "power", privacy: str = QUIET, window: str = "clock = 'event'") -> Schedule:
    """Peaks of local days."""
    window = f"length = '1d'\ntimezone = 'Europe/Brussels'\nahead = '9999d'\n{window}"
    text = written(privacy=f"preset = 'peak'\n{privacy}", window=window, source=SOURCES[kind])
    return config.schedule(config.parse(text).stream[0])


class Run:
    """An agent with a disk: `crash` keeps only commits and unacknowledged messages."""

    def __init__(self, known: Schedule, spending: Spending | None = None) -> None:
        self.known = known
        self.spending = spending or Spending()
        self.states: dict[str, TimelineState] = {}
        self.terms: dict[str, Terms] = {}
        self.marks: dict[str, int] = {}
        self.unacknowledged: dict[int, Message] = {}
        self.charges: Counter[Charge] = Counter()
        self.records: list[dict[str, Any]] = []
        self.counts = Counts()
        self.seed = 0
        self.crash()

    def crash(self) -> None:
        """End the process, and start another one, to which the broker delivers again."""
        self.seed += 1
        snapshot = Snapshot(dict(self.marks), dict(self.states), dict(self.terms))
        self.core = Pipeline(stream(self.known), snapshot, self.spending, SeededBits(self.seed), self.counts)
        for waiting in list(self.unacknowledged.values()):
            self.feed(waiting)

    def read(self, time_ms: int, value: object) -> None:
        """Deliver a reading."""
        self.feed(message(time_ms - BASE_MS, value, token=time_ms))

    def feed(self, arrived: Message) -> None:
        """Deliver a message, and commit."""
        self.unacknowledged[arrived.token] = arrived
        effects = self.core.feed([arrived], arrived.received_ms, arrived.received_ms)
        for meter, state in effects.commit.states.items():
            assert state is not None
            self.states[meter] = state
        self.terms |= effects.commit.terms
        self.marks |= effects.commit.marks
        for charge, meters in effects.commit.charges.items():
            self.charges[charge] += meters.total()
        for token in effects.acknowledge:
            self.unacknowledged.pop(token, None)
        rows = [json.loads(row.payload) for row in effects.commit.outgoing if not row.retain]
        self.records += rows

    @property
    def kept(self) -> int | None:
        """The accumulator on disk."""
        [state] = self.states.values()
        return state.windows[0].slots[0].accumulator if state.windows else None


START_MS = parse_time("2026-11-30T23:00:00Z")
"""Midnight in Brussels."""


def quarter_means(watts: Sequence[int]) -> list[Fraction]:
    """The means of quarter hours of powers of five minutes each."""
    return [Fraction(sum(watts[at : at + 3]), 3) for at in range(0, len(watts), 3)]


@pytest.mark.parametrize("kind", SOURCES)
@given(
    watts=st.lists(st.integers(0, 5000), min_size=3, max_size=30),
    crashes=st.sets(st.integers(0, 30), max_size=4),
)
def test_the_largest_quarter_hour_leaves_whatever_crashes(
    kind: str, watts: list[int], crashes: set[int]
) -> None:
    """From power, registers and interval energies alike, in W; no reading is lost by a kill."""
    run, register = Run(schedule(kind)), Fraction(10**7)
    watts = watts[: len(watts) // 3 * 3]
    day = watts + [0] * (24 * 12 - len(watts))
    run.read(START_MS - 2 * HOUR_MS, 0 if kind == "interval_energy" else float(register))
    if kind == "register":
        run.read(START_MS, float(register))
    for number, power in enumerate([*day, 0, 0, 0, 0]):
        time_ms = START_MS + number * 5 * MINUTE_MS
        after_ms = time_ms + 5 * MINUTE_MS
        if kind == "power":
            run.read(time_ms, power)
        elif kind == "register":
            register += power * 12 / Fraction(144)
            run.read(after_ms, f"{float(register):.6f}")
        else:
            run.read(after_ms, f"{power / 12:.6f}")
        if number in crashes:
            run.crash()
    record = run.records[0]
    assert (record["t"], record["for"], record["unit"]) == ("2026-11-30T23:00:00Z", "PT24H", "W")
    assert abs(record["value"] - max(quarter_means(day))) <= 1
    assert 1 <= record["draws"] <= 1 + len(crashes)
    assert run.counts["gap_slots"] == 0


def test_a_restart_is_charged_when_its_first_part_is_over() -> None:
    """A process that ends a part is charged before its noise is used; one that ends none costs nothing."""
    run = Run(schedule())
    run.read(START_MS - HOUR_MS, 100)
    for minute in range(24 * 60 + 17):
        run.read(START_MS + minute * MINUTE_MS, 100)
        if minute in {20, 22, 24, 70}:  # three crashes within one part: two of the processes end no part
            run.crash()
    day_ms = START_MS // DAY_MS * DAY_MS
    epsilon = Fraction(10**9, 110)
    # The window and its second noise on the day on which it begins in UTC; its third, and the next window
    assert run.charges == {Charge(day_ms, epsilon): 2, Charge(day_ms + DAY_MS, epsilon): 2}
    assert run.records[0]["draws"] == 3
    assert run.counts["peak_redrawn"] == 2


def test_parts_beyond_the_budget_do_not_count() -> None:
    """Where the budget forbids a second noise, the peak of the parts before the restart leaves."""
    own = Odometer(30 * DAY_MS, Fraction(10**9, 110))
    run = Run(schedule(), Spending(own, (own,)))
    for quarter in range(-4, 98):
        run.read(START_MS + quarter * QUARTER_MS, 300 if quarter < 2 else 900)
        if quarter == 2:
            run.crash()
    assert run.records[0]["value"] == 300
    assert run.records[0]["draws"] == 1
    assert run.counts["over_budget"] > 0


def test_the_disk_has_one_number_which_rises_with_the_peak_alone() -> None:
    """The state has the noisy maximum, nothing of the open part, and changes only when the maximum does."""
    run = Run(schedule(privacy=""))
    run.read(START_MS - HOUR_MS, 0)
    kept = []
    for minute in range(61):
        power = 1000 if 15 <= minute < 30 else minute
        run.read(START_MS + minute * MINUTE_MS, power)
        kept.append(run.kept)
        [state] = run.states.values()
        assert (state.integrated_until_ms - START_MS) % QUARTER_MS == 0
        [window] = state.windows
        assert (len(window.slots), window.noise_bound, window.masked_slot) == (1, None, None)
    assert len(set(kept[:15])) == 1
    assert len(set(kept[30:])) == 1  # a lower quarter hour leaves no trace
    second, first = kept[30], kept[15]
    assert second is not None
    assert first is not None
    assert second - first == (1000 - 7) * QUARTER_MS * 10**6


def test_readings_of_the_open_part_are_not_acknowledged() -> None:
    """The broker keeps what the disk may not: all readings since the last boundary, and no others."""
    run = Run(schedule())
    run.read(START_MS - HOUR_MS, 0)
    for second in range(0, 2700, 30):
        run.read(START_MS + 1000 * second, second)
        part_s = second // 900 * 900
        assert sorted(run.unacknowledged) == [
            START_MS + 1000 * s for s in range(part_s, second + 30, 30)
        ] or (second % 900, len(run.unacknowledged)) == (0, 1)


def test_time_without_a_reading_is_gap() -> None:
    """A part that is half known has half its energy; one that is not known at all has the gap's."""
    run = Run(
        config.schedule(
            config.parse(
                written(
                    privacy=f"preset = 'peak'\n{QUIET}",
                    window="length = '1d'\ntimezone = 'UTC'\nclock = 'event'\nahead = '9999d'\ngap = 50",
                    source="hold = '5min'",
                )
            ).stream[0]
        )
    )
    start_ms = START_MS + HOUR_MS
    run.read(start_ms - HOUR_MS, 0)
    run.read(start_ms + 2 * HOUR_MS, 350)
    run.read(start_ms + 25 * HOUR_MS, 0)
    assert run.records[0]["value"] == 150  # five minutes of 350 W and ten of 50 W


def window_of(lattice: int, parts: int) -> LargestWindow:
    """A window whose parts have some milliseconds, with a quantum of one accumulator unit for each."""
    known = terms_with(
        TERMS,
        quantum_u=1,
        shape=Peak(lattice * parts, lattice),
        low_u=-99,
        high_u=99,
    )
    return LargestWindow(0, known, known.id, (), "m1", None)


@pytest.mark.slow("enumerates all loads of two parts")
@pytest.mark.parametrize(("lattice", "t"), [(3, Fraction(1, 2)), (4, Fraction(9, 10)), (5, Fraction(1, 5))])
def test_a_copy_and_a_release_have_the_loss_of_the_largest_move(lattice: int, t: Fraction) -> None:
    """Exactly, for all pairs of two parts: e^(a ceil(d)), d the largest move of a part; and it is reached."""
    reach, laws = 9, dict[tuple[int, ...], dict[int, int]]()
    # All masses are integers, in units of the least one's denominator.
    masses = [t.numerator**k * t.denominator ** (reach - k) for k in range(reach + 1)]
    for parts in product(range(-2, 2 * lattice), repeat=2):
        law = laws[parts] = defaultdict(int)
        for noise, dither in product(range(-reach, reach + 1), range(lattice)):
            window = window_of(lattice, 2)
            window.open_slot(noise, 0, dither)
            for number, energy in enumerate(parts):
                window.add_value(number * lattice, number * lattice + 1, energy)
                window.add_value(number * lattice + 1, (number + 1) * lattice, 0)
            law[window.stored_state().slots[0].accumulator] += masses[abs(noise)]
    is_reached = False
    for first, second in product(laws, repeat=2):
        move = max(abs(x - y) for x, y in zip(first, second, strict=True))
        bound = t ** (-move // lattice)
        for kept, mass in laws[first].items():
            if abs(kept) < 5 * lattice:
                scaled, limit = mass * bound.denominator, laws[second][kept] * bound.numerator
                assert scaled <= limit
                is_reached |= scaled == limit
    assert is_reached


@given(
    energies=st.lists(st.integers(0, 10**9), min_size=1, max_size=20),
    cuts=st.lists(st.integers(1, 10**6), min_size=1, max_size=20),
)
def test_a_register_is_cut_at_parts(energies: list[int], cuts: list[int]) -> None:
    """However a register's spans lie: the largest part is within one unit of the interpolated one's."""
    step_ms, parts = 1000, 8
    window = window_of(step_ms, parts)
    window.terms = terms_with(window.terms, high_u=10**12)
    window.open_slot(0, 0, 0)
    spans = sorted({min(cut * parts * step_ms // 10**6, parts * step_ms - 1) for cut in cuts} - {0})
    edges = [0, *spans, parts * step_ms]
    course = [Fraction(0)] * (parts * step_ms)
    for number, (from_ms, to_ms) in enumerate(pairwise(edges)):
        energy = energies[number % len(energies)]
        window.add_value(from_ms, to_ms, RegisterUse(from_ms, to_ms - from_ms, energy))
        course[from_ms:to_ms] = [Fraction(energy, to_ms - from_ms)] * (to_ms - from_ms)
    sums = [sum(course[at : at + step_ms], Fraction(0)) for at in range(0, len(course), step_ms)]
    [slot] = window.stored_state().slots
    assert abs(slot.accumulator - max(sums)) < 1 + len(edges)


def test_what_has_no_noise_is_neither_kept_nor_released() -> None:
    """After a restart a part that has ended waits for noise; until then no state can be stored."""
    window = window_of(10, 3)
    window.open_slot(0, 0, 0)
    with pytest.raises(AssertionError, match="again"):
        window.open_slot(0, 0, 0)
    window.mask = None
    window.add_value(0, 10, 5)
    assert window.lacks_noise
    with pytest.raises(AssertionError, match="noise"):
        window.stored_state()
    with pytest.raises(AssertionError, match="noise"):
        window.close_slot(0)
    window.redraw_noise(1, 3)
    assert window.close_slot(0) == (10 + 3 + 50) // 10
    assert window.draws == 2


def test_the_terms_of_a_peak() -> None:
    """A radius of 110 W hides 27.5 Wh in each quarter hour, in an error of 156 W, for one level a month."""
    terms = settled(privacy="preset = 'peak'", window="timezone = 'Europe/Brussels'")
    assert (terms.n, terms.value_unit) == (1, "W")
    assert (terms.radius, terms.hides_wh) == (Fraction(110), Fraction("27.5"))
    assert terms.epsilon_per_w == Fraction(1, 110)
    assert round(terms.sd) == 156
    assert terms.preset == "peak"
    assert decode_terms(encode(terms)) == terms
    register = settled(
        privacy="preset = 'peak'",
        window="timezone = 'UTC'",
        source="kind = 'register'\nunit = 'kWh'\ndead_band = 0.001",
    )
    assert (register.radius, register.value_unit, register.epsilon) == (
        Fraction("0.11"),
        "kW",
        Fraction(100, 11),
    )
    assert register.steps_per_quantum[0] == 1000 * HOUR_MS // 4
