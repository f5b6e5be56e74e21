"""Load traces from public data sets and from any table, and check their units.

| source | columns in watts |
|---|---|
| REFIT, `CLEAN_House*.csv` (Murray et al. 2017) | `Aggregate`, `Appliance1` to `Appliance9` |
| UK-DALE, a folder `house_*` (Kelly and Knottenbelt 2015) | `mains` (in `mains.dat`) or a plug's label |
| any other CSV or Parquet file | the named column, by default the second, in W or kW |

A column that is something else (a time, a register, an energy, an apparent power, a flag) raises
`TraceError`, and so does a column whose unit cannot be determined. Most error texts list the file's columns.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simulators.extras import lacking

try:
    import simulators.traces.trace as traces
    from simulators.traces.trace import Columns, Trace, TraceError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(lacking(error, "sim"), name=error.name) from None

FACTORS = {"W": 1, "kW": 1000}
"""The units of power that are accepted, and their sizes in W."""

_UNITS = {
    "W": ("w", "watt", "watts"),
    "kW": ("kw", "kilowatt", "kilowatts"),
    "MW": ("mw", "megawatt", "megawatts"),
    "Wh": ("wh", "watthour", "watthours"),
    "kWh": ("kwh", "energy"),
    "VA": ("va", "kva", "apparent"),
    "var": ("var", "kvar", "reactive"),
    "A": ("a", "amp", "amps", "ampere", "amperes"),
    "V": ("v", "volt", "volts", "voltage"),
    "Hz": ("hz", "frequency"),
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words}
_REFIT = {"Time", "Unix", "Aggregate", "Appliance1"}
_REFIT_WATTS = re.compile(r"Aggregate|Appliance[1-9]")
_AMBIGUOUS = {"usage", "use", "consumption", "import", "export"}
"""Words that name a power as well as an energy."""
_LARGEST_KW = 30
"""A home's power in kW is below this value; in W, some of a day's values exceed it."""
_REGISTER_ROWS = 100
"""Among this many readings of power, at least one is smaller than the reading before it."""
_APPARENT = ("EcoManagerWholeHouseTx", "CurrentCostTx")
"""The sensors of UK-DALE that clamp onto a wire and do not measure the voltage."""


def load(
    path: Path | str,
    *,
    watts: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    where: str | None = None,
    csv: dict[str, Any] | None = None,
) -> Trace:
    """Read the column `watts` of a file or of a house of UK-DALE.

    `unit` (W or kW) is necessary for a plug of UK-DALE without metadata, and for a column whose name states
    no unit and whose values could be in either unit. By default, `watts` is the home's total in a data set
    and the second column of any other file. By default, `time` is the first column; it is not used for a data
    set. `where` chooses a home of a table of several, such as `dataid=661`. `csv` holds keys of the table
    [archive.csv] of `sanitise`, such as `{"layout": "smart-star-homes"}`. Raises TraceError if the file
    cannot be read, if there is no such column, or if the column is not power in that unit.
    """
    path = Path(path)
    if unit is not None and unit not in FACTORS:
        raise TraceError(f"unit {unit} is none of {', '.join(FACTORS)}")
    if csv is None and (path.is_dir() or path.suffix == ".dat"):
        return _ukdale(path, watts, unit)
    with traces.opened(path, csv) as columns:
        if csv is None and set(columns.names) >= _REFIT:
            return _refit(columns, watts or "Aggregate", unit, where)
        trace, name = traces.read(columns, time, watts, where), watts or str(columns.usual[1])
        scale = FACTORS[_power_unit(name, unit or columns.unit, trace, columns.names)]
    return trace if scale == 1 else replace(trace, watts=trace.watts * scale)


# Any table ----------------------------------------------------------------------------------------


def unit_in(name: str) -> str | None:
    """Return the unit that a column's name states, such as kW in `load_kW` or `Load [kW]`.

    Return None if the name states no unit. A single letter is a unit only if the name has other words.
    """
    words = re.findall(r"[A-Za-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    units = [_UNIT_OF.get(word.lower()) for word in words if len(word) > 1 or len(words) > 1]
    compound = _UNIT_OF.get("".join(words[-2:]).lower()) if len(words) > 1 else None
    return compound or next((unit for unit in reversed(units) if unit), None)


def _power_unit(name: str, unit: str | None, trace: Trace, names: list[str]) -> str:
    """Return W or kW. Raises TraceError if the column is something else, or if its unit is unknown."""
    choices = f"there are: {', '.join(names)}"
    named = unit_in(name)
    if named is not None and named not in FACTORS:
        raise TraceError(f"column {name} holds {named}, not watts; {choices}")
    if None not in (named, unit) and named != unit:
        raise TraceError(f"column {name} holds {named}, not {unit}; {choices}")
    if named or unit:
        return named or unit or ""
    if _AMBIGUOUS & set(re.findall("[a-z]+", name.lower())):
        problem = "may hold power or energy: state its unit if it is power (--unit of replay)"
        raise TraceError(f"column {name} {problem}; {choices}")
    change = np.diff(trace.watts)
    if len(trace) >= _REGISTER_ROWS and change.min() >= 0 and change.max() > 0:
        raise TraceError(
            f"column {name} never falls, as a register of energy does, and is not power; {choices}"
        )
    is_whole = bool((trace.watts == np.rint(trace.watts)).all())
    if float(np.abs(trace.watts).max()) <= _LARGEST_KW and not is_whole:
        raise TraceError(f"column {name} may hold W or kW: state its unit (--unit of replay); {choices}")
    return "W"


# REFIT --------------------------------------------------------------------------------------------


def _refit(columns: Columns, column: str, unit: str | None, where: str | None) -> Trace:
    names = [name for name in columns.names if _REFIT_WATTS.fullmatch(name)]
    if column not in names:
        raise TraceError(f"REFIT has no watts in a column {column}; there are: {', '.join(names)}")
    _check_watts(column, unit)
    return traces.read(columns, "Unix", column, where)


def _check_watts(name: str, unit: str | None) -> None:
    if unit not in (None, "W"):
        raise TraceError(f"{name} holds W, not {unit}")


# UK-DALE ------------------------------------------------------------------------------------------


def _ukdale(path: Path, name: str | None, unit: str | None) -> Trace:
    folder = path if path.is_dir() else path.parent
    files = _channels(folder)
    if path.is_dir():
        if name is None and {"mains", "mains_2"} <= files.keys():
            raise TraceError(
                f"{folder} has two mains, which are parts of its load: name one of {', '.join(files)}"
            )
        name = name or "mains"
    elif name is None:
        name = next((label for label, file in files.items() if file == path.name), path.stem)
    if name not in files:
        raise TraceError(f"{folder} has no channel {name}; there are: {', '.join(files) or 'none'}")
    choices = f"there are: {', '.join(files)}"
    measured = _measured_unit(folder, files[name], name)
    if measured == "VA":
        raise TraceError(f"channel {name} holds VA (apparent power), not watts; {choices}")
    if measured is None and unit is None:
        raise TraceError(
            f"channel {name}: without metadata/building*.yaml next to {folder.name} its unit is unknown: "
            f"state it (--unit of replay); {choices}"
        )
    _check_watts(f"channel {name}", unit)
    with traces.opened(folder / files[name], {"layout": "redd"}) as columns:
        return traces.read(columns)


def _channels(folder: Path) -> dict[str, str]:
    """Return the file of each channel of a house, by label; a repeated label gets the channel's number."""
    files = {"mains": "mains.dat"} if (folder / "mains.dat").exists() else {}
    try:
        lines = (folder / "labels.dat").read_text("utf-8").splitlines()
    except OSError as error:
        raise TraceError(f"{folder} is not a house of UK-DALE: {error.strerror}: labels.dat") from None
    for number, label in (line.split(maxsplit=1) for line in lines if line.strip()):
        files[f"{label}_{number}" if label in files else label] = f"channel_{number}.dat"
    return files


def _measured_unit(folder: Path, file: str, label: str) -> str | None:
    """Return W or VA, or None if the unit is unknown.

    `mains.dat` holds W. The metadata describe the other channels; without them, an aggregate is VA.
    """
    if file == "mains.dat":
        return "W"  # its columns are Unix time, W, VA and V
    metadata = folder.parent / "metadata" / f"building{folder.name.removeprefix('house_')}.yaml"
    text = metadata.read_text("utf-8") if metadata.exists() else ""
    pattern = rf"data_location: {re.escape(f'{folder.name}/{file}')}\s+device_model: (\w+)"
    model = re.search(pattern, text)
    if model is None:
        return "VA" if label == "aggregate" else None
    return "VA" if model[1] in _APPARENT else "W"
