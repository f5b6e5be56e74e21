"""The noise of many windows at once, part by part; its law: tests/statistical."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.sampling import (
    below_array,
    bernoulli,
    discrete_laplace,
    noise_bound,
    noise_bounds,
    uniform_rows,
    windows,
)
from meteragent.privacy.sampling.windows import FALL_BITS, TABLE_FROM, Table, _guide, table_of
from tests.support.tape import ReplayedBits, Tape

PARAMETERS = [
    (1, Fraction(1, 220)),
    (1, Fraction(100)),
    (1, Fraction(1, 2**45 - 1)),
    (2, Fraction(1, 60)),
    (2, Fraction(7, 10)),
    (2, Fraction(5)),  # the slope of ln w at M is -1
    (6, Fraction(1, 10)),
    (48, Fraction(1, 220)),
    (96, Fraction(1067, 10)),  # a >> sqrt(n)
    (1440, Fraction(1, 220)),
    (1440, Fraction(1440, 2**45 - 1)),
    (8640, Fraction(50)),
]
TOP = 1 << 64


def place_of(table: Table, point: int) -> tuple[int, int]:
    """The cell of a point, and its place there."""
    return divmod(point - (table.envelope.mode - table.depth), 1 << table.shift)


def line_at(table: Table, cell: int, place: int) -> int:
    """What w is compared with first, there."""
    return (int(table.start[cell]) + int(table.slope[cell]) * place) % TOP >> table.shift


def points_of(table: Table) -> list[int]:
    """Points of the cells: all of them, or both ends and some within of each."""
    first, step = table.envelope.mode - table.depth, 1 << table.shift
    size = table.depth + table.reach
    if size < 600:
        return list(range(first, first + size))
    inside = (0, 1, step // 3, step // 2, step - 1)
    return [first + cell * step + i for cell in range(size // step) for i in inside]


# The table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_lines_and_steps_enclose_the_weights(n: int, a: Fraction) -> None:
    """At each point line <= S w/w(M) <= line + gap, and S w/w(M) <= the cell's height; w = 0 below 0."""
    table = table_of(n, a)
    for point in points_of(table):
        cell, place = place_of(table, point)
        line, gap = line_at(table, cell, place), int(table.gap[cell])
        height = int(table.areas[cell + 1] - table.areas[cell]) >> table.shift
        lo, hi = table.weight_bounds(point, 64) if point >= 0 else (0, 0)
        assert line << 64 <= lo
        assert hi <= line + gap << 64
        assert hi <= height << 64


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_areas_fill_the_words(n: int, a: Fraction) -> None:
    """Cells and tails lie end to end below 2^64, over all integers within D of M, and leave little."""
    table = table_of(n, a)
    areas = [int(area) for area in table.areas]
    assert areas == sorted(areas)
    assert areas[0] == 0
    assert 0.5 * TOP < areas[-1] < TOP
    cells = len(areas) - 2
    assert cells << table.shift == table.depth + table.reach
    assert table.depth >= min(table.reach, table.envelope.mode)
    assert all((high - low) % (1 << table.shift) == 0 for low, high in pairwise(areas[:-1]))
    assert len(table.start) == len(table.slope) == len(table.gap) == cells + 2


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_a_tail_has_the_area_of_its_steps(n: int, a: Fraction) -> None:
    """The area and the chance of being kept are such that every place is kept by S w/w(M) words.

    With the tails' area 4 D S/2^16, a side of 2, P(m) = 2^-m and one of D places that is S per place times
    2^-(16+m-1), and `keeps` with exactly that factor needs w <= 2^-(16+m-1) w(M) there.
    """
    table = table_of(n, a)
    area = int(table.areas[-1] - table.areas[-2])
    assert area == 4 * table.reach * table.unit >> FALL_BITS
    for m in range(1, 4):
        assert Fraction(area, 2 * 2**m * table.reach) == Fraction(table.unit, 2 ** (FALL_BITS + m - 1))
        for nearest in (table.envelope.mode + m * table.reach, table.envelope.mode - 1 - m * table.reach):
            if nearest >= 0:
                assert table.envelope.weight_bounds(nearest, 200)[1] <= 1 << 200 - (FALL_BITS + m - 1)


