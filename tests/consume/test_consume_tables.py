"""What has columns becomes a table of pandas or Arrow; neither is imported before it is asked for."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa

from meteragent.consume import Cells, Nested, Series
from meteragent.privacy.conformance import Check, Report
from meteragent.privacy.table import Columns
from simulators.adversary.measure import AttackResult, Outcome


class Pair(Columns):
    """Two columns."""

    def columns(self) -> dict[str, list[object]]:
        """Return a number and a text in each row."""
        return {"number": [1, 2], "text": ["a", "b"]}


def test_columns_become_tables() -> None:
    """Both tables have the columns, in order, with their values and types."""
    frame, table = Pair().to_pandas(), Pair().to_arrow()
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(table, pa.Table)
    assert frame.to_dict("list") == table.to_pydict() == Pair().columns()
    assert list(frame.dtypes.astype(str)) == ["int64", "object"]


class Times(Columns):
    """A column of times, as `Series` and `Cells` have it."""

    def columns(self) -> dict[str, object]:
        """Return two times in UTC, as numpy holds them, and numbers."""
        return {"time": np.array([0, 1_736_121_600_000]).astype("datetime64[ms]"), "value": np.array([1, 2])}


def test_times_are_in_utc() -> None:
    """Times have the zone UTC in both tables, as in an archive, so that the two can be joined."""
    frame, table = Times().to_pandas(), Times().to_arrow()
    assert table.schema.field("time").type == pa.timestamp("ms", tz="UTC")
    assert str(frame["time"].dt.tz) == "UTC"
    expected = pd.Timestamp("2025-01-06T00:00:00Z")
    assert frame["time"][1] == table.to_pandas()["time"][1] == expected
    assert frame["value"].tolist() == [1, 2]


def test_what_users_analyse_has_tables() -> None:
    """The receiver's series, nested numbers and cells, a conformance report and an attack have them."""
    assert all(issubclass(kind, Columns) for kind in (Series, Nested, Cells, Report, Outcome))


def test_a_report_is_a_table_of_checks() -> None:
    """A row is a check with its verdict and its finding."""
    report = Report("mine", 10, 1e-6, (Check("loss", True, "exact", {}), Check("law", False, "p = 0", {})))
    assert report.to_arrow().to_pylist() == [
        {"name": "loss", "passed": True, "finding": "exact"},
        {"name": "law", "passed": False, "finding": "p = 0"},
    ]


def test_an_attack_is_a_table_of_attackers() -> None:
    """A row is an attacker with its figures and those of the mechanism, so outcomes can be concatenated."""
    results = AttackResult("edges", 0.2, 0.1, 0.3), AttackResult("bayes", 0.9, 0.8, 1.0, 0.95)
    outcome = Outcome("linf", "1/40", 12.5, 100, results, 0.4, None, None, is_broken=True)
    frame = outcome.to_pandas()
    assert frame["attacker"].tolist() == ["edges", "bayes"]
    assert frame["mechanism"].tolist() == ["linf", "linf"]
    assert frame[["error_w", "bound", "rate"]].to_numpy().tolist() == [[12.5, 0.4, 0.2], [12.5, 0.4, 0.9]]
    assert np.isnan(frame["auc"][0])


def test_nothing_is_imported_before() -> None:
    """The receiving side loads neither pandas nor pyarrow until a table is asked for."""
    code = "import sys, meteragent.consume; print({'pandas', 'pyarrow'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
