"""The two forms of an archive: wide (a row is a window, a list of numbers) and long (a row is a reading).

Wide: `time` is the window's start. Its m numbers are m equal parts of the window, in order; usually its
slots. Slots of several parts are their exact means, or the sums of energies (of which m = length / interval).
A null in the list is a gap; a null list is a window of gaps.

Long: a window is released if the span of a reading begins in it, whether the reading has a value or not; it
is given every reading whose span may touch it.

Which form it is follows from the type of the column of values.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meteragent.archive.kernel import TIME, WINDOWS
from meteragent.archive.kernel import milliseconds as ms_of
from meteragent.archive.number import Flags, is_number, micro, milliseconds, whole_quanta
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.slots import Ragged, Spans, filled, windows
from meteragent.domain.errors import ArchiveError
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up

Form = Literal["wide", "long"]


@dataclass(slots=True)
class Counts:
    """What was found in the input: local, never beside a release, since it tells of readings.

    `numbers` there are, `gap` of them missing or not finite, `clamped` outside the range.
    """

    numbers: int = 0
    gap: int = 0
    clamped: int = 0

    def add(self, other: "Counts") -> None:
        """Count what another has counted."""
        self.numbers += other.numbers
        self.gap += other.gap
        self.clamped += other.clamped


def form(schema: pa.Schema, policy: Policy) -> Form:
    """Which form a table has.

    Raises ArchiveError that names the column which is not what it must be.
    """
    meter, time, value = (_column(schema, name) for name in policy.columns)
    if not (is_text(meter) or pa.types.is_integer(meter)):
        raise _wrong(policy.columns.meter, meter, "texts (or integers) that name meters")
    if not pa.types.is_timestamp(time) or time.tz is None:
        raise _wrong(policy.columns.time, time, "a timestamp with a time zone, such as timestamp[ms, tz=UTC]")
    if is_list(value) and is_number(value.value_type):
        return "wide"
    if is_number(value):
        return "long"
    raise _wrong(policy.columns.value, value, "numbers, or in each row a list of numbers")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def meters(column: pa.Array, policy: Policy) -> pa.Array:
    """A column of meters' names as texts.

    Raises ArchiveError when one is missing, empty or no text.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = column.cast(pa.string())
    if not _is_utf8(found):
        raise ArchiveError(f"column {policy.columns.meter!r}: names that are no text (UTF-8)")
    empty = int(np.count_nonzero(pc.binary_length(found).fill_null(0).to_numpy(zero_copy_only=False) == 0))
    if empty:
        raise ArchiveError(f"column {policy.columns.meter!r}: {empty} rows name no meter")
    return found


