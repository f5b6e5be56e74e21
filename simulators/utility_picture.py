"""The picture of `utility`: errors in parts of use, what is promised beside what was measured."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulators.utility_row import Row

_COLOURS, _MARKS = ("#0072B2", "#E69F00", "#D55E00"), "osx"
_UNDATED = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}


def draw(rows: Sequence[Row], title: str, path: Path) -> None:
    """One home on the left, feeders by their number of homes on the right.

    Raises:
        ValueError: the file is neither a PDF nor a PNG.
    """
    if path.suffix not in _UNDATED:
        raise ValueError(f"a plot is a .pdf or .png, not {path.name}")
    figure = Figure(figsize=(10, 4.5), dpi=120, layout="constrained")
    figure.suptitle(f"{title}: error 95 times of 100, in % of use")
    left, right = figure.subplots(1, 2)
    one_home = [row for row in rows if row.what.startswith("a home")]
    _line(left, [row.what.removeprefix("a home, ") for row in one_home], one_home, 0, "one home")
    others = list(dict.fromkeys(row.what for row in rows if row not in one_home))
    for style, what in enumerate(others):
        own = [row for row in rows if row.what == what]
        _line(right, [row.homes for row in own], own, style, what)
    right.set_xscale("log")
    right.xaxis.set_major_formatter("{x:,.0f}")
    right.set_xlabel("homes of a feeder")
    for axes in (left, right):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata=_UNDATED[path.suffix])


def _line(axes: Axes, at: Sequence[str] | Sequence[int], rows: Sequence[Row], style: int, name: str) -> None:
    """Measured as marks, promised as a line."""
    measured = [100 * row.measured / row.use for row in rows]
    colour, mark = _COLOURS[style], _MARKS[style]
    axes.plot(at, measured, mark, color=colour, markerfacecolor="none", label=f"{name}, measured")
    promised = [row.promised for row in rows if row.promised is not None]
    if len(promised) == len(rows):
        percent = [100 * most / row.use for most, row in zip(promised, rows, strict=True)]
        axes.plot(at, percent, "-", color=colour, linewidth=1, label=f"{name}, promised")
