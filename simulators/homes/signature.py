"""Signatures: the power that an appliance draws in one run, in steps of constant power (Hart's classes).

Hart (1992, Nonintrusive appliance load monitoring) distinguishes appliances that are on or off, that go
through states, and that vary continuously; Reinhardt (2015, AMBAL) adds power that decays or grows after the
start. Here all classes share one type: steps of (watts, seconds), with a swing by which each step's watts
vary from run to run. An exponential becomes a ladder of steps, each with its exact energy. The end times
double from step to step, except for the last.
"""

import math
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Self

DAY_S = 86_400
DAY_0 = date(2025, 1, 6)
"""The Monday that is day 0. In all files from the same seed, a date stands for the same simulated day."""

_TAU_MIN, _TAU_MAX = 1 / 8, 5
"""A ladder's first step lasts `_TAU_MIN` time constants, and its last step starts after at most `_TAU_MAX`
time constants. The last step starts where less than 9% of the difference is left, unless the run ends
earlier."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Steps of constant power; after the last step, the power is 0.

    In every run, each step's watts are multiplied by a number that is uniform in [1 - swing, 1 + swing].
    """

    watts: tuple[float, ...]
    seconds: tuple[int, ...]
    swing: float = 0.0

    def __post_init__(self) -> None:
        if not self.watts or len(self.watts) != len(self.seconds):
            raise ValueError("a signature needs at least one step, and a duration for each step")
        if min(self.seconds) < 1 or not 0 <= self.swing < 1:
            raise ValueError("a step must last at least 1 s, and a swing must be at least 0 and below 1")

    @property
    def duration_s(self) -> int:
        """The duration of a run, in s."""
        return sum(self.seconds)

    @property
    def energy_wh(self) -> float:
        """The mean energy of a run, in Wh."""
        return sum(w * s for w, s in zip(self.watts, self.seconds, strict=True)) / 3600

    def then(self, other: "Signature") -> "Signature":
        """Return this signature followed by another one; the larger swing applies to both."""
        return Signature(self.watts + other.watts, self.seconds + other.seconds, max(self.swing, other.swing))

    @classmethod
    def on(cls, watts: float, seconds: int) -> Self:
        """Return the signature of an appliance that is on or off, such as a kettle."""
        return cls((watts,), (seconds,))

    @classmethod
    def cycle(cls, *states: tuple[float, int]) -> Self:
        """Return the signature of successive states, each (watts, seconds), such as a washing machine's."""
        return cls(tuple(w for w, _ in states), tuple(s for _, s in states))

    @classmethod
    def settling(cls, first_w: float, watts: float, tau_s: float, seconds: int) -> Self:
        """Return a signature that settles from `first_w` to `watts` as exp(-t / tau_s), such as a motor's."""
        first_s, last_s = max(1, round(tau_s * _TAU_MIN)), min(seconds, _TAU_MAX * tau_s)
        rungs = (first_s << k for k in range(seconds.bit_length()))
        bounds = [0, *(rung for rung in rungs if rung < last_s), seconds]
        means = [
            watts + (first_w - watts) * tau_s * (math.exp(-a / tau_s) - math.exp(-b / tau_s)) / (b - a)
            for a, b in pairwise(bounds)
        ]
        return cls(tuple(means), tuple(b - a for a, b in pairwise(bounds)))

    @classmethod
    def varying(cls, watts: float, swing: float, hold_s: int, seconds: int) -> Self:
        """Return a signature that changes every `hold_s` for about `seconds`, such as a computer's."""
        steps = max(1, round(seconds / hold_s))
        return cls((watts,) * steps, (hold_s,) * steps, swing)
