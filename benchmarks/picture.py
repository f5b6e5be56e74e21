"""The rows of `results.json` as a picture beside it: `python -m benchmarks.picture`.

Above, what has a goal: the ratio over its goal, so that 1 is the goal. Below, the other ratios. The line in
each bar is the spread.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results.json"
MET, MISSED, PLAIN = "#2a7f62", "#c05621", "#4a6fa5"
ROW_IN, WIDTH_IN = 0.26, 12.0


def bars(axes: Axes, rows: Sequence[dict[str, Any]], title: str) -> None:
    """One bar a row, the first on top; `over` is what 1 stands for."""
    over = [row["goal"] or 1 for row in rows]
    values = [max(row["ratio"] / one, 1e-3) for row, one in zip(rows, over, strict=True)]
    low, high = (
        [abs(row["spread"][end] / one - value) for row, one, value in zip(rows, over, values, strict=True)]
        for end in (0, 1)
    )
    colours = [
        PLAIN if row["goal"] is None else MET if row["ratio"] >= row["goal"] else MISSED for row in rows
    ]
    places = range(len(rows))
    axes.barh(places, values, color=colours, xerr=(low, high), error_kw={"lw": 1, "ecolor": "#222222"})
    axes.set_yticks(places, [f"{row['name']}  |  {row['against']}" for row in rows], fontsize=7)
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        goal = "" if row["goal"] is None else f" of {row['goal']:g}"
        axes.annotate(
            f" {row['ratio']:.3g}{goal}", (max(value, row_end(row)), place), va="center", fontsize=7
        )
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="#222222", lw=1)
    axes.set_title(title, loc="left", fontsize=9)
    axes.margins(x=0.15, y=0.01)
    axes.set_xlim(left=min([0.1, *(value / 2 for value in values)]))


def row_end(row: dict[str, Any]) -> float:
    """Where a row's spread ends in the picture."""
    return float(row["spread"][1] / (row["goal"] or 1))


def draw(rows: Sequence[dict[str, Any]], where: Path) -> None:
    """All rows as a picture."""
    mpl.use("Agg")
    parts = [[row for row in rows if row["goal"] is not None], [row for row in rows if row["goal"] is None]]
    heights = [max(len(part), 1) for part in parts]
    size = WIDTH_IN, ROW_IN * sum(heights) + 2
    figure, panels = plt.subplots(2, 1, figsize=size, height_ratios=heights, layout="constrained")
    titles = ("ratio over its goal (more is better)", "other ratios (more is better)")
    for axes, part, title in zip(panels, parts, titles, strict=True):
        bars(axes, part, title)
    figure.savefig(where, dpi=110)
    plt.close(figure)


def main() -> None:
    """Draws it."""
    draw(json.loads(RESULTS.read_text()), RESULTS.with_suffix(".png"))


if __name__ == "__main__":
    main()
