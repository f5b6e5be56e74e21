"""Draws by an alias table, word for word (meteragent.privacy.sampling.alias); laws: tests/statistical."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from meteragent.privacy.bits import Bits, SeededBits, SystemBits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.keyed import TAG_BYTES, KeyedRows
from meteragent.privacy.sampling import discrete_laplace, noise_bounds, windows
from meteragent.privacy.sampling.alias import SCALE_MAX, AliasTable, alias_table
from meteragent.privacy.sampling.windows import ALIAS_MAX, TABLE_FROM
from tests.support.tape import ReplayedBits, Tape

LAWS = [
    (0, Fraction(1, 220)),
    (0, Fraction(1, SCALE_MAX)),
    (0, Fraction(7, 5)),
    (0, Fraction(100)),
    (1, Fraction(1, 50)),
    (2, Fraction(7, 10)),
    (2, Fraction(40)),
    (4, Fraction(1, 220)),
]
WORDS = 1 << 32
REST = -1 << 15


def table_of(p: int, a: Fraction) -> AliasTable:
    """Return the table, which exists."""
    table = alias_table(p, a)
    assert table
    return table


def values_of(table: AliasTable) -> list[int]:
    """What the indices stand for: noise bounds, or numbers by magnitude, the positive first."""
    size = table.masses.size
    return list(range(size)) if table.p else [0, *(s * z for z in range(1, size) for s in (1, -1))][:size]


def weight(table: AliasTable, index: int) -> mpmath.mpf:
    """S w(i) at the present working precision, from the formula alone."""
    r = index if table.p else (index + 1) // 2
    a = mpmath.mpf(table.a.numerator) / table.a.denominator
    return mpmath.ldexp(table.unit, -64) * mpmath.mpf(2 * r + 1) ** table.p * mpmath.exp(-a * r)


def owned(table: AliasTable) -> dict[int, int]:
    """How many of the words give each value, or the rest: counted cell by cell, threshold by threshold."""
    size = 1 << int(table.shift)
    counts: dict[int, int] = {}
    assert table.thresholds.size * size == WORDS
    for cell, threshold in enumerate(table.thresholds.tolist()):
        below = threshold - cell * size
        alias, own = table.outcomes[2 * cell : 2 * cell + 2].tolist()
        assert 0 <= below <= size
        counts[own] = counts.get(own, 0) + below
        counts[alias] = counts.get(alias, 0) + size - below
    return {value: words for value, words in counts.items() if words}


def defects(table: AliasTable) -> Iterator[str]:
    """Everything in which a table is not what the proof assumes; the samples are of all indices."""
    values, masses = values_of(table), table.masses.tolist()
    rest = WORDS - sum(masses)
    own = {value: words for value, words in zip(values, masses, strict=True) if words}
    if owned(table) != {**own, REST: rest}:
        yield "the words of a value"
    if rest < 2 * (len(masses) + table.block):
        yield "the room of the rest"
    with mpmath.workdps(60):
        for index, mass in enumerate(masses):
            if not mass <= weight(table, index) <= mass + 2:
                yield "a mass"
        for j in range(12):
            first = len(masses) + j * table.block
            if any(weight(table, first + i) * 2**j > 1 for i in (0, 1, table.block - 1)):
                yield "the blocks"


@pytest.mark.parametrize(("p", "a"), LAWS)
def test_each_value_has_its_words(p: int, a: Fraction) -> None:
    """Of 2^32 words value i has m_i, at most 2 fewer than S w(i), and the rest has room for all fractions."""
    assert not list(defects(table_of(p, a)))


def changed(array: Any, at: int, by: int) -> Any:
    """Return a copy in which an entry differs."""
    copy = array.copy()
    copy[at] += copy.dtype.type(by)
    return copy


def split(table: AliasTable, at: int) -> int:
    """The `at`th cell with two values: in others, a threshold decides nothing."""
    return int(np.flatnonzero(table.outcomes[::2] != table.outcomes[1::2])[at])


MUTANTS: dict[str, Callable[[AliasTable, int], AliasTable]] = {
    "a threshold one word higher": lambda t, i: replace(t, thresholds=changed(t.thresholds, i, 1)),
    "another alias": lambda t, i: replace(t, outcomes=changed(t.outcomes, 2 * i, 1)),
    "another value": lambda t, i: replace(t, outcomes=changed(t.outcomes, 2 * i + 1, 1)),
    "a mass of 3 words more": lambda t, i: replace(t, masses=changed(t.masses, i, 3)),
    "a scale one in 2^31 larger": lambda t, _: replace(t, unit=t.unit + (t.unit >> 20)),
    "blocks over which w does not halve": lambda t, _: replace(t, block=t.block // 4),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("at", [0, 1, 7])
def test_one_wrong_entry_is_found(mutant: str, at: int) -> None:
    """The check above finds each single wrong entry of a table: it is not blind."""
    table = table_of(2, Fraction(7, 10))
    assert list(defects(MUTANTS[mutant](table, split(table, at))))


@pytest.mark.parametrize(("p", "a"), LAWS)
def test_weights_are_enclosed(p: int, a: Fraction) -> None:
    """S w(i) lies between the bounds that decide about fractions, a few units apart, far beyond N too."""
    table = table_of(p, a)
    size = table.masses.size
    with mpmath.workdps(120):
        for index in {0, 1, size // 3, size - 1, size, size + 5 * table.block}:
            for k in (0, 32, 200):
                lo, hi = table.weight_bounds(index, k)
                assert lo <= mpmath.ldexp(weight(table, index), k) <= hi
                assert hi - lo <= 2


def accepted_words(table: AliasTable, value: int, *entries: int) -> Fraction:
    """Of the U of 32 bits, the share with which a proposal of `value` is accepted, by running the sampler."""
    low, high = 0, WORDS
    while low < high:
        middle = (low + high) // 2
        outcome = table.propose(Tape(*entries, middle, *[0] * 9))  # zeros, if 32 bits leave it open
        assert outcome in (value, None)
        low, high = (low, middle) if outcome is None else (middle + 1, high)
    return Fraction(low, WORDS)


@pytest.mark.parametrize(
    ("p", "a"), [(0, Fraction(7, 5)), (0, Fraction(1, 3)), (2, Fraction(7, 10)), (4, Fraction(3))]
)
def test_the_program_has_the_law_by_enumeration(p: int, a: Fraction) -> None:
    """Words of the table, and accepted places of the rest, all run through the sampler: S w(i), to 2^-30."""
    table = table_of(p, a)
    size, block, values = table.masses.size, table.block, values_of(table)
    law = [Fraction(owned(table).get(value, 0)) for value in values]
    for index, value in enumerate(values):
        law[index] += sum(accepted_words(table, value, 2 * index + extra) for extra in (0, 1))
    beyond = {}
    for j, place in [(j, place) for j in range(4) for place in range(block)]:
        index = size + j * block + place
        value = index if p else (index + 1) // 2 * (1 if index % 2 else -1)
        share = accepted_words(table, value, 2 * size, *[1] * j, 0, place)
        beyond[index] = 2 * block * Fraction(1, 2 << j) / block * share
    with mpmath.workdps(60):
        for index, words in [*enumerate(law), *beyond.items()]:
            assert abs(mpmath.mpf(words.numerator) / words.denominator - weight(table, index)) < 2.0**-30
    for place in (2 * (size + block), WORDS - int(table.masses.sum()) - 1):
        assert table.propose(Tape(place)) is None


# Draw for draw ------------------------------------------------------------------------------------


def reference(table: AliasTable, count: int, bits: Bits) -> list[int]:
    """The same draws from the same bits, one by one."""
    drawn: list[int] = []
    while len(drawn) < count:
        words = bits.array(min(1 << 13, count - len(drawn)), np.uint32).tolist()
        batch = [outcome(table, word) for word in words]
        for i in range(len(batch)):
            while batch[i] == REST:
                proposal = table.propose(bits)
                batch[i] = outcome(table, bits.integer(32)) if proposal is None else proposal
        drawn += batch
    return drawn


def outcome(table: AliasTable, word: int) -> int:
    """What a word gives: its cell's own value below the threshold, else the alias."""
    cell = word >> int(table.shift)
    return int(table.outcomes[2 * cell + (word < int(table.thresholds[cell]))])


