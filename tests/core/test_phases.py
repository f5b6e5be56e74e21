"""Phases of one meter: summed into one secret, never in part, and through any crash."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy import SeededBits
from tests.core.test_pipeline import records
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, stream

pytestmark = pytest.mark.usefixtures("half_quantum")
END_MS = 40
POWER = terms_with(TERMS, length_ms=4, step_ms=4, hold_ms=7, gap_u=3 * MICRO, high_u=1000 * MICRO)
REGISTER = terms_with(POWER, kind=Kind.REGISTER, unit="Wh", hold_ms=0, interval_ms=1)


class Said(NamedTuple):
    """A phase says a number, at a time after BASE_MS."""

    time_ms: int
    phase: str
    value: int


def phased(terms: Terms, names: str = "abc") -> Stream:
    """A stream of a meter's phases."""
    return stream(terms, source=SourceTopic.parse("meters/{meter}/{phase}", phases=tuple(names)))


@dataclass
class Home:
    """A meter with phases, a broker that keeps what is not acknowledged, and the core with its disk."""

    stream: Stream
    waiting: list[tuple[int, Said]] = field(default_factory=list)
    left: dict[str, float] = field(default_factory=dict)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    counts: Counts = field(default_factory=Counts)
    sent: int = 0
    epoch: int = 0
    closed_ms: int = BASE_MS

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin with what is on disk; what waits comes again."""
        self.core = Pipeline(self.stream, self.disk.snapshot(), Spending(), SeededBits(1), self.counts)
        self.epoch += 1
        self.again = [*self.waiting]

    def feed(self, said: Sequence[Said], now_ms: int, fails: str = "") -> None:
        """What came again, then what is said, then a commit; it fails before or after it, or not.

        What came again finds the slots as they were when it was said: the rest of them is catching up.
        """
        now_ms += BASE_MS
        again, self.again = self.again, []
        for id_, one in again:
            self.closed_ms = max(self.closed_ms, BASE_MS + one.time_ms)
            self._turn([self._message(id_, one, now_ms)], now_ms, self.closed_ms)
        new = []
        for one in said:
            self.sent += 1
            self.waiting.append((self.sent, one))
            new.append(self._message(self.sent, one, BASE_MS + one.time_ms))
        if fails != "before":
            self._turn(new, now_ms, now_ms, acknowledge=not fails)
            self.closed_ms = now_ms
        if fails:
            self.start()

    def _turn(self, batch: list[Message], now_ms: int, closing_ms: int, *, acknowledge: bool = True) -> None:
        effects = self.core.feed(batch, now_ms, closing_ms)
        self.disk.write(effects.commit)
        self.left |= records(effects)
        assert len({*effects.acknowledge}) == len(effects.acknowledge), "acknowledged twice"
        done = {id_ for epoch, id_ in effects.acknowledge if epoch == self.epoch}
        if acknowledge:
            self.waiting = [(id_, one) for id_, one in self.waiting if id_ not in done]

    def _message(self, id_: int, one: Said, received_ms: int) -> Message:
        payload = f'{{"t":{BASE_MS + one.time_ms},"power":{one.value}}}'.encode()
        return Message(f"meters/m1/{one.phase}", payload, False, received_ms, (self.epoch, id_))


def play(home: Home, said: Sequence[Said], turns: dict[int, str]) -> None:
    """Let all be said, with turns at these times, which may fail; then let the time pass.

    The turn in which the meter is first seen does not: a crash there would move its first window.
    """
    turns = {**turns, said[0].time_ms + 1: "", END_MS: ""}
    before_ms = 0
    for now_ms in sorted(at for at in turns if at > said[0].time_ms):
        home.feed([one for one in said if before_ms <= one.time_ms < now_ms], now_ms, turns[now_ms])
        before_ms = now_ms
    home.feed([], END_MS + 60)
    home.feed([], END_MS + 60)


def standing(said: Sequence[Said], phase: str, ms: int) -> Said | None:
    """A phase's newest reading at a time."""
    return max((one for one in said if one.phase == phase and one.time_ms <= ms), default=None)


def power_at(said: Sequence[Said], ms: int, end_ms: int) -> Fraction | None:
    """The sum of the phases at a time, if all stand."""
    found = [standing(said, phase, ms) for phase in "abc"]
    values = [one.value for one in found if one is not None and ms < one.time_ms + POWER.readings.hold_ms]
    return Fraction(min(max(sum(values), 0), 1000)) if len(values) == 3 else None


def register_at(said: Sequence[Said], phase: str, ms: int) -> Fraction | None:
    """A phase's register at a time, a line between two readings; None before the first and after the last."""
    known = [(one.time_ms, one.value) for one in said if one.phase == phase]
    if ms in dict(known):
        return Fraction(dict(known)[ms])
    for (t0, r0), (t1, r1) in pairwise(known):
        if t0 < ms < t1:
            return r0 + Fraction((r1 - r0) * (ms - t0), t1 - t0)
    return None


