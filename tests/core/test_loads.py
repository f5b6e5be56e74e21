"""What a change of the load is in the readings: bounds that hold and are reached, through the whole core."""

import functools
import json
from collections.abc import Callable
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.agent.parts import core_of
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain import loads
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy.loads import counted_change_bound, sampled_change_bound
from meteragent.privacy.sampling import SeededBits
from meteragent.report import guarantee, wording
from meteragent.report.event import Event
from meteragent.wire.descriptor import describe_terms
from tests.support.guarantees import facts_of

START_MS = 1_795_305_600_000
HOUR_S = 3600
KETTLE_W, KETTLE_S = 2200, 180
POWER = "kind = 'power'\nunit = 'W'"
REGISTER = "kind = 'register'\nunit = 'kWh'"
Load = Callable[[int], Fraction | int]
"""A power in W, or a register in Wh, by the second."""


@functools.cache
def stream(source: str, window: str = "") -> config.Stream:
    """A stream of JSON readings with the default preset."""
    text = f"[source]\ntopic = 'm/{{meter}}/p'\nprofile = 'json'\nvalue = 'p'\ntime = 't'\n{source}\n"
    return config.parse(f"{text}[window]\n{window}\n[sink]\ntopic = 'o/{{meter}}'\n").stream[0]


def released(known: config.Stream, load: Load, every_s: int, last_s: int = 3 * HOUR_S) -> dict[str, Fraction]:
    """What leaves of a load that is read so often, always with the same noise."""
    stream_core = core_of(known, Fraction(0), None, b"s" * 32)
    pipeline = Pipeline(stream_core, Snapshot({}, {}, {}), Spending(), SeededBits(7), Counts())
    found = {}
    for time_s in range(-every_s, last_s, every_s):
        time_ms = START_MS + time_s * 1000
        payload = json.dumps({"p": float(load(time_s)), "t": time_ms}).encode()
        effects = pipeline.feed([Message("m/h/p", payload, False, time_ms, time_s)], time_ms, time_ms)
        for one in effects.commit.outgoing:
            record = json.loads(one.payload)
            if "value" in record:
                found[record["t"]] = Fraction(str(record["value"]))
    return found


def moved(known: config.Stream, one: Load, other: Load, every_s: int) -> Fraction:
    """The level at which two loads can be told apart by the slot that differs most."""
    values = [released(known, load, every_s) for load in (one, other)]
    terms = config.terms(known)
    return terms.epsilon * max(abs(values[0][t] - values[1][t]) for t in values[0])


# Sampled power ------------------------------------------------------------------------------------


def kettle_at(start_s: int, power_w: int = KETTLE_W, lasts_s: int = KETTLE_S) -> Load:
    """A home of 100 W and one event."""
    return lambda time_s: 100 + (power_w if start_s <= time_s < start_s + lasts_s else 0)


