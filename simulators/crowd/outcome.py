"""The outcome of the crowd's demo: two kinds of totals of a street, compared with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from meteragent.consume import Estimate, crowd_totals, mean_value
from meteragent.domain.units import HOUR_MS
from simulators.crowd.files import NAME, SLOT_MS
from simulators.crowd.stage import Received
from simulators.demo.outcome import COVERAGE, Floats, Measured, Outcome, measured_spread
from simulators.homes.street import START_MS, Street


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The energy of a street in each slot, in Wh: the truth, of shape (slots,), and the published totals."""

    true_wh: Floats
    published: Sequence[Estimate]

    @property
    def values_wh(self) -> Floats:
        """The published totals, shape (slots,)."""
        return np.array([estimate.value for estimate in self.published])

    @property
    def errors_wh(self) -> Floats:
        """The errors of the published totals, shape (slots,)."""
        return self.values_wh - self.true_wh

    @property
    def half_width_wh(self) -> float:
        """The half-width of every total's interval; all are equal because all totals count the same homes."""
        return (self.published[0].high - self.published[0].low) / 2

    def is_inside(self, slot: int) -> bool:
        """Return whether a slot's published interval contains the truth."""
        return bool(self.published[slot].low <= self.true_wh[slot] <= self.published[slot].high)

    def inside(self) -> int:
        """Return the number of slots whose published interval contains the truth."""
        return sum(map(self.is_inside, range(len(self.published))))

    def spread_wh(self) -> Measured:
        """Return the measured and the stated standard deviation of the errors."""
        return measured_spread(self.errors_wh, self.published[0].sd)


@dataclass(frozen=True, slots=True, eq=False)
class CrowdOutcome:
    """The totals of a street: `alone` with noise in every home, `crowd` with the noise of two operators."""

    street: Street
    hides_wh: int
    alone: Totals
    crowd: Totals

    @classmethod
    def of(cls, street: Street, received: Received) -> Self:
        """Compute the totals from the messages that a receiver got.

        Raises RecordError if the messages contradict each other, and ValueError unless there is one number
        for every slot of every home, and one total of all homes for every slot.
        """
        outcome = Outcome.of(street, received.numbers)
        totals = crowd_totals(received.totals)[NAME]
        starts_ms = [START_MS + slot * SLOT_MS for slot in range(street.slots(SLOT_MS))]
        if [(total.time_ms, total.homes) for total in totals] != [
            (start, street.homes) for start in starts_ms
        ]:
            raise ValueError("every slot must have one total of all homes")
        hours = SLOT_MS / HOUR_MS
        true_wh = street.means_w(SLOT_MS).sum(axis=0) * hours
        means = [mean_value(outcome.homes, start_ms, COVERAGE) for start_ms in starts_ms]
        alone = [_scaled(mean, street.homes * hours) for mean in means]
        crowd = [total.energy(COVERAGE) for total in totals]
        hides_wh = int(totals[0].descriptor.hides_wh)
        return cls(street, hides_wh, Totals(true_wh, alone), Totals(true_wh, crowd))


def _scaled(mean: Estimate, factor: float) -> Estimate:
    """Return the energy of all homes in a slot, in Wh, from their mean power in W."""
    value, sd, low, high = (factor * figure for figure in (mean.value, mean.sd, mean.low, mean.high))
    return Estimate(value, sd, low, high, mean.coverage, "Wh")
