"""What a key releases is for ever: other bytes for the same window would be a second release.

If one of these numbers changes, archives that were released in part go on with noise of another making, and a
release that is made again differs from the first. So a change needs another domain in `archive.prf_input`
(and in `archive.key`), a line in CHANGELOG.md, and new numbers here.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from meteragent.archive.key import Key
from meteragent.archive.prf_input import Shape, keyed_rows, prf_input, tags
from meteragent.privacy.mechanism.laplace import LInfLaplace

START_MS = 1_767_225_600_000  # 2026-01-01
KEY = Key("acme", "month", 600, bytes(range(32)))
DAY = Shape(Fraction(1, 220), Fraction(1, 10), "W", "power", 4, 86_400_000, timezone="Europe/Berlin")
NUMBER = Shape(Fraction(1, 220), Fraction(1), "W", "power", 1, 1_800_000)
COARSE = Shape(Fraction(3), Fraction(1), "Wh", "interval_energy", 2, 3_600_000)
WIDE = Shape(Fraction(1, 2**30), Fraction(1), "W", "power", 3, 1_800_000)
QUANTA = (5120, 0, -3, 200_000)


def released(shape: Shape, count: int) -> str:
    """SHA-256 of many windows with noise, as int64."""
    quanta = np.arange(count * shape.n).reshape(count, shape.n) % 5000
    starts, meters = START_MS + np.arange(count) * 86_400_000 % 2_678_400_000, [f"m{i}" for i in range(count)]
    bits = keyed_rows(KEY.at(START_MS), shape, meters, starts, quanta)
    noisy = LInfLaplace(shape.epsilon, shape.quantum, shape.n).release_rows(quanta, bits)
    return hashlib.sha256(noisy.astype("<i8").tobytes()).hexdigest()


def test_keys() -> None:
    """The keys of epochs 600, 672 and, with epochs of days, 20,454."""
    made = [KEY.epoch(600), KEY.epoch(672), Key("acme", "day", 20_000, bytes(range(32))).epoch(20_454)]
    assert [(key.id, key.tag.hex()[:16], key.noise.hex()[:16], key.run.hex()[:16]) for key in made] == [
        ("b7fa6da6", "47417c6a5758962a", "3167606048d0870a", "f2e34844dd76aefb"),
        ("1d38789f", "af6227906d602254", "ed68398f3007264c", "954b404a94a5ab11"),
        ("f3bf2add", "c2f0cafa5587139e", "e511b9c4a52d82c1", "bb439c18f16f4899"),
    ]


def test_one_release() -> None:
    """Label, tag and release of one window, number by number."""
    text = prf_input(DAY, "acme", "meter/1", START_MS, QUANTA)
    assert text.hex() == (
        "000000136d657465726167656e742077696e646f7720320000000c6c696e662d6c61706c6163650000000461636d65"
        "00000005312f32323000000004312f3130000000015700000005706f77657200000001340000000838363430303030"
        "30000000000000000d4575726f70652f4265726c696e000000076d657465722f310000002800a8da769b0100000014"
        "0000000000000000000000000000fdffffffffffffff400d030000000000"
    )
    key, starts, quanta = KEY.at(START_MS), np.array([START_MS]), np.array([QUANTA])
    assert tags(key, DAY, ["meter/1"], starts, quanta).hex() == "b0b1f76cd15b4a4b9539dab3"
    bits = keyed_rows(key, DAY, ["meter/1"], starts, quanta)
    assert LInfLaplace("1/220", "1/10", 4).release_rows(quanta, bits).tolist() == [
        [7808, -9538, -4997, 198725]
    ]


@pytest.mark.parametrize(
    ("shape", "digest"),
    [
        (NUMBER, "5afd13e8856e9661ffbbb05bdab3deb652ea803d04198b81b6a3f0771aeff8aa"),
        (replace(DAY, n=96), "86b91eb80ec6e81ad6d40fafb2da3ff89fdcf248812b5a410cb28601fcfc758a"),
        (COARSE, "cf0c064f8ee017d83a814809bd8ff597931dd673d3558138638065d735b8199a"),
        (WIDE, "bc6da982e3e8095074c363178de1807fffa9ea8794bb4ce1d6d21751544cbb60"),
    ],
)
def test_many_releases(shape: Shape, digest: str) -> None:
    """A thousand windows, narrow and wide, with all the cases that are rare among so many."""
    assert released(shape, 1000) == digest
