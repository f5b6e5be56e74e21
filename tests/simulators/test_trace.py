"""Load traces are read as they are: order, gaps, units, and what is no trace."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from simulators.traces.trace import Trace, TraceError, load, write

START_MS = 1_400_000_400_000


def parquet_file(tmp_path: Path, columns: dict[str, pa.Array], day: str | None = None) -> Path:
    """A small Parquet file, with the metadata key `day` of tracebase if there is one."""
    table = pa.table(columns)
    path = tmp_path / "trace.parquet"
    parquet.write_table(table.replace_schema_metadata({"day": day} if day else None), path)
    return path


def csv_file(tmp_path: Path, text: str) -> Path:
    """A small CSV file."""
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_homes(tmp_path: Path) -> None:
    """A home's file gives its first two columns: times without a zone are UTC, watts are as they stand."""
    times = [datetime(2014, 5, 1, 0, minute, tzinfo=UTC).replace(tzinfo=None) for minute in range(3)]
    watts = pa.array([161.7, 161.4, 159.4], pa.float32())
    columns = {"Time": pa.array(times, pa.timestamp("us")), "Aggregate": watts, "Kettle": watts}
    trace = load(parquet_file(tmp_path, columns))
    assert trace.times_ms.tolist() == [1398902400000, 1398902460000, 1398902520000]
    assert trace.watts.tolist() == [float(np.float32(value)) for value in (161.7, 161.4, 159.4)]
    assert trace.step_ms == 60_000


def test_tracebase(tmp_path: Path) -> None:
    """A tracebase file counts seconds from midnight (UTC) of the day in its metadata; watts stay integers."""
    columns = {"second": pa.array([1, 3, 86_399], pa.int32()), "watts": pa.array([132, 139, 7], pa.int32())}
    trace = load(parquet_file(tmp_path, columns, day="2012-01-22"))
    midnight_ms = 1_327_190_400_000
    assert trace.times_ms.tolist() == [midnight_ms + second * 1000 for second in (1, 3, 86_399)]
    assert repr(trace.watts.tolist()) == "[132, 139, 7]"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamp_units(tmp_path: Path, unit: str, zone: str | None) -> None:
    """The unit of a timestamp column and its zone change nothing: the instant counts."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = pa.array([1_400_000_400 * per_second, 1_400_000_401 * per_second]).cast(pa.timestamp(unit, zone))
    trace = load(parquet_file(tmp_path, {"t": ticks, "w": pa.array([1, 2])}))
    assert trace.times_ms.tolist() == [START_MS, START_MS + 1000]


def test_csv(tmp_path: Path) -> None:
    """A CSV file may write times as RFC 3339 or as Unix seconds with decimals."""
    written = load(csv_file(tmp_path, "time,watts\n2014-05-13T17:00:00Z,1.5\n2014-05-13T17:00:01Z,2\n"))
    seconds = load(csv_file(tmp_path, "time,watts\n1400000400,1.5\n1400000401.25,2\n"))
    assert written.times_ms.tolist() == [START_MS, START_MS + 1000]
    assert seconds.times_ms.tolist() == [START_MS, START_MS + 1250]
    assert written.watts.tolist() == seconds.watts.tolist() == [1.5, 2.0]


REFIT = """Time,Unix,Aggregate,Appliance1,Issues
2013-09-17 22:08:11,1379455691,523,74,0
2013-09-17 22:08:18,1379455698,526,75,0
2013-09-17 22:08:26,1379455706,540,74,0
"""
"""The columns of REFIT's CLEAN_House*.csv."""


def test_clock_times_are_no_watts(tmp_path: Path) -> None:
    """The second column of a REFIT file is the time again: it is refused, and the columns are named."""
    path = csv_file(tmp_path, REFIT)
    with pytest.raises(TraceError, match=r"Unix holds clock times, not watts.*Time, Unix, Aggregate, App"):
        load(path)
    with pytest.raises(TraceError, match="Unix holds clock times"):
        load(path, "Time", "Unix")
    assert load(path, watts="Aggregate").watts.tolist() == [523, 526, 540]


def test_a_power_plant_is_a_meter(tmp_path: Path) -> None:
    """Watts below those of a clock are watts, however many."""
    assert load(csv_file(tmp_path, "t,w\n0,946684799\n1,946684800\n")).watts.tolist() == [
        946684799,
        946684800,
    ]
    with pytest.raises(TraceError, match="clock times"):
        load(csv_file(tmp_path, "t,w\n0,946684800\n1,1379455691000\n"))


def test_missing_values(tmp_path: Path) -> None:
    """A row without a time, without watts, or with watts that are not finite is left out."""
    columns = {
        "t": pa.array([1, 2, 3, None, 5, 6]),
        "w": pa.array([10.0, float("nan"), None, 40.0, float("inf"), 60.0]),
    }
    trace = load(parquet_file(tmp_path, columns))
    assert trace.times_ms.tolist() == [1000, 6000]
    assert trace.watts.tolist() == [10.0, 60.0]


def test_times_that_are_not_finite(tmp_path: Path) -> None:
    """A row whose time in seconds is no number is left out, as one without a time."""
    columns = {"t": pa.array([1.5, float("nan"), float("inf"), 4.0]), "w": pa.array([10, 20, 30, 40])}
    trace = load(parquet_file(tmp_path, columns))
    assert trace.times_ms.tolist() == [1500, 4000]
    assert trace.watts.tolist() == [10, 40]


def test_missing_integers(tmp_path: Path) -> None:
    """A hole in a column of integers does not turn the others into decimals."""
    trace = load(parquet_file(tmp_path, {"t": pa.array([1, 2, 3]), "w": pa.array([10, None, 30])}))
    assert repr(trace.watts.tolist()) == "[10, 30]"


