"""A fleet: the same bits however they are asked for, exact sums, and a table of all that ran."""

import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.homes.appliance import CATALOGUE, Appliance
from simulators.homes.fleet import AWAY, TELEVISION, Day, Events, Fleet
from simulators.homes.signature import DAY_S, Signature
from simulators.homes.street import Street
from simulators.homes.television import brightness_sums, viewings
from tests.support.not_run import ROOT

COLUMNS = ("home", "appliance", "start_s", "end_s", "watts", "channel")
HOUR_S = 3600
SAUNA = Appliance("sauna", Signature.on(6000, 9000), 2, ((20, 24, 1),), is_attended=False)


def digest(day: Day, row: int, home: int) -> str:
    """Every bit of a home's day."""
    mine = day.events.where(day.events.home == home)
    parts = [day.watts[row].tobytes(), *(getattr(mine, name).tobytes() for name in COLUMNS)]
    return sha256(b"".join(parts)).hexdigest()


# The same bits ------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**64 - 1),
    homes=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True),
    first=st.integers(-3, 700),
    at=st.integers(0, 2),
    step_s=st.sampled_from([60, 900, 86_400]),
)
def test_bits_do_not_depend_on_the_question(
    seed: int, homes: list[int], first: int, at: int, step_s: int
) -> None:
    """A home's day is the same alone, in any batch, order and duration."""
    *_, among = Fleet(seed, homes).days(first, at + 1, step_s)
    backwards = Fleet(seed, homes[::-1]).day(first + at, step_s)
    for row, home in enumerate(homes):
        alone = Fleet(seed, [home]).day(first + at, step_s)
        assert digest(alone, 0, home) == digest(among, row, home)
        assert digest(alone, 0, home) == digest(backwards, len(homes) - 1 - row, home)


def test_bits_do_not_depend_on_the_process() -> None:
    """Another process, asked for other homes too and days before, has the same bits."""
    program = (
        "from tests.simulators.test_fleet import Fleet, digest\n"
        "*_, day = Fleet(0, [7, 3, 9]).days(38, 3, 60)\n"
        "print(digest(day, 1, 3))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == digest(Fleet(0, [3]).day(40, 60), 0, 3)


def test_every_part_of_the_key_counts() -> None:
    """A different seed, home or day gives a different load; seed 0 is a seed."""
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 7), (1 << 40, 0, 0)]
    loads = {Fleet(seed, [home]).day(day, 900).watts.tobytes() for seed, home, day in keys}
    assert len(loads) == len(keys)


def test_one_more_appliance_changes_no_other() -> None:
    """A home that gets one more appliance draws what it drew and what that one draws."""
    plain, more = Fleet(0, range(30)), Fleet(0, range(30), (*CATALOGUE, SAUNA))
    # Alone: without the others, but with the standby and the television, which are in both.
    alone, without = Fleet(0, range(30), (SAUNA,)), Fleet(0, range(30), CATALOGUE[:1])
    fridge = Fleet(0, range(30), (*CATALOGUE[:1], SAUNA))
    added = more.day(3, 900).watts - plain.day(3, 900).watts
    assert added.max() > 4000
    assert fridge.day(3, 900).watts - without.day(3, 900).watts == pytest.approx(added, abs=0.01)
    assert len(alone.day(3).events.of("sauna")) == len(more.day(3).events.of("sauna"))


# Sums ---------------------------------------------------------------------------------------------


def by_the_second(fleet: Fleet, day: int) -> np.ndarray:
    """The load of a fleet in milliwatts, added up run by run and second by second."""
    people = fleet.people
    load = np.repeat(people.standby_mw[:, None], 2 * DAY_S, axis=1)
    seconds = np.arange(2 * DAY_S)
    for back in (1, 0):
        state = people, people.absences(day - back), people.activity(day - back), day - back
        for runs in (load.runs(*state) for load in fleet.catalogue):
            for row, start, ends, levels in zip(
                runs.row, runs.start_s + (1 - back) * DAY_S, runs.ends_s, runs.levels_mw, strict=True
            ):
                begin = start
                for end, level in zip(start + ends, levels, strict=True):
                    load[row, begin:end] += level
                    begin = end
        seen = viewings(*state)
        bright = np.concatenate([np.diff(brightness_sums(fleet.seed, 0, day)) * 0] * 2)
        for row, start, stop, channel, base, gain in zip(
            seen.row, seen.start_s, seen.stop_s, seen.channel, seen.base_mw, seen.gain_mw, strict=True
        ):
            bright[DAY_S:] = np.diff(brightness_sums(fleet.seed, int(channel), day))
            on = (seconds >= start + (1 - back) * DAY_S) & (seconds < stop + (1 - back) * DAY_S)
            load[row, on] += base + gain * bright[on]
    return np.asarray(load[:, DAY_S:])


def test_the_load_is_the_sum_of_its_runs() -> None:
    """By the second, the load is standby and what runs, from the day before too: to the last bit."""
    many = Fleet(11, range(300), (*CATALOGUE, SAUNA))
    before, after = many.day(1, DAY_S).events, many.day(2, DAY_S).events
    watched = [one.of(TELEVISION) for one in (before, after)]
    # Homes where a television, a sauna and something for a few seconds more are on at midnight.
    homes = [
        watched[0].home[watched[0].end_s > 2 * DAY_S][0],
        watched[1].home[watched[1].end_s > 3 * DAY_S][0],
        before.of("sauna").home[before.of("sauna").end_s > 2 * DAY_S][0],
        before.home[(before.end_s > 2 * DAY_S) & (before.end_s < 2 * DAY_S + 100)][0],
    ]
    fleet = Fleet(11, sorted({int(home) for home in homes}), many.catalogue)
    expected = by_the_second(fleet, 2)
    assert np.array_equal(fleet.day(2).watts, (expected / 1000).astype(np.float32))


