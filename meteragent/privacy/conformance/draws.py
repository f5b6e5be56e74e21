"""Checks of the draws: their shape, the source of their randomness, their distribution and independence.

Calibration
-----------
Draws can be tested against a known log mass on any space, without a sum over all outputs. A fair coin decides
whether y is drawn from x (coin = 0) or from x' (coin = 1). Given y, with T = ln P(y | x')/P(y | x), the draw
came from x' with probability h = 1/(1+e^-T). So the sums over draws of (coin - h) and of (coin - h) T have
mean 0 and variance V = sum of h (1-h) (times T^2 for the second). Each sum deviates by t or more with the
probability

    p <= 2 e^(-t^2 / (2 (V + Bt/3)))    (Bernstein's inequality, not a limit theorem),

where B bounds each term: it is 1 for the first sum, and the largest |T| for the second.

The second sum is the score statistic for a scale factor: if the true log ratio is (1+f) T, the mean of this
sum is about f V. Neither sum detects that the stated P(y | x) is wrong by a factor that depends on y but not
on x; `check_frequencies` detects it if outputs repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from meteragent.privacy.audit import Check
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.conformance.trial import Floats, PointPair, Trial, list_outputs, point_text, to_array
from meteragent.privacy.space import Categories, Numbers, Windows
from meteragent.privacy.statistics import MISS, chi_square_p

CALIBRATION_PAIRS, CELL_POINTS = 6, 3
"""Calibration is tested with at most six pairs, and frequencies at no more than three points.

Pairs with a loss near 2 are taken first.
"""

_CELLS = 20
_COVERED = 0.05  # cells that have a smaller mass in total are not tested, because they get too few draws


def check_shapes(trial: Trial) -> Check:
    """Check that `release` gives one output per point, keeps shapes (2, 3) and (0,), and changes no point."""
    pair = trial.pairs[0]
    output = trial.draw(pair.x, 1).shape[1:]
    shapes, expected_shapes = [trial.draw(pair.x, 6).shape], [(6, *output)]
    if isinstance(trial.mechanism.space, Categories | Numbers | Windows):
        points = np.repeat(to_array([pair.x]), 6, axis=0)
        for batch in ((2, 3), (0,)):
            reshaped = points[: math.prod(batch)].reshape(*batch, *points.shape[1:])
            shapes.append(np.shape(trial.mechanism.release(reshaped, bits=trial.bits)))
            expected_shapes.append((*batch, *output))
    text = "kept" if shapes == expected_shapes else f"{shapes} instead of {expected_shapes}"
    unchanged = _keeps_points(trial)
    finding = text if unchanged else "release changed its argument"
    return Check("shapes", shapes == expected_shapes and unchanged, finding, {})


def _keeps_points(trial: Trial) -> bool:
    """Return whether a release of all points of the pairs, in one array, leaves this array as it was."""
    # Each point occurs twice, because sorting or reversing an array in place may not change a shorter one.
    distinct = {repr(point): point for pair in trial.pairs for point in (pair.x, pair.x_prime)}
    points = to_array([*distinct.values()] * 2)
    copy = deepcopy(points)
    trial.mechanism.release(points, bits=trial.bits)
    return bool(np.all(points == copy))


def check_randomness(trial: Trial) -> Check:
    """Check that equal bits give equal outputs; different bits do not (unless a mass is 0.9 or more)."""
    x = trial.most_telling_pairs(1)[0].x

    def draw(seed: int) -> list[Any]:
        """Draw 256 outputs from the bits of `seed`."""
        draws: list[Any] = trial.draw(x, 256, SeededBits(seed)).tolist()
        return draws

    def fresh() -> list[Any]:
        """Draw 256 outputs from the default bits."""
        draws: list[Any] = np.asarray(trial.mechanism.release(np.repeat(to_array([x]), 256, axis=0))).tolist()
        return draws

    largest_mass = (
        np.exp(trial.log_mass(trial.draw(x, 16), x)).max() if trial.draw(x, 1).dtype.kind != "f" else 0
    )
    is_wrong_by_text = {
        "the same bits give different outputs": draw(1) != draw(1),
        "different bits give the same outputs": largest_mass < 0.9 and draw(1) == draw(2),
        "outputs repeat if no bits are given": largest_mass < 0.9 and fresh() == fresh(),
    }
    faults = [text for text, is_wrong in is_wrong_by_text.items() if is_wrong]
    return Check("randomness comes only from the given bits", not faults, "; ".join(faults) or "yes", {})


def calibration_p_values(ratios: Floats, second: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Test draws y from x and, where `second` is set, from x'; return two p-values and the second sum's V.

    `ratios` holds T = ln P(y | x')/P(y | x). As the module's docstring explains, the first p-value is small
    if one of the points produces more of the draws than stated, and the second if the ratios are larger or
    smaller than stated. Both p-values and V are 0 if an impossible draw occurs.
    """
    certain = np.isinf(ratios)
    if (second[certain] != (ratios[certain] > 0)).any():
        return 0.0, 0.0, 0.0
    t, label = ratios[~certain], second[~certain]
    deviation, spread = label - special.expit(t), special.expit(t) * special.expit(-t)
    return (
        _bernstein(deviation, spread, np.ones_like(t)),
        _bernstein(deviation, spread, t),
        float((spread * t**2).sum()),
    )