@pytest.mark.parametrize(
    ("every_s", "level"),
    [
        *((60, Fraction(1)), (180, Fraction(1)), (300, Fraction(5, 3))),
        *((600, Fraction(10, 3)), (900, Fraction(5))),
    ],
)
def test_a_kettle_that_is_sampled_counts_for_a_whole_period(every_s: int, level: Fraction) -> None:
    """2,200 W for 3 minutes move 110 Wh, which is hidden at level 1; read every 15 minutes it costs 5."""
    known = stream(f"{POWER}\nevery = '{every_s}s'")
    starts_s = range(HOUR_S, HOUR_S + every_s, every_s // 6)
    worst = max(moved(known, kettle_at(-HOUR_S), kettle_at(start_s), every_s) for start_s in starts_s)
    terms = config.terms(known)
    assert worst == pytest.approx(level, abs=float(terms.epsilon) * 1.01)  # one quantum of rounding
    assert worst <= loads.level(terms, Fraction(110)) == terms.level * loads.level_factor(terms)


@pytest.mark.parametrize("every_s", [10, 60, 300, 900])
def test_the_bound_for_sampled_power_is_reached(every_s: int) -> None:
    """The range for an instant at one reading, the rest of 110 Wh from the first reading to the last."""
    known = stream(f"{POWER}\nevery = '{every_s}s'\nhold = '1h'")
    terms = config.terms(known)
    lasts_s = 1800 - every_s if every_s < 900 else 900
    low_w = Fraction(110 * HOUR_S - 20, lasts_s)

    def event(time_s: int) -> Fraction:
        if time_s == HOUR_S:  # 20 kW for a millisecond
            return Fraction(20_000)
        return low_w if HOUR_S <= time_s <= HOUR_S + lasts_s else Fraction(0)

    level, bound = moved(known, lambda _: 0, event, every_s), loads.level(terms, Fraction(110))
    assert bound - 3 * terms.epsilon <= level <= bound


def test_a_reading_stands_for_hold_at_most() -> None:
    """With readings 15 minutes apart and a hold of 5, an event counts for 5."""
    known = stream(f"{POWER}\nevery = '15min'\nhold = '5min'")
    assert config.terms(known).readings.longest_hold_ms == 300_000
    level = moved(known, kettle_at(-HOUR_S), kettle_at(HOUR_S), 900)
    assert level == pytest.approx(5 / 3, abs=0.01)
    assert loads.level_factor(config.terms(known)) == loads.level_factor(
        config.terms(stream(f"{POWER}\nevery = '5min'"))
    )


def test_no_move_is_more_than_the_range() -> None:
    """Slot means lie within the range, so no move counts for more, however long the readings stand."""
    known = stream(f"{POWER}\nevery = '1h'\nhold = '1h'", "range = [0, 3000]")
    assert loads.distance_bound(config.terms(known), Fraction(110)) == 3000


def test_a_dead_band_adds_twice() -> None:
    """On change within 10 W: 220 W and two bands more, as for curves; samples before it add theirs."""
    terms = config.terms(stream(f"{POWER}\ndead_band = 10"))
    assert (terms.readings.every_ms, loads.level_factor(terms), loads.unknown_keys(terms)) == (
        0,
        Fraction(12, 11),
        (),
    )
    sampled_too = config.terms(stream(f"{POWER}\ndead_band = 10\nevery = '1s'"))
    assert loads.distance_bound(sampled_too, Fraction(110)) == 240 + Fraction(20_000, 1800)


events = st.lists(st.integers(0, 40), min_size=1, max_size=6)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
    st.integers(0, 100),
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(0, 30),
)
def test_sampling_never_moves_more(gaps: list[int], first: int, rises: list[int], falls: int) -> None:
    """However readings lie, at most T apart: what rises and falls once moves at most X + p T."""
    up = sorted(rises)
    shape = [*up, *(max(up[-1] - down, 0) for down in range(falls))]
    times, time = [], -first % 30 - 30
    for gap in gaps:
        times.append(time)
        time += gap
    longest = max(gaps)
    said = sum(
        gap * (shape[time] if 0 <= time < len(shape) else 0) for time, gap in zip(times, gaps, strict=True)
    )
    assert said <= sampled_change_bound(sum(shape), max(shape), longest)


# Counted energy -----------------------------------------------------------------------------------


