"""Rules for showing totals: a threshold, and a limit on each home's share of a cell.

Everything that is computed from records, or withheld because of them, is as private as the records. So these
rules are not part of the promise to a home. They serve receivers who must also follow a rule for aggregates.
They do not bound what several aggregates reveal together: the totals of two groups that differ in one home
differ by that home's private value, whose noise is then the home's only protection.

Statistics offices withhold a cell if it has too few contributors (threshold), if the n largest contributors
have more than k % of the total (dominance), or if the total less the two largest contributions is below p %
of the largest (p % rule). The "15/15" rule of energy regulators requires 15 customers, none of whom has more
than 15% (Hundepool et al., Handbook on Statistical Disclosure Control; CPUC decision 14-05-016). All but the
threshold concern true contributions, which a receiver of private records does not have.

Threshold. The set of meters that have records is public, so `at_least` is applied directly.

Dominance by public facts. With `capacity` (such as the power of each home's connection), a cell is withheld
if a home has more than `share` of the sum of the capacities in the cell. This test is exact, but it concerns
capacity instead of energy.

Dominance on private values. Let E_i be the energy of home i over the requested time, E the feeder's sum and
D_i = E_i - s E, which is positive exactly if home i has more than the share s. D_i is a weighted sum of
records, so its error has a known distribution (`privacy.totals`). Let h_i be the bound that this error
exceeds with probability `error`. The feeder is shown only if D_i + h_i <= 0 for *all* i. So if a home does
dominate, the feeder is shown with a probability of at most `error`, regardless of the number of homes (each
home has to pass, so the probabilities do not add up). Feeders of few homes or over short times are hardly
ever shown. A feeder of m homes with m s < 1 is withheld without a test, because some home has more than the
share s of any positive total.

The rule concerns the energy over the whole requested time. If a home dominates a single slot (such as with a
car that charges at night), the slot's noise hides this from the rule and from every receiver, as promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Floats, Integers
from meteragent.domain.units import MICRO
from meteragent.privacy.totals import Weighted, half_width_of_total

Flags = NDArray[np.bool_]
Composition = tuple[tuple[int, int, int], ...]
"""The windows in a sum, as triples (terms, slots, windows): the index of the descriptor, the number of slots
in a window, and the number of windows."""


@dataclass(frozen=True)
class Rules:
    """The rules for showing a cell: at least `at_least` homes, none of them with more than `share` of it.

    Shares are not limited if `share` is None. If `capacity` has the capacity of each meter, `share` refers to
    public capacities. Otherwise it refers to energies, which are tested on private values, and a feeder with
    a dominant home is shown with a probability of at most `error`.
    """

    at_least: int = 1
    share: float | None = None
    capacity: Mapping[str, float] | None = None
    error: float = 0.05

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is out of range, or if `capacity` is given without `share`."""
        if self.at_least < 1 or not 0 < self.error < 0.5:
            raise ValueError("at_least must be 1 or more, and error between 0 and 0.5")
        if self.share is not None and not 0 < self.share < 1:
            raise ValueError("share must be between 0 and 1")
        if self.capacity is not None and self.share is None:
            raise ValueError("capacity needs share, the largest part of the capacity that one home may have")

    def capacities_u(self, meters: tuple[str, ...]) -> Integers:
        """Return capacities as whole millionths. Raises ValueError unless all are positive."""
        capacities = self.capacity or {}
        capacity_u = np.rint(np.array([capacities.get(meter, 0.0) for meter in meters], np.float64) * MICRO)
        if not (capacity_u > 0).all():
            raise ValueError(f"meters without a positive capacity: {int((~(capacity_u > 0)).sum())}")
        return capacity_u.astype(np.int64)

    def allow(self, homes: Any, capacities_u: Sequence[Any] | None) -> Any:
        """Return which cells public facts allow to show; arguments and result are arrays or Spark columns.

        `homes` is the number of homes. `capacities_u` is the least, the largest and the sum of their
        capacities; without them `share` is not checked here, but by `may_dominate`.
        """
        has_enough_homes = homes >= self.at_least
        if self.share is None or capacities_u is None:
            return has_enough_homes
        least_u, most_u, sum_u = capacities_u
        return has_enough_homes & (least_u > 0) & (most_u <= self.share * sum_u)


EVERYTHING = Rules()
"""The rules under which every cell is shown."""


def require_total(descriptors: Iterable[Descriptor], *, must_be_energy: bool = False) -> None:
    """Raise ValueError unless values under these descriptors add up, to energy if `must_be_energy`."""
    terms = list(descriptors)
    if len({(descriptor.kind, descriptor.unit) for descriptor in terms}) != 1:
        raise ValueError("totals need at least one slot, and one kind and unit for all slots")
    for descriptor in terms:
        if descriptor.shape.names:
            raise ValueError("the bands of mean days have no total: they do not belong to one time")
        descriptor.require_load(may_be_amount=not must_be_energy)


def may_dominate(
    energies: Floats, compositions: list[Composition], descriptors: tuple[Descriptor, ...], rules: Rules
) -> bool:
    """Return whether a home may have more than `share` of the energy; arguments have an entry per home."""
    share = rules.share or 0.0
    if energies.size * share < 1:
        return True
    total = Counter[tuple[int, int]]()
    for home in compositions:
        total.update({(terms, slots): windows for terms, slots, windows in home})
    feeder = tuple(sorted((*key, windows) for key, windows in total.items()))
    half = {home: _half_width(home, feeder, descriptors, share, rules.error) for home in set(compositions)}
    excess = energies - share * energies.sum()
    return bool((excess + np.array([half[home] for home in compositions]) > 0).any())


@lru_cache(maxsize=1024)
def _half_width(
    home: Composition, feeder: Composition, descriptors: tuple[Descriptor, ...], share: float, error: float
) -> float:
    """Compute the bound in kWh that the error of a home's D_i exceeds with probability `error`."""
    neighbours = Counter({(terms, slots): windows for terms, slots, windows in feeder})
    neighbours.subtract({(terms, slots): windows for terms, slots, windows in home})
    parts = [
        *((terms, slots, windows, 1 - share) for terms, slots, windows in home),
        *((terms, slots, windows, share) for (terms, slots), windows in neighbours.items() if windows),
    ]
    weighted_parts = [
        Weighted(
            descriptors[terms].mechanism,
            (float(descriptors[terms].kwh_per_unit()) * part,) * slots,
            windows,
            descriptors[terms].rounding,
        )
        for terms, slots, windows, part in parts
    ]
    return half_width_of_total(weighted_parts, 1 - 2 * error)


def energy_kwh(sums_u: Integers, descriptors: tuple[Descriptor, ...]) -> Floats:
    """Compute each meter's energy in kWh from the exact sums of its values, shape (meters, terms)."""
    energies = np.zeros(len(sums_u))
    for column, terms in zip(sums_u.T, descriptors, strict=True):
        energies += (column / MICRO).astype(np.float64) * float(terms.kwh_per_unit())
    return energies
