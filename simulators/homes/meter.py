"""Meters: how a meter measures the power of a home, and when it reports.

A meter has a resolution, a constant relative error, a clock that drifts, and a register of energy that rolls
over. It reports on a grid, or only when the displayed power leaves a dead band around the last report or the
last report is too old. These meters have no faults; `fault` and `reset` add them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulators.homes.chance import Floats, Integers, normal, uniforms

_DIGITS = 9
"""The number of decimal places to which multiples of a resolution are rounded."""
_CLASS_B = 0.01
"""The largest relative error of a meter here: half of what 2014/32/EU allows class B at 5 to 30 °C."""
_DRIFT_PPM = 20.0
"""The standard deviation of a quartz clock's drift, in millionths."""
_AHEAD_MS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """Readings of one meter: increasing `times_ms` by the meter's clock, and `values`; shape (readings,)."""

    times_ms: Integers
    values: Floats

    def __len__(self) -> int:
        return len(self.times_ms)


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter; the default is a perfect one that shows whole watts and whole watt-hours.

    `gain` is the value in W that is measured for 1 W. The clock is `ahead_ms` ahead at the start, and gains
    `drift_ppm` microseconds a second. The register counts in units of `register_wh`, and rolls over at
    `rollover_wh`.

    Raises ValueError if a resolution or the rollover is not positive.
    """

    resolution_w: float = 1.0
    gain: float = 1.0
    drift_ppm: float = 0.0
    ahead_ms: int = 0
    register_wh: float = 1.0
    rollover_wh: float = 1e8

    def __post_init__(self) -> None:
        if not (self.resolution_w > 0 and self.register_wh > 0 and self.rollover_wh > 0):
            raise ValueError("resolution_w, register_wh and rollover_wh must be above 0")

    @classmethod
    def random(cls, seed: int, home: int, resolution_w: float = 1.0) -> Self:
        """Draw a home's meter.

        Values are off by at most 1%. The clock is set to within 2 s, and drifts with a deviation of 20 ppm.
        """
        chance = uniforms(seed, "meter", home)
        gain, ahead_ms = 1 + _CLASS_B * (2 * chance[0] - 1), _AHEAD_MS * (2 * chance[1] - 1)
        drift_ppm = _DRIFT_PPM * normal(chance[2], chance[3])
        return cls(resolution_w, float(gain), float(drift_ppm), round(float(ahead_ms)))

    def shown_w(self, watts: ArrayLike) -> Floats:
        """Return the displayed power: the nearest multiple of the resolution (halves are rounded up)."""
        steps = np.floor(np.asarray(watts, np.float64) * self.gain / self.resolution_w + 0.5)
        return np.round(steps * self.resolution_w, _DIGITS)

    def stamps_ms(self, times_ms: Integers) -> Integers:
        """Return the times that the meter's clock shows at true times; it drifts from the first time on."""
        elapsed_ms = times_ms - times_ms[:1]
        return np.asarray(
            times_ms + self.ahead_ms + np.floor(elapsed_ms * self.drift_ppm / 1e6 + 0.5), np.int64
        )

    def on_grid(self, watts: ArrayLike, start_ms: int, step_s: int) -> Readings:
        """Return one reading per step: the mean power over the step, stamped with its beginning."""
        power_w = self.shown_w(watts)
        return Readings(self.stamps_ms(start_ms + 1000 * step_s * np.arange(len(power_w))), power_w)

    def on_change(
        self, watts: ArrayLike, start_ms: int, step_s: int, dead_band_w: float, longest_s: int = 900
    ) -> Readings:
        """Return the readings on the grid that differ from the last reading sent by more than the dead band.

        The first reading is always sent, and then at least one in every `longest_s` seconds. Raises
        ValueError if the dead band is negative, or if `longest_s` is shorter than a step.
        """
        if dead_band_w < 0 or longest_s < step_s:
            raise ValueError("a dead band must be at least 0 W, and the longest silence at least a step")
        on_grid = self.on_grid(watts, start_ms, step_s)
        indices = _indices_sent(on_grid.values, dead_band_w, longest_s // step_s)
        return Readings(on_grid.times_ms[indices], on_grid.values[indices])

    def register(self, watts: ArrayLike, start_ms: int, step_s: int, start_wh: float = 0.0) -> Readings:
        """Return the register at the end of each step, in Wh: the energy in whole counts, rolled over."""
        energy_wh = start_wh + np.cumsum(np.asarray(watts, np.float64)) * (self.gain * step_s / 3600)
        counts = np.floor(energy_wh / self.register_wh + 10.0**-_DIGITS)
        register_wh = np.round(counts * self.register_wh % self.rollover_wh, _DIGITS)
        return Readings(
            self.stamps_ms(start_ms + 1000 * step_s * np.arange(len(register_wh) + 1))[1:], register_wh
        )


def _indices_sent(values: Floats, dead_band: float, longest: int) -> NDArray[np.int64]:
    """Return the indices of the readings to send.

    After each reading sent, the next is the first one outside its dead band. If none of the following
    `longest` - 1 readings is outside, the next is the reading `longest` steps later.
    """
    indices, index = [], 0
    while index < len(values):
        indices.append(index)
        following = values[index + 1 : index + longest]
        is_outside = np.abs(following - values[index]) > dead_band
        index += 1 + (int(is_outside.argmax()) if is_outside.any() else len(following))
    return np.array(indices, np.int64)
