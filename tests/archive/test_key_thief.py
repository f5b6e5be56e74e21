"""What a thief of a key learns from what left: SECURITY.md's figures."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.archive.key import Key
from meteragent.archive.prf_input import Shape, keyed_rows
from meteragent.domain.errors import KeyForgotten
from meteragent.privacy.mechanism.laplace import LInfLaplace

START_MS = 1_767_225_600_000  # 2026-01-01
HALF_HOUR_MS = 1_800_000
STOLEN = Key("acme", "month", 600, bytes(range(32)))


def released(mechanism: LInfLaplace, quanta: NDArray[np.int64], start_ms: int) -> NDArray[np.int64]:
    """What leaves, or would leave, of a meter's window, for each of several values."""
    key, length_ms = STOLEN.at(start_ms), HALF_HOUR_MS * mechanism.n
    shape = Shape(mechanism.epsilon, mechanism.quantum, "W", "power", mechanism.n, length_ms)
    starts = np.full(len(quanta), start_ms)
    return mechanism.release_rows(quanta, keyed_rows(key, shape, ["m1"] * len(quanta), starts, quanta))


def test_of_one_number_about_two_values_are_left() -> None:
    """Who has the key and one released number tries all 20,001: the right one fits, and about one more.

    The others fit with P(z = y - x) each, 1 in all for values well within the range: 20 windows have 20
    others, and fewer than 3 or more than 44 with a chance of 1e-5.
    """
    mechanism, every = LInfLaplace("1/220", 1, 1), np.arange(20_001)[:, np.newaxis]
    fit = []
    for window, load in enumerate(np.linspace(3000, 17_000, 20).astype(np.int64).tolist()):
        start_ms = START_MS + window * HALF_HOUR_MS
        (left,) = released(mechanism, np.array([[load]]), start_ms)[0].tolist()
        actual = np.flatnonzero(released(mechanism, every, start_ms)[:, 0] == left)
        assert load in actual
        fit.append(actual.size)
    assert 3 <= sum(fit) - 20 <= 44


def test_a_window_of_many_numbers_must_be_guessed_whole() -> None:
    """With 48 of 48 slots right what left fits; with one of them 1 W off nothing of it does."""
    mechanism, load = LInfLaplace("1/220", 1, 48), np.arange(48) * 7 % 90 + 300
    (left,) = released(mechanism, load[np.newaxis], START_MS)
    near = load + np.eye(48, dtype=np.int64)
    assert (released(mechanism, load[np.newaxis], START_MS) == left).all()
    assert not (released(mechanism, near, START_MS) == left).all(axis=1).any()
    # Nor does half of a guess fit by half: other data has other noise in every slot.
    assert (released(mechanism, near, START_MS) == left).mean() < 0.01


def test_what_can_be_guessed_is_no_secret() -> None:
    """An empty house at a base load of 20 to 500 W, all day the same: of 481 guesses the right one fits."""
    mechanism, guesses = LInfLaplace("1/220", 1, 48), np.repeat(np.arange(20, 501)[:, np.newaxis], 48, axis=1)
    (left,) = released(mechanism, np.full((1, 48), 137), START_MS)
    fit = (released(mechanism, guesses, START_MS) == left).all(axis=1)
    assert (np.flatnonzero(fit) + 20).tolist() == [137]


def test_the_past_of_a_forgotten_key_is_out_of_reach() -> None:
    """A thief of the file has all later epochs' keys, and none before `begins`."""
    kept = STOLEN.without(START_MS)
    assert kept.at(START_MS + 10**11) == STOLEN.at(START_MS + 10**11)
    with pytest.raises(KeyForgotten):
        kept.at(START_MS - 1)


def test_the_bounds_are_those_that_are_told() -> None:
    """2^32 windows of 96 slots, of 25 blocks and few more: q < 2^37, q^2/2^129 < 2^-55, N^2/2^97 = 2^-33."""
    windows, blocks = 2**32, 2**32 * (1 + math.ceil(96 * 4 / 16) + 1)
    assert blocks < 2**37
    assert Fraction(blocks**2, 2**129) < Fraction(1, 2**55)
    assert Fraction(windows**2, 2**97) == Fraction(1, 2**33)
