"""What a receiver makes of a stream: records in any order in, honest intervals out.

Messages are made by `meteragent.wire.record`, as an agent makes them.
"""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.consume import Descriptor, Record, Series, collect, mean_energy, mean_value
from meteragent.domain.errors import RecordError
from meteragent.domain.terms import Terms
from meteragent.privacy import SeededBits, discrete_laplace, half_width, sd
from meteragent.privacy.totals import Part, half_width_of_total
from meteragent.wire.descriptor import describe_terms
from tests.support.messages import (
    ALL_TERMS,
    ENERGY,
    HALF_HOUR_MS,
    HOURLY,
    KILO,
    KILO_ENERGY,
    NOON_MS,
    SPLIT,
    TEN_MIN_MS,
    changed,
    described,
    recorded,
)
from tests.support.stores import TERMS
from tests.support.terms import terms_with


def series(terms: Terms, quanta: Sequence[int], meter: str = "m1") -> Series:
    """Return a meter's series."""
    return collect([described(terms, meter), *recorded(terms, quanta, meter)])[meter]


# Series -------------------------------------------------------------------------------------------


def test_a_series_is_sorted_and_complete() -> None:
    """Records may come in any order, repeatedly, before their descriptor, and mixed with other meters'."""
    item, other = recorded(TERMS, [5, -3, 8, 0]), recorded(TERMS, [1, 2], "m2")
    messages = [*item, *other, described(TERMS), described(TERMS, "m2")]
    meters = collect(messages[::-1] + messages[:3])
    assert sorted(meters) == ["m1", "m2"]
    home = meters["m1"]
    assert home.time_ms.tolist() == [NOON_MS + i * HALF_HOUR_MS for i in range(4)]
    assert home.values.tolist() == [5.0, -3.0, 8.0, 0.0]
    assert (home.unit, home.gaps) == ("W", ())
    assert home == collect(messages)["m1"]


def test_what_was_received_cannot_be_changed() -> None:
    """A series, its arrays and an estimate are fixed."""
    home = series(TERMS, [5, 6])
    for array in (home.values, home.time_ms, home.end_ms):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(FrozenInstanceError):
        home.value(NOON_MS).value = 0.0  # type: ignore[misc]


def test_gaps_are_visible() -> None:
    """A stretch without records is named, and no total is made across it."""
    messages = [described(TERMS), *recorded(TERMS, [1, 2]), *recorded(TERMS, [3], first=5)]
    home = collect(messages)["m1"]
    assert home.gaps == ((NOON_MS + 2 * HALF_HOUR_MS, NOON_MS + 5 * HALF_HOUR_MS),)
    with pytest.raises(ValueError, match="no records of whole slots"):
        home.energy(NOON_MS, NOON_MS + 6 * HALF_HOUR_MS)
    assert home.energy(NOON_MS, NOON_MS + 2 * HALF_HOUR_MS).value == pytest.approx(0.0015)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (-1, 1), (0, 3), (0.5, 2), (0, 1.5), (5, 6)])
def test_a_total_is_of_whole_slots(start: float, end: float) -> None:
    """Time that slots do not fill exactly has no total."""
    home = series(TERMS, [1, 2])
    with pytest.raises(ValueError, match="no records of whole slots"):
        home.energy(NOON_MS + int(start * HALF_HOUR_MS), NOON_MS + int(end * HALF_HOUR_MS))


def test_a_slot_has_one_value() -> None:
    """Two records of one slot that differ are refused: an interval is released once."""
    with pytest.raises(RecordError, match="differ"):
        collect([described(TERMS), *recorded(TERMS, [5]), *recorded(TERMS, [6])])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"d": "00000000"}, "descriptor is not among"),
        ({"unit": "kW"}, "unit or duration"),
        ({"for": "PT15M"}, "unit or duration"),
        ({"value": 5.5}, "value or sd"),
        ({"sd": 31.11}, "value or sd"),
    ],
)
def test_a_record_fits_its_descriptor(change: dict[str, Any], reason: str) -> None:
    """A record's unit, duration, lattice and sd are those of the descriptor that it names."""
    with pytest.raises(RecordError, match=reason):
        collect([described(TERMS), changed(recorded(TERMS, [5])[0], **change)])


def test_slots_do_not_overlap() -> None:
    """Records under other terms begin where the earlier ones end, not within them."""
    finer = terms_with(TERMS, length_ms=TEN_MIN_MS, step_ms=TEN_MIN_MS)
    both = [described(TERMS), described(finer), *recorded(TERMS, [5])]
    home = collect([*both, *recorded(finer, [6, 7], first=3)])["m1"]
    assert home.time_ms.tolist() == [NOON_MS, NOON_MS + HALF_HOUR_MS, NOON_MS + HALF_HOUR_MS + TEN_MIN_MS]
    assert len(home.descriptors) == 2
    with pytest.raises(RecordError, match="overlap"):
        collect([*both, *recorded(finer, [6], first=2)])


