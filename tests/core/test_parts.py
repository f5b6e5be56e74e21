"""Parts of a sum: topics of one meter that are added and subtracted, and come with different delays."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.core.pending import PENDING_MAX, Pending, give_back_tokens
from meteragent.core.phases import make_phases
from meteragent.core.stream import Stream
from meteragent.decode import json as json_profile
from meteragent.decode import wrap_single
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO
from tests.core.test_phases import END_MS, POWER, REGISTER, Home, Said, play, register_at, released
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, stream

pytestmark = pytest.mark.usefixtures("half_quantum")
SIGNS = {"a": 1, "b": 1, "c": -1}
LATENESS_MS = 12
LATE_POWER = terms_with(
    POWER, lateness_ms=LATENESS_MS, hold_ms=9, low_u=-1000 * MICRO, high_u=1000 * MICRO, gap_u=0
)
LATE_REGISTER = terms_with(REGISTER, lateness_ms=END_MS, low_u=-1000 * MICRO, high_u=1000 * MICRO, gap_u=0)


class Delayed(NamedTuple):
    """A message of a part that arrives at a time and was stamped up to the lateness before it."""

    time_ms: int
    phase: str
    value: int
    delay_ms: int

    @property
    def said(self) -> Said:
        """What the part said, when it said it."""
        return Said(self.time_ms - self.delay_ms, self.phase, self.value)


class House(Home):
    """A home whose messages are stamped before they arrive."""

    def _message(self, id_: int, one: Said, received_ms: int) -> Message:
        return super()._message(id_, getattr(one, "said", one), received_ms)


def house(terms: Terms, **changes: object) -> Stream:
    """Return a stream of the sum a + b - c, each on a topic of its own."""
    topics = {f"meters/m1/{name}": name for name in SIGNS}
    source = SourceTopic.parse("meters/m1/a", name="m1")
    source = replace(source, phases=tuple(SIGNS), parts=topics, subtracted=frozenset("c"))
    return stream(terms, source=source, **changes)


def power_at(said: Sequence[Said], ms: int) -> int:
    """Return the signed sum of what stands at a time; 0, the gap's value, if a part does not stand."""
    total = 0
    for phase, sign in SIGNS.items():
        newest = max((one for one in said if one.phase == phase and one.time_ms <= ms), default=None)
        if newest is None or ms >= newest.time_ms + LATE_POWER.readings.hold_ms:
            return 0
        total += sign * newest.value
    return min(max(total, -1000), 1000)


