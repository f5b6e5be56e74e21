"""The outcome of a street: a receiver's results from private numbers, compared with truth and promises."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from meteragent.consume import Descriptor, Estimate, Series, collect, mean_energy, mean_value
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy.totals import Part, half_width_of_total
from simulators.homes.street import START_MS, Street

COVERAGE = 0.95
EVENING_MS = START_MS + 18 * HOUR_MS
"""The start of the half hour that serves as an example."""

Floats = NDArray[np.float64]


class Compared(NamedTuple):
    """The truth, the private number, and the bound that their distance exceeds at most 5% of the time.

    `true` and `private` are None if only the promise is known and nothing was measured.
    """

    true: float | None
    private: float | None
    within: float


class Measured(NamedTuple):
    """A promised figure and its measurement; `error` is the measurement's standard error."""

    promised: float
    measured: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A street, and the complete series received from its homes, in the street's order."""

    street: Street
    homes: Sequence[Series]
    terms: Descriptor

    @classmethod
    def of(cls, street: Street, messages: Sequence[bytes]) -> Self:
        """Collect all messages of a street into an outcome.

        Raises RecordError if messages contradict each other, and ValueError unless there is one record
        for every slot of every home.
        """
        received = collect(messages)
        if sorted(received) != sorted(street.meters):
            raise ValueError("the homes received differ from those sent")
        homes = [received[name] for name in street.meters]
        (terms,) = {d.id: d for home in homes for d in home.descriptors.values()}.values()
        outcome = cls(street, homes, terms)
        starts_ms = START_MS + terms.step_ms * np.arange(street.slots(terms.step_ms))
        if not all(np.array_equal(home.time_ms, starts_ms) for home in homes):
            raise ValueError("every slot of every home must have one number")
        return outcome

    @property
    def true_w(self) -> Floats:
        """The true mean power of every slot, shape (homes, slots), from the meters' readings."""
        return self.street.means_w(self.terms.step_ms)

    @property
    def private_w(self) -> Floats:
        """The private numbers, shape (homes, slots)."""
        return np.array([home.values for home in self.homes])

    @property
    def median_index(self) -> int:
        """The index of the home with the median energy."""
        return int(np.argsort(self.true_w.mean(axis=1))[self.street.homes // 2])

    def choose(self, count: int) -> list[int]:
        """Return the indices of `count` homes: the median home if `count` is 1, otherwise the first homes."""
        return [self.median_index] if count == 1 else list(range(count))

    def power_w(self, count: int) -> Compared:
        """Return the mean power of `count` homes in the example half hour of the first evening."""
        if count > self.street.homes:
            return Compared(None, None, self._promised(count, 1))
        indices = self.choose(count)
        slot = (EVENING_MS - START_MS) // self.terms.step_ms
        private = mean_value((self.homes[home] for home in indices), EVENING_MS, COVERAGE)
        return _compared(self.true_w[indices, slot].mean(), private)

    def energy_kwh(self, count: int, days: int) -> Compared:
        """Return the mean energy of `count` homes in the first `days` days."""
        slots = days * DAY_MS // self.terms.step_ms
        kwh = float(self.terms.kwh_per_unit())
        if count > self.street.homes or days > self.street.days:
            return Compared(None, None, kwh * self._promised(count, slots))
        indices = self.choose(count)
        homes = (self.homes[home] for home in indices)
        private = mean_energy(homes, START_MS, START_MS + days * DAY_MS, COVERAGE)
        return _compared(self.true_w[indices, :slots].mean(axis=0).sum() * kwh, private)

    def _promised(self, count: int, slots: int) -> float:
        """Return the promised half-width of the mean, over `count` homes, of sums over `slots` slots."""
        part = Part(self.terms.mechanism, 1, count * slots, 1 / count, self.terms.rounding)
        return _rounded(half_width_of_total([part], COVERAGE))

    @property
    def band_w(self) -> tuple[float, float]:
        """The promised half-widths of one home's number and of the mean of all homes, in W."""
        return self._promised(1, 1), self._promised(self.street.homes, 1)

    def spread_w(self) -> Measured:
        """Measure the standard deviation of a private number's error."""
        return measured_spread(self.private_w - self.true_w, self.terms.facts["sd"])

    def spread_of_mean_w(self) -> Measured:
        """Measure the standard deviation of the error of the mean of all homes."""
        promised = self.terms.facts["sd"] / math.sqrt(self.street.homes)
        return measured_spread((self.private_w - self.true_w).mean(axis=0), promised)

    def bias_w(self) -> Measured:
        """Measure the mean error of a private number; the promise is 0."""
        errors = self.private_w - self.true_w
        return Measured(0.0, float(errors.mean()), float(errors.std() / math.sqrt(errors.size)))

    def covered(self) -> Measured:
        """Measure the share of private numbers whose band contains the truth."""
        is_covered = np.abs(self.private_w - self.true_w) <= self.band_w[0]
        error = math.sqrt(COVERAGE * (1 - COVERAGE) / is_covered.size)
        return Measured(COVERAGE, float(is_covered.mean()), error)


def _compared(true: float, private: Estimate) -> Compared:
    return Compared(float(true), private.value, _rounded(private.high - private.value))


def _rounded(half_width: float) -> float:
    """Round a half-width; return the float just below, so that formatting rounds ties down as in `check`."""
    return math.nextafter(round(half_width, 6), 0)


def measured_spread(errors: Floats, promised: float) -> Measured:
    """Measure the root mean square of errors; its standard error comes from the delta method."""
    squares = errors**2
    spread = math.sqrt(squares.mean())
    return Measured(promised, spread, float(squares.std()) / math.sqrt(squares.size) / (2 * spread))
