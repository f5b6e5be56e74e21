"""The noise of many windows, each from its own bits: that of a plain loop, whatever stands beside it."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import PAGE_BYTES, PAGES, FreshRows, RowBits, SeededBits
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import row_windows
from meteragent.privacy.sampling.rows import ATTEMPTS, FIRST_STREAM_PAGE, NOISE_BOUNDS, SLOTS
from meteragent.privacy.sampling.windows import Table, table_of
from tests.support.row_bits import PARAMETERS, Watched, Written, keyed, plain_row
from tests.support.tape import Tape

TOP = 1 << 64
parameters = st.sampled_from(PARAMETERS)
tags = st.lists(st.integers(0, 2**96 - 1), max_size=6)


def drawn(n: int, a: Fraction, rows: RowBits) -> list[list[int]]:
    """The noise of each row."""
    found: list[list[int]] = row_windows(n, a, rows).tolist()
    return found


# Draw for draw ------------------------------------------------------------------------------------


@given(parameters, tags)
def test_each_row_is_that_of_the_plain_loop(law: tuple[int, Fraction], numbers: list[int]) -> None:
    """Draw for draw, rows in lockstep are what a loop makes of each row's bits by the definition."""
    rows = keyed(*numbers)
    assert drawn(*law, rows) == [plain_row(*law, rows, row) for row in range(rows.count)]


def test_many_rows_are_those_of_the_plain_loop() -> None:
    """Enough rows for every case to occur: refused proposals, open comparisons, tails, redrawn slots."""
    for n, a in [(1, Fraction(1, 2**31)), (2, Fraction(7, 10)), (3, Fraction(1, 220))]:
        rows = keyed(*range(1200))
        assert drawn(n, a, rows) == [plain_row(n, a, rows, row) for row in range(rows.count)]


@given(parameters, tags, st.data())
def test_a_row_does_not_depend_on_its_batch(
    law: tuple[int, Fraction], numbers: list[int], data: st.DataObject
) -> None:
    """Alone, in another order, among others or beside itself: a row's noise is the same."""
    alone = {number: drawn(*law, keyed(number))[0] for number in numbers}
    batch = data.draw(st.lists(st.sampled_from(numbers), max_size=12) if numbers else st.just([]))
    assert drawn(*law, keyed(*batch)) == [alone[number] for number in batch]


@pytest.mark.parametrize(("n", "size"), [(1, 40_000), (96, 500), (40_000, 3)])
def test_parts_of_a_large_batch_are_no_other(n: int, size: int) -> None:
    """A batch that is drawn in parts is that of smaller batches, end to end."""
    a, cut = Fraction(1, 220), size * 2 // 3
    whole = row_windows(n, a, keyed(*range(size)))
    parts = [row_windows(n, a, keyed(*part)) for part in (range(cut), range(cut, size))]
    assert (whole == np.concatenate(parts)).all()


# What is rare -------------------------------------------------------------------------------------


def lone(n: int, a: Fraction, written: dict[tuple[int, int], int], *streams: tuple[int, Tape]) -> list[int]:
    """The middle one of three rows, in which words (page, at) and streams of pages were written down."""
    words = {(1, page, at): word for (page, at), word in written.items()}
    before, found, after = drawn(n, a, Written(keyed(5, 6, 7), words, {(1, page): t for page, t in streams}))
    assert [before, after] == drawn(n, a, keyed(5, 7))
    return found


def kept_word(table: Table, point: int) -> int:
    """A word that proposes a noise bound at height 0: kept."""
    cell, place = divmod(point - (table.envelope.mode - table.depth), 1 << table.shift)
    return int(table.areas[cell]) + place


