"""Bounds on the change in slot values when the load changes (THEORY T.8 proves them).

A meter samples power from time to time, or counts energy in steps. This module bounds how far slot values can
change when the load itself changes. All bounds are Fractions and public; the caller chooses the units, as
long as energy = power * time.

A *change* of X is the difference f of two loads that agree except on one stretch of time within a slot. On
this stretch, f rises and then falls (an appliance that is used once; in the simplest case at constant power):
0 <= f <= p, and the integral of f is X. *In all*, f may last over many slots, X is the integral of |f|, and
the changes of all slots add up. Each bound for a change within a slot is attained.

Readings of sampled power are taken at times that do not depend on the load; each holds until the next one. If
a device reports on change, its last report is within the dead band of the sampled power. A register shows the
energy in whole steps s. The agent clamps a rise only if it exceeds what the range allows by more than a
step (THEORY A.15), so a load within the range is never clamped.
"""

from fractions import Fraction
from math import ceil

from meteragent.privacy.exact import Exact, not_negative


def sampled_change_bound(change: Exact, power: Exact, period: Exact) -> Fraction:
    """Return X + p T, a bound on the effect of a change X on an energy computed from sampled power.

    `power` is p, the width of the range, and `period` is T, the longest time for which a reading holds: the
    time between readings or a shorter hold. Raises ValueError if an argument is negative.
    """
    return not_negative("change", change) + not_negative("power", power) * not_negative("period", period)


def reported_radius(radius: Exact, dead_band: Exact) -> Fraction:
    """Return r + 2 dead_band, which bounds how far reported means differ for curves within r (THEORY 3.7)."""
    return not_negative("radius", radius) + 2 * not_negative("dead_band", dead_band)


def counted_change_bound(change: Exact, step: Exact, counts: int = 1) -> Fraction:
    """Return s (ceil(X / s) + m - 1), or X if X or s is 0: a bound for a change X of counted energy.

    `step` is s, 0 for a count without steps, and `counts` is m, the number of truncated counts in the value.
    Raises ValueError if an argument is negative, or counts < 1.
    """
    energy, size = not_negative("change", change), not_negative("step", step)
    if counts < 1:
        raise ValueError(f"a value must have at least one count, not {counts}")
    if size == 0 or energy == 0:
        return energy
    return size * (ceil(energy / size) + counts - 1)


def sampled_change_bound_in_all(change: Exact, power: Exact, period: Exact, rises: int = 1) -> Fraction:
    """Return X + k p T, the bound over all slots for a change X that rises and falls k = `rises` times."""
    return sampled_change_bound(change, power, _times(rises) * not_negative("period", period))


def counted_change_bound_in_all(change: Exact, step: Exact, slots: int, rises: int = 1) -> Fraction:
    """Return X + (m + k - 1) s, or 0 if X is 0: a bound over all slots for a change X of counted energy.

    `step` is s, the sum of the steps of a slot's counts; `slots` m, the number of slots from the first that
    the change touches to the last observed; `rises` is k, how often the change rises and falls (1 if it only
    adds or only removes energy). Raises ValueError if an argument is negative, or the change never rises.
    """
    energy, size = not_negative("change", change), not_negative("step", step)
    steps = not_negative("slots", slots) + _times(rises) - 1
    return energy + steps * size if energy else energy


def _times(rises: int) -> int:
    if rises < 1:
        raise ValueError(f"a change rises at least once, not {rises} times")
    return rises