def _bernstein(deviation: Floats, spread: Floats, weight: Floats) -> float:
    """Return Bernstein's p-value of the weighted sum of deviations whose variances are `spread`."""
    total, variance = abs(float((deviation * weight).sum())), float((spread * weight**2).sum())
    bound = float(np.abs(weight).max(initial=0))
    return min(1.0, 2 * math.exp(-(total**2) / (2 * (variance + bound * total / 3)))) if total else 1.0


def check_calibration(trial: Trial, false_alarm: float) -> Check:
    """Check that draws from the two points of a pair differ as `log_mass` states, for up to six pairs."""
    pairs = trial.most_telling_pairs(CALIBRATION_PAIRS)
    draws = [_draw_labelled(trial, pair, trial.samples) for pair in pairs]
    ratios, second = np.concatenate([t for t, _ in draws]), np.concatenate([label for _, label in draws])
    side, scale, variance = calibration_p_values(ratios, second)
    detects = math.inf
    if variance:
        detects = (math.sqrt(2 * math.log(4 / false_alarm)) + stats.norm.isf(MISS)) / math.sqrt(variance)
    figures = {"side": side, "scale": scale, "detects": detects, "draws": second.size}
    text = f"p = {min(side, scale):.2g}; a scale {detects:.1%} off would be detected"
    return Check("draws are calibrated", min(side, scale) > false_alarm / 2, text, figures)


def _draw_labelled(trial: Trial, pair: PointPair, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw from two points, chosen by fair coins; return log ratios, and which draws are from `x_prime`."""
    second = trial.bits.array(count, np.uint8) & np.uint8(1) == 1
    ratios = np.empty(count)
    for label, point in ((False, pair.x), (True, pair.x_prime)):
        draws = trial.draw(point, int((second == label).sum()))
        # A draw that is impossible at its point is taken to come from the other point, so calibration fails.
        is_impossible = np.isneginf(trial.log_mass(draws, point))
        impossible_ratio = -np.inf if label else np.inf
        ratios[second == label] = np.where(is_impossible, impossible_ratio, trial.log_ratio(draws, pair))
    return ratios, second


def check_frequencies(trial: Trial, false_alarm: float) -> Iterator[Check]:
    """Check that repeated outputs are as frequent as `log_mass` states, and that masses sum to at most 1.

    Floats are not checked, nor is a point whose testable outputs have less than 5% of the mass, unless masses
    sum to more than 1.
    """
    points = trial.most_telling_pairs(CELL_POINTS)
    for pair in points:
        draws = trial.draw(pair.x, trial.samples)
        if draws.dtype.kind == "f":
            return
        p, total_mass, covered = _frequencies(trial, draws, pair.x)
        if covered < _COVERED and total_mass <= 1:
            continue
        passed = p > false_alarm / len(points) and total_mass <= 1 + 1e-9
        text = f"p = {p:.2g} over {covered:.1%} of the mass" + (
            "" if total_mass <= 1 + 1e-9 else f"; the masses sum to {total_mass}"
        )
        yield Check(f"frequencies at {point_text(pair.x)}", passed, text, {"p": p, "covered": covered})


def _frequencies(trial: Trial, draws: NDArray[Any], point: Any) -> tuple[float, float, float]:
    """Return the chi-square p-value, the sum of the masses of the listed outputs, and the tested mass."""
    pilot, sample = draws[: len(draws) // 4], draws[len(draws) // 4 :]
    outputs = list_outputs(trial, pilot, point)
    mass = np.exp(trial.log_mass(outputs, point))
    if outputs.ndim == 1 and outputs.dtype.kind in "iu":
        # The cells are ranges of about equal probability, from the smallest to the largest pilot draw.
        ends = np.unique(np.searchsorted(np.cumsum(mass) / mass.sum(), np.arange(1, _CELLS) / _CELLS))
        cell_masses = np.add.reduceat(mass, np.r_[0, ends[ends > 0]])
        edges = np.r_[outputs[0], outputs[ends[ends > 0]], outputs[-1] + 1]
        counts = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=edges.size + 1)[1:-1]
    else:
        frequent = np.argsort(-mass)[: 4 * _CELLS]
        cell_masses, names = mass[frequent], [_key(value) for value in outputs[frequent]]
        cell_of = {name: index for index, name in enumerate(names)}
        drawn_cells = [cell_of.get(_key(value), len(names)) for value in sample]
        counts = np.bincount(drawn_cells, minlength=len(names) + 1)[:-1]
    tested_mass = float(cell_masses.sum())
    other_mass = max(0.0, 1 - tested_mass)
    expected = np.r_[cell_masses, other_mass] / (tested_mass + other_mass)
    p = chi_square_p(np.r_[counts, len(sample) - counts.sum()], expected)
    return p, float(mass.sum()), tested_mass


def _key(value: Any) -> Any:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value


def check_independence(trial: Trial, false_alarm: float) -> Check:
    """Check that consecutive draws fill a 2 x 2 table as independent draws would (Fisher's exact test)."""
    pair = trial.most_telling_pairs(1)[0]
    ratios = trial.log_ratio(trial.draw(pair.x, trial.samples), pair)
    pilot, sample = np.split(ratios, [len(ratios) // 8])
    cut = min(np.unique(pilot), key=lambda value: abs(float((pilot >= value).mean()) - 0.5))
    high = (sample[: len(sample) // 2 * 2] >= cut).reshape(-1, 2)
    table = np.bincount(2 * high[:, 0] + high[:, 1], minlength=4).reshape(2, 2)
    p = float(stats.fisher_exact(table).pvalue)
    return Check("draws are independent", p > false_alarm, f"p = {p:.2g}", {"p": p})
