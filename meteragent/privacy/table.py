"""Conversion of columns to a pandas or Arrow table; either package is imported only when it is needed."""

from collections.abc import Mapping
from typing import Any


class Columns:
    """A base class for objects with `columns()` of equal length, which can be converted to a table."""

    def columns(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the columns as a pandas.DataFrame, with times in UTC; pandas must be installed."""
        import pandas  # noqa: PLC0415, ICN001 (optional)

        frame = pandas.DataFrame(self.columns())
        for name in _times(self.columns()):
            frame[name] = frame[name].dt.tz_localize("UTC")
        return frame

    def to_arrow(self) -> Any:
        """Return the columns as a pyarrow.Table, with times in UTC; pyarrow must be installed."""
        import pyarrow  # noqa: PLC0415, ICN001 (optional)

        columns = dict(self.columns())
        for name in _times(columns):
            times = pyarrow.array(columns[name])
            columns[name] = times.cast(pyarrow.timestamp(times.type.unit, tz="UTC"))
        return pyarrow.table(columns)


def _times(columns: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns that hold numpy's times, which have no zone and are in UTC."""
    kinds = {name: getattr(getattr(column, "dtype", None), "kind", "") for name, column in columns.items()}
    return [name for name, kind in kinds.items() if kind == "M"]
