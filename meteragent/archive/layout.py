"""The two layouts of an archive: wide (a row is a window's list of numbers) and long (a row is a reading).

In the wide layout, `time` is the window's start. A row's m numbers belong to m equal parts of the window,
usually its slots. A slot's value is the mean of its parts' numbers or, for energies (where m = length /
interval), their sum. A null is a gap. In the long layout, a window is released if the span of a reading
begins in it, whether or not the reading has a value. All readings whose span overlaps the window are used.
The type of the value column determines the layout.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meteragent.archive import number
from meteragent.archive.kernel import TIME, WINDOWS
from meteragent.archive.kernel import to_milliseconds as ms_of
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.readings import Readings, merge_equal_times
from meteragent.archive.slots import Ragged, Spans, fill_slots, integrate
from meteragent.domain.errors import ArchiveError
from meteragent.domain.identity import is_valid_name
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up


def meters(column: pa.Array, policy: Policy) -> pa.Array:
    """Return meters' names as strings. Raises ArchiveError if one is missing, empty or not UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    names = column.cast(pa.string())
    if not _is_utf8(names):
        raise ArchiveError(f"column {policy.columns.meter!r}: some names are not valid UTF-8")
    unnamed_count = int(
        np.count_nonzero(pc.binary_length(names).fill_null(0).to_numpy(zero_copy_only=False) == 0)
    )
    if unnamed_count:
        raise ArchiveError(f"column {policy.columns.meter!r}: rows without a meter name: {unnamed_count}")
    unfit_names = [name for name in pc.unique(names).to_pylist() if not is_valid_name(name)]
    if unfit_names:
        raise ArchiveError(
            f"column {policy.columns.meter!r}: names with control characters, or of more than 128 characters:"
            f" {len(unfit_names)}, such as {unfit_names[0][:20]!r}: rename these meters"
        )
    return names


def _is_utf8(strings: pa.Array) -> bool:
    """Return whether all strings are valid UTF-8, which Arrow does not check when it reads a file."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def read_wide(batch: pa.RecordBatch, policy: Policy) -> tuple[pa.RecordBatch, number.Counts]:
    """Convert wide rows to `WINDOWS`; count numbers. Raises ArchiveError for a wrong window or meter name."""
    names = policy.columns
    column = batch.column(names.value)
    starts = number.to_milliseconds(batch.column(names.time), names.time)
    fits, lengths = row_fits_and_lengths(starts, column, policy)
    if not fits.all():
        raise ArchiveError(
            "rows that do not start on the grid, or do not have the right number of values for their window:"
            f" {int((~fits).sum())} of {len(fits)}"
        )
    ragged, counts = _integrate_numbers(column.flatten(), starts, lengths, policy)
    return windows_batch(meters(batch.column(names.meter), policy), starts, ragged), counts


def _integrate_numbers(
    column: pa.Array, starts_ms: Integers, lengths: Integers, policy: Policy
) -> tuple[Ragged, number.Counts]:
    """Compute the slots of windows from the numbers of their parts, and count the numbers."""
    are_slots, quantum_u = _are_slots(starts_ms, lengths, policy), policy.usual.quantum_u
    if are_slots and (quanta := number.whole_quanta(column, policy)) is not None:
        values = number.Micro(
            quanta * quantum_u, np.ones(quanta.size, np.bool_), np.zeros(quanta.size, np.bool_)
        )
        return Ragged(lengths, quanta), number.Counts.of(values, policy.usual)
    values = number.to_millionths(column, policy)
    values_u = values.values_u
    if not values.valid.all():
        values_u = np.where(values.valid, values_u, policy.usual.readings.gap_u)
    counts = number.Counts.of(values, policy.usual)
    if are_slots:
        return Ragged(lengths, round_half_up(values_u, quantum_u)), counts
    return _integrate_slots(starts_ms, lengths, values_u, policy), counts


def read_grouped(batch: pa.RecordBatch, policy: Policy) -> tuple[pa.RecordBatch, number.Counts]:
    """Convert rows of `meter`, `start` and `readings`, which an engine has grouped, to rows of `WINDOWS`.

    `readings` holds, in any order, pairs (time, packed value) of all readings whose span may overlap the
    window. A row is omitted unless the span of a reading begins in its window, the only window in which the
    reading is counted. Raises ArchiveError if a meter's name or a time is missing or invalid.
    """
    starts = number.to_milliseconds(batch.column("start"), "start")
    column = batch.column("readings")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    readings = column.flatten()
    times = number.to_milliseconds(readings.field(0), policy.columns.time)
    values = number.unpack_values(readings.field(1), policy.usual)
    window = np.repeat(np.arange(starts.size), lengths)

    def open_window(window: Integers, times_ms: Integers) -> number.Flags:
        """Return, for each reading, whether its span begins in its window."""
        return np.asarray(policy.starts(times_ms - policy.lead_ms) == starts[window])

    is_opening = open_window(window, times)
    counts = number.count_own(values, is_opening, policy.usual)
    has_opening = np.bincount(window[is_opening], minlength=starts.size) > 0
    is_usable = values.valid & has_opening[window]
    merged = merge_equal_times(Readings(window, times, values.values_u, values.valid).rows(is_usable))
    names = meters(batch.column("meter"), policy)
    counts.add(merged.counts(names, lambda rows: open_window(rows.meter, rows.time_ms)))
    sizes = np.bincount(merged.readings.meter, minlength=starts.size)[has_opening]
    starts = starts[has_opening]
    slots = integrate(starts, sizes, merged.readings.time_ms, merged.readings.value_u, policy)
    return windows_batch(names.filter(pa.array(has_opening)), starts, slots), counts


def windows_batch(names: pa.Array, starts_ms: Integers, slots: Ragged) -> pa.RecordBatch:
    """Return a batch with the schema `WINDOWS` from the meters' names, the starts and the slots' quanta."""
    offsets = np.zeros(starts_ms.size + 1, np.int32)
    np.cumsum(slots.lengths, out=offsets[1:])
    quanta = pa.ListArray.from_arrays(pa.array(offsets), pa.array(slots.numbers))
    return pa.record_batch([names, pa.array(starts_ms).cast(TIME), quanta], schema=WINDOWS)


def slot_schema(schema: pa.Schema, policy: Policy) -> pa.Schema:
    """Return the schema of slots; bands have their window's `start` and `end`, and their name in `band`."""
    fields = [field for field in schema if field.name != "values"]
    fields.insert(3, pa.field("value", schema.field("values").type.value_type))
    if policy.usual.shape.names:
        fields.insert(3, pa.field("band", pa.string()))
    return pa.schema(fields)