def slots_of(said: Sequence[Said], first_ms: int) -> dict[int, int]:
    """Return each slot's mean, rounded, a millisecond at a time."""
    means = {}
    for start_ms in range(first_ms, END_MS, 4):
        total = sum(power_at(said, ms) for ms in range(start_ms, start_ms + 4))
        means[start_ms] = int((Fraction(total, 4) + Fraction(1, 2)) // 1)
    return means


messages = st.lists(
    st.builds(
        lambda time_ms, phase, value, delay_ms: Delayed(time_ms, phase, value, min(delay_ms, time_ms)),
        st.integers(0, END_MS - 1),
        st.sampled_from("abc"),
        st.integers(-20, 400),
        st.integers(0, LATENESS_MS - 1),
    ),
    min_size=6,
    max_size=60,
    unique_by=lambda one: one.said[:2],
).map(sorted)
stops = st.dictionaries(st.integers(2, END_MS), st.sampled_from(["", "", "before", "after"]))


@given(messages, stops)
def test_powers_that_come_within_the_lateness_sum_rightly(
    arrivals: list[Delayed], turns: dict[int, str]
) -> None:
    """A slot is the mean of the signed sum of what stands, whatever the delays and through any crash."""
    home = House(house(LATE_POWER))
    play(home, arrivals, turns)  # type: ignore[arg-type]  # a Delayed is a Said that comes later
    home.feed([], END_MS + 200)
    first_ms = -(-arrivals[0].time_ms // 4) * 4
    slots = slots_of([one.said for one in arrivals], first_ms)
    assert {ms: released(home)[ms] for ms in slots} == slots


@given(messages, st.randoms(use_true_random=False))
def test_the_order_of_arrival_decides_nothing_about_powers(arrivals: list[Delayed], random: object) -> None:
    """All sums are the same in any order, and a sum stands at each reading at which all parts do."""
    shuffled = [*arrivals]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    terms = terms_with(LATE_POWER, lateness_ms=2 * END_MS)
    assert (
        sums(shuffled, terms) == sums(arrivals, terms) == sums(sorted(arrivals, key=lambda a: a.said), terms)
    )
    said = [one.said for one in arrivals]
    for ms, value_u in sums(arrivals, terms).items():
        assert min(max(value_u, -1000 * MICRO), 1000 * MICRO) == power_at(said, ms) * MICRO


def sums(arrivals: Sequence[Delayed], terms: Terms) -> dict[int, int]:
    """Return the last sum of each time."""
    phases, told = make_phases("abc", terms, "c"), dict[int, int]()
    for one in arrivals:
        told |= {r.time_ms: r.value_u for r in phases.accept_reading(one.phase, reading(one.said)).sums}
    return told


def reading(said: Said) -> Pending:
    """Return what the core makes of it."""
    return Pending(said.time_ms, said.value * MICRO, said)


@given(messages, st.data())
def test_a_reading_moves_no_sum_of_powers_by_more_than_itself(
    arrivals: list[Delayed], data: st.DataObject
) -> None:
    """A reading that is 50 more moves the sums where it stands by exactly that, with its sign."""
    index = data.draw(st.integers(0, len(arrivals) - 1))
    other = [one._replace(value=one.value + 50 * (k == index)) for k, one in enumerate(arrivals)]
    terms = terms_with(LATE_POWER, lateness_ms=2 * END_MS)
    one, two = sums(arrivals, terms), sums(other, terms)
    sign = SIGNS[arrivals[index].phase]
    assert one.keys() == two.keys()
    assert {two[ms] - one[ms] for ms in one} <= {0, sign * 50 * MICRO}


def test_a_power_after_the_lateness_counts_from_what_is_not_integrated() -> None:
    """Without lateness, an older reading of a slow part still ends the one before it, from then on."""
    home = House(house(terms_with(LATE_POWER, lateness_ms=0)))
    home.feed([Said(0, phase, 100) for phase in "abc"], 1)
    home.feed([Said(6, "a", 100)], 6)
    home.feed([Delayed(6, "b", 300, 3)], 6)  # type: ignore[list-item]
    home.feed([], END_MS)
    assert released(home)[4] == (2 * 100 + 2 * 300) // 4
    assert home.counts["accepted"] == 5
    home.feed([], END_MS + 60)


def test_readings_that_are_kept_for_late_ones_are_bounded() -> None:
    """A sender that stamps thousands within the lateness fills no memory, and gets its messages back."""
    phases = make_phases("ab", terms_with(LATE_POWER, lateness_ms=10**7))
    freed = []
    for ms in range(2 * PENDING_MAX):
        freed += phases.accept_reading("a", Pending(ms, 0, ms)).free_tokens
    kept = phases.forget_readings()
    assert len(kept) <= PENDING_MAX
    assert sorted([*give_back_tokens(freed), *give_back_tokens(kept)]) == list(range(2 * PENDING_MAX))


# --- registers --------------------------------------------------------------------------------------

rises = st.dictionaries(
    st.tuples(st.integers(1, END_MS - 1), st.sampled_from("abc")), st.integers(0, 40), max_size=40
)


def counted(moved: dict[tuple[int, str], int]) -> list[Said]:
    """Return the readings of three registers, each at the start and at the end, too."""
    totals, said = {"a": 0, "b": 700, "c": 90}, [Said(0, "a", 0), Said(0, "b", 700), Said(0, "c", 90)]
    for (ms, phase), more in sorted({**moved, **{(END_MS - 1, phase): 3 for phase in "abc"}}.items()):
        totals[phase] += more
        said.append(Said(ms, phase, totals[phase]))
    return said


def register_sums(said: Sequence[Said], order: Sequence[str]) -> dict[int, int]:
    """Return the sums of registers, each of which comes in order of its times."""
    phases, told = make_phases("abc", LATE_REGISTER, "c"), dict[int, int]()
    left = {p: [one for one in said if one.phase == p] for p in "abc"}
    for name in [*order, *"abc" * len(said)]:
        if waiting := left[name]:
            one = waiting.pop(0)
            told |= {r.time_ms: r.value_u for r in phases.accept_reading(name, reading(one)).sums}
    return told


@given(rises, st.lists(st.sampled_from("abc"), max_size=60))
def test_registers_are_summed_with_their_signs(moved: dict[tuple[int, str], int], order: list[str]) -> None:
    """At each reading the sum is that of the lines; the order of the parts does not matter."""
    said = counted(moved)
    told = register_sums(said, order)
    assert told == register_sums(said, [])
    assert told.keys() == {one.time_ms for one in said} - {0}
    for ms, value_u in told.items():
        lines = {p: register_at(said, p, ms) for p in "abc"}
        exact = sum((sign * (lines[p] or 0) for p, sign in SIGNS.items()), Fraction(0))
        assert abs(Fraction(value_u, MICRO) - exact) <= Fraction(1, MICRO)


@given(rises, st.lists(st.sampled_from("abc"), max_size=60), st.data())
def test_a_count_moves_no_sum_by_more_than_itself(
    moved: dict[tuple[int, str], int], order: list[str], data: st.DataObject
) -> None:
    """One reading that shows one less moves each sum by at most one, in the direction of its sign."""
    said = counted({key: more + 1 for key, more in moved.items()})
    index = data.draw(st.integers(3, len(said) - 1))
    other = [one._replace(value=one.value - (k == index)) for k, one in enumerate(said)]
    one, two = register_sums(said, order), register_sums(other, order)
    assert one.keys() == two.keys()
    assert all(0 <= SIGNS[said[index].phase] * (one[ms] - two[ms]) <= MICRO for ms in one)


@settings(max_examples=30)
@given(rises, stops)
def test_slots_of_registers_add_up_through_any_crash(
    moved: dict[tuple[int, str], int], turns: dict[int, str]
) -> None:
    """All slots add up to what the registers rose by, with their signs: negative while more is fed in."""
    said = counted(moved)
    home = House(house(LATE_REGISTER))
    play(home, said, turns)
    home.feed([], 4 * END_MS)
    used = sum(SIGNS[p] * (max(one.value for one in said if one.phase == p)) for p in "abc") - 700 + 90
    assert abs(sum(released(home).values()) - used) <= 5, "each of ten slots is rounded"
    assert home.counts["clamped"] == home.counts["register_glitch"] == 0


@pytest.mark.parametrize(("phase", "sign"), [("a", 1), ("c", -1)])
def test_what_happens_to_a_subtracted_register_is_no_use(phase: str, sign: int) -> None:
    """A rollover goes on, a reset shifts the sum, and a zero among right counts is a glitch."""

    def left(*counts: int, modulus_u: int | None = None) -> tuple[dict[int, int], House]:
        home = House(house(terms_with(LATE_REGISTER, modulus_u=modulus_u)))
        said = [Said(4 * k, p, counts[k] if p == phase else 500) for k in range(len(counts)) for p in "abc"]
        for one in said:
            home.feed([one], one.time_ms)
        home.feed([], 3 * END_MS)
        return released(home), home

    rolled, home = left(*[(980 + 8 * k) % 1000 for k in range(10)], modulus_u=1000 * MICRO)
    assert [rolled[ms] for ms in range(4, 32, 4)] == [sign * 8] * 7
    assert home.counts["rolled_over"] == 1
    zero, home = left(*[0 if k == 4 else 500 + 8 * k for k in range(10)])
    assert [zero[ms] for ms in range(4, 32, 4)] == [sign * 8] * 7
    assert home.counts["register_glitch"] == 1
    reset, home = left(*[600 + 8 * k if k < 4 else 8 * k for k in range(10)])
    assert [reset[ms] for ms in (4, 8, 16, 20)] == [sign * 8] * 4
    assert home.counts["register_reset"] == 1


# --- payloads ---------------------------------------------------------------------------------------


def test_each_part_has_its_own_decoder_and_unit() -> None:
    """A part whose unit is wrong is refused, and the sum waits for it; the other parts count."""
    names: dict[str | None, tuple[str, ...]] = {"b": ("kW",), "a": ("W",), "c": ("W",)}
    units = SourceTopic.parse("meters/m1/a/unit", name="m1")
    units = replace(units, phases=tuple(SIGNS), parts={f"meters/m1/{p}/unit": p for p in SIGNS})
    watts, kilowatts = (json_profile.make_decoder("power", "t", Fraction(scale)) for scale in (1, 1000))
    decoders = {"a": watts, "b": kilowatts, "c": watts}
    known = house(LATE_POWER, decode={p: wrap_single(decoder) for p, decoder in decoders.items()})
    home = House(replace(known, source=replace(known.source, unit=units, units=names)))
    home.feed([Said(0, phase, value) for phase, value in (("a", 100), ("b", 0), ("c", 7))], 1)
    home.feed([Said(5, phase, value) for phase, value in (("a", 100), ("b", 1), ("c", 700))], 6)
    home.core.feed([Message("meters/m1/b/unit", b"W", True, BASE_MS + 7, None)], BASE_MS + 7, BASE_MS + 7)
    home.feed([Said(8, "b", 1), Said(8, "a", 200)], 9)
    home.feed([], 3 * END_MS)
    assert released(home)[4] == round((93 + 3 * 400) / 4)
    assert released(home)[8] == 500
    assert home.counts["refused_unit"] == 1
