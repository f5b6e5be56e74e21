"""What a key releases is for ever: other bytes for the same window would be a second release.

If one of these numbers changes, archives that were released in part go on with noise of another making, and a
release that is made again differs from the first. So a change needs another domain in `archive.label` (and in
`archive.key`), a line in CHANGELOG.md, and new numbers here.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from meteragent.archive.key import Key
from meteragent.archive.label import Shape, keyed_rows, label, tags
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
    assert [(key.id, key.tag.hex()[:16], key.noise.hex()[:16]) for key in made] == [
        ("b7fa6da6", "a67c93a03a64723f", "24d92c7282940f2b"),
        ("1d38789f", "131a8ed1a39a52cd", "cc9b1201b04e14d3"),
        ("f3bf2add", "c12de511ff58200f", "b3a357d874681008"),
    ]


def test_one_release() -> None:
    """Label, tag and release of one window, number by number."""
    text = label(DAY, "acme", "meter/1", START_MS, QUANTA)
    assert text.hex() == (
        "000000136d657465726167656e742077696e646f7720310000000c6c696e662d6c61706c6163650000000461636d65"
        "00000005312f32323000000004312f3130000000015700000005706f77657200000001340000000838363430303030"
        "30000000000000000d4575726f70652f4265726c696e000000076d657465722f310000000800a8da769b0100000000"
        "0020a720ef85f11c733447978808204da474ed2a33105dc7363600a2a9ab1203925e"
    )
    key, starts, quanta = KEY.at(START_MS), np.array([START_MS]), np.array([QUANTA])
    assert tags(key, DAY, ["meter/1"], starts, quanta).hex() == "6fda692183c8275c726815b2"
    bits = keyed_rows(key, DAY, ["meter/1"], starts, quanta)
    assert LInfLaplace("1/220", "1/10", 4).release_rows(quanta, bits).tolist() == [
        [9900, -2436, -4635, 196090]
    ]


@pytest.mark.parametrize(
    ("shape", "digest"),
    [
        (NUMBER, "20a23c2865a508f1a7c80a583985f4e1af54ecc6ee8a7c0a35a090814d555d54"),
        (replace(DAY, n=96), "8bf3afeae0bf22ef8dd1e9f2373c31376d59942678671b64d85dce58fdd1987a"),
        (COARSE, "df6879413bd4f9ab15824efe6b745597897be2f9dbec45af60d643c7bd9678cb"),
        (WIDE, "ee3c680317e199dedc389d8c19bd4298aee4874c4ab2b9f60f55df8cbf5a04ed"),
    ],
)
def test_many_releases(shape: Shape, digest: str) -> None:
    """A thousand windows, with all that is rare among so many, narrow and wide."""
    assert released(shape, 1000) == digest
