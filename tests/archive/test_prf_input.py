"""A window's label is everything that makes it that window: nothing else has its tag."""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.archive.key import Key
from meteragent.archive.prf_input import Shape, keyed_rows, prf_input, tags
from meteragent.domain.grid import Band
from meteragent.domain.shapes import Profile
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy import keyed
from meteragent.privacy.mechanism.laplace import LInfLaplace
from tests.support.terms import terms_with
from tests.support.witness import TERMS

DAY_MS = 86_400_000
START_MS = 1_767_225_600_000  # 2026-01-01


class Window(NamedTuple):
    """All that a label is made of."""

    shape: Shape
    tenant: str
    meter: str
    start_ms: int
    quanta: tuple[int, ...]

    @property
    def prf_input(self) -> bytes:
        """Its label."""
        return prf_input(*self)

    @property
    def tag(self) -> bytes:
        """Its tag, under a key that everybody knows."""
        starts, quanta = np.array([self.start_ms], np.int64), np.array([self.quanta], np.int64)
        return tags(keys(self.tenant).at(self.start_ms), self.shape, [self.meter], starts, quanta)


@functools.cache
def keys(tenant: str = "acme") -> Key:
    """A key that everybody knows."""
    return Key(tenant, "month", 0, bytes(range(32)))


ONE = Window(
    Shape(Fraction(1, 220), Fraction(1), "W", "power", 3, DAY_MS), "acme", "m1", START_MS, (512, 498, 0)
)


# Injective ----------------------------------------------------------------------------------------


def parsed(text: bytes) -> list[bytes]:
    """The parts of a label: what stands after each length, to the end."""
    parts = []
    while text:
        size = int.from_bytes(text[:4], "big")
        assert len(text) >= 4 + size
        parts.append(text[4 : 4 + size])
        text = text[4 + size :]
    return parts


def said(window: Window) -> list[bytes]:
    """What the parts of a window's label must be."""
    shape, ours = window.shape, ["meteragent window 2"]
    ours += [shape.mechanism, window.tenant, str(shape.epsilon), str(shape.quantum), shape.unit, shape.kind]
    bands = ";".join(",".join(f"{start}-{end}" for start, end in band) for band in shape.bands)
    ours += [str(shape.n), str(shape.length_ms), bands, shape.timezone or "", window.meter]
    return [*(part.encode() for part in ours), np.array([window.start_ms, *window.quanta], "<i8").tobytes()]


names = st.text(max_size=8) | st.sampled_from(["m1", "m1\0\0\0\x01x", "\0\0\0\x02m1", "", "1/220"])
fractions = st.builds(Fraction, st.integers(1, 9), st.integers(1, 9))
stretches = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=2).map(tuple)


@st.composite
def windows(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Window:
    """Any window; names hold what looks like lengths."""
    bands = draw(st.lists(stretches, max_size=3).map(tuple))
    n = len(bands) or draw(st.integers(1, 4))
    shape = Shape(
        *(draw(fractions), draw(fractions), draw(names), draw(names), n, draw(st.integers(1, 10**10))),
        *(bands, draw(st.none() | st.sampled_from(["UTC", "Asia/Tokyo"])), draw(names)),
    )
    quanta = tuple(draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n)))
    return Window(shape, draw(names), draw(names), draw(st.integers(-(2**63), 2**63 - 1)), quanta)


@given(windows())
def test_a_label_says_all_its_parts(window: Window) -> None:
    """From a label each part can be read back, so no two windows have one label."""
    assert parsed(window.prf_input) == said(window)


@given(windows(), windows())
def test_different_windows_have_different_labels(one: Window, other: Window) -> None:
    """Labels are equal only if all parts are."""
    assert (one.prf_input == other.prf_input) == (one == other)