@pytest.mark.parametrize(("n", "a"), [(4, Fraction(1, 220)), (1, Fraction(1, 2**45 - 1)), (6, Fraction(3))])
def test_a_radius_is_that_of_the_first_word_that_is_kept(n: int, a: Fraction) -> None:
    """Words beyond the areas are refused, one after the other, and the next word of page 0 is taken."""
    table = table_of(n, a)
    point = table.envelope.mode
    greatest = (1 << 32) - 1 if 2 * point + 1 <= 1 << 32 else 2 * point
    words = {(NOISE_BOUNDS, attempt): TOP - 1 for attempt in range(5)} | {
        (NOISE_BOUNDS, 5): kept_word(table, point)
    }
    assert lone(n, a, words | {(SLOTS, slot): greatest for slot in range(n)}) == [point] * n


def test_an_open_comparison_is_decided_by_its_own_attempt_s_stream() -> None:
    """Whether a height between line and gap is kept is said by page 512 + t; if not, word t + 1 is next."""
    n, a = 4, Fraction(1, 220)
    table = table_of(n, a)
    cell = int(np.argmax(table.gap[:-2]))
    place = 1 << table.shift - 1
    point = table.envelope.mode - table.depth + (cell << table.shift) + place
    lo, hi = table.weight_bounds(point, 32)
    height, fraction = lo >> 32, lo & (1 << 32) - 1
    assert hi >> 32 == height
    open_word = int(table.areas[cell]) + (height << table.shift) + place
    ends = {(SLOTS, slot): (1 << 32) - 1 for slot in range(n)}
    other = table.envelope.mode
    words = {
        (NOISE_BOUNDS, 0): TOP - 1,
        (NOISE_BOUNDS, 1): open_word,
        (NOISE_BOUNDS, 2): kept_word(table, other),
        **ends,
    }
    for u, expected in ((fraction - 4, point), (fraction + 4, other)):
        tape = Tape(u)
        assert lone(n, a, words, (FIRST_STREAM_PAGE + 1, tape)) == [expected] * n
        assert tape.left == 0


def test_a_tail_is_drawn_from_its_own_attempt_s_stream() -> None:
    """A word beyond the cells takes side, block, place and comparison from page 512 + t."""
    n, a = 6, Fraction(1, 10)
    table = table_of(n, a)
    tail, far = int(table.areas[-2]), table.envelope.mode + table.reach + 5
    ends = {(SLOTS, slot): (1 << 32) - 1 for slot in range(n)}
    words = {(NOISE_BOUNDS, 0): tail, (NOISE_BOUNDS, 1): int(table.areas[-1]) - 1, **ends}
    refused = (FIRST_STREAM_PAGE, Tape(0, 0, 5))  # below zero
    assert lone(n, a, words, refused, (FIRST_STREAM_PAGE + 1, Tape(1, 0, 5, 0))) == [far] * n


def test_a_slot_that_does_not_come_out_even_is_drawn_from_the_next_page() -> None:
    """For {-1, 0, 1} the word 0 of 2^32 is refused: that slot, and no other, takes its word of page 2, .."""
    n, a, third = 4, Fraction(3), 1431655765
    table = table_of(n, a)
    first = {(NOISE_BOUNDS, 0): kept_word(table, 1)}
    slots = {(SLOTS, 0): 1, (SLOTS, 1): 0, (SLOTS, 2): 2 * third + 1, (SLOTS, 3): 0}  # 3 (2t+1) = 1 mod 2^32
    second = {(SLOTS + 1, 1): 2 * third + 1, (SLOTS + 1, 2): 0, (SLOTS + 1, 3): 0}
    again = {**second, (SLOTS + 2, 3): third + 1}
    assert lone(n, a, {**first, **slots, **again}) == [-1, 1, 1, 0]


