"""Television: how a programme changes the power of a set with a dynamic backlight.

A channel shows scenes; a scene is a sequence of shots around a level of brightness, and some scenes begin
with a second of black. A set turns brightness into power with a lag: watts = base + gain · brightness. All
homes on a channel see the same programme, which makes it recognisable. A channel's day is a pure function of
(seed, channel, day). Brightness in each second is a whole number from 0 (black) to 255 (white), so that sums
over any time are exact.

The sets are calibrated to 5-minute windows of real sets, in means over 10 s: the standard deviation within a
window is 5–9 W, the autocorrelation at 10 s is 0.3–0.6, and the median d_inf of two windows of a set is
18–38 W (`python -m simulators compare`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from simulators.homes.appliance import Appliance
from simulators.homes.chance import Floats, Integers, uniforms
from simulators.homes.household import Absences, Households
from simulators.homes.signature import DAY_S, Signature

CHANNELS = 6
LEVELS = 256
BASE_W, GAIN_W = 85.0, 40.0
"""The average set's power when it shows black, and its additional power when it shows white."""

_BASE_SPREAD, _GAIN_SPREAD = 0.6, 0.3
"""The largest relative deviations of a home's set from the average set; deviations are uniform."""
_SCENE_S, _SHOT_S = 32.0, 4.5
_DARK, _LIGHT = (0.05, 0.3), (0.65, 0.85)
"""The mean brightness of scenes is uniform between two bounds, which each channel draws daily from these
ranges."""
_SHOT_SPREAD = (0.15, 0.35)
"""Each channel also draws daily, from this range, the standard deviation of the shots in a scene."""
_BLACK = 0.3
"""The share of scenes that begin with a second of black."""
_LAG = np.array([162, 60, 22, 8, 3, 1])
"""A first-order lag of one second in 256ths: exp(-k) · (1 - 1/e), rounded so that the sum is 256."""
_VIEWING = Appliance(
    "television", Signature.on(BASE_W, 4500), 2.4, ((6, 9, 1), (12, 17, 1), (17, 23, 5)), spread=0.7
)


@lru_cache(maxsize=4 * CHANNELS)
def brightness_sums(seed: int, channel: int, day: int) -> Integers:
    """Return the sums of a channel's brightness up to each second of a day, shape (86401,)."""
    scene = uniforms(seed, "scene", channel, day, np.arange(int(1.3 * DAY_S / _SCENE_S)))
    scene_s = np.cumsum(1 + np.floor(-_SCENE_S * np.log(scene[0])))
    style = uniforms(seed, "style", channel, day)
    dark, light, spread = (
        low + (high - low) * share
        for (low, high), share in zip((_DARK, _LIGHT, _SHOT_SPREAD), style[:3].tolist(), strict=True)
    )
    level = dark + (light - dark) * scene[2]
    shot = uniforms(seed, "shot", channel, day, np.arange(int(1.25 * DAY_S / _SHOT_S)))
    shot_s = np.cumsum(np.maximum(1, np.floor(-_SHOT_S * np.log(shot[0])))).astype(np.int64)
    in_scene = np.searchsorted(scene_s, shot_s, side="right").clip(max=len(level) - 1)
    # The sum of three uniform numbers is nearly normal, with a standard deviation of a half.
    bright = (level[in_scene] + 2 * spread * (shot[1:].sum(axis=0) - 1.5)).clip(0, 1)
    brightness = np.repeat(np.floor((LEVELS - 1) * bright), np.diff(shot_s, prepend=0))[:DAY_S].astype(
        np.int64
    )
    cuts = scene_s[(scene[1] < _BLACK) & (scene_s < DAY_S)].astype(np.int64)
    brightness[cuts] = 0
    lagged = np.convolve(brightness, _LAG)[:DAY_S] // LEVELS
    return np.concatenate([[0], np.cumsum(lagged)])


def library_w(seed: int, programmes: int, length_s: int = 300, step_s: int = 10) -> Floats:
    """Return the power of the average set during parts of programmes: means over steps, in W.

    The shape is (programmes, length_s / step_s). The parts come from different channels of an evening. Raises
    ValueError if the length is not a multiple of the step, not positive, or longer than 6 hours.
    """
    if length_s % step_s or not 0 < length_s <= DAY_S // 4:
        raise ValueError(f"a programme of {length_s} s is longer than 6 h, or not whole steps of {step_s} s")
    bounds = DAY_S * 3 // 4 + np.arange(0, length_s + 1, step_s)
    # Bypass the cache, which is meant for the few channels that homes watch.
    sums = (brightness_sums.__wrapped__(seed, CHANNELS + index, 0)[bounds] for index in range(programmes))
    return np.array([BASE_W + GAIN_W / (LEVELS - 1) * np.diff(programme) / step_s for programme in sums])


class Sets(NamedTuple):
    """The power of each home's set in mW: for black, and per unit of brightness; both of shape (homes,)."""

    base_mw: Integers
    gain_mw: Integers

    @classmethod
    def of(cls, people: Households) -> Self:
        """Draw each home's set."""
        chance = uniforms(people.seed, "television: set", people.homes)
        base = 1000 * BASE_W * (1 + _BASE_SPREAD * (2 * chance[0] - 1))
        gain = 1000 * GAIN_W / (LEVELS - 1) * (1 + _GAIN_SPREAD * (2 * chance[1] - 1))
        return cls(np.rint(base).astype(np.int64), np.rint(gain).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Viewings:
    """All viewings that start on one day: arrays of shape (viewings,).

    A set draws `base_mw`, plus `gain_mw` for each unit of its `channel`'s brightness. Rows and times are as
    in `Runs`.
    """

    row: Integers
    start_s: Integers
    stop_s: Integers
    channel: Integers
    base_mw: Integers
    gain_mw: Integers

    def mean_w(self, seed: int, day: int) -> Floats:
        """Return the mean power of each viewing in W, including the part after midnight."""
        bright = np.zeros(len(self.row), np.int64)
        for channel in np.unique(self.channel):
            is_channel = self.channel == channel
            for offset in (0, 1):
                start, stop = (
                    (bound[is_channel] - offset * DAY_S).clip(0, DAY_S)
                    for bound in (self.start_s, self.stop_s)
                )
                if (stop > start).any():
                    sums = brightness_sums(seed, int(channel), day + offset)
                    bright[is_channel] += sums[stop] - sums[start]
        return np.asarray((self.base_mw + self.gain_mw * bright / (self.stop_s - self.start_s)) / 1000)


def viewings(people: Households, absences: Absences, activity: Floats, day: int) -> Viewings:
    """Draw the homes' viewings that start on the given day."""
    runs = _VIEWING.runs(people, absences, activity, day)
    sets = Sets.of(people)
    # Channels differ in popularity: u² gives two fifths of the audience to the first of six.
    chance = uniforms(people.seed, "television: channel", people.homes[runs.row], day, runs.start_s)
    return Viewings(
        runs.row,
        runs.start_s,
        runs.stop_s,
        np.floor(CHANNELS * chance[0] ** 2).astype(np.int64),
        sets.base_mw[runs.row],
        sets.gain_mw[runs.row],
    )
