"""Bounds on the change in slot values when the load changes.

Theory of operation
-------------------
Noise protects readings, but a meter's readings are not the load: the meter samples power from time to time,
or counts energy in steps. This module bounds how far slot values can change when the load itself changes. All
bounds are Fractions and public; the caller chooses the units, as long as energy = power * time.

A *change* of X is the difference f of two loads that agree except on one stretch of time within a slot. On
this stretch, f rises and then falls (an appliance that is used once; in the simplest case at constant power):
0 <= f <= p, and the integral of f is X.

**Sampled power.** Readings are taken at times that do not depend on the load. Each holds until the next one,
but for at most T, the lesser of the period and the hold. Then the energy of the readings changes by at most

    X + p T                                                                                  (`sampled`)

Proof. Reading j holds for w_j <= T; the energy changes by the sum of w_j f(t_j), which is the integral over
heights h in [0, p) of the sum of those w_j with f(t_j) > h. As f rises and then falls, {f > h} is a stretch
of length l(h), and readings taken in a stretch of length l hold for at most l + T in total: until its end,
and the last reading for up to T beyond. So the sum is at most the integral of l(h) + T over [0, p), which is
X + p T.

The bound is reached in the limit, with power p for an instant at one reading, and the remaining energy spread
over a stretch that starts and ends at a reading. For a constant power q over a stretch d, with readings
exactly T apart, their energy changes by at most q T (floor(d / T) + 1). A difference that rises and falls k
times changes it by at most X + k p T. Without a bound on k only the range bounds the effect, because a change
that lasts only for the instants of readings has no energy. The mean over a slot never changes by more than p,
and the energy never by more than p times the slot's length.

**Reported on change.** If the device's last report is within b of the sampled power, two sequences of reports
differ by at most 2 b more than the samples (`stream.reported_radius`), and their energies in a slot by at
most 2 b times its length more.

**Counted energy.** A register shows the energy E in whole steps, s floor(E / s + phase). From the start of
the change on, the registers of both loads differ by D(t), a multiple of s in [0, s ceil(X / s)], and
interpolation between readings stays between the values of D. So no slot differs by more than s ceil(X / s).
Every slot that begins after the first reading that follows the change differs by at most s, for as long as
the register runs, because the change has shifted the phase.
Loads that differ by at most X in *each* slot can have a low D at a slot's start and a high D at its end. If
there is a reading at each boundary of slots, the slot changes by less than X + 2 s and hence by at most
s (ceil(X / s) + 1). If a value consists of m
truncations (intervals that are rounded separately, tariffs or phases that are summed, stretches of a band) of
parts x_1 + .. + x_m = X,

    s sum ceil(x_i / s) <= s (ceil(X / s) + m - 1)                                            (`counted`)

because the left side, in steps, is a whole number below X / s + m. All these bounds are reached. A step
larger than the range allows between two readings (p T) is clamped to p T. Smaller steps are assumed not to be
clamped: no reading lies within a step of the top of the range.

**In all, over many slots.** Now f may last for any time, X is the integral of |f|, and the changes of all
slots add up. The proof for samples also bounds the sum over all slots. A difference that rises and falls k
times, from 0 to either side and back, changes the energies of all slots by a total of at most

    X + k p T                                                                          (`sampled_in_all`)

Counts over m slots, from the first that the difference touches to the last that is observed, change by at
most

    X + (m + k - 1) s                                                                  (`counted_in_all`)

where k - 1 bounds the number of times that the difference turns from adding to removing or back; k = 1 if it
only adds or only removes. Proof. Let e(t) be the difference of the energies so far, in steps. The registers
differ by floor(e) or ceil(e), that is by floor(e) + B with 0 <= B <= 1. At the ends of slots, even after
interpolation, B changes by at most 1 in each slot: m in all. Let e rise first (if it falls first, take
ceil(e) - B instead). floor(e) begins at 0 and, until e turns, changes by no more than e. After each turn it
changes by less than 1 more than e. The changes of e add up to X / s. Intervals that are rounded separately
do not remember the difference, and each interval that the difference touches changes by less than an
additional s. A change within one slot comes within one step of the bound: it changes this slot by
s ceil(X / s), and each later one by s.
"""

from fractions import Fraction
from math import ceil

from meteragent.privacy.exact import Exact, not_negative


def sampled(change: Exact, power: Exact, period: Exact) -> Fraction:
    """Return a bound on the effect of a change on the energy computed from sampled power: X + p T.

    Args:
        change: X, the energy that the change adds.
        power: p, the largest change of the power: the width of its range.
        period: T, the longest time that a reading holds: the time between readings, or the hold if shorter.

    Raises:
        TypeError: an argument is not exact.  ValueError: an argument is negative.
    """
    return not_negative("change", change) + not_negative("power", power) * not_negative("period", period)


def counted(change: Exact, step: Exact, counts: int = 1, step_limit: Exact | None = None) -> Fraction:
    """Return a bound on the effect of a change on counted energy: s (ceil(X / s) + m - 1).

    The bound is X if X or s is 0. With a `step_limit` below s, it is `step_limit` (ceil(X / s) + m - 1).

    Args:
        change: X, the energy that the change adds.
        step: s, the step of the count; 0 for a count without steps.
        counts: m, the number of truncations in the value.
        step_limit: the largest energy that the range allows between two readings, to which a step is clamped.

    Raises:
        TypeError: an argument is not exact.  ValueError: an argument is negative, or counts < 1.
    """
    energy, size = not_negative("change", change), not_negative("step", step)
    if counts < 1:
        raise ValueError(f"a value must have at least one count, not {counts}")
    if size == 0 or energy == 0:
        return energy
    largest_step = size if step_limit is None else min(size, not_negative("step_limit", step_limit))
    return largest_step * (ceil(energy / size) + counts - 1)


def sampled_in_all(change: Exact, power: Exact, period: Exact, rises: int = 1) -> Fraction:
    """Return a bound on the effect in all of a change on the energy computed from sampled power: X + k p T.

    `change` is X over all slots, and `rises` is k, the number of times that it rises and falls. The other
    arguments are as in `sampled`.

    Raises:
        TypeError: an argument is not exact.  ValueError: an argument is negative, or the change never rises.
    """
    return sampled(change, power, _times(rises) * not_negative("period", period))


def counted_in_all(change: Exact, step: Exact, slots: int, rises: int = 1) -> Fraction:
    """Return a bound on the effect in all of a change on counted energy: X + (m + k - 1) s, or 0 if X is 0.

    Args:
        change: X, the energy that the change adds and removes, over any number of slots.
        step: s, the step of a slot's count; for several counts in a slot, the sum of their steps.
        slots: m, the number of slots from the first that the change touches to the last observed slot.
        rises: k, the number of times that the change rises and falls; 1 if it only adds or only removes.

    Raises:
        TypeError: an argument is not exact.  ValueError: an argument is negative, or the change never rises.
    """
    energy, size = not_negative("change", change), not_negative("step", step)
    steps = not_negative("slots", slots) + _times(rises) - 1
    return energy + steps * size if energy else energy


def _times(rises: int) -> int:
    if rises < 1:
        raise ValueError(f"a change rises at least once, not {rises} times")
    return rises
