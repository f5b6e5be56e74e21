"""A guess of one slot by a receiver who expects something: best under the receiver's own prior.

A guess is not an estimate of what was measured. It draws each value towards what the receiver expected, so it
is nearer on average over that prior, and biased for every single home: sums and means of guesses add the
biases up, while those of private values stay right (`mean_energy`, `mean_value`). And it has no interval: the
posterior's holds only as far as the prior is true. The interval of a slot is `Series.value`'s.

The prior is a finite table of slot values, as the agent has them after fill and clamp, with weights. A record
y = q (z + m) has a likelihood under each of them that its descriptor tells: z has the law of one slot
(`privacy.mechanism.slot_law`), and m is

    floor(x/q + 1/2), half-up;        floor(x/q) or, with a chance of {x/q}, one more, dithered.

The posterior is the product of both. Its mean costs least under squared loss, its median under absolute loss
(the optimal remap of Chatzikokolakis 2013, section 4.2). It is made of one record alone: what the other slots
of its window say of the size of their common noise is not used. Guesses are post-processing: they cost no
privacy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Floats, Series
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.slot_law import log_mass_of_slot

Loss = Literal["absolute", "squared"]
"""What a receiver minds: how far off a guess is, or the square of it."""

Value = TypeVar("Value", bound=float | Fraction | Decimal)


@dataclass(frozen=True, slots=True)
class PriorGuess:
    """A receiver's guess of one slot's value in `unit`, best under its own prior and `loss`.

    It is no measurement and has no interval. It is biased towards the prior, so that guesses must not be
    summed or averaged, over slots or homes; this type is no number for that reason.
    """

    guess: float
    loss: Loss
    unit: str


def guess_under_prior(
    series: Series,
    time_ms: int,
    prior: Mapping[Value, float],
    loss: Loss = "absolute",
    *,
    band: str | None = None,
    within: tuple[Value, Value] | None = None,
) -> PriorGuess:
    """Return the guess of the slot that starts at `time_ms` with the least expected loss under `prior`.

    Under absolute loss it is a value of the table, the smaller one of two that are as good.

    Args:
        series: the records of one meter.
        time_ms: where the slot starts.
        prior: slot values in the series' unit, with weights that need not sum to 1, such as a histogram of a
            year that the receiver knows otherwise.
        loss: what a wrong guess costs.
        band: that of a mean day, where slots are bands.
        within: the agent's range, if the receiver knows it: values of the prior beyond are clamped to it.

    Raises:
        ValueError: there is no such slot; the table has no value of a weight above zero, a weight that is
            negative or not finite, or a value that is not finite; the range is empty; or another loss.
    """
    if loss not in ("absolute", "squared"):
        raise ValueError(f"a loss is 'absolute' or 'squared', not {loss!r}")
    slot = series.slot(time_ms, band)
    record = slot.records[0]
    table = _table(prior, within)
    log_weights = np.log(np.array(list(table.values())))
    posterior = np.exp(_shifted(log_weights + log_likelihood(slot.terms(record), record.value, list(table))))
    values = np.array([float(value) for value in table])
    if loss == "squared":
        return PriorGuess(float(posterior @ values / posterior.sum()), loss, slot.unit)
    below = np.cumsum(posterior)
    return PriorGuess(float(values[np.argmax(below >= below[-1] / 2)]), loss, slot.unit)


def log_likelihood(terms: Descriptor, released: Fraction, values: list[Fraction]) -> Floats:
    """Return ln P(released | x) for each slot value x of `values`; all in the unit of the terms."""
    quantum = terms.mechanism.quantum
    y = released / quantum
    if terms.rounding == "half-up":
        return log_mass_of_slot(terms.mechanism, [int(y - round_half_up(x / quantum)) for x in values])
    moved = [int(y - x // quantum) for x in values]
    up = np.array([float(x / quantum % 1) for x in values])
    with np.errstate(divide="ignore"):  # a whole quantum is not rounded up
        stays = np.log1p(-up) + log_mass_of_slot(terms.mechanism, moved)
        rises = np.log(up) + log_mass_of_slot(terms.mechanism, np.array(moved) - 1)
    return np.asarray(np.logaddexp(stays, rises))


def _table(prior: Mapping[Value, float], within: tuple[Value, Value] | None) -> dict[Fraction, float]:
    """Return the values that can occur, in order, with their weights; clamped to a range."""
    low, high = (_exact(end) for end in within) if within else (None, None)
    if low is not None and high is not None and low > high:
        raise ValueError("a range whose low end is above its high end")
    table: dict[Fraction, float] = {}
    for value, weight in prior.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError("a prior's weights are finite and not negative")
        x = _exact(value)
        x = x if low is None or high is None else min(max(x, low), high)
        table[x] = table.get(x, 0.0) + weight
    found = {x: table[x] for x in sorted(table) if table[x] > 0}
    if not found:
        raise ValueError("a prior needs a value whose weight is above zero")
    return found


def _exact(value: float | Fraction | Decimal) -> Fraction:
    if not math.isfinite(value):
        raise ValueError("a prior's values and a range are finite")
    return Fraction(value)


def _shifted(logarithms: Floats) -> Floats:
    """Return logarithms of which the largest is 0."""
    return np.asarray(logarithms - logarithms.max())