def test_a_series_is_of_one_meter_and_unit() -> None:
    """Records of two meters or two units, and an empty list, do not form a series."""
    known = {d.id: d for d in map(Descriptor.parse, (described(TERMS), described(KILO)))}
    item = Record.parse(recorded(TERMS, [5])[0])
    for other in (recorded(TERMS, [5], "m2", first=1), recorded(KILO, [5], first=1)):
        with pytest.raises(RecordError, match="exactly one meter"):
            Series.of([item, Record.parse(other[0])], known)
    with pytest.raises(RecordError, match="exactly one meter"):
        Series.of([], known)
    assert collect([described(TERMS)]) == {}


# Estimates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", ALL_TERMS)
def test_a_number_has_the_error_of_its_descriptor(terms: Terms) -> None:
    """The estimate of a slot: its value, the record's sd, the descriptor's ci95, in the stream's unit."""
    home, shared = series(terms, [512, 20]), describe_terms(terms)
    found = home.value(NOON_MS)
    assert found.value == float(512 * terms.quantum)
    assert (found.unit, found.coverage) == (terms.readings.unit, 0.95)
    assert float(f"{found.sd:.4g}") == shared.facts["sd"]
    assert float(f"{found.high - found.value:.4g}") == shared.facts["ci95"]
    assert found.value - found.low == pytest.approx(found.high - found.value)


@pytest.mark.parametrize(
    ("terms", "kwh"),
    [(TERMS, 0.5e-3), (HOURLY, 1e-3 / 6), (KILO, 0.5e-3), (ENERGY, 1e-3), (KILO_ENERGY, 1e-3)],
)
def test_energy_is_in_kwh_whatever_was_sent(terms: Terms, kwh: float) -> None:
    """Power is multiplied by the slot's hours, energy added; W, kW, Wh and kWh become kWh."""
    quanta = [512, -100, 300, 40, 7, 1, 900]
    actual = series(terms, quanta).energy(NOON_MS, NOON_MS + 7 * terms.step_ms)
    assert actual.value == pytest.approx(sum(quanta) * kwh)  # the quantum is 1 W, 1 Wh or a thousandth
    assert actual.unit == "kWh"
    noise = terms.mechanism
    scale = kwh / float(terms.quantum)
    assert actual.sd == pytest.approx(scale * 7**0.5 * sd(noise, "dithered"))
    sizes = [(1, 7)] if terms.n == 1 else [(6, 1), (1, 1)]
    parts = [Part(noise, *size, rounding="dithered") for size in sizes]
    assert actual.high - actual.value == pytest.approx(scale * half_width_of_total(parts), rel=1e-9)


def test_slots_count_by_their_windows() -> None:
    """Slots of one window share its radius, even if a total takes only some of them; others do not."""
    home, noise = series(HOURLY, range(18)), HOURLY.mechanism
    actual = home.energy(NOON_MS + 4 * TEN_MIN_MS, NOON_MS + 15 * TEN_MIN_MS, coverage=0.99)
    expected = half_width_of_total([Part(noise, n, rounding="dithered") for n in (2, 6, 3)], 0.99) / 6000
    assert actual.high - actual.value == pytest.approx(expected, rel=1e-9)
    assert actual.value == pytest.approx(sum(range(4, 15)) / 6000)


def test_a_total_goes_on_under_other_terms() -> None:
    """A total across a change of terms takes each slot with its own duration and noise."""
    finer = terms_with(TERMS, length_ms=TEN_MIN_MS, step_ms=TEN_MIN_MS, radius=Fraction(40))
    sent = [described(TERMS), described(finer), *recorded(TERMS, [60]), *recorded(finer, [6, 12], first=3)]
    actual = collect(sent)["m1"].energy(NOON_MS, NOON_MS + HALF_HOUR_MS + 2 * TEN_MIN_MS)
    assert actual.value == pytest.approx(0.030 + 0.003)
    wide, narrow = TERMS.mechanism, finer.mechanism
    parts = [Part(wide, 1, 1, 0.0005, "dithered"), Part(narrow, 1, 2, 0.001 / 6, "dithered")]
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)


def test_the_mean_of_meters() -> None:
    """Meters have equal weights, whatever the noise of each; their errors are independent."""
    finer = replace(TERMS, radius=Fraction(40))
    homes = [series(TERMS, [100, 7], "m1"), series(finer, [40, 5], "m2"), series(TERMS, [-50, 3], "m3")]
    actual = mean_value(homes, NOON_MS)
    wide, narrow = TERMS.mechanism, finer.mechanism
    assert actual.value == pytest.approx(30)
    assert actual.sd == pytest.approx(
        (2 * sd(wide, "dithered") ** 2 + sd(narrow, "dithered") ** 2) ** 0.5 / 3
    )
    parts = [Part(wide, 1, 2, 1 / 3, "dithered"), Part(narrow, 1, 1, 1 / 3, "dithered")]
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)
    energy = mean_energy(homes, NOON_MS, NOON_MS + 2 * HALF_HOUR_MS)
    assert energy.value == pytest.approx((100 + 40 - 50 + 7 + 5 + 3) * 0.0005 / 3)
    assert energy.sd == pytest.approx(2**0.5 * actual.sd * 0.0005)


