"""A picture of simulated homes: a day's load of all homes, and of one home with its events."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulators.homes.fleet import Day, Events, Fleet
from simulators.homes.signature import DAY_S

STEP_S = 60
_DARK, _BLUE = "#222222", "#0072B2"
_MINUTES_SMOOTHED = 30


def draw(fleet: Fleet, day: int, path: Path) -> None:
    """Draw a day of a fleet as a PNG, PDF or SVG, depending on the ending of the file's name.

    Raises ValueError if the name has a different ending, and OSError if the file cannot be written.
    """
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"{path} is neither .png nor .pdf nor .svg")
    simulated = fleet.day(day, STEP_S)
    figure = Figure(figsize=(10, 9), dpi=120, layout="constrained")
    all_axes, home_axes, event_axes = figure.subplots(3, 1, sharex=True, height_ratios=(2, 2, 3))
    _all_homes(all_axes, simulated)
    _one_home(home_axes, simulated, fleet.homes[0])
    events = simulated.events.where(simulated.events.home == fleet.homes[0])
    _events(event_axes, events, day)
    event_axes.set_xlim(0, 24)
    event_axes.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
    event_axes.set_xlabel("time of day")
    figure.savefig(path, metadata=_undated(path))


def _undated(path: Path) -> dict[str, None]:
    """Return metadata without the time of drawing."""
    return {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(path.suffix[1:], {})


def _all_homes(axes: Axes, day: Day) -> None:
    means = day.watts.reshape(len(day.watts), -1, _MINUTES_SMOOTHED).mean(axis=2)
    low, high = np.percentile(means, [10, 90], axis=0)
    edges = np.linspace(0, 24, means.shape[1] + 1)
    axes.stairs(high, edges, baseline=low, fill=True, color=_BLUE, alpha=0.2, label="eight of ten homes")
    axes.stairs(means.mean(axis=0), edges, baseline=None, color=_BLUE, linewidth=2, label="mean")
    _label(axes, f"{len(means):,} homes, half hours")
    axes.legend(frameon=False, loc="upper left")


def _one_home(axes: Axes, day: Day, home: int) -> None:
    edges = np.linspace(0, 24, day.watts.shape[1] + 1)
    axes.stairs(day.watts[0], edges, baseline=None, color=_DARK, linewidth=0.9)
    _label(axes, f"Home {home}, minutes")


def _label(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_ylabel("power in W")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _events(axes: Axes, events: Events, day: int) -> None:
    """Draw the events of a home that start on the day: a row for each appliance, and a bar for each event."""
    kinds = sorted(set(events.appliance.tolist()), reverse=True)
    begin = (events.start_s - day * DAY_S) / 3600
    hours = (events.end_s - events.start_s) / 3600
    axes.barh([kinds.index(kind) for kind in events.appliance], hours, left=begin, height=0.6, color=_DARK)
    axes.set_yticks(range(len(kinds)), [events.names[kind] for kind in kinds])
    axes.set_title("its events", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
