"""Checks of a release whose distribution is unknown: lower bounds on the loss between points (THEORY 6).

Both points of a pair are released many times. A statistic assigns a number to each output, and an event A is
one of its upper or lower tails. One half of the draws chooses the tail, and the other half bounds
|ln P(A | x')/P(A | x)| from below (Clopper and Pearson). If points and outputs are numbers in the same shape,
the statistics are those of the audit of windows; for other outputs that are numbers, they are the sum, the
maximum and the minimum. If outputs repeat often enough, there is one more statistic, which is the only one
for labels: the log ratio of an output's frequencies in the half that chooses the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.audit import STATISTICS, Check
from meteragent.privacy.conformance import trial
from meteragent.privacy.statistics import prove_loss

Floats = NDArray[np.float64]

_REPEATS = 4
"""The least mean number of draws per distinct output at which frequencies are compared."""


def check_pairs(
    release: Callable[[Any], Any], pairs: Sequence[trial.PointPair], samples: int, false_alarm: float
) -> Iterator[Check]:
    """Yield a check of each pair's claim. Raises UnsupportedMechanism if there are no pairs."""
    if not pairs:
        raise trial.UnsupportedMechanism("there is no claim to test: give two points and a loss")
    for pair in pairs:
        outputs = [trial.release_copies(release, point, samples) for point in (pair.x, pair.x_prime)]
        statistics = dict(_statistics(pair, *outputs))
        share = false_alarm / len(pairs) / len(statistics)
        bounds = [(prove_loss(*values, share), name) for name, values in statistics.items()]
        lower, statistic = max(bounds)
        finding = f"at least {lower:.3f} ({statistic}), claim {pair.loss:.3f}"
        figures = {"claim": pair.loss, "lower": lower, "statistic": statistic, "draws": samples}
        name = f"black box: {trial.point_text(pair.x)} or {trial.point_text(pair.x_prime)}"
        yield Check(name, lower <= pair.loss, finding, figures)


def _statistics(
    pair: trial.PointPair, first: NDArray[Any], second: NDArray[Any]
) -> Iterator[tuple[str, tuple[Floats, Floats]]]:
    """Yield the name of each statistic and its values for the outputs of both points."""
    x, x_prime = trial.to_array([pair.x]), trial.to_array([pair.x_prime])
    is_number = first.dtype.kind in "iufb"
    if is_number and {x.dtype.kind, x_prime.dtype.kind} <= set("iuf") and x.shape[1:] == first.shape[1:]:
        yield from _window_statistics(np.ravel(x), np.ravel(x_prime), first, second)
    elif is_number:
        rows = first.reshape(len(first), -1), second.reshape(len(second), -1)
        for function in (np.sum, np.max, np.min):
            yield function.__name__, (function(rows[0], axis=1), function(rows[1], axis=1))
    counts = _log_ratio(first, second)
    if counts is not None or not is_number:
        yield "frequencies", counts or (np.zeros(len(first)), np.zeros(len(second)))


def _window_statistics(
    x: NDArray[Any], x_prime: NDArray[Any], first: NDArray[Any], second: NDArray[Any]
) -> Iterator[tuple[str, tuple[Floats, Floats]]]:
    shift = x_prime - x
    is_shifted = shift != 0
    noise = [outputs.reshape(len(outputs), -1) - x for outputs in (first, second)]
    u = [z[:, is_shifted] * np.sign(shift[is_shifted]) for z in noise]
    v = [z[:, ~is_shifted] if (~is_shifted).any() else part for z, part in zip(noise, u, strict=True)]
    size = int(np.ceil(np.abs(shift).max()))
    for name, statistic in STATISTICS.items():
        yield name, (statistic(u[0], v[0], size), statistic(u[1], v[1], size))


def _log_ratio(first: NDArray[Any], second: NDArray[Any]) -> tuple[Floats, Floats] | None:
    """Return each draw's log ratio of frequencies in the first half; None if outputs repeat too rarely."""
    count, half = len(first), len(first) // 2
    outputs = np.concatenate([first, second])
    if outputs.dtype == object:
        outputs = np.array([repr(output) for output in outputs.tolist()])
    distinct, index = np.unique(outputs, axis=0, return_inverse=True)
    if len(outputs) < _REPEATS * len(distinct):
        return None
    index = index.reshape(-1)
    at_first, at_second = (
        np.bincount(part[:half], minlength=len(distinct)) for part in (index[:count], index[count:])
    )
    score = np.log((at_second + 0.5) / (at_first + 0.5))
    return score[index[:count]], score[index[count:]]
