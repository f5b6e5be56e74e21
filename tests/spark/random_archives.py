"""Random small archives as other systems write them, some of which no engine may release.

An archive is one to three files, wide or long, whose types, zones and units differ from file to file, with
gaps, copies and readings at the same time. About every third has one fault.
"""

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.archives import ENERGY, LOCAL_DAY, SPRING_MS

Random = np.random.Generator

HOUR_MS = 3_600_000
LONG: dict[str, dict[str, str]] = {
    "power": {"source": "hold = '20min'", "window": "length = '30min'"},
    "energy": {"source": ENERGY, "window": "length = '1h'\nstep = '30min'"},
    "local days": {"source": "hold = '1h'", "window": f"{LOCAL_DAY}\nstep = '1h'"},
}
WIDE = {"source": "hold = '1h'", "window": "length = '4h'\nstep = '1h'"}
METERS = [pa.string(), pa.large_string(), pa.dictionary(pa.int16(), pa.string()), pa.int64(), pa.uint32()]
UNITS = ["s", "ms", "us", "ns"]
ZONES = ["UTC", "Europe/Amsterdam", "+05:30", "America/New_York"]
VALUES = [
    *(pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.decimal128(10, 2), pa.decimal128(18, 6), pa.decimal128(38, 10)),
]
NAMES = [("meter", "time", "value"), ("meter.id", "time of day", "value`W"), ("Value", "time", "value")]
FILES = ["a.parquet", "b[1].parquet", "day=2026-03-29 00:00/c {2}*.parquet"]


class Archive(NamedTuple):
    """An input and the sections of its configuration; `fault` is the name of its fault, or None."""

    path: Path
    sections: dict[str, str]
    fault: str | None


def make_archive(folder: Path, seed: int) -> Archive:
    """Write the archive of a seed."""
    random = np.random.default_rng(seed)
    is_wide, names = random.random() < 0.4, NAMES[random.integers(len(NAMES))]
    sections = dict(WIDE if is_wide else list(LONG.values())[random.integers(len(LONG))])
    sections["archive"] = "\n".join(
        f"{key} = '{name}'" for key, name in zip(("meter", "time", "value"), names, strict=True)
    )
    path, fault = folder / f"in {seed}", None
    for number, file in enumerate(FILES[: random.integers(1, 4)]):
        target = path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        table = (_wide if is_wide else _long)(random, number)
        if random.random() < 0.2:
            table = table.append_column("Meter", pa.array(["other"] * table.num_rows))
        is_int96 = table.schema.field("time").type.unit == "ns" and random.random() < 0.5
        pq.write_table(
            table.rename_columns([*names, *table.column_names[3:]]),
            target,
            row_group_size=int(random.integers(3, 40)),
            use_deprecated_int96_timestamps=is_int96,
        )
    if random.random() < 0.4:
        fault = sorted(FAULTS)[random.integers(len(FAULTS))]
        FAULTS[fault](path / FILES[0], names)
    return Archive(path, sections, fault)


