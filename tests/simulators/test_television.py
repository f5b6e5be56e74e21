"""simulators.homes.television: programmes as power, the same for all who watch."""

import numpy as np
import pytest

from simulators.homes.household import Households
from simulators.homes.signature import DAY_S
from simulators.homes.television import (
    BASE_W,
    CHANNELS,
    GAIN_W,
    LEVELS,
    Sets,
    Viewings,
    brightness_sums,
    library_w,
    viewings,
)

PEOPLE = Households.of(4, np.arange(300))


def viewings_of(people: Households, day: int = 0) -> Viewings:
    """A day's."""
    return viewings(people, people.absences(day), people.activity(day), day)


def test_brightness_is_between_black_and_white() -> None:
    """Sums begin at 0, cover a whole day and grow by whole numbers; both black and bright are shown."""
    sums = brightness_sums(0, 0, 0)
    levels = np.diff(sums)
    assert (len(sums), sums[0]) == (DAY_S + 1, 0)
    assert levels.min() >= 0
    assert levels.max() < LEVELS
    assert (levels < LEVELS // 8).any()
    assert (levels > LEVELS * 7 // 8).any()


def test_another_channel_another_programme() -> None:
    """A programme is a function of seed, channel and day; shifted copies are none of each other."""
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    programmes = [np.diff(brightness_sums(*key)) for key in keys]
    again = np.diff(brightness_sums.__wrapped__(0, 0, 0))
    assert np.array_equal(programmes[0], again)
    correlations = np.corrcoef(programmes)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.05


def test_the_backlight_lags() -> None:
    """A cut is spread over seconds: within one, no fall is the whole way from white to black."""
    levels = np.diff(brightness_sums(0, 0, 0))
    assert np.abs(np.diff(levels)).max() < 0.75 * LEVELS
    correlation = np.corrcoef(levels[1:], levels[:-1])[0, 1]
    assert 0.8 < correlation < 0.99


def test_black_frames() -> None:
    """Three scenes of ten, 800 in a day, begin with a second of black: a dip to less than half, and back."""
    levels = np.diff(brightness_sums(1, 0, 0))
    before, here, after = levels[:-2], levels[1:-1], levels[2:]
    assert ((here < 0.5 * before) & (after > 1.3 * here)).sum() > 800


def test_calibration() -> None:
    """In 5-minute windows at 10 s a set in the middle is as real ones are: 5-9 W, .3-.6, 18-38 W."""
    windows = library_w(7, 100)
    assert windows.shape == (100, 30)
    deviation = windows.std(axis=1).mean()
    memory = np.mean([np.corrcoef(one[1:], one[:-1])[0, 1] for one in windows])
    distances = np.abs(windows[:, None] - windows[None]).max(axis=2)[np.triu_indices(100, 1)]
    assert 5 < deviation < 9
    assert 0.3 < memory < 0.6
    assert 18 < np.median(distances) < 38


def test_library() -> None:
    """Programmes stay the same when more are asked for, and coarser steps are means of finer ones."""
    small, large = library_w(2, 3, 600, 10), library_w(2, 5, 600, 10)
    assert np.array_equal(small, large[:3])
    assert library_w(2, 3, 600, 60) == pytest.approx(small.reshape(3, 10, 6).mean(axis=2))
    assert small.min() >= BASE_W
    assert small.max() <= BASE_W + GAIN_W


@pytest.mark.parametrize(("length_s", "step_s"), [(305, 10), (0, 10), (DAY_S, 10)])
def test_no_library(length_s: int, step_s: int) -> None:
    """What is not whole steps, or more than an evening, is refused."""
    with pytest.raises(ValueError, match="whole steps"):
        library_w(0, 2, length_s, step_s)


def test_homes_share_channels_and_differ_in_sets() -> None:
    """All channels are watched, the first most; each home has its own set, and keeps it."""
    seen = viewings_of(PEOPLE)
    watched = np.bincount(seen.channel, minlength=CHANNELS)
    assert len(watched) == CHANNELS
    assert watched.min() > 0
    assert watched[0] > 2 * watched[-1]
    sets = Sets.of(PEOPLE)
    assert np.array_equal(seen.base_mw, sets.base_mw[seen.row])
    assert np.array_equal(viewings_of(PEOPLE, 1).gain_mw, sets.gain_mw[viewings_of(PEOPLE, 1).row])
    assert sets.base_mw.std() / sets.base_mw.mean() == pytest.approx(0.6 / 3**0.5, rel=0.1)
    assert sets.gain_mw.std() / sets.gain_mw.mean() == pytest.approx(0.3 / 3**0.5, rel=0.1)


def test_mean_power_over_midnight() -> None:
    """A viewing's mean power counts each day's programme for its part."""
    one = np.array([1])
    night = Viewings(one, one * (DAY_S - 100), one * (DAY_S + 300), one * 2, one * 80_000, one * 150)
    before, after = brightness_sums(5, 2, 3), brightness_sums(5, 2, 4)
    bright = before[DAY_S] - before[DAY_S - 100] + after[300]
    assert night.mean_w(5, 3) == pytest.approx([80 + 0.15 * bright / 400])
