"""Conversion of columns to a pandas or Arrow table; either package is imported only when it is needed."""

from collections.abc import Mapping
from typing import Any


class Columns:
    """A base class for objects with `columns()` of equal length, which can be converted to a table."""

    def columns(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the columns as a pandas.DataFrame; pandas must be installed."""
        import pandas  # noqa: PLC0415, ICN001 (optional)

        return pandas.DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return the columns as a pyarrow.Table; pyarrow must be installed."""
        import pyarrow  # noqa: PLC0415, ICN001 (optional)

        return pyarrow.table(self.columns())
