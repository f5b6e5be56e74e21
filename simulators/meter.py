"""Meters: what one makes of the power in a home, and when it says so.

A meter has a resolution, a constant relative error, a clock that drifts, and a register of energy that rolls
over. It reports on a grid, or when the power has changed by more than a dead band: then the last report
stands within the band of what the meter sees. Faults are elsewhere: these are meters at work.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulators.chance import Floats, Integers, normal, uniforms

_DIGITS = 9
"""Multiples of a resolution are decimals with at most so many places."""
_CLASS_B = 0.01
"""The largest relative error of a meter of class B (Measuring Instruments Directive, MI-003)."""
_DRIFT_PPM = 20.0
"""The standard deviation of a quartz clock's."""
_AHEAD_MS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """What one meter sent: `times_ms` by its own clock, rising, and `values`, shape (readings,)."""

    times_ms: Integers
    values: Floats

    def __len__(self) -> int:
        return len(self.times_ms)


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter; its defaults are a perfect one that shows whole watts and whole watt-hours.

    `gain` is what it measures of a watt; its clock is `ahead_ms` ahead at the start and gains `drift_ppm`
    millionths from there; its register counts `register_wh` and begins again at `rollover_wh`.

    Raises ValueError for a resolution or a rollover that is not above 0.
    """

    resolution_w: float = 1.0
    gain: float = 1.0
    drift_ppm: float = 0.0
    ahead_ms: int = 0
    register_wh: float = 1.0
    rollover_wh: float = 1e8

    def __post_init__(self) -> None:
        if not (self.resolution_w > 0 and self.register_wh > 0 and self.rollover_wh > 0):
            raise ValueError("resolution_w, register_wh and rollover_wh are above 0")

    @classmethod
    def drawn(cls, seed: int, home: int, resolution_w: float = 1.0) -> Self:
        """A home's meter: within class B (1 %), a quartz clock (20 ppm), set to within 2 s."""
        drawn = uniforms(seed, "meter", home)
        gain, ahead = 1 + _CLASS_B * (2 * drawn[0] - 1), _AHEAD_MS * (2 * drawn[1] - 1)
        drift_ppm = _DRIFT_PPM * normal(drawn[2], drawn[3])
        return cls(resolution_w, float(gain), float(drift_ppm), round(float(ahead)))

    def shown_w(self, watts: ArrayLike) -> Floats:
        """What it shows of powers: the nearest multiple of its resolution, halves up."""
        steps = np.floor(np.asarray(watts, np.float64) * self.gain / self.resolution_w + 0.5)
        return np.round(steps * self.resolution_w, _DIGITS)

    def stamps_ms(self, times_ms: Integers) -> Integers:
        """What its clock says at true times; the first one is the start."""
        passed = times_ms - times_ms[:1]
        return np.asarray(times_ms + self.ahead_ms + np.floor(passed * self.drift_ppm / 1e6 + 0.5), np.int64)

    def on_grid(self, watts: ArrayLike, start_ms: int, step_s: int) -> Readings:
        """A reading a step, stamped with its begin: the mean power over it."""
        shown = self.shown_w(watts)
        return Readings(self.stamps_ms(start_ms + 1000 * step_s * np.arange(len(shown))), shown)

    def on_change(
        self, watts: ArrayLike, start_ms: int, step_s: int, dead_band_w: float, longest_s: int = 900
    ) -> Readings:
        """The first reading, those more than the dead band from the last one sent, and one each `longest_s`.

        Raises:
            ValueError: the dead band is negative, or `longest_s` shorter than a step.
        """
        if dead_band_w < 0 or longest_s < step_s:
            raise ValueError("a dead band is at least 0 W, and the longest silence at least a step")
        every = self.on_grid(watts, start_ms, step_s)
        sent = _sent(every.values, dead_band_w, longest_s // step_s)
        return Readings(every.times_ms[sent], every.values[sent])

    def register(self, watts: ArrayLike, start_ms: int, step_s: int, start_wh: float = 0.0) -> Readings:
        """Its register at the end of each step: whole counts of all energy, rounded down, from `start_wh`."""
        energy_wh = start_wh + np.cumsum(np.asarray(watts, np.float64)) * (self.gain * step_s / 3600)
        counts = np.floor(energy_wh / self.register_wh + 10.0**-_DIGITS)
        shown = np.round(counts * self.register_wh % self.rollover_wh, _DIGITS)
        return Readings(self.stamps_ms(start_ms + 1000 * step_s * np.arange(len(shown) + 1))[1:], shown)


def _sent(values: Floats, dead_band: float, longest: int) -> NDArray[np.int64]:
    """Which readings leave: each is the first that is off the one before, or `longest` after it."""
    sent, at = [], 0
    while at < len(values):
        sent.append(at)
        ahead = values[at + 1 : at + longest]
        off = np.abs(ahead - values[at]) > dead_band
        at += 1 + (int(off.argmax()) if off.any() else len(ahead))
    return np.array(sent, np.int64)