def test_a_tail_is_a_side_a_block_and_a_place() -> None:
    """The side, ones that count blocks beyond the first, and the place; a rejected proposal is dropped."""
    table = table_of(6, Fraction(1, 10))
    mode, reach, certain, never = table.envelope.mode, table.reach, 0, (1 << 32) - 1
    assert table.draw_tail(Tape(1, 0, 5, certain)) == mode + reach + 5
    assert table.draw_tail(Tape(1, 1, 0, 5, certain)) == mode + 2 * reach + 5
    assert table.draw_tail(Tape(1, 0, 5, never)) is None
    assert table.draw_tail(Tape(0, 0, 5)) is None  # below zero
    low = table_of(1440, Fraction(1, 220))
    assert low.draw_tail(Tape(0, 0, 5, certain)) == low.envelope.mode - 1 - low.reach - 5


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_an_open_comparison_is_decided_by_the_fraction_of_u(n: int, a: Fraction) -> None:
    """H + U < S w/w(M): certain below and above the integer part of the right side, by U's bits upon it."""
    table, certain = table_of(n, a), (0, (1 << 32) - 1)
    for point in {table.envelope.mode + table.reach // 3, max(0, table.envelope.mode - table.depth // 2)}:
        lo, hi = table.weight_bounds(point, 96)
        whole, fraction = lo >> 96, lo >> 64 & (1 << 32) - 1
        if hi >> 96 == whole and 4 <= fraction < (1 << 32) - 4:  # bounds of 32 bits are a few units apart
            assert table.accepts(point, whole, Tape(fraction - 4))
            assert not table.accepts(point, whole, Tape(fraction + 4))
        assert all(table.accepts(point, whole - 1, Tape(u)) for u in certain)
        assert not any(table.accepts(point, whole + 2, Tape(u)) for u in certain)
    assert not table.accepts(-1, 0, Tape())


def test_the_guide_names_the_cell_of_a_word() -> None:
    """Every word is found in the area in which it lies, at both ends of each area too."""
    for n, a in PARAMETERS:
        table = table_of(n, a)
        edges = [int(area) for area in table.areas]
        words = np.array(sorted({*edges, *(edge - 1 for edge in edges[1:]), TOP - 1}), np.uint64)
        expected = [max(i for i, edge in enumerate(edges) if edge <= word) for word in words.tolist()]
        assert table.cell_of(words).tolist() == expected


# Draw for draw ------------------------------------------------------------------------------------


def reference_radii(n: int, a: Fraction, count: int, bits: Bits) -> list[int]:
    """The same noise bounds from the same bits, one by one."""
    table = table_of(n, a)
    edges = [int(area) for area in table.areas]
    drawn: list[int] = []
    proposals = count + count // 16
    while len(drawn) < count:
        opened, kept = [], {}
        for i, word in enumerate(bits.array(proposals, np.uint64).tolist()):
            cell = max(j for j, edge in enumerate(edges) if edge <= word)
            if cell == len(edges) - 1:
                continue
            if cell == len(edges) - 2:
                opened.append((i, None, 0))
                continue
            height, place = divmod(word - edges[cell], 1 << table.shift)
            point = table.envelope.mode - table.depth + (cell << table.shift) + place
            line = line_at(table, cell, place)
            if height < line:
                kept[i] = point
            elif height < line + int(table.gap[cell]):
                opened.append((i, point, height))
        for i, point, height in opened:
            decided = settled(table, point, height, bits)
            if decided is not None:
                kept[i] = decided
        drawn += [kept[i] for i in sorted(kept)]
        missing = count - len(drawn)
        proposals = missing + missing // 16 + 1
    return drawn[:count]


def settled(table: Table, point: int | None, height: int, bits: Bits) -> int | None:
    """An open comparison: the fractional part of U against that of S w/w(M)."""
    if point is None:
        return table.draw_tail(bits)
    if point < 0:
        return None

    def part(k: int) -> tuple[int, int]:
        lo, hi = table.envelope.weight_bounds(point, k + 64)
        return (lo * table.unit >> 64) - (height << k), (hi * table.unit >> 64) + 1 - (height << k)

    return point if bernoulli(part, bits) else None


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_the_radii_are_those_of_a_plain_reference(n: int, a: Fraction) -> None:
    """Many noise bounds are, draw for draw, what a plain loop makes of the same bits."""
    count = 1500
    assert noise_bounds(n, a, count, SeededBits(n)).tolist() == reference_radii(n, a, count, SeededBits(n))


def test_few_radii_are_drawn_one_by_one() -> None:
    """Below the size from which the table pays, `noise_bounds` is `noise_bound` repeated; none is none."""
    a, count = Fraction(1, 10), TABLE_FROM - 1
    same = SeededBits(3)
    assert noise_bounds(6, a, count, SeededBits(3)).tolist() == [
        noise_bound(6, a, same) for _ in range(count)
    ]
    assert noise_bounds(6, a, 0, SeededBits(3)).shape == (0,)


def redrawn(ranges: list[int], bits: Bits) -> list[int]:
    """An integer below each range from the same bits: floor(u m / 2^32), or for great ones u modulo 2^k."""
    masked = max(ranges) > 1 << 32
    values, again = [0] * len(ranges), list(range(len(ranges)))
    while again:
        words = bits.array(len(again), np.uint64 if masked else np.uint32).tolist()
        out = []
        for i, word in zip(again, words, strict=True):
            m = ranges[i]
            values[i], rest = (word % (1 << m.bit_length()), m) if masked else divmod(word * m, 1 << 32)
            if values[i] >= m or rest < (1 << 32) % m:
                out.append(i)
        again = out
    return values


def reference_rows(cubes: list[int], n: int, bits: Bits) -> list[list[int]]:
    """The same rows from the same bits: all at once, or row by row where a range is great."""
    if 2 * max(cubes) + 1 > 1 << 32:
        return [[value - cube for value in redrawn([2 * cube + 1] * n, bits)] for cube in cubes]
    values = redrawn([2 * cube + 1 for cube in cubes for _ in range(n)], bits)
    return [[values[i * n + j] - cube for j in range(n)] for i, cube in enumerate(cubes)]


@pytest.mark.parametrize(
    "cubes",
    [[0, 0, 0], [0, 1, 2, 3, 1000], [2**30 + 7, 3, 2**31 - 1], [2**31, 5, 0], [2**62 - 1, 2**40, 1, 2**61]],
)
def test_rows_are_those_of_a_plain_reference(cubes: list[int]) -> None:
    """Rows with a range each are, draw for draw, what a plain loop makes of the same bits."""
    drawn = uniform_rows(np.array(cubes), 300, SeededBits(1))
    assert drawn.tolist() == reference_rows(cubes, 300, SeededBits(1))
    assert (np.abs(drawn) <= np.array(cubes)[:, np.newaxis]).all()


def test_a_word_that_does_not_come_out_even_is_drawn_anew() -> None:
    """For {-1, 0, 1} only the word 0 is too many of 2^32; each value has 1431655765 others."""
    third = 1431655765
    tape = Tape([0, 1, third, third + 1, 2 * third, 2 * third + 1, 3 * third], [third + 1])
    assert uniform_rows(np.array([1]), 7, tape).tolist() == [[0, -1, -1, 0, 0, 1, 1]]


def test_rows_of_no_range_are_refused() -> None:
    """A noise bound that is negative or leaves int64 is refused."""
    for cube in (-1, 1 << 62, -(1 << 63), -(1 << 62) - 1):
        with pytest.raises(ValueError, match="noise bound must lie in"):
            uniform_rows(np.array([0, cube]), 3, SeededBits(0))


# Windows ------------------------------------------------------------------------------------------


def test_windows_are_rows_of_uniforms_on_their_radii() -> None:
    """First all noise bounds are drawn, then n uniforms from each; a window of one is discrete Laplace."""
    a, same = Fraction(1, 10), SeededBits(5)
    noise = windows(6, a, 1000, SeededBits(5))
    assert noise.shape == (1000, 6)
    assert noise.dtype == np.int64
    assert noise.tolist() == uniform_rows(noise_bounds(6, a, 1000, same), 6, same).tolist()
    alone = windows(1, a, 1000, SeededBits(5))
    assert alone.tolist() == discrete_laplace(1000, a, SeededBits(5))[:, np.newaxis].tolist()


def test_few_windows_are_drawn_one_by_one() -> None:
    """Below the size from which the table pays, each window is its R, then n uniforms from it."""
    a, same = Fraction(1, 10), SeededBits(6)
    for row in windows(6, a, 20, SeededBits(6)).tolist():
        cube = noise_bound(6, a, same)
        assert row == (below_array(2 * cube + 1, 6, same) - cube).tolist()


@pytest.mark.parametrize("source", [SeededBits, ReplayedBits])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_noise_is_added_to_points(n: int, source: Callable[[int], Bits]) -> None:
    """With points, the result is their sum with the noise that is drawn without them, for few and many."""
    for count in (3, TABLE_FROM):
        points = np.arange(count * n).reshape(count, n)
        noise = windows(n, Fraction(1, 5), count, source(4))
        assert (windows(n, Fraction(1, 5), count, source(4), points) == points + noise).all()


@pytest.mark.parametrize("n", [1, 2, 7])
def test_no_windows_are_an_empty_array(n: int) -> None:
    """Zero windows have a shape too, and their parameters are looked at."""
    assert windows(n, Fraction(1, 3), 0, SeededBits(0)).shape == (0, n)
    with pytest.raises(ValueError, match="a must be positive"):
        windows(n, Fraction(0), 0, SeededBits(0))
    with pytest.raises(TypeError, match="must be exact"):
        windows(n, 0.5, 1000, SeededBits(0))  # type: ignore[arg-type]


def test_a_level_may_be_written_as_any_exact_number() -> None:
    """A text is the number it writes, for few and for many; a float is refused in both."""
    for count in (3, TABLE_FROM):
        for n in (1, 2):
            exact = windows(n, Fraction(1, 5), count, SeededBits(1))
            assert windows(n, "1/5", count, SeededBits(1)).tolist() == exact.tolist()
            with pytest.raises(TypeError, match="a must be exact"):
                windows(n, 0.2, count, SeededBits(1))  # type: ignore[arg-type]
    for a, known in ((2, Fraction(2)), ("2", 2)):
        one, other = (noise_bounds(3, level, TABLE_FROM, SeededBits(1)) for level in (a, known))
        assert one.tolist() == other.tolist()


class Narrow(np.ndarray):
    """An array that finds places as a machine of 32 bits does."""

    def searchsorted(self, *arguments: Any, **options: Any) -> Any:
        """Return the places as int32."""
        return np.asarray(self).searchsorted(*arguments, **options).astype(np.int32)


def test_a_cell_has_64_bits_on_a_machine_of_32() -> None:
    """A cell is shifted to a point far beyond 2^31, so places that were found as int32 are widened first."""
    table = table_of(4, Fraction(7, 10**9))
    guide = _guide(table.areas.view(Narrow))
    assert guide.dtype == np.int64
    assert (guide == table.guide).all()
