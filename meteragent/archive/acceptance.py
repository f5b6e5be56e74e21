"""Which inputs are accepted: the rules that every engine applies before a run enters the ledger.

meter    text, also dictionary-encoded, or integers, which are read as their digits
time     timestamps in s, ms, us or ns with any time zone, rounded down to ms; 96-bit times, which are UTC
value    integers, floats, decimals of at most 38 digits, or lists of one of these
columns  any names: dots and brackets have no special meaning, and case matters; each name occurs once
files    all wide or all long; their types may differ, and other columns are ignored
folders  `*.parquet` at any depth, or the files that a table's snapshot lists (`snapshot`)

Meters' names and times are checked row by row (`layout.meters`, `number.to_milliseconds`); numbers are
converted by `number.to_millionths`. All engines read files with `source.Source`, and so in the same way.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import pyarrow as pa

from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.domain.units import Kind

Layout = Literal["wide", "long"]

DECIMAL_DIGITS = 38


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds strings."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds integers, floats, or decimals of at most 38 digits."""
    is_decimal = pa.types.is_decimal(kind) and kind.precision <= DECIMAL_DIGITS
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or is_decimal)


_RULES: dict[str, Callable[[pa.DataType], bool]] = {
    "strings (or integers) that name meters": lambda kind: is_text(kind) or pa.types.is_integer(kind),
    "a timestamp with a time zone, such as timestamp[ms, tz=UTC]": lambda kind: bool(
        pa.types.is_timestamp(kind) and kind.tz
    ),
    "numbers, or a list of numbers in each row": lambda kind: (
        is_number(kind) or (is_list(kind) and is_number(kind.value_type))
    ),
}
"""What the columns meter, time and value may contain: a description, and a test of the column's type."""

_TABLES = {
    "Delta": r"(^|/)_delta_log(/|$)",
    "Iceberg": r"(^|/)metadata/[^/]+\.metadata\.json$",
    "Hudi": r"(^|/)\.hoodie(/|$)",
    "DuckLake": r"\.ducklake(\.files)?(/|$)|(^|/)ducklake-[0-9a-f-]{36}\.parquet$",
}
"""For each kind of table, a regular expression for paths that only a table of this kind contains."""
_WAYS = {
    "Delta": "give the table's own folder",
    "Iceberg": "give iceberg://CATALOG/NAMESPACE.TABLE, or the ….metadata.json that its catalog names",
}
_OTHER_WAY = (
    "write its present rows to a Parquet file with a program that reads such tables, and release that"
)
"""What to do to release a table's present rows if `snapshot` cannot read them."""


def layout_of(schema: pa.Schema, policy: Policy) -> Layout:
    """Return a table's layout.

    Raises ArchiveError if a column is missing, double or of the wrong type, or `source.stamp` is not stated.
    """
    for name in policy.columns:
        require_one_column(schema.names, name)
    kinds = [schema.field(name).type for name in policy.columns]
    for name, kind, (expected, accepts) in zip(policy.columns, kinds, _RULES.items(), strict=True):
        if not accepts(kind):
            raise ArchiveError(f"column {name!r}: found {kind}; expected {expected}")
    if is_list(kinds[-1]):
        return "wide"
    source = policy.stream.source
    if source.kind is Kind.INTERVAL_ENERGY and "stamp" not in source.model_fields_set:
        expected = "'end' (never guessed): if a time is its interval's start, add the interval to the column"
        raise ArchiveError(f"source.stamp: found nothing; expected {expected}")
    return "long"


def require_no_table(entries: Iterable[str], path: object) -> None:
    """Raise ArchiveError if one of the paths `entries` shows that the input contains a table or is in one."""
    kinds = (kind for entry in entries for kind, sign in _TABLES.items() if re.search(sign, entry))
    if (kind := next(kinds, None)) is not None:
        problem = "in which rows that were replaced or deleted are still there"
        raise ArchiveError(f"{path}: a {kind} table, {problem}: {_WAYS.get(kind, _OTHER_WAY)}")


def require_one_column(names: Sequence[str], name: str) -> None:
    """Raise ArchiveError unless exactly one of the columns `names` is called `name`."""
    if (count := names.count(name)) != 1:
        problem = "more than one has this name" if count else f"not found among {', '.join(map(repr, names))}"
        raise ArchiveError(f"column {name!r}: {problem}: name the right one under [archive]")
