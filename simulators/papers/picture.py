"""The two figures that `paper` redraws, and their points."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_COLOURS = {"d_h": "#D55E00", "d_1": "#0072B2"}
_LINES = ("o-", "s--", "^-.", "D:")
_TRUE, _PRIVATE = "#222222", "#0072B2"
_UNDATED = {"Software": None}


class Alpha(NamedTuple):
    """A point of Fig. 3.

    With probability 1 - `delta`, the released earliest date is within `alpha_days` of the true one.
    """

    epsilon: Fraction
    metric: str
    delta: float
    alpha_days: float


class Reading(NamedTuple):
    """A point of Fig. 4: the true and the released value of a reading. Epsilons are in 1/W.

    `reading_epsilon` is promised for a change in one reading alone, and `window_epsilon`, under d_inf, for a
    change in the whole signature. A released value is within `alpha_w` of the true one 95% of the time.
    """

    epsilon: Fraction
    noise: str
    reading_epsilon: Fraction
    window_epsilon: Fraction
    alpha_w: float
    start_s: int
    true_w: int
    private_w: int


def draw_dates(rows: Sequence[Alpha], caption: str, path: Path) -> None:
    """Draw Fig. 3: alpha against delta, with a line for each metric and epsilon."""
    figure = Figure(figsize=(8, 6), dpi=120, layout="constrained")
    axes = figure.subplots()
    epsilons = dict.fromkeys(row.epsilon for row in rows)
    for (epsilon, style), metric in product(zip(epsilons, _LINES, strict=False), _COLOURS):
        points = [row for row in rows if (row.epsilon, row.metric) == (epsilon, metric)]
        deltas, alphas = [row.delta for row in points], [row.alpha_days for row in points]
        label = f"{metric}, epsilon = {float(epsilon):g}"
        axes.semilogy(deltas, alphas, style, color=_COLOURS[metric], label=label, markersize=5)
    axes.set_xlabel("delta")
    axes.set_ylabel("alpha in days")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _finish(figure, [axes], caption, path)


def draw_signature(rows: Sequence[Reading], caption: str, path: Path) -> None:
    """Draw Fig. 4: a panel for each noise and epsilon, with the true and the released values."""
    epsilons, noises = (list(dict.fromkeys(column)) for column in list(zip(*rows, strict=True))[:2])
    figure = Figure(figsize=(11, 7), dpi=120, layout="constrained")
    panels = figure.subplots(len(epsilons), len(noises), sharex=True, squeeze=False)
    for line, epsilon in zip(panels, epsilons, strict=True):
        for axes, noise in zip(line, noises, strict=True):
            readings = [row for row in rows if (row.epsilon, row.noise) == (epsilon, noise)]
            _steps(axes, [row.private_w for row in readings], _PRIVATE, "leaves")
            _steps(axes, [row.true_w for row in readings], _TRUE, "true")
            promised = float(readings[0].window_epsilon)
            axes.set_title(f"{noise}, epsilon = {float(epsilon):g}/W: {promised:g} d_inf", fontsize=9)
        line[0].set_ylabel("power in W")
    for axes in panels[-1]:
        axes.set_xlabel("reading")
    panels[0][0].legend(frameon=False, fontsize=8)
    _finish(figure, list(panels.flat), caption, path)


def _steps(axes: Axes, values: Sequence[int], colour: str, label: str) -> None:
    axes.stairs(values, range(len(values) + 1), baseline=None, color=colour, linewidth=1.3, label=label)


def _finish(figure: Figure, panels: Sequence[Axes], caption: str, path: Path) -> None:
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(caption, x=0.01, ha="left", fontsize=9)
    figure.savefig(path, metadata=_UNDATED)
