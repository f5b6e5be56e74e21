"""A plot of the worst attacker's success rate against the error of a slot, with dashed certificates."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulators.adversary.curve import Point
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene

_COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can distinguish."""
_MARKS = "osx^Dv*"
_FEW = 0.1
"""If the success of guessing is below this, the y-axis is logarithmic."""
_UNDATED = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}


def save(points: Sequence[Point], scene: Scene, path: Path) -> None:
    """Draw the points, with a line for each mechanism, and write the plot to `path`.

    Raises Unusable if `path` ends in neither .pdf nor .png.
    """
    if path.suffix not in _UNDATED:
        raise Unusable(f"a plot is a .pdf or .png, not {path.name}")
    figure = Figure(figsize=(8, 5.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(point.name for point in points))
    for index, name in enumerate(names):
        of_name = sorted((p for p in points if p.name == name), key=lambda point: point.outcome.error_w)
        _line(axes, name, of_name, index)
    axes.axhline(100 * scene.guess, color="#888888", linewidth=0.8, linestyle=":")
    axes.text(0, 100 * scene.guess, " guessing", fontsize=8, transform=axes.get_yaxis_transform())
    axes.set_xscale("log")
    if scene.guess < _FEW:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(0, 103)
    axes.set_xlabel("error of a slot, rms in W")
    axes.set_ylabel("worst attacker: right guesses in %")
    axes.set_title(scene.question, loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata=_UNDATED[path.suffix])


def _line(axes: Axes, name: str, points: Sequence[Point], index: int) -> None:
    """Draw the measurements with intervals, and the bound that follows from the promise, if there is one."""
    colour, mark = _COLOURS[index % len(_COLOURS)], _MARKS[index % len(_MARKS)]
    error_w = [point.outcome.error_w for point in points]
    worst = [point.outcome.worst for point in points]
    rates = [100 * result.rate for result in worst]
    bars = (
        [100 * (result.rate - result.low) for result in worst],
        [100 * (result.high - result.rate) for result in worst],
    )
    lines, _, _ = axes.errorbar(error_w, rates, bars, color=colour, linewidth=1.4, capsize=2, label=name)
    lines.set(marker=mark, markersize=5 + 2 * index, markerfacecolor="none")
    bounds = [point.outcome.bound for point in points]
    if any(bound is not None for bound in bounds):
        percent = [math.nan if bound is None else 100 * bound for bound in bounds]
        label = f"certificate of {name}" + (": broken" if any(p.outcome.is_broken for p in points) else "")
        axes.plot(error_w, percent, color=colour, linestyle="--", linewidth=1, label=label)
