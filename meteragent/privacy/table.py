"""What has columns of one length, as a table of pandas or Arrow; both are imported only when asked for."""

from collections.abc import Mapping
from typing import Any


class Columns:
    """A class whose `columns()` have one length and can become a table."""

    def columns(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the columns as a pandas.DataFrame; it needs pandas."""
        import pandas  # noqa: PLC0415, ICN001 (optional)

        return pandas.DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return the columns as a pyarrow.Table; it needs pyarrow."""
        import pyarrow  # noqa: PLC0415, ICN001 (optional)

        return pyarrow.table(self.columns())
