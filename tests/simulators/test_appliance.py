"""Signatures and appliances: what runs draw, when they start, and to whom they belong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.homes.appliance import CATALOGUE, Appliance, Makes, Runs, Thermostat
from simulators.homes.household import Households
from simulators.homes.signature import DAY_S, Signature

HOMES = np.arange(400)
KETTLE = Appliance("test kettle", Signature.on(2000, 120), 5, ((6, 9, 3), (17, 23, 1)))


@pytest.fixture(scope="module")
def people() -> Households:
    """Four hundred homes."""
    return Households.of(3, HOMES)


def runs_of(load: Appliance | Thermostat, people: Households, day: int = 0) -> Runs:
    """A day's."""
    return load.runs(people, people.absences(day), people.activity(day), day)


# Signatures ---------------------------------------------------------------------------------------


def test_a_signature_is_steps() -> None:
    """On and off, and a cycle of states, are the steps named; one after the other adds up."""
    both = Signature.on(2000, 60).then(Signature.cycle((100, 30), (50, 10)))
    assert (both.watts, both.seconds) == ((2000, 100, 50), (60, 30, 10))
    assert both.duration_s == 100
    assert both.energy_wh == pytest.approx((2000 * 60 + 100 * 30 + 50 * 10) / 3600)


@given(
    first=st.floats(0, 5000), last=st.floats(0, 5000), tau=st.floats(0.5, 900), seconds=st.integers(1, 7200)
)
def test_a_ladder_has_the_energy(first: float, last: float, tau: float, seconds: int) -> None:
    """Decay and growth keep the exact energy, begin near the first power and end near the last."""
    ladder = Signature.settling(first, last, tau, seconds)
    exact = last * seconds + (first - last) * tau * (1 - np.exp(-seconds / tau))
    assert ladder.duration_s == seconds
    assert ladder.energy_wh * 3600 == pytest.approx(exact, rel=1e-9, abs=1e-6)
    falling = np.diff(ladder.watts) * np.sign(last - first)
    assert (falling >= -1e-9).all(), "each step is nearer to the end than the one before"


def test_a_ladder_follows_the_exponential() -> None:
    """No step of a slow ladder is off the curve by more than a fifth of the way."""
    ladder = Signature.settling(3000, 1000, 60, 600)
    curve = 1000 + 2000 * np.exp(-(np.arange(600) + 0.5) / 60)
    steps = np.repeat(ladder.watts, ladder.seconds)
    assert np.abs(steps - curve).max() < 0.3 * 2000
    assert np.abs(steps - curve).mean() < 0.05 * 2000
    assert ladder.watts[0] > 2800


@pytest.mark.parametrize(
    ("watts", "seconds", "swing"), [((), (), 0), ((1.0,), (1, 2), 0), ((1.0,), (0,), 0), ((1.0,), (1,), 1.0)]
)
def test_no_signature(watts: tuple[float, ...], seconds: tuple[int, ...], swing: float) -> None:
    """Steps without a duration, without a length, or that could turn negative are refused."""
    with pytest.raises(ValueError, match=r"signature|step"):
        Signature(watts, seconds, swing)


# Runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", CATALOGUE, ids=lambda load: load.name)
def test_a_run_belongs_to_the_day_it_starts_in(load: Appliance | Thermostat, people: Households) -> None:
    """Runs start within their day, last a second or more, end within the next, draw nothing negative."""
    for day in (0, 5, 40):
        runs = runs_of(load, people, day)
        assert ((runs.start_s >= 0) & (runs.start_s < DAY_S)).all()
        assert (runs.stop_s > runs.start_s).all()
        assert (runs.stop_s <= 2 * DAY_S).all()
        assert (np.diff(runs.ends_s, axis=1) >= 0).all()
        assert (runs.levels_mw >= 0).all()
        assert (np.diff(runs.row) >= 0).all()


@pytest.mark.parametrize("load", CATALOGUE, ids=lambda load: load.name)
def test_a_homes_runs_are_its_own(load: Appliance | Thermostat, people: Households) -> None:
    """A home has the same runs alone, whoever else is simulated."""
    alone, among = runs_of(load, Households.of(3, HOMES[[17]])), runs_of(load, people)
    mine = among.where(among.row == 17)
    for name in ("start_s", "ends_s", "levels_mw"):
        assert np.array_equal(getattr(alone, name), getattr(mine, name))


def test_nothing_starts_itself_while_nobody_is_home(people: Households) -> None:
    """An attended appliance is not started in an absence; one that is not attended is."""
    same = {
        "signature": Signature.on(2000, 120),
        "starts_per_day": 5,
        "hours": ((6, 23, 1),),
        "can_overlap": True,
    }
    unattended = Appliance("test kettle", is_attended=False, **same)  # type: ignore[arg-type]
    attended = Appliance("test kettle", **same)  # type: ignore[arg-type]
    absences = people.absences(0)
    all_of_them, some = runs_of(unattended, people), runs_of(attended, people)
    away = absences.cover(all_of_them.row, all_of_them.start_s)
    assert away.sum() > 100
    assert np.array_equal(all_of_them.where(~away).start_s, some.start_s)