def test_a_wide_slot_takes_the_last_bits_of_words_of_64() -> None:
    """With 2R+1 > 2^32 values from 2R+1 on are refused; bits above bit_length(2R) do not count."""
    n, a = 3, Fraction(1, 2**30)
    table = table_of(n, a)
    noise_bound = max(table.envelope.mode, 1 << 31)
    m, high = 2 * noise_bound + 1, 1 << 63
    slots = {(SLOTS, 0): m - 1 | high, (SLOTS, 1): m, (SLOTS, 2): 0}
    again = {(SLOTS + 1, 0): 0, (SLOTS + 1, 1): m, (SLOTS + 2, 1): m - 1}
    assert lone(n, a, {(NOISE_BOUNDS, 0): kept_word(table, noise_bound), **slots, **again}) == [
        noise_bound,
        noise_bound,
        -noise_bound,
    ]


@pytest.mark.parametrize("half", [0, 1])
def test_the_widest_narrow_row_has_words_of_32_bits(half: int) -> None:
    """2R+1 = 2^32 - 1 is narrow; 2^32 + 1 is wide."""
    n, a, noise_bound = 3, Fraction(1, 2**30), (1 << 31) - 1 + half
    word = kept_word(table_of(n, a), noise_bound)
    watched = Watched(Written(keyed(1), {(0, NOISE_BOUNDS, 0): word}))
    assert np.abs(row_windows(n, a, watched)).max() <= noise_bound
    assert watched.widths[0, SLOTS] == {np.uint64 if half else np.uint32}


# Addresses ----------------------------------------------------------------------------------------


@given(parameters, tags)
def test_no_address_is_read_twice(law: tuple[int, Fraction], numbers: list[int]) -> None:
    """No word and no stream is read twice, and each page in one way only."""
    watched = Watched(keyed(*numbers))
    row_windows(*law, watched)
    assert all(len(widths) == 1 for widths in watched.widths.values())


def test_no_address_is_read_twice_by_many() -> None:
    """Nor in the rare cases: refused proposals, open comparisons, redrawn slots."""
    used = set()
    for n, a in [(1, Fraction(1, 2**31)), (2, Fraction(7, 10)), (3, Fraction(1, 220))]:
        watched = Watched(keyed(*range(3000)))
        row_windows(n, a, watched)
        assert all(len(widths) == 1 for widths in watched.widths.values())
        used |= {page for _, page, _ in watched.read_words} | {
            -at for _, page, at in watched.read_words if page == NOISE_BOUNDS
        }
    assert {NOISE_BOUNDS, -1, SLOTS, SLOTS + 1, SLOTS + 2, FIRST_STREAM_PAGE} <= used


class Stuck:
    """Rows whose words are all one of two: of the page of noise bounds, of others."""

    count = 1

    def __init__(self, noise_bound: int, slot: int) -> None:
        self._radius, self._slot, self.pages, self.attempts = noise_bound, slot, set[int](), 0

    def words(self, rows: Any, page: int, count: int, dtype: Any) -> Any:
        """The same word."""
        self.pages.add(page)
        return np.full((rows.size, count), self._slot, np.uint64).astype(dtype)

    def word(self, rows: Any, page: int, at: Any, dtype: Any) -> Any:
        """The same word."""
        self.pages.add(page)
        self.attempts += page == NOISE_BOUNDS
        return np.full(rows.size, self._slot if page else self._radius, np.uint64).astype(dtype)

    def stream(self, row: int, page: int) -> Any:
        """None is asked for."""
        raise AssertionError


def test_a_row_without_a_kept_radius_ends_in_an_error() -> None:
    """After 511 words that are refused nothing is drawn: no address is taken again."""
    stuck = Stuck(TOP - 1, 0)
    with pytest.raises(OverflowError, match=f"{ATTEMPTS} attempts at a noise bound"):
        row_windows(4, Fraction(1, 220), stuck)
    assert stuck.attempts == ATTEMPTS == 511