def test_lengths_are_not_data() -> None:
    """What is moved from one part into the next, lengths and all, makes another label."""
    moved = [
        ONE._replace(tenant="acmem", meter="1"),
        ONE._replace(meter="m1\0\0\0\x08" + "\0" * 8),
        ONE._replace(shape=replace(ONE.shape, unit="W\0\0\0\5power", kind="")),
        ONE._replace(shape=replace(ONE.shape, unit="", kind="W\0\0\0\5power")),
        ONE._replace(shape=replace(ONE.shape, n=4), quanta=(512, 498, 0, 0)),
        ONE._replace(shape=replace(ONE.shape, n=2), quanta=(512, 498)),
    ]
    assert len({window.prf_input for window in [ONE, *moved]}) == 7


OTHERS = {
    "a correction": ONE._replace(quanta=(512, 499, 0)),
    "two readings exchanged": ONE._replace(quanta=(498, 512, 0)),
    "the sign": ONE._replace(quanta=(512, 498, -0 - 1)),
    "another epsilon": ONE._replace(shape=replace(ONE.shape, epsilon=Fraction(1, 110))),
    "another quantum": ONE._replace(shape=replace(ONE.shape, quantum=Fraction(1, 10))),
    "another unit": ONE._replace(shape=replace(ONE.shape, unit="kW")),
    "another kind": ONE._replace(shape=replace(ONE.shape, kind="interval_energy")),
    "half the slots": ONE._replace(shape=replace(ONE.shape, n=6), quanta=(512, 498, 0, 0, 0, 0)),
    "another length": ONE._replace(shape=replace(ONE.shape, length_ms=DAY_MS // 2)),
    "bands": ONE._replace(shape=replace(ONE.shape, bands=(((0, 1),), ((1, 2),), ((2, 3),)))),
    "other bands": ONE._replace(shape=replace(ONE.shape, bands=(((0, 1), (1, 2)), ((2, 3),), ((3, 4),)))),
    "a local calendar": ONE._replace(shape=replace(ONE.shape, timezone="Europe/Berlin")),
    "another mechanism": ONE._replace(shape=replace(ONE.shape, mechanism="gauss")),
    "another tenant": ONE._replace(tenant="acme2"),
    "another meter": ONE._replace(meter="m2"),
    "the next day": ONE._replace(start_ms=START_MS + DAY_MS),
    "the next millisecond": ONE._replace(start_ms=START_MS + 1),
    "the next month": ONE._replace(start_ms=START_MS + 31 * DAY_MS),
}


def test_nothing_else_has_its_tag() -> None:
    """A correction, two epsilons, lengths, meters, tenants, days .. : no two share tag or noise."""
    every = [ONE, *OTHERS.values()]
    assert len({window.tag for window in every}) == len(every)
    assert len({tuple(noise(window)[0].tolist()) for window in every}) == len(every)


def noise(window: Window, *meters: str) -> NDArray[np.int64]:
    """The noise of a window, or of that of other meters, by a law so wide that equal bits would show."""
    whose, n = meters or (window.meter,), window.shape.n
    starts, quanta = np.full(len(whose), window.start_ms), np.tile(np.array(window.quanta), (len(whose), 1))
    bits = keyed_rows(keys(window.tenant).at(window.start_ms), window.shape, whose, starts, quanta)
    released: NDArray[np.int64] = LInfLaplace("1/1000000", 1, n).release_rows(quanta, bits)
    return released - window.quanta


@pytest.mark.parametrize("change", OTHERS)
def test_the_noise_of_another_window_is_another(change: str) -> None:
    """A thousand meters' noise agrees in no slot with that of the other window.

    At an epsilon of a millionth independent noise agrees somewhere with a chance below 1000 * 3 * 5e-7.
    """
    meters = [str(number) for number in range(1000)]
    others = [meter + "'" for meter in meters] if change == "another meter" else meters
    n = min(ONE.shape.n, OTHERS[change].shape.n)
    assert (noise(ONE, *meters)[:, :n] != noise(OTHERS[change], *others)[:, :n]).all()


def test_equal_data_on_two_days_gets_other_noise() -> None:
    """Ten equal days of a hundred meters: no two windows have one noise; the same window has the same."""
    meters = [f"m{i}" for i in range(100) for _ in range(10)]
    starts = np.tile(START_MS + DAY_MS * np.arange(10), 100)
    quanta = np.full((1000, 3), 7)

    def drawn() -> Any:
        bits = keyed_rows(keys().at(START_MS), ONE.shape, meters, starts, quanta)
        return LInfLaplace("1/1000000", 1, 3).release_rows(quanta, bits)

    assert len(np.unique(drawn()[:, 0])) > 995
    assert (drawn() == drawn()).all()


# Tags ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(names, st.integers(-(2**63), 2**63 - 1), st.integers(-(2**62), 2**62)), max_size=5))
def test_a_tag_is_that_of_the_label(rows: list[tuple[str, int, int]]) -> None:
    """That of SHA-256 of what stands before a label's numbers, and of these; in the order of the windows."""
    key, shape = keys().epoch(600), replace(ONE.shape, n=2)
    starts = np.array([start for _, start, _ in rows], np.int64)
    quanta = np.array([[value, -value] for *_, value in rows], np.int64).reshape(-1, 2)
    made = tags(key, shape, [meter for meter, *_ in rows], starts, quanta)
    labels = [prf_input(shape, "acme", meter, start, (value, -value)) for meter, start, value in rows]
    data = b"".join(hashlib.sha256(text[:-24]).digest() + text[-24:] for text in labels)
    assert made == keyed.compute_tags(key.tag, np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, 7))


def test_what_are_no_windows_is_refused() -> None:
    """As many meters, starts and windows of n whole quanta; never floats, which would lose what follows."""
    key, starts, quanta = keys().epoch(600), np.zeros(2, np.int64), np.zeros((2, 3), np.int64)
    for meters, at, data in ((["a"], starts, quanta), (["a", "b"], starts[:1], quanta)):
        with pytest.raises(ValueError, match="windows need"):
            tags(key, ONE.shape, meters, at, data)
    with pytest.raises(ValueError, match="windows need"):
        tags(key, ONE.shape, ["a", "b"], starts, quanta[:, :2])
    floats: Any = quanta + 0.5
    for at, values in ((starts, floats), (floats[:, 0], quanta), (starts, floats.astype(np.uint64))):
        with pytest.raises(TypeError, match="must be int64"):
            tags(key, ONE.shape, ["a", "b"], at, values)
    with pytest.raises(ValueError, match="3 slots"):
        ONE._replace(quanta=(1, 2)).prf_input  # noqa: B018  a label is made


# Terms --------------------------------------------------------------------------------------------


def test_a_shape_is_what_of_its_terms_the_noise_depends_on() -> None:
    """Law, lattice, unit, kind, slots and calendar; not gap, range, hold or the share of the level."""
    shape = Shape.of(TERMS)
    assert shape.epsilon == TERMS.epsilon
    assert shape == Shape.of(
        terms_with(TERMS, gap_u=TERMS.readings.gap_u + 1, high_u=TERMS.readings.high_u + 1, hold_ms=7)
    )
    assert shape == Shape.of(replace(TERMS, level=2 * TERMS.level, radius=2 * TERMS.radius))
    banded = terms_with(
        TERMS,
        shape=Profile(TERMS.length_ms, (("a", 5), ("b", 5))),
        places=(Band("a", ((0, 5),)), Band("b", ((5, 9), (10, 11)))),
    )
    changed: list[Terms] = [
        TERMS,
        replace(TERMS, radius=2 * TERMS.radius),
        replace(TERMS, quantum_u=2 * TERMS.quantum_u),
        terms_with(TERMS, unit="kW"),
        terms_with(TERMS, kind=Kind.INTERVAL_ENERGY),
        terms_with(TERMS, length_ms=2 * TERMS.length_ms),
        terms_with(TERMS, length_ms=2 * TERMS.length_ms, step_ms=2 * TERMS.step_ms),
        replace(TERMS, timezone="Europe/Berlin"),
        banded,
    ]
    shapes = [Shape.of(terms) for terms in changed]
    assert all(item != other for item, other in combinations(shapes, 2))
    assert [shape.n for shape in shapes] == [terms.n for terms in changed]
    assert Shape.of(banded).bands == (((0, 5),), ((5, 9), (10, 11)))