def test_one_home_s_mean_is_its_own() -> None:
    """The mean of one is its value, with the exact interval of a number."""
    home = series(TERMS, [100])
    actual = mean_value(iter([home]), NOON_MS, coverage=0.8)
    assert actual == home.value(NOON_MS, 0.8)
    assert actual.high - actual.value == pytest.approx(half_width(TERMS.mechanism, 0.8, "dithered"))


def test_what_has_no_mean_is_refused() -> None:
    """No meters, a meter without that slot, unlike meters, or a coverage of 1 raise ValueError."""
    home = series(TERMS, [100])
    for meters in ([], *([home, series(other, [1])] for other in (ENERGY, KILO, SPLIT))):
        with pytest.raises(ValueError, match="a mean value needs"):
            mean_value(meters, NOON_MS)
    with pytest.raises(ValueError, match="a mean energy needs"):
        mean_energy([], NOON_MS, NOON_MS + HALF_HOUR_MS)
    with pytest.raises(ValueError, match="no record of a slot"):
        mean_value([home], NOON_MS + 1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        home.value(NOON_MS, coverage=1.0)


# Coverage -----------------------------------------------------------------------------------------

COUNT, COVERAGE = 10_000, 0.7
MARGIN = 5 * (COVERAGE * (1 - COVERAGE) / COUNT) ** 0.5
"""Five deviations of a share of 70%, 2.3%: right intervals fail with a chance of 6e-7. With noise of a
scale 10% off the share of totals of three slots moves by 3.9% or more, which is missed with 3e-4."""


def noisy(terms: Terms, slots: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return loads before rounding, and what an agent would release of them, in quanta."""
    noise, bits = terms.mechanism, SeededBits(seed)
    loads = np.random.default_rng(seed).uniform(0, 3000, slots)
    if noise.n == 1:
        drawn = discrete_laplace(slots, noise.a, bits)
    else:
        drawn = noise.release(np.zeros((slots // noise.n, noise.n), np.int64), bits=bits).ravel()
    return loads, np.floor(loads + 0.5).astype(np.int64) + drawn


def assert_covered(errors: NDArray[np.float64], half: float) -> None:
    """The share of errors within +- half is COVERAGE, and is not where all errors are 10% off."""
    share = {factor: float((np.abs(factor * errors) <= half).mean()) for factor in (0.9, 1.0, 1.1)}
    assert abs(share[1.0] - COVERAGE) < MARGIN
    assert share[0.9] - COVERAGE > MARGIN
    assert COVERAGE - share[1.1] > MARGIN


@pytest.mark.statistical
@pytest.mark.parametrize(("terms", "slots"), [(SPLIT, 3), (TERMS, 3), (KILO_ENERGY, 3)])
def test_energy_is_where_it_is_said_to_be(terms: Terms, slots: int) -> None:
    """Of 10,000 totals over a window of three or three windows of one, 70% lie in their 70% interval."""
    loads, released = noisy(terms, slots * COUNT, seed=slots)
    home, stretch_ms = series(terms, released.tolist()), slots * terms.step_ms
    actual = [home.energy(t, t + stretch_ms, COVERAGE) for t in home.time_ms[::slots].tolist()]
    kwh = float(Descriptor.parse(described(terms)).kwh_per_unit() * terms.quantum)
    truth = kwh * loads.reshape(-1, slots).sum(axis=1)
    (half,) = {round(item.high - item.value, 9) for item in actual}
    assert_covered(np.array([item.value for item in actual]) - truth, half)


@pytest.mark.statistical
def test_the_mean_of_homes_is_where_it_is_said_to_be() -> None:
    """Of 10,000 means over three homes, 70% lie in their 70% interval, and they are unbiased."""
    drawn = [noisy(TERMS, COUNT, seed) for seed in range(3)]
    homes = [series(TERMS, released.tolist(), f"m{i}") for i, (_, released) in enumerate(drawn)]
    actual = [mean_value(homes, t, COVERAGE) for t in homes[0].time_ms.tolist()]
    errors = np.array([item.value for item in actual]) - np.mean([loads for loads, _ in drawn], axis=0)
    assert_covered(errors, actual[0].high - actual[0].value)
    assert abs(errors.mean()) < 5 * actual[0].sd / COUNT**0.5
