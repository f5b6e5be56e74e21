"""The promise for loads: the level of a change in the load if readings are sparse or have coarse steps.

The level of a stream is a promise about its readings. `privacy.loads` bounds how much larger a change in the
load can appear in the readings. This module applies these bounds to a stream's terms, within one slot and
*in all* (over all slots together). Unknown facts about a source (`unknown_keys`) are ignored, so the true
level may be higher.

In all. If the readings follow the load, a change that adds or removes energy X over any number of slots has a
loss of at most kappa * level * X / hide (THEORY T.7; kappa is `privacy.in_all.kappa`). Otherwise, the values
of the m slots from the start of the change on may differ by more than X in total, but at most by:

* Energy that is counted in steps of s: X + m s, because the change may shift all later counts.
* Power with a dead band b: X + m 2 b T, where T is a slot's length: all later reports may differ.
* Sampled power: X + p H for any m, where p is the width of the range and H is the longest hold.
* Slot values that are rounded half up to quanta q (archives): X + m q T, without kappa.

The bounds hold for a change that only adds or only removes energy and, for sampled power, rises and falls
once. For k rises, add (k - 1) s to the bound for steps, (k - 1) p H to that for samples (`privacy.loads`).
"""

from fractions import Fraction
from math import ceil

from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, Kind
from meteragent.privacy import loads as bounds
from meteragent.privacy.in_all import A_LIMIT, kappa

CHANGES_WH = {"1 Wh": 1, "10 Wh": 10, "0.1 kWh": 100, "1 kWh": 1000}
"""The changes in energy for which levels are reported, in Wh."""


def counts_max(terms: Terms) -> int:
    """Return the largest number of truncated counts in a slot's value or, in l1, in a window's values."""
    slots = range(terms.n if terms.places else 1)
    if terms.readings.kind is Kind.INTERVAL_ENERGY:
        numbers = [ceil(Fraction(terms.slot_ms(i), terms.readings.interval_ms)) for i in slots]
    else:
        numbers = [terms.prices_max * len(terms.stretches[i]) for i in slots]
    return terms.readings.counters * int(terms.metric.norm(map(Fraction, numbers)))


def distance_bound(terms: Terms, change_wh: Fraction) -> Fraction:
    """Return a bound, in the values' unit, on the distance caused by a change of the load within a slot."""
    if not change_wh or terms.readings.kind is not Kind.POWER:
        return reported_change_bound(terms, change_wh / terms.hours_per_value / terms.wh_per_value)
    hold_h = Fraction(terms.readings.longest_hold_ms, HOUR_MS)
    energy_wh = bounds.sampled_change_bound(change_wh, terms.readings.width_w, hold_h)
    reported = reported_change_bound(terms, energy_wh / terms.hours_per_value / terms.wh_per_value)
    return min(reported, terms.readings.width_w / terms.wh_per_value * terms.distance_per_power)


def reported_change_bound(terms: Terms, change: Fraction) -> Fraction:
    """Return a bound on the change of a window's reported values if the exact ones change by `change`."""
    step = (terms.readings.dead_band or Fraction(0)) * terms.value_per_reading
    if not change or not step:
        return change
    if terms.readings.kind is Kind.POWER:
        return bounds.reported_radius(change, step * terms.distance_per_power)
    return bounds.counted_change_bound(change, step, counts_max(terms))


def level(terms: Terms, change_wh: Fraction) -> Fraction:
    """Compute the level of a change within a slot: epsilon times the distance, rounded up to the lattice."""
    change = distance_bound(terms, change_wh)
    return terms.epsilon * -(-change // terms.quantum) * terms.quantum


def level_factor(terms: Terms) -> Fraction:
    """Return (level of a change of the load by the hidden energy) / (level of the stream), but at least 1."""
    return max(level(terms, terms.hides_wh) / terms.level, Fraction(1))


def step_wh(terms: Terms) -> Fraction:
    """Return the most Wh that steps or a dead band can add to a change in a slot or, in l1, a window."""
    step = (terms.readings.dead_band or Fraction(0)) * terms.value_per_reading
    if terms.readings.kind is Kind.POWER:
        return bounds.reported_radius(Fraction(0), step * terms.distance_per_power) * wh_per_unit(terms)
    return counts_max(terms) * step * wh_per_unit(terms)


def wh_per_unit(terms: Terms) -> Fraction:
    """Return the energy, in Wh, of one unit of a slot's value, for the shortest band if bands differ."""
    return terms.hides_wh / terms.radius


def in_all_wh(terms: Terms, change_wh: Fraction, slots: int, rises: int = 1) -> Fraction:
    """Return a bound, in Wh, on how much a change of the load changes all slot values together.

    `change_wh` is the energy that the change adds and removes, `slots` the number of slots from the first
    that it touches to the last that is observed, and `rises` how often it rises and falls.
    """
    if not change_wh:
        return change_wh
    count = ceil(Fraction(slots * terms.slots_per_bound, terms.n))  # of slots or, in l1, of windows
    if terms.readings.kind is Kind.POWER:
        hold_h = Fraction(terms.readings.longest_hold_ms, HOUR_MS)
        energy_wh = bounds.sampled_change_bound_in_all(change_wh, terms.readings.width_w, hold_h, rises)
        return energy_wh + count * step_wh(terms)
    return bounds.counted_change_bound_in_all(change_wh, step_wh(terms), count, rises)


def level_in_all(terms: Terms, change_wh: Fraction, slots: int, rises: int = 1) -> Fraction:
    """Return a bound on the level of a change over any number of slots; arguments are those of `in_all_wh`.

    It is the smaller of two bounds (THEORY T.7): kappa * level / hide per Wh, and the level if rounding adds
    a quantum in each slot. Without dither, or if epsilon * quantum > `A_LIMIT`, only the second bound holds.
    """
    effect_wh = in_all_wh(terms, change_wh, slots, rises)
    a, per_wh = terms.mechanism.a, terms.level_per_wh
    rounded = per_wh * (effect_wh + slots * rounding_wh(terms)) if effect_wh else effect_wh
    if terms.rounding == "half-up" or a > A_LIMIT:
        return rounded
    return min(rounded, kappa(a) * per_wh * effect_wh)


def rounding_wh(terms: Terms) -> Fraction:
    """Return the energy of one quantum, in Wh: the most by which rounding half up increases a difference."""
    return terms.quantum * wh_per_unit(terms)


def level_of_curves(terms: Terms) -> Fraction:
    """Compute the level for load curves that differ by at most the radius r: epsilon (r + 2 step) (DESIGN 2).

    The step is the dead band, or the step in which an energy is counted. Each count in a slot's value adds
    two steps, except that intervals, which are rounded one by one, add one step each and at least two steps
    in total. The distance is rounded up to the lattice.
    """
    count = terms.distance_per_power if terms.readings.kind is Kind.POWER else Fraction(counts_max(terms))
    steps = max(Fraction(2), count) if terms.readings.kind is Kind.INTERVAL_ENERGY else 2 * count
    change = terms.radius + steps * (terms.readings.dead_band or 0) * terms.value_per_reading
    return terms.epsilon * ceil(change / terms.quantum) * terms.quantum


def unknown_keys(terms: Terms) -> tuple[str, ...]:
    """Return the keys of the facts that a promise about loads requires but that are unknown."""
    keys = []
    if terms.readings.kind is Kind.POWER and terms.readings.every_ms is None:
        keys.append("source.every")
    if terms.readings.dead_band is None:
        keys.append("source.dead_band")
    return tuple(keys)