@pytest.mark.parametrize(
    ("n", "a", "noise_bound", "word"), [(4, "3", 1, 0), (3, "1/1073741824", 1 << 31, TOP - 1)]
)
def test_a_slot_that_is_never_taken_ends_in_an_error(n: int, a: str, noise_bound: int, word: int) -> None:
    """After 511 pages of refused words nothing is drawn, and no page of streams was touched."""
    stuck = Stuck(kept_word(table_of(n, Fraction(a)), noise_bound), word)
    with pytest.raises(OverflowError, match=f"{ATTEMPTS} attempts at a slot"):
        row_windows(n, Fraction(a), stuck)
    assert stuck.pages == {NOISE_BOUNDS, *range(SLOTS, FIRST_STREAM_PAGE)}


@pytest.mark.parametrize("rows", [keyed(1), FreshRows(1, SeededBits(1))], ids=["keyed", "fresh"])
def test_what_a_page_does_not_hold_is_an_error(rows: RowBits) -> None:
    """A page has 2^26 bytes, a row 1,024 pages; the last word is there, one more is refused."""
    one, last = np.array([0]), PAGE_BYTES // 8 - 1
    assert rows.word(one, PAGES - 1, last, np.uint64).shape == (1,)
    for page, at in ((0, last + 1), (PAGES, 0), (-1, 0)):
        with pytest.raises(OverflowError, match="a row has 1024 pages"):
            rows.word(one, page, at, np.uint64)
        with pytest.raises(OverflowError, match="a row has 1024 pages"):
            rows.words(one, page, at + 1, np.uint64)
    with pytest.raises(OverflowError, match="a row has 1024 pages"):
        rows.stream(0, PAGES).integer(1)


# Fresh bits, and the mechanism --------------------------------------------------------------------


def test_fresh_rows_hand_out_each_bit_once() -> None:
    """Whatever the address, a word is the next of the bits, so a second read gives a different word."""
    bits, same = SeededBits(3), SeededBits(3)
    rows, both = FreshRows(2, bits), np.arange(2)
    assert rows.words(both, SLOTS, 3, np.uint32).tolist() == same.array(6, np.uint32).reshape(2, 3).tolist()
    for _ in range(2):
        assert rows.word(both, NOISE_BOUNDS, 0, np.uint64).tolist() == same.array(2, np.uint64).tolist()
        assert rows.stream(1, FIRST_STREAM_PAGE).integer(64) == same.integer(64)
    with pytest.raises(ValueError, match="not be negative"):
        FreshRows(-1, bits)


def test_a_release_is_values_and_the_rows_noise() -> None:
    """`release_rows` adds each row's noise to its window; what was given is left as it was."""
    mechanism, rows = LInfLaplace("1/220", 1, 4), keyed(*range(50))
    values = np.arange(200).reshape(50, 4) * 10**12
    before = values.copy()
    assert (mechanism.release_rows(values, rows) - values == row_windows(4, mechanism.a, rows)).all()
    assert (values == before).all()
    assert mechanism.release_rows(values.astype(np.uint32)[:0], keyed()).shape == (0, 4)


def test_what_are_no_windows_of_the_rows_is_refused() -> None:
    """Values that are not whole quanta, of another shape than (rows, n) or out of range are refused."""
    mechanism, rows = LInfLaplace("1/220", 1, 4), keyed(1, 2)
    with pytest.raises(TypeError, match="whole quanta"):
        mechanism.release_rows(np.zeros((2, 4)), rows)
    for shape in [(4,), (1, 4), (3, 4), (2, 5), (1, 2, 4)]:
        with pytest.raises(ValueError, match="have shape"):
            mechanism.release_rows(np.zeros(shape, np.int64), rows)
    with pytest.raises(ValueError, match="beyond"):
        mechanism.release_rows(np.full((2, 4), 2**63 - 1), rows)


def test_parameters_are_those_of_windows() -> None:
    """Invalid parameters are refused, even if there are no rows."""
    for a, error in ((0.5, TypeError), (Fraction(0), ValueError), (Fraction(1, 2**45), ValueError)):
        for rows in (keyed(), keyed(1)):
            with pytest.raises(error):
                row_windows(1, a, rows)  # type: ignore[arg-type]
