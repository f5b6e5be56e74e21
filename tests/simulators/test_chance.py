"""simulators.homes.chance: the published generator, as a function of what a number is for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.homes.chance import lognormal, normal, philox, poisson, uniforms

KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
"""Counter, key, output: the test vectors of Random123 for Philox4x32-10."""


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(counter: str, key: str, output: str) -> None:
    """It is Philox4x32-10: its authors' test vectors come out, in every place of a long array."""
    asked = [int(word, 16) for word in counter.split()]
    a, b, c, d = (np.full(20_000, word, np.uint64) for word in asked)
    low, high = (int(word, 16) for word in key.split())
    words = philox((a, b, c, d), high << 32 | low)
    expected = np.array([int(word, 16) for word in output.split()], np.uint64)
    assert (words == expected[:, None]).all()
    assert a[0] == asked[0], "what is passed in stays"


@given(
    seed=st.integers(0, 2**64 - 1),
    home=st.integers(0, 2**32 - 1),
    day=st.integers(-1000, 1000),
    at=st.integers(0, 99),
)
def test_a_pure_function(seed: int, home: int, day: int, at: int) -> None:
    """A number is the same alone and among others, and another one for every other purpose."""
    alone = uniforms(seed, "one", home, day, at)
    among = uniforms(seed, "one", np.array([home, home ^ 1])[:, None], day, np.arange(100))
    assert np.array_equal(among[:, 0, at], alone)
    assert alone.shape == (4,)
    assert ((alone > 0) & (alone < 1)).all()
    others = [
        uniforms(seed ^ 1, "one", home, day, at),
        uniforms(seed ^ 1 << 40, "one", home, day, at),
        uniforms(seed, "other", home, day, at),
        uniforms(seed, "one", home ^ 1, day, at),
        uniforms(seed, "one", home, day + 1, at),
        uniforms(seed, "one", home, day, at + 1),
    ]
    assert not any(np.array_equal(alone, other) for other in others)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_bad_seed(seed: int) -> None:
    """A seed is refused where it would be another one in disguise."""
    with pytest.raises(ValueError, match=r"from 0 to 2\*\*64"):
        uniforms(seed, "one", 0)


def test_poisson_by_inversion() -> None:
    """Counts step up where the cumulative probability is reached; a mean of 0 gives 0."""
    mean = np.full(5, 2.0)
    uniform = np.array([0.1353, 0.1354, 0.4060, 0.4061, 0.6767])
    assert poisson(uniform, mean).tolist() == [0, 1, 1, 2, 3]
    assert poisson(np.array([1 - 1e-10]), np.array([0.0])).tolist() == [0]


def test_normal_and_lognormal() -> None:
    """Box and Muller's formula at a point, and a factor's mean: exp(spread z - spread²/2)."""
    u, v = np.array([np.exp(-0.5)]), np.array([0.0])
    assert normal(u, v) == pytest.approx(1)
    assert normal(u, v + 0.5) == pytest.approx(-1)
    assert lognormal(u, v, 0.4) == pytest.approx(np.exp(0.4 - 0.08))
