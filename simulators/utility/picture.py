"""The picture that `utility` draws: promised and measured errors, relative to the use."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulators.utility.row import Row

_COLOURS, _MARKS = ("#0072B2", "#E69F00", "#D55E00"), "osx"
_UNDATED = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}


def draw(rows: Sequence[Row], title: str, path: Path) -> None:
    """Draw one home on the left, and feeders by their number of homes on the right.

    Raises ValueError if the file is neither a PDF nor a PNG.
    """
    if path.suffix not in _UNDATED:
        raise ValueError(f"a plot is a .pdf or .png, not {path.name}")
    figure = Figure(figsize=(10, 4.5), dpi=120, layout="constrained")
    figure.suptitle(f"{title}: bounds on 95% of the errors, in % of use")
    home_axes, feeder_axes = figure.subplots(1, 2)
    one_home = [row for row in rows if row.quantity.startswith("a home")]
    _line(home_axes, [row.quantity.removeprefix("a home, ") for row in one_home], one_home, 0, "one home")
    feeder_quantities = list(dict.fromkeys(row.quantity for row in rows if row not in one_home))
    for style, quantity in enumerate(feeder_quantities):
        feeders = [row for row in rows if row.quantity == quantity]
        _line(feeder_axes, [row.homes for row in feeders], feeders, style, quantity)
    feeder_axes.set_xscale("log")
    feeder_axes.xaxis.set_major_formatter("{x:,.0f}")
    feeder_axes.set_xlabel("homes per feeder")
    for axes in (home_axes, feeder_axes):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata=_UNDATED[path.suffix])


def _line(
    axes: Axes, positions: Sequence[str] | Sequence[int], rows: Sequence[Row], style: int, name: str
) -> None:
    """Draw measured errors as marks, and promised errors as a line if every row has a promise."""
    measured = [100 * row.measured / row.use for row in rows]
    colour, mark = _COLOURS[style], _MARKS[style]
    axes.plot(positions, measured, mark, color=colour, markerfacecolor="none", label=f"{name}, measured")
    promised = [row.promised for row in rows if row.promised is not None]
    if len(promised) == len(rows):
        percent = [100 * promise / row.use for promise, row in zip(promised, rows, strict=True)]
        axes.plot(positions, percent, "-", color=colour, linewidth=1, label=f"{name}, promised")
