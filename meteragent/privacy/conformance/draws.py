"""What is released: its shape, where its randomness comes from, and that it follows `log_mass`.

Calibration
-----------
Any mechanism whose log mass is known can be held against it, on any space, without summing a law. A fair
coin says whether y is drawn from x or from x'. Given y, with T = ln P(y | x')/P(y | x), it came from x' with
probability h = 1/(1+e^-T), whatever else is known. So the sums over draws of (coin - h) and of (coin - h) T
have mean 0 and the variance V = sum of h (1-h) (times T^2), and are as far off as t with

    p <= 2 e^(-t^2 / (2 (V + Bt/3))),    B the largest term (Bernstein; no limit theorem).

The second sum is the score of a scale: if the true log ratio is (1+f) T, its mean is about f V. What moves
neither is a law that differs from log mass by the same factor at all points: cells look for that, where
outputs repeat.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from meteragent.privacy.audit import Check
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.conformance.trial import Floats, PointPair, Trial, array_of, possible
from meteragent.privacy.space import Categories, Numbers, Windows
from meteragent.privacy.statistics import MISS, chi_square

CALIBRATION_PAIRS, CELL_POINTS = 6, 3
"""So many pairs and points are tried, those that lose about 2 first."""

_CELLS, _COVERED = 20, 0.05  # cells that hold less than that of the mass tell little


# The release --------------------------------------------------------------------------------------


def shapes(trial: Trial) -> Check:
    """One output for each point, in arrays of any shape; what was passed in is left as it was."""
    pair = trial.pairs[0]
    one = trial.draw(pair.x, 1).shape[1:]
    points = np.repeat(array_of([pair.x]), 6, axis=0)
    before = points.copy()
    got, wanted = [trial.draw(pair.x, 6).shape], [(6, *one)]
    if isinstance(trial.mechanism.space, Categories | Numbers | Windows):
        for batch in ((2, 3), (0,)):
            given = points[: math.prod(batch)].reshape(*batch, *points.shape[1:])
            got.append(np.shape(trial.mechanism.release(given, bits=trial.bits)))
            wanted.append((*batch, *one))
    kept = bool(np.all(points == before))
    text = "kept" if got == wanted else f"{got} came back for {wanted}"
    return Check("shapes", got == wanted and kept, text if kept else "the points that were given changed", {})


def randomness(trial: Trial) -> Check:
    """Equal bits make equal outputs, others do not, and without any no two releases are alike."""
    x = trial.telling(1)[0].x

    def draw(seed: int) -> list[Any]:
        drawn: list[Any] = trial.draw(x, 256, SeededBits(seed)).tolist()
        return drawn

    def fresh() -> list[Any]:
        drawn: list[Any] = np.asarray(trial.mechanism.release(np.repeat(array_of([x]), 256, axis=0))).tolist()
        return drawn

    likely = np.exp(trial.log_mass(trial.draw(x, 16), x)).max() if trial.draw(x, 1).dtype.kind != "f" else 0
    wrong = {
        "equal bits make different outputs": draw(1) != draw(1),
        "different bits make equal outputs": likely < 0.9 and draw(1) == draw(2),
        "without bits outputs repeat": likely < 0.9 and fresh() == fresh(),
    }
    found = [text for text, is_so in wrong.items() if is_so]
    return Check("randomness is the bits given", not found, "; ".join(found) or "yes", {})


# The law ------------------------------------------------------------------------------------------


def calibration(ratios: Floats, second: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Two p of draws y from x or, where `second`, from x', each with a fair chance; and V of the second.

    `ratios` are T = ln P(y | x')/P(y | x). The first p finds a side that is too frequent, the second a ratio
    that is not as large as was said: see the module's text. Both are 0 if what cannot happen has happened.
    """
    sure = np.isinf(ratios)
    if (second[sure] != (ratios[sure] > 0)).any():
        return 0.0, 0.0, 0.0
    t, label = ratios[~sure], second[~sure]
    off, spread = label - special.expit(t), special.expit(t) * special.expit(-t)
    return (
        _bernstein(off, spread, np.ones_like(t)),
        _bernstein(off, spread, t),
        float((spread * t**2).sum()),
    )


def _bernstein(off: Floats, spread: Floats, weight: Floats) -> float:
    total, variance = abs(float((off * weight).sum())), float((spread * weight**2).sum())
    bound = float(np.abs(weight).max(initial=0))
    return min(1.0, 2 * math.exp(-(total**2) / (2 * (variance + bound * total / 3)))) if total else 1.0