def register(extra_wh: int, at_s: int = 6000, phase_wh: int = 395, step_wh: int = 1000) -> Load:
    """A register in kWh that shows whole steps; 200 W all the time, and `extra_wh` at one moment."""

    def shown(time_s: int) -> Fraction:
        used = 1_000_000 + phase_wh + Fraction(200 * time_s, HOUR_S) + (extra_wh if time_s > at_s else 0)
        return Fraction(int(used // step_wh) * step_wh, 1000)

    return shown


LATE = "lateness = '10min'"


def worst_count(known: config.Stream, extra_wh: int, every_s: int, step_wh: int) -> Fraction:
    """The worst level over phases of the register."""
    just_before = (-400 - 3) % step_wh  # 400 Wh are used until the slot's end
    phases = (just_before, *range(0, step_wh, max(step_wh // 5, 1)))
    return max(
        moved(
            known,
            register(0, phase_wh=phase, step_wh=step_wh),
            register(extra_wh, phase_wh=phase, step_wh=step_wh),
            every_s,
        )
        for phase in phases
    )


@pytest.mark.parametrize("extra_wh", [5, 20, 110])
def test_a_register_of_whole_kwh_tells_them_apart(extra_wh: int) -> None:
    """Loads 5 Wh apart at one moment differ by a kWh in a slot: level 9.09, not 0.05, and no more."""
    known = stream(f"{REGISTER}\ndead_band = 1", LATE)
    terms = config.terms(known)
    assert loads.level(terms, Fraction(extra_wh)) == Fraction(100, 11)
    assert Fraction(99, 11) <= worst_count(known, extra_wh, 300, 1000) <= Fraction(100, 11)


def test_a_step_beyond_the_range_counts_in_full() -> None:
    """Read every minute, a kWh is beyond 20 kW, but it is a step, which limits allow: level 9.09 again."""
    known = stream(f"{REGISTER}\ndead_band = 1\nevery = '1min'", LATE)
    bound = loads.level(config.terms(known), Fraction(5))
    assert bound == Fraction(100, 11)
    assert Fraction(99, 100) * bound <= worst_count(known, 5, 60, 1000) <= bound


@pytest.mark.parametrize(
    ("step_wh", "factor"),
    [(1, Fraction(1)), (10, Fraction(1)), (100, Fraction(20, 11)), (30, Fraction(12, 11))],
)
def test_finer_registers(step_wh: int, factor: Fraction) -> None:
    """A register shows whole steps of 110 Wh: of 1 and 10 Wh that costs nothing, of 0.1 kWh it is 200 Wh."""
    known = stream(f"{REGISTER}\ndead_band = '{Fraction(step_wh, 1000)}'", LATE)
    assert loads.level_factor(config.terms(known)) == factor
    if step_wh >= 20:
        assert worst_count(known, 110, 60, step_wh) == pytest.approx(float(factor), abs=0.01)


def test_intervals_are_rounded_each_by_itself() -> None:
    """Six intervals of five minutes, in steps of 10 Wh: 110 Wh spread over them count for at most 160."""
    terms = config.terms(stream("kind = 'interval_energy'\nunit = 'Wh'\ninterval = '5min'\ndead_band = 10"))
    assert loads.counts_max(terms) == 6
    assert loads.distance_bound(terms, Fraction(110)) == 160
    parts = [1, 1, 1, 1, 1, 105]
    assert sum(parts) == 110
    assert sum(10 * ceil(Fraction(part, 10)) for part in parts) == 160


def test_counters_that_are_summed_add_a_step_each() -> None:
    """Two tariffs of a P1 port, each in Wh: 110 Wh over both count for 111."""
    text = "source.topic = 'dsmr/raw'\nsource.meter = 'home'\nsource.profile = 'dsmr-p1'\n"
    text += "source.kind = 'register'\nsource.unit = 'Wh'\nsink.topic = 'o/{meter}'\n"
    terms = config.terms(config.parse(text).stream[0])
    assert (terms.readings.counters, terms.readings.dead_band) == (2, Fraction(1))
    assert loads.distance_bound(terms, Fraction(110)) == 111


@given(
    st.lists(st.fractions(0, 50), min_size=1, max_size=5),
    st.fractions(Fraction(1, 10), 20),
    st.lists(st.fractions(0, 100), min_size=5, max_size=5),
)
def test_counting_never_moves_more(parts: list[Fraction], step: Fraction, phases: list[Fraction]) -> None:
    """Whatever the phases of the counts: parts of a move, counted each by itself, say at most the bound."""
    both = list(zip(parts, phases, strict=False))
    said = sum((step * ((part + phase) // step - phase // step) for part, phase in both), Fraction(0))
    assert said <= counted_change_bound(sum(parts, Fraction(0)), step, len(parts))


@given(st.integers(1, 1000), st.integers(1, 300), st.integers(1, 6))
def test_the_bound_for_counts_is_reached(moved_wh: int, step: int, counts: int) -> None:
    """With a little in each count but the last, just before its next step, each shows a step more."""
    little = Fraction(1, 10**6)
    parts = [little] * (counts - 1) + [moved_wh - little * (counts - 1)]
    said = sum(step * ceil(part / step) for part in parts)
    assert said == counted_change_bound(moved_wh, step, counts)


def test_what_is_no_bound_is_refused() -> None:
    """Energies, powers and steps are exact and not negative, and a value has a count."""
    with pytest.raises(ValueError, match="not be negative"):
        sampled_change_bound(-1, 1, 1)
    with pytest.raises(ValueError, match="at least one count"):
        counted_change_bound(1, 1, 0)
    with pytest.raises(TypeError, match="exact"):
        counted_change_bound(0.5, 1)  # type: ignore[arg-type]


# What is said of it -------------------------------------------------------------------------------


def test_the_descriptor_says_what_readings_are() -> None:
    """Period, dead band and the level for loads are facts of the terms, where they are known."""
    facts = describe_terms(config.terms(stream(f"{POWER}\nevery = '10s'"))).facts
    assert (facts["readings"], facts["level_of_loads"]) == ({"every": "PT10S", "dead_band": "0"}, "83/55")
    facts = describe_terms(config.terms(stream(f"{REGISTER}\ndead_band = 1"))).facts
    assert (facts["readings"], facts["level_of_loads"]) == ({"dead_band": "1"}, "100/11")
    unknown = describe_terms(config.terms(stream(POWER)))
    assert not {"readings", "level_of_loads"} & set(unknown.facts)
    assert unknown.id != describe_terms(config.terms(stream(f"{POWER}\nevery = '10s'"))).id


def test_an_event_is_as_likely_to_be_told_as_its_readings_are() -> None:
    """A kettle read every quarter of an hour counts for 18 minutes: right in 98 of 100, not in 70."""
    kettle = Event("a kettle", KETTLE_W, KETTLE_S * 1000, "test")
    right = {
        every: facts_of(stream(f"{POWER}\nevery = '{every}'\ndead_band = 0"), [kettle])["hidden"][0][
            "right_of_100"
        ]["1"]
        for every in ("0s", "10s", "15min")
    }
    assert right == {"0s": 70, "10s": 71, "15min": 98}


@pytest.mark.parametrize("key", ["every = '10s'", "dead_band = 5"])
def test_each_key_of_a_power_is_enough(key: str) -> None:
    """A power needs the time between readings or, if it is sent on change, the dead band: not both."""
    assert loads.unknown_keys(config.terms(stream(f"{POWER}\n{key}"))) == ()


@pytest.mark.parametrize(
    ("source", "known", "unknown"),
    [
        (f"{POWER}\nevery = '10s'", "e^1.51 = 4.53", None),
        (f"{REGISTER}\ndead_band = 1", "e^9.1 (hides nothing)", None),
        (
            POWER,
            None,
            (
                "set source.every, the longest time between readings, if the device sends at regular times;"
                " if it sends on change, set source.dead_band, the largest change that it does not report."
            ),
        ),
        (f"{POWER}\ndead_band = 0", None, "set source.every: the longest time between readings."),
        (REGISTER, None, "set source.dead_band: the step in which the energy is counted."),
        (f"{POWER}\nevery = '0s'", None, "set source.dead_band: the largest change that the device does not"),
    ],
)
def test_the_promise_for_loads_in_words(source: str, known: str | None, unknown: str | None) -> None:
    """Where readings do not follow the load, what a move of it costs is said, or which key would say it."""
    facts = facts_of(stream(source), ())
    text = wording.loads_sentence(guarantee.compute_guarantee(stream(source), ()))
    assert (known or unknown or "") in text
    assert facts["loads"]["unknown"] == [*loads.unknown_keys(config.terms(stream(source)))]
    assert bool(facts["loads"]["unknown"]) == (unknown is not None)


@pytest.mark.parametrize(
    ("hold", "way"), [("15min", "stands for at most 15 min"), ("2h", "is read every 2 h")]
)
def test_the_time_that_is_named_is_one_that_the_file_states(hold: str, way: str) -> None:
    """Where a reading ends before the next one, the text names the hold, not a period that nobody wrote."""
    facts = facts_of(stream(f"{POWER}\nevery = '2h'\nhold = '{hold}'"), ())
    (warning,) = [text for text in facts["warnings"] if "a change of 110 Wh can count" in text]
    assert way in warning.partition(":")[0]


def test_the_level_of_four_moves_is_warned_of() -> None:
    """Above the level there is a warning with that of 1 Wh, 10 Wh, 0.1 kWh and 1 kWh."""
    facts = facts_of(stream(f"{POWER}\nevery = '300s'"), ())
    (warning,) = [text for text in facts["warnings"] if "is read every" in text]
    assert warning == (
        "power is read every 5 min: a change of 110 Wh can count as 1.78 kWh, at level 16.2 instead of 1."
        " The level depends on the size of the change: 1 Wh: 15.2; 10 Wh: 15.2; 0.1 kWh: 16.1; 1 kWh: 24.2"
    )
    assert facts["loads"]["levels_of_wh"] == {"1": 15.16, "10": 15.25, "100": 16.06, "1000": 24.25}
    steady = facts_of(stream(f"{POWER}\nevery = '0s'\ndead_band = 0"), ())
    assert steady["loads"]["factor"] == 1
    assert not [text for text in steady["warnings"] if "level" in text]