def test_order(tmp_path: Path) -> None:
    """Rows are put in order of time, and of several at the same time the first one stays."""
    columns = {"t": pa.array([3, 1, 2, 1]), "w": pa.array([30, 10, 20, 11])}
    trace = load(parquet_file(tmp_path, columns))
    assert trace.times_ms.tolist() == [1000, 2000, 3000]
    assert trace.watts.tolist() == [10, 20, 30]


def test_columns(tmp_path: Path) -> None:
    """The columns can be named."""
    path = csv_file(tmp_path, "id,watts,when\n7,10,1\n8,20,2\n")
    trace = load(path, "when", "watts")
    assert (trace.times_ms.tolist(), trace.watts.tolist()) == ([1000, 2000], [10, 20])


def test_end() -> None:
    """An ended trace has one more reading, a nominal step after the last, that repeats its value."""
    trace = Trace(np.array([0, 60_000, 120_000, 600_000]), np.array([1, 2, 3, 4]))
    assert trace.ended().times_ms.tolist() == [0, 60_000, 120_000, 600_000, 660_000]
    assert trace.ended().watts.tolist() == [1, 2, 3, 4, 4]


def test_limit() -> None:
    """A limit keeps the readings less than that after the first one."""
    trace = Trace(np.array([5000, 6000, 7000, 8000]), np.array([1, 2, 3, 4]))
    assert trace.limited(2000).watts.tolist() == [1, 2]
    assert trace.limited(2001).watts.tolist() == [1, 2, 3]


def test_start() -> None:
    """Another start moves every reading alike."""
    trace = Trace(np.array([5000, 6000, 9000]), np.array([1, 2, 3]))
    assert trace.starting(START_MS).times_ms.tolist() == [START_MS, START_MS + 1000, START_MS + 4000]


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(-(10**12), 10**12),
)
def test_laps(gaps_ms: list[int], loops: int, start_ms: int) -> None:
    """The laps of an ended trace follow without a gap or an overlap: its gaps and its step, again."""
    trace = Trace(np.cumsum([start_ms, *gaps_ms]), np.arange(len(gaps_ms) + 1))
    laps = list(trace.ended().laps(loops))
    times_ms = [time_ms for lap in laps for time_ms in lap.times_ms.tolist()]
    watts = [value for lap in laps for value in lap.watts.tolist()]
    assert times_ms[0] == start_ms
    assert [later - one for one, later in pairwise(times_ms)] == [*gaps_ms, trace.step_ms] * loops
    assert watts == trace.watts.tolist() * loops + [len(gaps_ms)]


def test_endless() -> None:
    """No laps given is laps for ever, and a lap after thousands is on the same grid to the millisecond."""
    ended = Trace(np.array([START_MS, START_MS + 7]), np.array([1, 2])).ended()
    assert [lap.times_ms[0] - START_MS for lap in islice(ended.laps(0), 5)] == [0, 14, 28, 42, 56]
    assert all(lap.watts.tolist() == [1, 2] for lap in islice(ended.laps(0), 5))
    far = next(islice(ended.laps(0), 100_000, None))
    assert far.times_ms.tolist() == [START_MS + 1_400_000, START_MS + 1_400_007]


@pytest.mark.parametrize("name", ["new/out.csv", "new/out.parquet"])
@pytest.mark.parametrize("watts", [[1.5, 0.1 + 0.2, -1e-7], [3, 4, 2**40]])
def test_written(name: str, watts: list[float], tmp_path: Path) -> None:
    """A written trace is read again as it was, every digit and millisecond, as often as asked."""
    trace = Trace(np.array([START_MS + 5, START_MS + 1000, START_MS + 2001]), np.array(watts))
    told: list[int] = []
    assert write(trace.ended(), tmp_path / name, 22_000, told.append) == sum(told) == 66_000
    assert len(told) > 1
    again = load(tmp_path / name)
    period_ms = 2001 - 5 + trace.step_ms
    assert again.watts.dtype == trace.watts.dtype
    assert again.watts.tolist() == watts * 22_000
    assert again.times_ms.tolist() == [
        time_ms + lap * period_ms for lap in range(22_000) for time_ms in trace.times_ms.tolist()
    ]


def test_written_once(tmp_path: Path) -> None:
    """A trace written once is the trace; few large row groups hold many small laps."""
    trace = Trace(START_MS + np.arange(10), np.arange(10))
    assert write(trace.ended(), tmp_path / "one.parquet", 1, print) == 10
    assert load(tmp_path / "one.parquet").times_ms.tolist() == trace.times_ms.tolist()
    write(trace.ended(), tmp_path / "many.parquet", 6000, print)
    assert parquet.ParquetFile(tmp_path / "many.parquet").num_row_groups == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the header is no line"),
        ("time\n1\n2\n", "the header is no line"),
        ("time,watts\n1,5\n", "at least two readings; here there are 1"),
        ("time,watts\nmonday,5\ntuesday,6\n", "column time holds no times"),
        ("time,watts\n1,on\n2,off\n", "column .watts.: expected a number"),
    ],
)
def test_no_trace(tmp_path: Path, text: str, why: str) -> None:
    """A file that is not a trace is refused with the reason."""
    with pytest.raises(TraceError, match=why):
        load(csv_file(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there, or not what its name says, is refused."""
    with pytest.raises(TraceError, match=r"nothing\.parquet: no such file$"):
        load(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("time,watts\n")
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path / "text.parquet")


def test_no_column(tmp_path: Path) -> None:
    """A column that is not there is refused with those that are."""
    with pytest.raises(TraceError, match="no column power; there are: time, watts"):
        load(csv_file(tmp_path, "time,watts\n1,5\n2,6\n"), watts="power")
