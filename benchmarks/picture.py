"""Draw the rows of `results.json` that have a goal as `results.png`: `python -m benchmarks.picture`.

Each row shows ratio / goal on a log scale; a goal is met if its mark is on the vertical line or to the right
of it. A filled circle marks a goal that is met, and an open square a goal that is missed. Their two colours
are from the Okabe-Ito palette, so that colour-blind readers can distinguish them. The bar reaches from the
smallest to the largest ratio of the rounds. The picture fits a phone held upright, and is dark on white for
print.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.table import RESULTS, meets_goal, number, published_rows

COLOUR_MET, COLOUR_MISSED, INK, PALE = "#0072b2", "#d55e00", "#1a1a1a", "#d9d9d9"
WIDTH_IN, ROW_IN, EDGES_IN, DPI = 5.2, 0.52, 1.1, 200
LEAST, MOST = 0.1, 10.0
"""The ends of the scale, as multiples of the goal; a value beyond an end is drawn at that end."""


def place(value: float) -> float:
    """Return `value`, a multiple of the goal, clamped to the ends of the scale."""
    return min(max(value, LEAST), MOST)


def mark(axes: Axes, y: int, row: dict[str, Any]) -> None:
    """Draw one row: its name and peer above its mark on the scale, and its figures at the right."""
    colour, shape = (COLOUR_MET, "o") if meets_goal(row) else (COLOUR_MISSED, "s")
    low, middle, high = (
        place(ratio / row["goal"]) for ratio in (row["spread"][0], row["ratio"], row["spread"][1])
    )
    axes.plot([LEAST, MOST], [y, y], color=PALE, lw=0.8, zorder=1)
    axes.plot([low, high], [y, y], color=colour, lw=4, alpha=0.45, solid_capstyle="butt", zorder=2)
    face = colour if meets_goal(row) else "white"
    axes.plot([middle], [y], shape, ms=8, mec=colour, mfc=face, mew=2, zorder=3)
    text = f"{number(row['ratio'])}, goal {number(row['goal'])}" + ("" if meets_goal(row) else ": missed")
    text_options: dict[str, Any] = {
        "va": "bottom",
        "zorder": 4,
        "bbox": {"fc": "white", "ec": "none", "pad": 0.6},
    }
    axes.text(LEAST, y - 0.46, row["name"], fontsize=8.5, color=INK, weight="bold", **text_options)
    axes.text(LEAST, y - 0.2, row["against"], fontsize=7, color="#444444", **text_options)
    axes.text(MOST, y - 0.46, text, fontsize=8.5, color=colour, ha="right", weight="bold", **text_options)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the rows that have a goal, as a PNG."""
    mpl.use("Agg")
    rows_with_goal = [row for row in rows if row["goal"] is not None]
    figure, axes = plt.subplots(
        figsize=(WIDTH_IN, ROW_IN * len(rows_with_goal) + EDGES_IN), layout="constrained"
    )
    for y, row in enumerate(rows_with_goal):
        mark(axes, y, row)
    axes.axvline(1, color=INK, lw=1.5, zorder=1.5)
    axes.set_xscale("log")
    axes.set_xlim(LEAST, MOST)
    axes.set_ylim(len(rows_with_goal) - 0.3, -0.8)
    axes.set_yticks([])
    axes.set_xticks([0.1, 0.5, 1, 2, 10], ["1/10", "half", "goal", "twice", "10 ×"], fontsize=8)
    axes.minorticks_off()
    axes.xaxis.tick_top()
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    met_count = sum(map(meets_goal, rows_with_goal))
    axes.set_title(
        f"{met_count} of {len(rows_with_goal)} goals met (more is better)", loc="left", fontsize=10, color=INK
    )
    legend(axes)
    figure.savefig(path, dpi=DPI, facecolor="white")
    plt.close(figure)


def legend(axes: Axes) -> None:
    """Draw the legend of the marks at the bottom."""
    marks = [
        axes.plot([], [], shape, ms=7, mec=colour, mfc=face, mew=2, label=text)[0]
        for shape, colour, face, text in (
            ("o", COLOUR_MET, COLOUR_MET, "met"),
            ("s", COLOUR_MISSED, "white", "missed"),
        )
    ]
    bar = axes.plot([], [], color=INK, lw=4, alpha=0.45, label="least to greatest round")[0]
    axes.legend(
        handles=[*marks, bar], loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False, fontsize=8
    )


def main() -> None:
    """Draw the published run."""
    draw(published_rows(), RESULTS.with_suffix(".png"))


if __name__ == "__main__":
    main()