def calibrated(trial: Trial, alarm: float) -> Check:
    """Draws from both points of the most telling pairs are told apart exactly as well as log mass says."""
    pairs = trial.telling(CALIBRATION_PAIRS)
    drawn = [_labelled(trial, pair, trial.samples) for pair in pairs]
    ratios, second = np.concatenate([t for t, _ in drawn]), np.concatenate([label for _, label in drawn])
    side, scale, variance = calibration(ratios, second)
    detects = math.inf
    if variance:
        detects = (math.sqrt(2 * math.log(4 / alarm)) + stats.norm.isf(MISS)) / math.sqrt(variance)
    figures = {"side": side, "scale": scale, "detects": detects, "draws": second.size}
    text = f"p = {min(side, scale):.2g}; a scale {detects:.1%} off would be seen"
    return Check("draws are calibrated", min(side, scale) > alarm / 2, text, figures)


def _labelled(trial: Trial, pair: PointPair, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    second = trial.bits.array(count, np.uint8) & np.uint8(1) == 1
    ratios = np.empty(count)
    for label, point in ((False, pair.x), (True, pair.other)):
        drawn = trial.draw(point, int((second == label).sum()))
        # What has no mass where it was drawn counts as sure to come from the other point.
        void = np.isneginf(trial.log_mass(drawn, point))
        ratios[second == label] = np.where(void, -np.inf if label else np.inf, trial.log_ratio(drawn, pair))
    return ratios, second


def cells(trial: Trial, alarm: float) -> Iterator[Check]:
    """Outputs are as frequent as log mass says, where they repeat; and never sum to more than 1."""
    points = trial.telling(CELL_POINTS)
    for pair in points:
        drawn = trial.draw(pair.x, trial.samples)
        if drawn.dtype.kind == "f":
            return
        p, above, covered = _frequencies(trial, drawn, pair.x)
        if covered < _COVERED and above <= 1:
            continue
        passed = p > alarm / len(points) and above <= 1 + 1e-9
        text = f"p = {p:.2g} over {covered:.1%} of the mass" + (
            "" if above <= 1 + 1e-9 else f"; it sums to {above}"
        )
        yield Check(f"frequencies at {pair.x!r:.40}", passed, text, {"p": p, "covered": covered})


def _frequencies(trial: Trial, drawn: NDArray[Any], point: Any) -> tuple[float, float, float]:
    """Chi-square's p; the sum of all masses that were seen; the mass in cells other than the rest's."""
    pilot, rest = drawn[: len(drawn) // 4], drawn[len(drawn) // 4 :]
    outputs = possible(trial, pilot, point)
    mass = np.exp(trial.log_mass(outputs, point))
    if outputs.ndim == 1 and outputs.dtype.kind in "iu":
        # Ranges that the law fills about evenly, from the least to the largest of the pilot.
        ends = np.unique(np.searchsorted(np.cumsum(mass) / mass.sum(), np.arange(1, _CELLS) / _CELLS))
        inside = np.add.reduceat(mass, np.r_[0, ends[ends > 0]])
        edges = np.r_[outputs[0], outputs[ends[ends > 0]], outputs[-1] + 1]
        counts = np.bincount(np.searchsorted(edges, rest, side="right"), minlength=edges.size + 1)[1:-1]
    else:
        often = np.argsort(-mass)[: 4 * _CELLS]
        inside, names = mass[often], [_key(value) for value in outputs[often]]
        place = {name: index for index, name in enumerate(names)}
        where = [place.get(_key(value), len(names)) for value in rest]
        counts = np.bincount(where, minlength=len(names) + 1)[:-1]
    beyond = max(0.0, 1 - float(inside.sum()))
    p = chi_square(np.r_[counts, len(rest) - counts.sum()], np.r_[inside, beyond] / (inside.sum() + beyond))
    return p, float(mass.sum()), float(inside.sum())


def _key(value: Any) -> Any:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value


def independent(trial: Trial, alarm: float) -> Check:
    """Draws in succession fill the quarters of a 2 x 2 table as independent ones do (Fisher's exact test)."""
    pair = trial.telling(1)[0]
    ratios = trial.log_ratio(trial.draw(pair.x, trial.samples), pair)
    pilot, rest = np.split(ratios, [len(ratios) // 8])
    cut = min(np.unique(pilot), key=lambda value: abs(float((pilot >= value).mean()) - 0.5))
    high = (rest[: len(rest) // 2 * 2] >= cut).reshape(-1, 2)
    table = np.bincount(2 * high[:, 0] + high[:, 1], minlength=4).reshape(2, 2)
    p = float(stats.fisher_exact(table).pvalue)
    return Check("draws are independent", p > alarm, f"p = {p:.2g}", {"p": p})
