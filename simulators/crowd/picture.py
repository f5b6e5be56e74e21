"""The picture of the crowd's demo: totals with noise from every home, and with noise from two operators."""

from pathlib import Path

from matplotlib.figure import Figure

from simulators.crowd.outcome import CrowdOutcome
from simulators.demo.picture import TRUE, finish, panel, steps


def draw(outcome: CrowdOutcome, path: Path) -> None:
    """Draw the totals of the first day as a PNG."""
    homes, hides_wh = outcome.street.homes, outcome.hides_wh
    figure = Figure(figsize=(10, 9), dpi=120, layout="constrained")
    figure.suptitle(
        f"The total of {homes:,} homes, which hides {hides_wh} Wh of each home in every half hour"
    )
    alone_axes, crowd_axes = figure.subplots(2, 1, sharex=True, sharey=True)
    slots = len(outcome.crowd.true_wh) // outcome.street.days
    for axes, totals, name in (
        (alone_axes, outcome.alone, "Every home adds noise"),
        (crowd_axes, outcome.crowd, "Two operators add noise"),
    ):
        title = f"{name}: the total is accurate to {totals.half_width_wh:,.0f} Wh"
        labels = ("published, every half hour", "energy in kWh")
        panel(axes, title, totals.values_wh[:slots] / 1000, totals.half_width_wh / 1000, labels)
        steps(axes, totals.true_wh[:slots] / 1000, TRUE, 1.2, "true total")
    finish(alone_axes, crowd_axes)
    figure.savefig(path)
