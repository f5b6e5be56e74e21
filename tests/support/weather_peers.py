"""Packages with weather and models of the sun, which the simulators are compared with."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.not_run import not_run


def peer(name: str) -> Any:
    """Return the package with the given name; the test is NOT RUN if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        not_run("weather", f"install {name.partition('.')[0]}, of the group `dev`")


def reference_years() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the hourly temperature and global radiation of 15 German test reference years: (365, 24)."""
    folder = Path(peer("demandlib").__file__).parent / "vdi" / "resources_weather"
    years = []
    for path in sorted(folder.glob("TRY*.dat")):
        _, _, table = path.read_text(encoding="latin-1").partition("***\n")
        rows = np.array([[float(cell) for cell in line.split()] for line in table.splitlines() if line])
        years.append((rows[:, 8].reshape(365, 24), rows[:, 13:15].sum(axis=1).reshape(365, 24)))
    return years