def _is_utf8(texts: pa.Array) -> bool:
    """Whether texts are what a file says of them; Arrow does not look."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def wide(batch: pa.RecordBatch, policy: Policy) -> tuple[pa.RecordBatch, Counts]:
    """Rows of the wide form as WINDOWS, in the same order.

    Raises ArchiveError for rows that are not on the grid, or have numbers that do not fit their window.
    """
    names = policy.columns
    column = batch.column(names.value)
    starts = milliseconds(batch.column(names.time), names.time)
    fits, lengths = fit(starts, column, policy)
    if not fits.all():
        raise ArchiveError(
            f"{int((~fits).sum())} of {len(fits)} rows are not on the grid, or have numbers that do not fit"
        )
    ragged, counts = _numbers(column.flatten(), starts, lengths, policy)
    return as_windows(meters(batch.column(names.meter), policy), starts, ragged), counts


def _numbers(
    column: pa.Array, starts_ms: Integers, lengths: Integers, policy: Policy
) -> tuple[Ragged, Counts]:
    """The slots of windows whose equal parts are given, and what was found."""
    are_slots = _are_slots(starts_ms, lengths, policy)
    if are_slots and (quanta := whole_quanta(column, policy)) is not None:
        return Ragged(lengths, quanta), Counts(quanta.size)
    found = micro(column, policy)
    values_u, quantum_u = found.values_u, policy.usual.quantum_u
    if not found.valid.all():
        values_u = np.where(found.valid, values_u, policy.usual.gap_u)
    counts = Counts(int(found.valid.size), int((~found.valid).sum()), found.clamped)
    if are_slots:
        return Ragged(lengths, round_half_up(values_u, quantum_u)), counts
    return _slots(starts_ms, lengths, values_u, policy), counts


def gathered(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """WINDOWS from `meter`, `start` and `readings`, a list of (time, value) in each row, in any order.

    A row holds every reading that may touch its window; one in which none begins is left out. For engines
    that gather by themselves.

    Raises ArchiveError for a column that is not what it must be.
    """
    starts = milliseconds(batch.column("start"), "start")
    column = batch.column("readings")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    each = column.flatten()
    times = milliseconds(each.field(0), policy.columns.time)
    found = micro(each.field(1), policy)
    window = np.repeat(np.arange(starts.size), lengths)
    own = policy.starts(times - policy.lead_ms) == starts[window]
    opened = np.bincount(window[own], minlength=starts.size) > 0
    kept = found.valid & opened[window]
    counts = np.bincount(window[kept], minlength=starts.size)[opened]
    slots = windows(starts[opened], counts, times[kept], found.values_u[kept], policy)
    names = meters(batch.column("meter"), policy).filter(pa.array(opened))
    return as_windows(names, starts[opened], slots)


def as_windows(names: pa.Array, starts_ms: Integers, slots: Ragged) -> pa.RecordBatch:
    """A batch of WINDOWS."""
    offsets = np.zeros(starts_ms.size + 1, np.int32)
    np.cumsum(slots.lengths, out=offsets[1:])
    quanta = pa.ListArray.from_arrays(pa.array(offsets), pa.array(slots.numbers))
    return pa.record_batch([names, pa.array(starts_ms).cast(TIME), quanta], schema=WINDOWS)


def long_releases(schema: pa.Schema, policy: Policy) -> pa.Schema:
    """The schema of releases of which a row is a slot: `start`, `end` and `value` are the slot's.

    Of the bands of a mean day `start` and `end` are the window's, and `band` is its name.
    """
    fields = [one for one in schema if one.name != "values"]
    fields.insert(3, pa.field("value", schema.field("values").type.value_type))
    if policy.usual.bands:
        fields.insert(3, pa.field("band", pa.string()))
    return pa.schema(fields)


def by_slots(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """Releases with a row for each slot, in the same order."""
    column, schema = batch.column("values"), long_releases(batch.schema, policy)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    row = np.repeat(np.arange(batch.num_rows), lengths)
    place = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    flat = {name: batch.column(name).take(pa.array(row)) for name in ("meter", "start", "end", "d", "key")}
    flat["value"] = column.flatten()
    if policy.usual.bands:
        flat["band"] = _bands(ms_of(batch.column("start")), policy)
    else:
        window_ms = ms_of(flat["start"])
        step_ms = (ms_of(flat["end"]) - window_ms) // lengths[row]
        flat["start"] = pa.array(window_ms + place * step_ms).cast(TIME)
        flat["end"] = pa.array(window_ms + (place + 1) * step_ms).cast(TIME)
    return pa.record_batch([flat[name] for name in schema.names], schema=schema)


def _bands(starts_ms: Integers, policy: Policy) -> pa.Array:
    """The names of the bands of windows, end to end."""
    places, terms = policy.terms(starts_ms)
    names = [[band.name for band in one.bands] for one in terms]
    return pa.array([name for place in places.tolist() for name in names[place]], pa.string())


def fit(starts_ms: Integers, column: pa.Array, policy: Policy) -> tuple[Flags, Integers]:
    """Which rows are on the grid and have numbers that fit their window; and how many each has."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    on_grid = policy.starts(starts_ms) == starts_ms
    places, terms = policy.terms(starts_ms)
    allowed = np.zeros(starts_ms.size, np.bool_)
    for place, one in enumerate(terms):
        for length in _different(lengths[places == place]):
            if _divides(length, one):
                allowed |= (places == place) & (lengths == length)
    return on_grid & (allowed | missing), lengths


def _different(lengths: Integers) -> list[int]:
    """The lengths there are; mostly there is one."""
    same = lengths.size and (lengths == lengths[0]).all()
    found: list[int] = (lengths[:1] if same else np.unique(lengths)).tolist()
    return found


def _divides(count: int, terms: Terms) -> bool:
    """Whether so many numbers are equal parts of a window, and of an energy its intervals."""
    if not count or terms.length_ms % count:
        return False
    if terms.kind is Kind.INTERVAL_ENERGY:
        return count * terms.interval_ms == terms.length_ms
    return bool(terms.bands) or count % terms.n == 0


def _are_slots(starts_ms: Integers, lengths: Integers, policy: Policy) -> bool:
    """Whether the equal parts that are given of windows are their slots."""
    usual, (places, terms) = policy.usual, policy.terms(starts_ms)
    counts = np.array([one.n for one in terms], np.int64)[places]
    parts_are_slots = usual.kind is Kind.POWER or usual.step_ms == usual.interval_ms
    return parts_are_slots and not usual.bands and np.array_equal(lengths, counts)


def _slots(starts_ms: Integers, lengths: Integers, values_u: Integers, policy: Policy) -> Ragged:
    """The slots of windows whose equal parts are given."""
    window = np.repeat(np.arange(starts_ms.size), lengths)
    part_ms = ((policy.ends(starts_ms) - starts_ms) // np.maximum(lengths, 1))[window]
    begin = (np.arange(window.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)) * part_ms
    return filled(starts_ms, Spans(window, begin, begin + part_ms, values_u), policy)


def _column(schema: pa.Schema, name: str) -> pa.DataType:
    if (count := schema.names.count(name)) != 1:
        found = "it is there twice" if count else f"there is none, but {', '.join(map(repr, schema.names))}"
        raise ArchiveError(f"column {name!r}: {found}; name it under [archive]")
    return schema.field(name).type


def _wrong(name: str, found: pa.DataType, expected: str) -> ArchiveError:
    return ArchiveError(f"column {name!r}: found {found}; expected {expected}")
