"""The demo's picture: private numbers reveal little about one home, but much about the mean of a street."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulators.demo.outcome import Floats, Outcome

TRUE, PRIVATE = "#222222", "#0072B2"
"""Dark grey and blue, which also differ in brightness for readers who cannot distinguish colours."""

LABELS = ("what leaves, every half hour", "power in W")
"""The label of the private numbers, and the label of their axis."""


def draw(outcome: Outcome, path: Path) -> None:
    """Draw the first day of the median home and of the mean of all homes, as a PNG."""
    street, hides_wh = outcome.street, outcome.terms.facts["hides_wh"]
    raw, true, private = (
        series[:, : series.shape[1] // street.days]
        for series in (street.watts, outcome.true_w, outcome.private_w)
    )
    home_w, street_w = outcome.band_w
    figure = Figure(figsize=(10, 9), dpi=120, layout="constrained")
    figure.suptitle(f"meteragent hides {hides_wh} Wh in every half hour, such as one use of a kettle")
    home_axes, street_axes = figure.subplots(2, 1, sharex=True)
    panel(
        home_axes,
        f"One home: a half hour can be off by {home_w:,.0f} W",
        private[outcome.median_index],
        home_w,
    )
    steps(home_axes, raw[outcome.median_index], TRUE, 1.1, "true, every 5 minutes: stays at home")
    panel(
        street_axes,
        f"{street.homes:,} homes: their mean is accurate to {street_w:,.0f} W",
        private.mean(axis=0),
        street_w,
    )
    steps(street_axes, true.mean(axis=0), TRUE, 1.6, "true mean")
    finish(home_axes, street_axes)
    figure.savefig(path)


def panel(
    axes: Axes, title: str, private: Floats, half_width: float, labels: tuple[str, str] = LABELS
) -> None:
    """Draw the private numbers, and the band that contains the true value 95% of the time.

    `labels` holds the label of the numbers and the label of their axis.
    """
    axes.set_title(title, loc="left", fontweight="bold", pad=25)
    name, unit = labels
    steps(axes, private, PRIVATE, 2.2, name)
    edges, centre = np.linspace(0, 24, private.size + 1), np.append(private, private[-1])
    low, high = centre - half_width, centre + half_width
    label = "contains the true value 95% of the time"
    axes.fill_between(edges, low, high, step="post", color=PRIVATE, alpha=0.2, linewidth=0, label=label)
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(unit)


def steps(axes: Axes, values: Floats, color: str, width: float, label: str) -> None:
    """Draw the values of a day, each over its slot."""
    edges = np.linspace(0, 24, values.size + 1)
    axes.stairs(values, edges, baseline=None, color=color, linewidth=width, label=label)


def finish(*panels: Axes) -> None:
    """Add a legend to each panel, and hours to the time axis of the last panel, which all panels share."""
    for axes in panels:
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=3, frameon=False, fontsize=9
        )
        legend.set_in_layout(False)
    panels[-1].set_xlim(0, 24)
    panels[-1].set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
    panels[-1].set_xlabel("time of day")