@pytest.mark.parametrize(("p", "a"), LAWS)
def test_draws_are_those_of_a_plain_reference(p: int, a: Fraction) -> None:
    """Many draws, or one by one, are what a plain loop makes of the same bits; none are none."""
    table, same = table_of(p, a), SeededBits(p)
    assert table.draw(20_000, SeededBits(p)).tolist() == reference(table, 20_000, same)
    one, other = SeededBits(1), SeededBits(1)
    assert [table.draw_one(one) for _ in range(300)] == [
        outcome(table, other.integer(32)) for _ in range(300)
    ]
    assert table.draw(0, same).shape == (0,)


def test_words_of_the_rest_and_at_thresholds() -> None:
    """At each threshold the alias begins; a word of the rest draws more bits, if rejected a new word."""
    table = table_of(0, Fraction(7, 5))
    size = 1 << int(table.shift)
    edges = [word for word in table.thresholds.tolist() if word % size]
    words = [word + shift for word in edges for shift in (-1, 0)]
    plain = [outcome(table, word) for word in words]
    assert len(words) > 4
    assert all(one != other for one, other in zip(plain[::2], plain[1::2], strict=True))
    kept = [word for word, value in zip(words, plain, strict=True) if value != REST]
    assert table.draw(len(kept), Tape(kept)).tolist() == [value for value in plain if value != REST]
    cell = table.outcomes[1::2].tolist().index(REST)
    rest = int(table.thresholds[cell]) - 1
    assert outcome(table, rest) == REST
    never, certain = 2 * (table.masses.size + table.block), 0
    tape = Tape([kept[0], rest, rest, kept[1]], never, kept[2], 2 * 3, certain)
    first, second, third = (outcome(table, word) for word in kept[:3])
    assert table.draw(4, tape).tolist() == [first, third, 2, second]