@pytest.mark.parametrize("step_s", [7, 60, 900, DAY_S])
def test_coarse_series_are_means_of_fine_ones(step_s: int) -> None:
    """A value is the mean power of its step, also where things start inside it."""
    if DAY_S % step_s:
        with pytest.raises(ValueError, match=f"not {step_s} s"):
            Fleet(0, [1]).day(0, step_s)
        return
    fleet = Fleet(0, range(3))
    fine = fleet.day(4).watts.astype(np.float64).reshape(3, -1, step_s).mean(axis=2)
    assert fleet.day(4, step_s).watts == pytest.approx(fine, rel=1e-6)


# Events -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def week() -> list[Day]:
    """A week of forty homes."""
    return list(Fleet(0, range(40)).days(0, 7, DAY_S))


def everything(week: list[Day]) -> Iterator[tuple[int, Events]]:
    """Each day's events with its number."""
    yield from ((day.day, day.events) for day in week)


def test_events_are_in_order(week: list[Day]) -> None:
    """They start on their day, last a second or more, and come by home, then name, then start."""
    for day, events in everything(week):
        assert ((events.start_s // DAY_S) == day).all()
        assert (events.end_s > events.start_s).all()
        order = np.lexsort((events.start_s, events.appliance, events.home))
        assert np.array_equal(order, np.arange(len(events)))
        assert set(events.appliance.tolist()) <= set(range(len(events.names)))
        assert set(events.home.tolist()) == set(range(40))


def test_events_have_all_the_energy(week: list[Day]) -> None:
    """Standby and the energy of events is that of the series, but for what hangs over at both ends."""
    fleet = Fleet(0, range(40))
    tables = [fleet.day(-1, DAY_S).events, *(events for _, events in everything(week))]
    inside = crossing = 0.0
    for events in tables:
        energy = events.watts * (events.end_s - events.start_s)
        whole = (events.start_s >= 0) & (events.end_s <= 7 * DAY_S)
        part = ~whole & (events.end_s > 0)
        inside, crossing = inside + energy[whole].sum(), crossing + energy[part].sum()
    series = sum(float(day.watts.sum(dtype=np.float64)) for day in week) * DAY_S
    rest = series - fleet.people.standby_mw.sum() / 1000 * 7 * DAY_S - inside
    assert 0 < rest < crossing < 0.02 * series


def test_only_a_television_shows_a_channel(week: list[Day]) -> None:
    """A channel is stated for a television and for nothing else."""
    for _, events in everything(week):
        on = events.appliance == events.names.index(TELEVISION)
        assert (events.channel[on] >= 0).all()
        assert (events.channel[~on] == -1).all()


def test_absences_are_events_of_no_power(week: list[Day]) -> None:
    """Who is away is stated, draws nothing for it, and starts no kettle meanwhile."""
    for _, events in everything(week):
        away, kettles = events.of(AWAY), events.of("kettle")
        assert (away.watts == 0).all()
        for home, start, end in zip(away.home, away.start_s, away.end_s, strict=True):
            inside = (kettles.home == home) & (kettles.start_s >= start) & (kettles.start_s < end)
            assert not inside.any()
    assert len(week[0].events.of(AWAY)) > len(week[6].events.of(AWAY)), (
        "more are out on Monday than on Sunday"
    )


@pytest.mark.parametrize("homes", [[1, 1], [-1], [1 << 32]])
def test_bad_homes(homes: list[int]) -> None:
    """Homes have numbers of their own, of 32 bits."""
    with pytest.raises(ValueError, match="distinct numbers"):
        Fleet(0, homes)


# The street of the demo ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def street() -> Street:
    """A day of many homes in 5-minute means."""
    return Street.simulated(1, 400, 1)


def test_mean(street: Street) -> None:
    """Homes use about 330 W (8 kWh a day) on average.

    Days of homes have a relative deviation of about 0.5, so that the mean of 400 has one of 2.5%; the seed
    is fixed, so this cannot fail by chance, and 10% off is seen.
    """
    assert street.watts.mean() == pytest.approx(330, rel=0.06)


def test_spread(street: Street) -> None:
    """Homes differ: the upper quarter uses at least half as much again as the lower, none uses nothing."""
    daily_w = street.watts.mean(axis=1)
    low, high = np.percentile(daily_w, [25, 75])
    assert 1.5 < high / low < 2.2
    assert daily_w.min() > 30
    assert daily_w.max() < 3000


def test_shape_of_a_day(street: Street) -> None:
    """Evenings are higher than afternoons, and nights lower than both."""
    hourly = street.watts.mean(axis=0).reshape(24, -1).mean(axis=1)
    night, afternoon, evening = hourly[1:5].mean(), hourly[13:17].mean(), hourly[18:21].mean()
    assert 1.5 * night < afternoon < evening / 1.5


def test_peaks(street: Street) -> None:
    """A kettle or an oven shows: readings reach 1.5 kW in most homes, and never what a fuse forbids."""
    assert np.median(street.watts.max(axis=1)) > 1500
    assert street.watts.max() <= 3 * 25 * 230
    assert street.watts.min() >= 0


def test_help_is_short() -> None:
    """The catalogue is a name in signatures, not its contents; a catalogue of one's own shows them."""
    text = pydoc.plain(pydoc.render_doc(Fleet))
    assert re.search(r"catalogue: '?tuple\[Load, \.\.\.\]'? = CATALOGUE", text)
    assert "Thermostat(" not in text
    assert len(text) < 3500
    assert len(CATALOGUE) > 10
    assert pickle.loads(pickle.dumps(CATALOGUE)) == CATALOGUE
    assert "Thermostat(" in repr((*CATALOGUE, CATALOGUE[0]))
