"""The best guess of one slot's value under a receiver's own prior.

A guess is not an unbiased estimate of the measured value. It moves each private value towards the receiver's
expectation, so on average over the prior it is closer to the measured value, but it is biased for each
individual home. In sums and means of guesses these biases do not cancel out, while sums and means of private
values are unbiased (`mean_energy`, `mean_value`). A guess has no interval, because an interval of the
posterior is right only if the prior is right. For the interval of a slot see `Series.value`.

The prior is a finite table of slot values, after the agent's fill and clamp, with weights. The descriptor
determines the likelihood of a record y = q (z + m) under each of these values x. Here q is the quantum, z has
the distribution of one slot's noise (`privacy.mechanism.slot_law`), and m depends on the rounding:

    half-up: m = floor(x/q + 1/2);    dithered: m = floor(x/q), plus 1 with probability x/q - floor(x/q).

The posterior is proportional to the weight times this likelihood. Its mean has the least expected squared
loss, and its median has the least expected absolute loss (the optimal remap of Chatzikokolakis 2013, section
4.2). The guess uses only the record of the slot, and not what the window's other slots reveal about their
common noise bound. Guesses are post-processing and cost no privacy.
"""

from __future__ import annotations

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
"""The loss of a wrong guess: its distance from the value, or the square of this distance."""

Value = TypeVar("Value", bound=float | Fraction | Decimal)


@dataclass(frozen=True, slots=True)
class PriorGuess:
    """A receiver's guess of one slot's value in `unit`, the best under the receiver's prior and `loss`.

    A guess is not a measurement and has no interval. It is biased towards the prior, so guesses must not be
    summed or averaged over slots or homes. For that reason this type is not a number.
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
    """Guess the value of the slot that starts at `time_ms`, with the least expected loss under `prior`.

    `prior` maps slot values to weights that need not add up to 1, such as a histogram of a year that the
    receiver knows from elsewhere. Its values are clamped to `within`, the agent's range, if this is known.
    Both are in the series' unit. `band` names the band, if slots are bands. Under absolute loss, the guess is
    a value of the prior, the smaller of two equally good ones.

    Raises ValueError if there is no such slot; the prior has no value with a positive weight, a weight that
    is negative or not finite, or a value that is not finite; the range is empty or not finite; or the loss is
    unknown.
    """
    if loss not in ("absolute", "squared"):
        raise ValueError(f"loss must be 'absolute' or 'squared', not {loss!r}")
    slot = series.slot(time_ms, band)
    record = slot.records[0]
    table = _prior_table(prior, within)
    log_weights = np.log(np.array(list(table.values())))
    logarithms = log_weights + log_likelihood(slot.descriptor_of(record), record.value, list(table))
    posterior = np.exp(logarithms - logarithms.max())
    values = np.array([float(value) for value in table])
    if loss == "squared":
        return PriorGuess(float(posterior @ values / posterior.sum()), loss, slot.unit)
    cumulative = np.cumsum(posterior)
    return PriorGuess(float(values[np.argmax(cumulative >= cumulative[-1] / 2)]), loss, slot.unit)


def log_likelihood(terms: Descriptor, released_value: Fraction, values: list[Fraction]) -> Floats:
    """Compute ln P(released_value | x) for each slot value x of `values`; all are in the unit of `terms`."""
    quantum = terms.mechanism.quantum
    y = released_value / quantum
    if terms.rounding == "half-up":
        return log_mass_of_slot(terms.mechanism, [int(y - round_half_up(x / quantum)) for x in values])
    noise = [int(y - x // quantum) for x in values]
    fraction = np.array([float(x / quantum % 1) for x in values])
    with np.errstate(divide="ignore"):  # a whole number of quanta is never rounded up
        rounded_down = np.log1p(-fraction) + log_mass_of_slot(terms.mechanism, noise)
        rounded_up = np.log(fraction) + log_mass_of_slot(terms.mechanism, np.array(noise) - 1)
    return np.asarray(np.logaddexp(rounded_down, rounded_up))


def _prior_table(prior: Mapping[Value, float], within: tuple[Value, Value] | None) -> dict[Fraction, float]:
    """Return the prior's values, clamped and sorted, with their weights. Raises as `guess_under_prior`."""
    low, high = (_exact_value(end) for end in within) if within else (None, None)
    if low is not None and high is not None and low > high:
        raise ValueError("the low end of the range is above its high end")
    table: dict[Fraction, float] = {}
    for value, weight in prior.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError("the weights of a prior must be finite and not negative")
        x = _exact_value(value)
        x = x if low is None or high is None else min(max(x, low), high)
        table[x] = table.get(x, 0.0) + weight
    positive_weights = {x: table[x] for x in sorted(table) if table[x] > 0}
    if not positive_weights:
        raise ValueError("a prior needs a value with a positive weight")
    return positive_weights


def _exact_value(value: float | Fraction | Decimal) -> Fraction:
    if not math.isfinite(value):
        raise ValueError("the values of a prior and of a range must be finite")
    return Fraction(value)
