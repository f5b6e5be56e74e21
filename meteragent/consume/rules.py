"""Which totals are told: small groups and dominance, on public facts or honestly on private values.

What the rules can add
----------------------
A record is private before it is here, and whatever is made of records, or withheld for what they say, is as
private as they are. So these rules are no part of the promise to a home. They are for those who must keep a
rule for aggregates too, and they say nothing of what follows from several of them (totals of two groups that
differ in one home differ by that home's private value: its noise is what protects it then).

Statistics offices withhold a cell with fewer than k contributors (threshold), one of which the n largest make
more than k % (dominance), or one where the total less the two largest is below p % of the largest (p % rule);
the "15/15" of energy regulators asks for 15 customers of whom none has more than 15 % (Hundepool et al.,
Handbook on Statistical Disclosure Control; CPUC decision 14-05-016). All but the threshold are about true
contributions. Who receives private records has none.

Threshold. Which meters have records is public, so `at_least` is decided as it stands.

Dominance by public facts. With `capacity` (what each home's connection allows, or its yearly band) a cell is
withheld if a home has more than `share` of the sum of the capacities in it. It is exact, and about capacity.

Dominance on private values. Let E_i be what home i used in all the time that is asked for, E the feeder's
sum and D_i = E_i - s E, which is above zero just if i has more than the share s. D_i is a sum of the records
with weights, so its error has a known law (`privacy.totals`): let it pass h_i with the chance `error`. The
feeder is told only if D_i + h_i <= 0 for *all* i. If some home does dominate, then to be told its own D_i
must be too low by more than h_i: the chance of that is at most `error`, however many homes there are (each
has to pass, so nothing adds up). What is in doubt is withheld: noise makes this rule withhold more, never
less, and short times and small groups are hardly ever told. A feeder of m homes with m s < 1 is withheld
without looking: somebody has more than s of any total above zero.

It is about the energy of the whole time. That a home has most of a single slot (a car that charges at night)
cannot be seen in one slot's noise, and nobody else can see it either: that is the promise.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Floats, Integers
from meteragent.consume.slots import Slots
from meteragent.domain.units import MICRO
from meteragent.privacy.totals import Weighted, half_width_of_total

Flags = NDArray[np.bool_]
Made = tuple[tuple[int, int, int], ...]
"""What a sum is made of: of `windows` windows under the terms at a place, `slots` slots of each."""


@dataclass(frozen=True)
class Rules:
    """Which cells are told: of `at_least` homes, and of none that has more than `share` of it.

    With `capacity`, by meter, `share` is of public capacities; else of private energies, and a feeder of
    which a home has more is told with a chance of at most `error`.
    """

    at_least: int = 1
    share: float | None = None
    capacity: Mapping[str, float] | None = None
    error: float = 0.05

    def __post_init__(self) -> None:
        """Raises ValueError for what is no rule."""
        if self.at_least < 1 or not 0 < self.error < 0.5:
            raise ValueError("at_least is 1 or more, error between 0 and 0.5")
        if self.share is not None and not 0 < self.share < 1:
            raise ValueError("share is a part of a total: between 0 and 1")
        if self.capacity is not None and self.share is None:
            raise ValueError("capacity needs a share: how much of it one home may have")

    def capacities_u(self, meters: tuple[str, ...]) -> Integers:
        """Of each meter, in whole millionths; raises ValueError where one has none, or none above zero."""
        known = self.capacity or {}
        found = np.rint(np.array([known.get(meter, 0.0) for meter in meters], np.float64) * MICRO)
        if not (found > 0).all():
            raise ValueError(f"{int((~(found > 0)).sum())} meters have no capacity above zero")
        return found.astype(np.int64)


EVERYTHING = Rules()
"""Every cell is told."""


def over_capacity(capacity_u: Integers, first: Integers, share: float) -> Flags:
    """Whether somebody has more than `share` of each cell's capacity; cells begin at `first`."""
    return np.asarray(np.maximum.reduceat(capacity_u, first) > share * np.add.reduceat(capacity_u, first))


def dominated(slots: Slots, feeder: Integers, feeders: int, rules: Rules) -> Flags:
    """Of each feeder, whether it cannot be ruled out that a home has more than `share` of its energy.

    `feeder` is that of each meter; each has slots.
    """
    energies, made = energy_kwh(_sums_u(slots), slots.descriptors), _made(slots)
    found = np.zeros(feeders, np.bool_)
    for place in range(feeders):
        homes = np.flatnonzero(feeder == place)
        found[place] = cannot_rule_out(
            energies[homes], [made[home] for home in homes], slots.descriptors, rules
        )
    return found


def cannot_rule_out(
    energies: Floats, made: list[Made], descriptors: tuple[Descriptor, ...], rules: Rules
) -> bool:
    """Whether one of a feeder's homes, with energies made so, may have more than `share` of their sum."""
    share = rules.share or 0.0
    if energies.size * share < 1:
        return True
    total = Counter[tuple[int, int]]()
    for home in made:
        total.update({(terms, slots): windows for terms, slots, windows in home})
    of_all = tuple(sorted((*key, windows) for key, windows in total.items()))
    half = {home: _half_width(home, of_all, descriptors, share, rules.error) for home in set(made)}
    excess = energies - share * energies.sum()
    return bool((excess + np.array([half[home] for home in made]) > 0).any())


@lru_cache(maxsize=1024)
def _half_width(
    own: Made, of_all: Made, descriptors: tuple[Descriptor, ...], share: float, error: float
) -> float:
    """What the error of D_i passes with the chance `error`, in kWh."""
    others = Counter({(terms, slots): windows for terms, slots, windows in of_all})
    others.subtract({(terms, slots): windows for terms, slots, windows in own})
    parts = [
        *((terms, slots, windows, 1 - share) for terms, slots, windows in own),
        *((terms, slots, windows, share) for (terms, slots), windows in others.items() if windows),
    ]
    weighted = [
        Weighted(
            descriptors[terms].mechanism,
            (float(descriptors[terms].kwh_per_unit()) * part,) * slots,
            windows,
            descriptors[terms].rounding,
        )
        for terms, slots, windows, part in parts
    ]
    return half_width_of_total(weighted, 1 - 2 * error)


def energy_kwh(sums_u: Integers, descriptors: tuple[Descriptor, ...]) -> Floats:
    """What each meter used, from the exact sums of its values under each terms, shape (meters, terms)."""
    found = np.zeros(len(sums_u))
    for column, terms in zip(sums_u.T, descriptors, strict=True):
        found += column / MICRO * float(terms.kwh_per_unit())
    return found


def _sums_u(slots: Slots) -> Integers:
    """The sums of each meter's values under each terms."""
    found = np.zeros((len(slots.meters), len(slots.descriptors)), np.int64)
    np.add.at(found, (slots.meter, slots.terms), slots.value_u)
    return found


def _made(slots: Slots) -> list[Made]:
    """What each meter's energy is made of."""
    starts, place = np.unique(slots.window_ms, return_inverse=True)
    of_terms, terms = slots.meter * len(slots.descriptors) + slots.terms, len(slots.descriptors)
    windows, counts = np.unique(of_terms * starts.size + place.reshape(-1), return_counts=True)
    base = int(counts.max()) + 1
    kinds, often = np.unique(windows // starts.size * base + counts, return_counts=True)
    found: list[list[tuple[int, int, int]]] = [[] for _ in slots.meters]
    for kind, number in zip(kinds.tolist(), often.tolist(), strict=True):
        found[kind // base // terms].append((kind // base % terms, kind % base, number))
    return [tuple(one) for one in found]
