"""A plot of a plan: the error against the hidden energy, with the lower bound (needs matplotlib)."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meteragent.report.event import EVENTS
from meteragent.report.format import mean_label
from meteragent.report.guarantee import CROWDS
from meteragent.report.language import say
from meteragent.report.plan.ask import Change
from meteragent.report.plan.render import error_text
from meteragent.report.plan.setting import Setting, least_energy_setting
from meteragent.report.plan.solve import Answer, nearby_settings
from meteragent.service.whole_file import whole_file

ONE_COLOR, MANY_COLOR, FLOOR_COLOR = "#0072B2", "#D55E00", "#222222"
"""Blue, orange and dark grey, which also differ in brightness; lower bounds are thin and dashed."""
_REACH, _POINTS = 16, 33
_APART = 1.2
"""At a smaller ratio of energies, labels would overlap."""


def draw_answer(answer: Answer, path: Path) -> None:
    """Draw an answer among settings that hide more and less. Raises ValueError for an unknown suffix."""
    setting = answer.setting if answer.is_possible else next((near.setting for near in answer.nearest), None)
    if setting is None:
        raise ValueError("nothing to draw: no setting is possible")
    homes = answer.homes if answer.homes > 1 else CROWDS[0]
    figure = Figure(figsize=(9, 6), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.loglog()
    _draw_lines(axes, setting, homes)
    _draw_examples(axes, setting)
    if answer.question.goal is not None:
        goal = answer.question.goal.power_w(setting.share) * _units_per_watt(setting)
        axes.axhline(goal, color="#009E73", linewidth=1.2, linestyle="-.", label=say("picture.goal"))
    axes.set_title(say("picture.title", share=setting.share.title), loc="left", fontweight="bold", pad=64)
    axes.set_xlabel(say("picture.energy"))
    unit = "kWh" if setting.share.is_in_kwh else "W"
    axes.set_ylabel(say("picture.error", unit=unit))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix(".") or None)


def _units_per_watt(setting: Setting) -> float:
    """Return an error of 1 W in the plot's unit."""
    return float(setting.share.hours) / 1000 if setting.share.is_in_kwh else 1.0


def _draw_lines(axes: Axes, setting: Setting, homes: int) -> None:
    """Draw the lines for one home and for many, each with its lower bound and the setting's point."""
    factors = tuple(Fraction(f"{factor:.3g}") for factor in np.geomspace(1 / _REACH, _REACH, _POINTS))
    settings, unit = nearby_settings(setting, factors), _units_per_watt(setting)
    hidden_wh = [float(point.hide_wh) for point in settings]
    for count, color, name in ((1, ONE_COLOR, mean_label(1)), (homes, MANY_COLOR, mean_label(homes))):
        errors = [point.error_w(count) * unit for point in settings]
        axes.plot(hidden_wh, errors, color=color, linewidth=5, alpha=0.45, label=name)
        floors = [point.floor_w / math.sqrt(count) * unit for point in settings]
        label = say("picture.floor") if count == 1 else None
        axes.plot(hidden_wh, floors, color=FLOOR_COLOR, linewidth=1.2, linestyle="--", label=label)
        setting_error = setting.error_w(count) * unit
        one_home = error_text(setting.error_w(), setting.share)
        mark_text = say("picture.setting", error=one_home) if count == 1 else None
        axes.plot([float(setting.hide_wh)], [setting_error], "o", color=color, markersize=10, label=mark_text)


def _draw_examples(axes: Axes, setting: Setting) -> None:
    """Mark the smallest energy at which each public example is hidden."""
    hides = [Change(event.name, event.energy_wh, event) for event in EVENTS]
    starts = [(least_energy_setting(hide, setting).hide_wh, hide.title) for hide in hides]
    labels: list[tuple[float, str]] = []
    for start_wh, name in sorted(starts):
        if not setting.hide_wh / _REACH <= start_wh <= setting.hide_wh * _REACH:
            continue
        axes.axvline(float(start_wh), color="#888888", linewidth=0.8, linestyle=":")
        if labels and start_wh < labels[-1][0] * _APART:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {name}")
        else:
            labels.append((float(start_wh), name))
    for label_wh, text in labels:
        transform = axes.get_xaxis_transform()
        axes.text(label_wh, 1.01, text, transform=transform, rotation=25, fontsize=8, ha="left", va="bottom")
