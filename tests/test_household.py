"""simulators.household: homes that differ, days that differ, the same from the same seed."""

import numpy as np
import pytest

from simulators.household import APPLIANCES, MAIN_FUSE_W, home_of, load_w

HOMES = 400


@pytest.fixture(scope="module")
def days() -> np.ndarray:
    """A day of many homes in 5-minute means."""
    return np.array([load_w(1, home, 0) for home in range(HOMES)])


def test_mean(days: np.ndarray) -> None:
    """Homes use about 330 W (8 kWh a day) on average.

    Days of homes have a relative deviation of about 0.5, so that the mean of 400 has one of 2.5 %; the seed
    is fixed, so this cannot fail by chance, and 10 % off is seen.
    """
    assert days.mean() == pytest.approx(330, rel=0.06)


def test_spread(days: np.ndarray) -> None:
    """Homes differ: the upper quarter uses at least half as much again as the lower, none uses nothing."""
    daily_w = days.mean(axis=1)
    low, high = np.percentile(daily_w, [25, 75])
    assert 1.5 < high / low < 2.2
    assert daily_w.min() > 50
    assert daily_w.max() < 3000


def test_shape_of_a_day(days: np.ndarray) -> None:
    """Evenings are higher than afternoons, and nights lower than both."""
    hourly = days.mean(axis=0).reshape(24, -1).mean(axis=1)
    night, afternoon, evening = hourly[1:5].mean(), hourly[13:17].mean(), hourly[18:21].mean()
    assert 1.5 * night < afternoon < evening / 1.5


def test_peaks(days: np.ndarray) -> None:
    """A kettle or an oven shows: readings reach 2 kW in most homes, and never what the fuse forbids."""
    assert np.median(days.max(axis=1)) > 2000
    assert days.max() <= MAIN_FUSE_W
    assert days.min() >= 0


def test_same_seed() -> None:
    """The same seed, home and day give the same watts, in whatever order they are asked for."""
    forwards = [load_w(0, home, day) for home in range(3) for day in range(2)]
    backwards = [load_w(0, home, day) for home in (2, 1, 0) for day in (1, 0)][::-1]
    assert np.array_equal(forwards, backwards)


def test_different() -> None:
    """Another seed, home or day gives another load."""
    loads = [load_w(*key) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1))]
    assert len({load.tobytes() for load in loads}) == len(loads)


def test_traits_stay() -> None:
    """A home keeps its standby and its appliances from day to day."""
    lowest = [load_w(3, 5, day, 10).min() for day in range(5)]
    assert set(lowest) == {home_of(3, 5).standby_w}
    assert home_of(3, 5).standby_w != home_of(3, 6).standby_w


def test_owners() -> None:
    """As many homes have a tumble dryer as are said to: within 4 standard errors, seed fixed."""
    at, dryer = next((i, a) for i, a in enumerate(APPLIANCES) if a.name == "tumble dryer")
    share = np.mean([home_of(2, home).scales[at] > 0 for home in range(HOMES)])
    assert share == pytest.approx(dryer.owners, abs=4 * (0.4 * 0.6 / HOMES) ** 0.5)


def test_steps_agree() -> None:
    """A coarser series is the mean of the finer one."""
    fine = load_w(1, 7, 0, 10)
    assert load_w(1, 7, 0, 1800) == pytest.approx(fine.reshape(48, 180).mean(axis=1))
    assert load_w(1, 7, 0).shape == (288,)


@pytest.mark.parametrize("step_s", [1, 15, 7000])
def test_bad_step(step_s: int) -> None:
    """A step that the simulation does not have is refused."""
    with pytest.raises(ValueError, match=f"not {step_s} s"):
        load_w(1, 1, 1, step_s)
