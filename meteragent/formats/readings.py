"""Convert entries of any format to a table of readings for `sanitise`: meter, time and value.

As `sanitise` expects, an energy is stamped with the end of its interval, and a mean power with its start.
`source_lines` returns the lines of [source] that describe the values.
"""

from collections.abc import Sequence
from typing import Any

from meteragent.domain.errors import FormatError
from meteragent.domain.grid import format_duration
from meteragent.formats.entry import Entry, to_decimal


def arrow_table(entries: Sequence[Entry]) -> Any:
    """Return entries as an Arrow table, sorted by meter and time.

    Raises FormatError if there are no entries, if one belongs to a band, if their units or interval lengths
    differ, or if `to_decimal` cannot represent a value.
    """
    import pyarrow as pa  # noqa: PLC0415 -- only archives need it

    _require_uniform(entries)
    rows = sorted(entries, key=lambda entry: (entry.meter, entry.start_ms))
    times = [entry.end_ms if entry.is_energy else entry.start_ms for entry in rows]
    return pa.table(
        {
            "meter": pa.array([entry.meter for entry in rows], pa.string()),
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
            "value": pa.array([to_decimal(entry.value) for entry in rows], pa.decimal128(19, 6)),
        }
    )


def source_lines(entries: Sequence[Entry]) -> str:
    """Return the lines of [source] for `sanitise` that state the values' kind, unit, and interval or hold."""
    first = entries[0]
    kind = "interval_energy" if first.is_energy else "power"
    key = "interval" if first.is_energy else "hold"
    length = format_duration(first.end_ms - first.start_ms)
    return f'kind = "{kind}"\nunit = "{first.unit}"\n{key} = "{length}"'


def _require_uniform(entries: Sequence[Entry]) -> None:
    if not entries:
        raise FormatError("there are no values")
    if any(entry.band for entry in entries):
        raise FormatError("values of bands are not readings")
    units = {entry.unit for entry in entries}
    if len(units) > 1:
        raise FormatError(f"values in {' and '.join(sorted(units))}: convert each unit separately")
    if len({entry.end_ms - entry.start_ms for entry in entries}) > 1:
        raise FormatError("the intervals have several lengths: convert each length separately")
