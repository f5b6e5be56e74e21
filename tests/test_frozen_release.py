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
    assert [(key.id, key.tag.hex()[:16], key.noise.hex()[:16], key.run.hex()[:16]) for key in made] == [
        ("b7fa6da6", "a67c93a03a64723f", "24d92c7282940f2b", "0eb7e14063468ca5"),
        ("1d38789f", "131a8ed1a39a52cd", "cc9b1201b04e14d3", "cf06d5e57643dfca"),
        ("f3bf2add", "c12de511ff58200f", "b3a357d874681008", "ffc30048d2714198"),
    ]


def test_one_release() -> None:
    """Label, tag and release of one window, number by number."""
    text = label(DAY, "acme", "meter/1", START_MS, QUANTA)
    assert text.hex() == (
        "000000136d657465726167656e742077696e646f7720310000000c6c696e662d6c61706c6163650000000461636d65"
        "00000005312f32323000000004312f3130000000015700000005706f77657200000001340000000838363430303030"
        "30000000000000000d4575726f70652f4265726c696e000000076d657465722f310000002800a8da769b0100000014"
        "0000000000000000000000000000fdffffffffffffff400d030000000000"
    )
    key, starts, quanta = KEY.at(START_MS), np.array([START_MS]), np.array([QUANTA])
    assert tags(key, DAY, ["meter/1"], starts, quanta).hex() == "daff98714d19f259cd62780d"
    bits = keyed_rows(key, DAY, ["meter/1"], starts, quanta)
    assert LInfLaplace("1/220", "1/10", 4).release_rows(quanta, bits).tolist() == [[5457, 1590, 2405, 197966]]


@pytest.mark.parametrize(
    ("shape", "digest"),
    [
        (NUMBER, "1f6d4b66d53e4c4f4ccd8c7a8f2311fb1e1ec93d092228022bf75de28af6a269"),
        (replace(DAY, n=96), "de076f6d2941cb5d664e4bcd601e6e88af9c663d3bce1c4a2ee5b6bef41cdf52"),
        (COARSE, "99dc450cd8767ea301424e3b86a85f4038ac240333ad5a33fbaf5974a7031cef"),
        (WIDE, "db9077b46d3e7cb9eb24c834a9716badf399867225c652f15aa7349e7f5c0be2"),
    ],
)
def test_many_releases(shape: Shape, digest: str) -> None:
    """A thousand windows, with all that is rare among so many, narrow and wide."""
    assert released(shape, 1000) == digest