def by_slots(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """Split releases into a row for each slot, in the same order."""
    column, schema = batch.column("values"), slot_schema(batch.schema, policy)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    row = np.repeat(np.arange(batch.num_rows), lengths)
    slot_index = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = {name: batch.column(name).take(pa.array(row)) for name in ("meter", "start", "end", "d", "key")}
    columns["value"] = column.flatten()
    if policy.usual.shape.names:
        columns["band"] = _band_names(ms_of(batch.column("start")), policy)
    else:
        window_ms = ms_of(columns["start"])
        step_ms = (ms_of(columns["end"]) - window_ms) // lengths[row]
        columns["start"] = pa.array(window_ms + slot_index * step_ms).cast(TIME)
        columns["end"] = pa.array(window_ms + (slot_index + 1) * step_ms).cast(TIME)
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _band_names(starts_ms: Integers, policy: Policy) -> pa.Array:
    """Return the names of all windows' bands, one window after another."""
    terms_index, terms = policy.terms(starts_ms)
    names = [window_terms.shape.names for window_terms in terms]
    return pa.array([name for index in terms_index.tolist() for name in names[index]], pa.string())


def row_fits_and_lengths(
    starts_ms: Integers, column: pa.Array, policy: Policy
) -> tuple[number.Flags, Integers]:
    """Return whether each row is a window (its start and its list's length fit), and the lists' lengths."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    is_null = ~column.is_valid().to_numpy(zero_copy_only=False)
    is_on_grid = policy.starts(starts_ms) == starts_ms
    terms_index, terms = policy.terms(starts_ms)
    is_allowed = np.zeros(starts_ms.size, np.bool_)
    for index, window_terms in enumerate(terms):
        for length in _distinct_lengths(lengths[terms_index == index]):
            if _divides_evenly(length, window_terms):
                is_allowed |= (terms_index == index) & (lengths == length)
    return is_on_grid & (is_allowed | is_null), lengths


def _distinct_lengths(lengths: Integers) -> list[int]:
    """Return the distinct lengths; usually all lengths are equal."""
    is_uniform = lengths.size and (lengths == lengths[0]).all()
    distinct: list[int] = (lengths[:1] if is_uniform else np.unique(lengths)).tolist()
    return distinct


def _divides_evenly(count: int, terms: Terms) -> bool:
    """Return whether a window may have `count` equal parts: intervals of energy, or equal parts of slots."""
    if not count or terms.length_ms % count:
        return False
    if terms.readings.kind is Kind.INTERVAL_ENERGY:
        return count * terms.readings.interval_ms == terms.length_ms
    return bool(terms.shape.names) or count % terms.n == 0


def _are_slots(starts_ms: Integers, lengths: Integers, policy: Policy) -> bool:
    """Return whether each number of these windows is the value of one slot."""
    usual, (terms_index, terms) = policy.usual, policy.terms(starts_ms)
    counts = np.array([window_terms.n for window_terms in terms], np.int64)[terms_index]
    parts_are_slots = usual.readings.kind is Kind.POWER or usual.step_ms == usual.readings.interval_ms
    return parts_are_slots and not usual.shape.names and np.array_equal(lengths, counts)


def _integrate_slots(starts_ms: Integers, lengths: Integers, values_u: Integers, policy: Policy) -> Ragged:
    """Integrate equal parts of windows into their slots."""
    window = np.repeat(np.arange(starts_ms.size), lengths)
    part_ms = ((policy.ends(starts_ms) - starts_ms) // np.maximum(lengths, 1))[window]
    begin = (np.arange(window.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)) * part_ms
    return fill_slots(starts_ms, Spans(window, begin, begin + part_ms, values_u), policy)