def test_one_kettle_boils_once_at_a_time(people: Households) -> None:
    """An appliance that a home has one of does not start before it ended; where there are many it may."""
    often = {
        "signature": Signature.on(50, 7200),
        "starts_per_day": 6,
        "hours": ((0, 24, 1),),
        "is_attended": False,
    }
    for many in (False, True):
        runs = runs_of(Appliance("test", can_overlap=many, **often), people)  # type: ignore[arg-type]
        order = np.lexsort((runs.start_s, runs.row))
        same = np.diff(runs.row[order]) == 0
        overlaps = (runs.start_s[order][1:] < runs.stop_s[order][:-1])[same]
        assert overlaps.any() == many


def test_hours_are_kept(people: Households) -> None:
    """Starts are at the hours stated, shifted by how late a home is, and nowhere else."""
    runs = runs_of(KETTLE, people)
    hour = (runs.start_s - people.late_s[runs.row]) % DAY_S / 3600
    assert (((hour >= 6) & (hour < 9)) | ((hour >= 17) & (hour < 23))).all()
    assert hour.min() < 6.2
    assert hour.max() > 22.5


def test_makes_differ_and_stay(people: Households) -> None:
    """A home's kettle has its own power, the same each day to 3%; powers are 30% around the signature's."""
    power = Makes.of(people, "test kettle").power
    assert (power.min(), power.max()) == pytest.approx((0.7, 1.3), abs=0.01)
    for day in (0, 1):
        runs = runs_of(KETTLE, people, day)
        ratio = runs.levels_mw[:, 0] / (2e6 * power[runs.row])
        assert np.abs(ratio - 1).max() <= 0.0301
        assert ratio.std() > 0.01
        assert abs(np.corrcoef(ratio, runs.start_s)[0, 1]) < 5 / len(runs.row) ** 0.5


def test_who_has_none_runs_none(people: Households) -> None:
    """A share of homes owns one, the same homes every day."""
    rare = Appliance("test rare", Signature.on(100, 60), 10, ((0, 24, 1),), owners=0.3, is_attended=False)
    first, second = (set(runs_of(rare, people, day).row.tolist()) for day in (0, 1))
    assert len(first | second) == pytest.approx(120, abs=5 * 9.2)
    assert len(first ^ second) < 8


def test_a_swing_redraws_each_step(people: Households) -> None:
    """Continuously variable power is new in each step and each run, within its bounds."""
    computer = Appliance(
        "test computer", Signature.varying(100, 0.5, 60, 3600), 2, ((0, 24, 1),), is_attended=False
    )
    runs = runs_of(computer, people)
    factors = runs.levels_mw / (1e5 * Makes.of(people, "test computer").power[runs.row][:, None])
    assert 0.48 < factors.min() < 0.55
    assert 1.45 < factors.max() < 1.55
    assert factors.std() == pytest.approx(0.5 / 3**0.5, rel=0.05)
    steps = np.corrcoef(factors[:, 1:].ravel(), factors[:, :-1].ravel())[0, 1]
    assert abs(steps) < 0.05
    pairs = np.flatnonzero(np.diff(runs.row) == 0)
    alike = [np.corrcoef(factors[at], factors[at + 1])[0, 1] for at in pairs]
    assert len(alike) > 100
    assert np.abs(alike).max() < 0.6, "60 steps: no pair of a home's runs is the same, at 4.6 deviations"


def test_a_run_longer_than_a_day_is_refused() -> None:
    """What could not be carried over one midnight is refused when it is made."""
    with pytest.raises(ValueError, match="sauna: a signature has at most 4096 steps and 21600 s"):
        Appliance("sauna", Signature.on(9000, 22_000), 1, ((0, 24, 1),))


# Thermostats --------------------------------------------------------------------------------------


def test_a_thermostat_knows_no_midnight(people: Households) -> None:
    """In every home starts are a period apart within their jitter, over midnights too, whoever is home."""
    cold = Thermostat("test cold", Signature.on(100, 1000), (2400, 4200), (0.2, 0.35))
    days = [runs_of(cold, people, day) for day in range(6)]
    row = np.concatenate([runs.row for runs in days])
    start_s = np.concatenate([day * DAY_S + runs.start_s for day, runs in enumerate(days)])
    periods = []
    for home in range(len(HOMES)):
        gaps = np.diff(start_s[row == home])
        assert gaps.min() > 0.79 * gaps.mean()
        assert gaps.max() < 1.21 * gaps.mean()
        assert len(gaps) == pytest.approx(6 * DAY_S / gaps.mean(), abs=2.5)
        periods.append(gaps.mean())
    assert (min(periods), max(periods)) == pytest.approx((2400, 4200), rel=0.02)


def test_mean_power_of_a_run() -> None:
    """The mean is that of energy over time."""
    runs = Runs(np.array([0]), np.array([5]), np.array([[10, 30]]), np.array([[1000, 4000]]))
    assert runs.mean_w.tolist() == [(10 * 1 + 20 * 4) / 30]
    assert runs.stop_s.tolist() == [35]