def _long(random: Random, _number: int) -> pa.Table:
    """Return readings of some meters, of which some are missing, doubled or at the same time."""
    count = int(random.integers(1, 40))
    times = SPRING_MS + random.integers(-40, 40, count) * HOUR_MS + random.integers(0, 60, count) * 60_000
    meters = random.integers(0, 5, count)
    rows = random.permutation(np.append(np.arange(count), random.integers(0, count, count // 4)))
    values = [_value(random) for _ in rows]
    return _table(random, meters[rows], times[rows], values, VALUES[random.integers(len(VALUES))])


def _wide(random: Random, number: int) -> pa.Table:
    """Return windows of four hours, each once, some without a list or with twice as many numbers."""
    places = random.choice(60, int(random.integers(1, 20)), replace=False)
    start = SPRING_MS - SPRING_MS % (4 * HOUR_MS)
    times, meters = start + places // 5 * 4 * HOUR_MS, places % 5 + 5 * number
    values: list[Any] = [[_value(random) for _ in range(4 * random.integers(1, 3))] for _ in places]
    if random.random() < 0.5:
        values[0] = None
    kind = pa.list_(VALUES[random.integers(len(VALUES))])
    return _table(random, meters, times, values, kind)


def _value(random: Random) -> int | None:
    """Return a number that every type of values holds."""
    return (
        None
        if random.random() < 0.1
        else int(random.integers(0, 25_000 if random.random() < 0.05 else 4_000))
    )


def _table(random: Random, meters: Any, times_ms: Any, values: list[Any], kind: pa.DataType) -> pa.Table:
    """Return columns of random types."""
    meter = METERS[random.integers(len(METERS))]
    unit, zone = (choices[random.integers(len(choices))] for choices in (UNITS, ZONES))
    is_wide = pa.types.is_list(kind)
    number = _number_maker(random, kind.value_type if is_wide else kind)
    column = [item and list(map(number, item)) for item in values] if is_wide else list(map(number, values))
    names = pa.array([str(meter) for meter in meters])
    if pa.types.is_dictionary(meter):
        names = names.dictionary_encode()
    times = pa.array(times_ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, zone), safe=False)
    return pa.table({"meter": names.cast(meter), "time": times, "value": pa.array(column, kind)})


def _number_maker(random: Random, kind: pa.DataType) -> Callable[[int | None], Any]:
    """Return a function that converts numbers to a type, and gaps to null or NaN."""
    if pa.types.is_decimal(kind):
        return lambda number: None if number is None else Decimal(number)
    gap = np.nan if pa.types.is_floating(kind) and random.random() < 0.5 else None
    return lambda number: gap if number is None else number


Names = tuple[str, str, str]


def _read(path: Path, names: Names) -> pa.Table:
    """Return a file's rows; 96-bit times get their zone."""
    table = pq.ParquetFile(path).read()
    time = table.column(names[1])
    if time.type.tz is not None:
        return table
    return table.set_column(
        table.column_names.index(names[1]), names[1], time.cast(pa.timestamp("ns", "UTC"))
    )


def _replace(path: Path, names: Names, place: int, change: Callable[[pa.ChunkedArray], Any]) -> None:
    """Replace a column of a file."""
    table = _read(path, names)
    pq.write_table(table.set_column(place, names[place], change(table.column(place))), path)


def _set_first(column: pa.ChunkedArray, value: Any, kind: pa.DataType = None) -> pa.Array:
    """Return a column with another first entry."""
    return pa.array([value, *column.to_pylist()[1:]], kind or column.type)


def _add_twice(path: Path, names: Names) -> None:
    """Add the column of values once more."""
    table = _read(path, names)
    pq.write_table(table.append_column(names[2], table.column(names[2])), path)


def _add_other_layout(path: Path, names: Names) -> None:
    """Add a file of the other layout."""
    other = path.parent / "z.parquet"
    shutil.copy(path, other)
    is_wide = pa.types.is_list(_read(path, names).column(2).type)
    _replace(other, names, 2, lambda column: pa.array([1 if is_wide else [1]] * len(column)))


def _enlarge(path: Path, names: Names) -> None:
    """Put all numbers out of the range."""
    number: Any = [10**9] * 4 if pa.types.is_list(_read(path, names).column(2).type) else 10**9
    for file in path.parent.rglob("*.parquet"):
        _replace(file, names, 2, lambda column: pa.array([number] * len(column)))


def _damage(path: Path, _names: Names) -> None:
    """Overwrite the beginning of the first page."""
    content = bytearray(path.read_bytes())
    content[4:24] = bytes(20)
    path.write_bytes(content)


def _mark_table(path: Path, _names: Names) -> None:
    """Add a log of a Delta table."""
    (path.parent / "_delta_log").mkdir()
    (path.parent / "_delta_log" / "00000000000000000000.json").write_text("{}")


def _empty(path: Path, names: Names) -> None:
    """Leave the first file alone, without rows."""
    for folder in path.parent.glob("day=*"):
        shutil.rmtree(folder)
    for file in path.parent.glob("b*"):
        file.unlink()
    pq.write_table(_read(path, names).slice(0, 0), path)


FAULTS: dict[str, Callable[[Path, Names], object]] = {
    "times without a zone": lambda path, names: _replace(
        path, names, 1, lambda column: column.cast(pa.timestamp("ms"), safe=False)
    ),
    "times as text": lambda path, names: _replace(path, names, 1, lambda column: column.cast(pa.string())),
    "values as text": lambda path, names: _replace(
        path, names, 2, lambda column: pa.array(["1"] * len(column))
    ),
    "true and false": lambda path, names: _replace(
        path, names, 2, lambda column: pa.array([True] * len(column))
    ),
    "long decimals": lambda path, names: _replace(
        path, names, 2, lambda column: pa.array([Decimal(1)] * len(column), pa.decimal256(50, 3))
    ),
    "other layout": _add_other_layout,
    "no column": lambda path, names: pq.write_table(_read(path, names).drop([names[2]]), path),
    "a column twice": _add_twice,
    "no name": lambda path, names: _replace(
        path, names, 0, lambda column: _set_first(column.cast(pa.string()), None)
    ),
    "an empty name": lambda path, names: _replace(
        path, names, 0, lambda column: _set_first(column.cast(pa.string()), "")
    ),
    "a name with a line's end": lambda path, names: _replace(
        path, names, 0, lambda column: _set_first(column.cast(pa.string()), "a\nb")
    ),
    "no time": lambda path, names: _replace(path, names, 1, lambda column: _set_first(column, None)),
    "a time in 2150": lambda path, names: _replace(
        path,
        names,
        1,
        lambda column: _set_first(
            column.cast(pa.timestamp("ms", "UTC"), safe=False), 5_700_000_000_000, pa.timestamp("ms", "UTC")
        ),
    ),
    "watts in milliwatts": _enlarge,
    "half a file": lambda path, names: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a damaged page": _damage,
    "a table": _mark_table,
    "no rows": _empty,
    "windows twice": lambda path, names: shutil.copy(path, path.parent / "copy.parquet"),
}
"""What is wrong with an archive; copies of a window are a fault of the wide layout alone."""