@lru_cache(maxsize=64)
def told(said: tuple[Said, ...]) -> dict[int, Fraction]:
    """The sum of the registers at each reading up to which all phases have told."""
    sums: dict[int, Fraction] = {}
    newest = {one.phase: one.time_ms for one in said}
    for ms in sorted({one.time_ms for one in said if one.time_ms <= min(newest.values(), default=0)}):
        found = [register_at(said, phase, ms) for phase in "abc"]
        if None not in found:
            whole = sum(value for value in found if value is not None)
            sums[ms] = Fraction((2 * whole * MICRO + 1) // 2, MICRO)
    return sums


def rate_at(said: Sequence[Said], ms: int, end_ms: int) -> Fraction | None:
    """What the sums of the phases' registers say of a millisecond, if both are known when its slot closes."""
    sums = told(tuple(one for one in said if one.time_ms < end_ms))
    before = max((t for t in sums if t <= ms), default=None)
    after = min((t for t in sums if ms < t), default=None)
    if before is None or after is None:
        return None
    return min((sums[after] - sums[before]) / (after - before), Fraction(1000))


def expected(terms: Terms, said: Sequence[Said], first_ms: int) -> dict[int, int]:
    """Each slot's value, a millisecond at a time."""
    found = {}
    per = terms.step_ms if terms.readings.kind is Kind.POWER else 1
    value_at = power_at if terms.readings.kind is Kind.POWER else rate_at
    for start_ms in range(first_ms, END_MS, terms.step_ms):
        end_ms = start_ms + terms.step_ms
        values = [value_at(said, ms, end_ms) for ms in range(start_ms, end_ms)]
        mean = sum((3 if value is None else value for value in values), Fraction(0)) / per
        found[start_ms] = int((mean + Fraction(1, 2)) // 1)
    return found


def released(home: Home) -> dict[int, int]:
    """What left, by the time after BASE_MS."""
    found = {parse_time(start) - BASE_MS: value for start, value in home.left.items()}
    return {start_ms: int(value) for start_ms, value in found.items() if start_ms < END_MS}


numbers = st.lists(
    st.builds(Said, st.integers(0, END_MS - 1), st.sampled_from("abc"), st.integers(-20, 400)),
    min_size=6,
    max_size=60,
    unique_by=lambda one: (one.time_ms, one.phase),
).map(sorted)
stops = st.dictionaries(st.integers(2, END_MS), st.sampled_from(["", "", "before", "after"]))


@given(numbers, stops)
def test_powers_of_phases_are_summed_through_any_crash(said: list[Said], turns: dict[int, str]) -> None:
    """A slot's value is the mean of what stands in sum, gap while one does not; crashes change nothing."""
    home = Home(phased(POWER))
    play(home, said, turns)
    assert released(home) == expected(POWER, said, first_of(said))
    assert acknowledged_but_the_newest(home, said)


@settings(max_examples=60)
@given(numbers, stops)
def test_registers_of_phases_are_summed_through_any_crash(said: list[Said], turns: dict[int, str]) -> None:
    """The sum of the registers at one time is what is differenced; a crash changes nothing."""
    once = {one.time_ms: one for one in said}
    rising = [one._replace(value=one.value + 50 * one.time_ms + 400) for one in once.values()]
    highest: dict[str, int] = {}
    for at, one in enumerate(rising):
        highest[one.phase] = max(highest.get(one.phase, 0), one.value)
        rising[at] = one._replace(value=highest[one.phase])
    home = Home(phased(REGISTER))
    play(home, rising, turns)
    assert released(home) == expected(REGISTER, rising, first_of(rising))
    last_ms = max(told(tuple(rising)), default=-1)
    around = [
        max([one for one in rising if one.phase == p and one.time_ms <= last_ms], default=None) for p in "abc"
    ]
    assert sorted(one for _, one in home.waiting) == sorted(
        one
        for one in rising
        if all(first is None or one.phase != first.phase or one >= first for first in around)
    )


def first_of(said: Sequence[Said]) -> int:
    """The first boundary at or after the first reading."""
    return -(-said[0].time_ms // 4) * 4


def acknowledged_but_the_newest(home: Home, said: Sequence[Said]) -> bool:
    """Whether of each phase the newest message waits for the next, and no other."""
    newest = {one.phase: one for one in said}
    return sorted(one for _, one in home.waiting) == sorted(newest.values())


# --- one by one -------------------------------------------------------------------------------------


def test_a_phase_that_never_spoke_leaves_gap() -> None:
    """Never a part of the sum."""
    home = Home(phased(POWER))
    said = [Said(ms, phase, 100) for ms in range(0, 40, 2) for phase in "ab"]
    play(home, said, {})
    assert set(released(home).values()) == {3}


def test_a_phase_that_falls_silent_leaves_gap_after_its_hold() -> None:
    """Also between two readings of the others: the sum stands as long as its oldest part does."""
    home = Home(phased(POWER))
    said = [Said(0, "c", 50), Said(4, "a", 100), Said(4, "b", 200), Said(12, "a", 100)]
    play(home, said, {})
    assert [released(home)[ms] for ms in (4, 8, 12)] == [Fraction(3 * 350 + 3, 4) // 1, 3, 3]


def test_phases_of_one_time_make_one_sum() -> None:
    """A device says all its phases at once: the last of them completes the sum of that time."""
    home = Home(phased(POWER))
    play(home, [Said(ms, phase, ms + k) for ms in (0, 4, 8) for k, phase in enumerate("abc")], {})
    assert [released(home)[ms] for ms in (4, 8)] == [15, 27]


@pytest.mark.parametrize(
    ("one", "outcome", "held"),
    [
        (Said(4, "a", 100), "duplicate", True),
        (Said(4, "a", 900), "duplicate", False),
        (Said(3, "c", 900), "late", False),
        (Said(0, "a", 900), "duplicate", False),
        (Said(-1, "c", 100), "duplicate", False),
    ],
)
def test_older_and_known_readings_are_refused(one: Said, outcome: str, held: bool) -> None:
    """A reading older than that of its phase is late, a time again a duplicate: the first value stands.

    A redelivery of what is in use takes the place of its first delivery, all others are acknowledged.
    """
    home = Home(phased(POWER))
    home.feed([Said(-1, phase, 100) for phase in "abc"] + [Said(0, phase, 100) for phase in "abc"], 1)
    home.feed([Said(4, "a", 100), Said(5, "c", 100)], 6)
    waiting = {id_ for id_, _ in home.waiting}
    before = home.counts["accepted"]
    home.feed([one], 6)
    assert home.counts["accepted"] == before
    assert home.counts[outcome] == 1
    assert len(home.waiting) == len(waiting)
    assert (home.sent in dict(home.waiting)) is held
    home.feed([Said(6, "a", 100)], 7)
    home.feed([], END_MS)
    assert released(home)[4] == round((3 * 300 + 3) / 4)
    assert sorted(said for _, said in home.waiting) == [
        Said(0, "b", 100),
        Said(5, "c", 100),
        Said(6, "a", 100),
    ]


def test_a_phase_that_is_gone_silences_nobody() -> None:
    """Readings of the other phases are accepted even without a sum, so the meter lives and its clock runs."""
    home = Home(replace(phased(POWER), forget_ms=12))
    said = [Said(0, "c", 1)] + [Said(ms, phase, 1) for ms in range(0, 80, 2) for phase in "ab"]
    for ms in range(80):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert home.counts["accepted"] == home.counts["received"] == len(said)
    assert home.counts["forgotten"] == 0
    event = Home(phased(replace(POWER, clock=Clock.EVENT)))
    event.feed(said, 80)
    assert len(event.left) == 78 // POWER.step_ms


def test_registers_of_one_time_lose_nothing() -> None:
    """Phases that are read at once make one sum, whichever comes last."""
    home = Home(phased(replace(REGISTER, lateness_ms=8)))
    said = [Said(ms, phase, 100 + k * ms) for ms in range(0, 17, 2) for k, phase in enumerate("abc", 1)]
    for ms in range(40):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert [released(home)[ms] for ms in (4, 8)] == [6 * 4, 6 * 4]
    assert sorted(one for _, one in home.waiting) == said[-3:]


def test_clamping_is_of_the_sum() -> None:
    """Phases may be beyond the range as long as their sum is not."""
    home = Home(phased(POWER))
    play(home, [Said(0, "a", 1500), Said(0, "b", -900), Said(0, "c", 10)], {})
    assert released(home)[0] == (3 * 0 + 4 * 610) // 4
    assert home.counts["clamped"] == 0
    play(other := Home(phased(POWER)), [Said(0, "a", 1500), Said(0, "b", 0), Said(0, "c", 10)], {})
    assert released(other)[0] == 1000
    assert other.counts["clamped"] == 1


def test_a_meter_that_is_forgotten_keeps_no_message() -> None:
    """What stood of its phases is acknowledged with it."""
    home = Home(replace(phased(POWER), forget_ms=8))
    home.feed([Said(0, "a", 1), Said(1, "b", 1)], 2)
    for now_ms in range(3, 60):
        home.feed([], now_ms)
    assert home.counts["forgotten"] == 1
    assert home.waiting == []


def test_other_topics_are_not_phases() -> None:
    """A reading of an undeclared phase is refused and counted, since it is a different quantity."""
    home = Home(phased(POWER))
    home.feed([Said(0, "total", 100)], 1)
    assert home.counts == {"received": 1, "refused_topic": 1}
    assert home.waiting == []