# Who draws from a table ---------------------------------------------------------------------------


def test_bits_of_a_key_or_a_seed_never_go_through_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the operating system's do: another table would draw other noise for the same key."""
    drawn: list[AliasTable] = []
    draw = AliasTable.draw

    def record(table: AliasTable, count: int, bits: Bits) -> Any:
        drawn.append(table)
        return draw(table, count, bits)

    monkeypatch.setattr(AliasTable, "draw", record)
    a, keyed = Fraction(1, 10), KeyedRows(bytes(32), bytes(TAG_BYTES))
    for bits in (SeededBits(1), keyed.stream(0, 0), Tape([1 << 15, 1 << 15, 0])):
        discrete_laplace(1, a, bits)
    for n in (1, 2, ALIAS_MAX):
        windows(n, a, TABLE_FROM, SeededBits(1))
        noise_bounds(n, a, TABLE_FROM, SeededBits(1))
    assert not drawn
    for count, system in enumerate([SystemBits(), BulkBits(), ReplayedBits(1)]):
        discrete_laplace(1, a, system)
        windows(ALIAS_MAX, a, TABLE_FROM, system)
        noise_bounds(ALIAS_MAX + 1, a, TABLE_FROM, system)
        discrete_laplace(1, Fraction(1, SCALE_MAX + 1), system)
        assert len(drawn) == 2 * (count + 1)


@pytest.mark.parametrize("n", [1, 2, ALIAS_MAX])
def test_windows_of_few_slots_are_those_of_a_plain_loop(n: int) -> None:
    """Noise bounds by the table, then the slots by columns, as 32-bit words make them one by one."""
    a, count, same = Fraction(1, 20), 700, SeededBits(n)
    noise = windows(n, a, count, ReplayedBits(n))
    if n == 1:
        assert noise.tolist() == table_of(0, a).draw(count, same)[:, np.newaxis].tolist()
        return
    bounds = table_of(n, a).draw(count, same)
    columns = same.array(n * count, np.uint32).astype(object).reshape(n, count)
    ranges = 2 * bounds.astype(object) + 1
    assert (columns * ranges % WORDS >= WORDS % ranges).all()  # no word is redrawn
    assert noise.tolist() == ((columns * ranges // WORDS - bounds).T).tolist()


def test_what_is_refused() -> None:
    """Parameters are looked at before a table is made or found; a fine lattice has none."""
    table_of(0, Fraction(1, 2))
    with pytest.raises(TypeError, match="a must be exact"):
        alias_table(0, 0.5)
    with pytest.raises(ValueError, match="a must be positive"):
        alias_table(1, Fraction(0))
    assert alias_table(2, Fraction(2, SCALE_MAX))
    assert alias_table(2, Fraction(2, SCALE_MAX + 1)) is None
    assert alias_table.cache_info().maxsize == 32
