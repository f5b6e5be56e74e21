"""Bits of a key: AES-256 as the standards have it, each row's from its tag alone, and no key shown."""

import copy
import pickle
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.archive.key import EpochKey
from meteragent.archive.prf_input import Shape, keyed_rows
from meteragent.privacy.bits import PAGE_BYTES, Bits, SeededBits, SystemBits, Width
from meteragent.privacy.conformance import conform
from meteragent.privacy.keyed import KeyedRows, _cipher, compute_tags, pmac
from meteragent.privacy.mechanism.laplace import LInfLaplace
from tests.support.mechanism_contract import Conformance
from tests.support.row_bits import keyed, tag

PAGE_BLOCKS = PAGE_BYTES // 16
PINNED = "d7998a78f0de70a350a734046d7e819f3002844124b9b072e8a6f9f8534553767f2add47"


def block(key: str, address: str) -> str:
    """The block at a tag and a counter, 16 bytes in all, by its four words."""
    counter = int(address[24:], 16)
    page, first = divmod(counter, PAGE_BLOCKS)
    rows = KeyedRows(bytes.fromhex(key), bytes.fromhex(address[:24]))
    words = rows.word(np.zeros(4, np.int64), page, first * 4 + np.arange(4), np.uint32)
    return words.astype("<u4").tobytes().hex()


def test_fips_197() -> None:
    """The example of AES-256 in FIPS 197, appendix C.3: its plaintext is a tag and a counter."""
    key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    assert block(key, "00112233445566778899aabbccddeeff") == "8ea2b7ca516745bfeafc49904b496089"


def test_sp_800_38a() -> None:
    """Neighbouring blocks are the key stream of counter mode (NIST SP 800-38A, F.5.5)."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    assert block(key, "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff") == "0bdf7df1591716335e9a8b15c860c502"
    assert block(key, "f0f1f2f3f4f5f6f7f8f9fafbfcfdff00") == "5a6e699d536119065433863c8f657b94"


def plain_pmac(key: bytes, message: bytes) -> bytes:
    """PMAC (Black, Rogaway 2002), block after block."""
    encryptor = Cipher(AES(key), modes.ECB()).encryptor()

    def encrypted(number: int) -> int:
        return int.from_bytes(encryptor.update(number.to_bytes(16, "big")), "big")

    def doubled(number: int) -> int:
        return (number << 1) ^ (number >> 127) * (1 << 128 | 0x87)

    zero, offset, total = encrypted(0), 0, 0
    halved = next(half for half in (zero >> 1, zero >> 1 ^ 1 << 127 ^ 0x43) if doubled(half) == zero)
    blocks = [message[at : at + 16] for at in range(0, len(message), 16)] or [b""]
    for place, block in enumerate(blocks[:-1], start=1):
        step, left = zero, place
        while left % 2 == 0:
            left, step = left // 2, doubled(step)
        offset ^= step
        total ^= encrypted(int.from_bytes(block, "big") ^ offset)
    *_, last = blocks
    total ^= (
        int.from_bytes(last, "big") ^ halved
        if len(last) == 16
        else int.from_bytes((last + b"\x80").ljust(16, b"\0"), "big")
    )
    return encrypted(total).to_bytes(16, "big")


@pytest.mark.parametrize(
    ("message", "mac"),
    [
        (b"", "4399572cd6ea5341b8d35876a7098af7"),
        (bytes(range(3)), "256ba5193c1b991b4df0c51f388a9e27"),
        (bytes(range(16)), "ebbd822fa458daf6dfdad7c27da76338"),
        (bytes(range(20)), "0412ca150bbf79058d8c75a58c993f55"),
        (bytes(range(32)), "e97ac04e9e5e3399ce5355cd7407bc75"),
        (bytes(range(34)), "5cba7d5eb24f7c86ccc54604e53d5512"),
        (bytes(1000), "c2c9fa1d9985f6f0d2aff915a0e8d910"),
    ],
)
def test_the_vectors_of_pmac(message: bytes, mac: str) -> None:
    """The authors' vectors (Black, Rogaway 2002; AES-128, key 00 .. 0f), of the reference and of ours."""
    key = bytes(range(16))
    assert plain_pmac(key, message).hex() == mac
    if message and len(message) % 8 == 0:
        words = np.frombuffer(message, "<u8").astype(np.uint64)[np.newaxis]
        assert pmac(_cipher(key), words).tobytes().hex() == mac


WORDS = st.integers(0, 2**64 - 1)


@given(st.binary(min_size=32, max_size=32), st.integers(1, 40), st.integers(0, 7), st.data())
def test_a_tag_is_the_pmac_of_its_row(key: bytes, first: int, second: int, data: st.DataObject) -> None:
    """Its first 12 bytes, whether the last block is full or half, and in whatever parts; of none, none."""
    width = first + second
    rows = data.draw(st.lists(st.lists(WORDS, min_size=width, max_size=width), max_size=3))
    words = np.array(rows, np.uint64).reshape(-1, width)
    expected = b"".join(plain_pmac(key, row.astype("<u8").tobytes())[:12] for row in words)
    assert compute_tags(key, words[:, :first], words[:, first:]) == expected


def test_a_tag_stays_what_it_is() -> None:
    """A tag is the same in every version, also of rows that are longer than what is done at once."""
    key, words = bytes(range(32)), np.arange(3 * 50_001, dtype=np.uint64).reshape(3, -1)
    assert compute_tags(key, words[:, :5]).hex() == PINNED
    assert compute_tags(key, words) == b"".join(compute_tags(key, row[np.newaxis]) for row in words)
    assert compute_tags(key, words[:1]) == plain_pmac(key, words[0].astype("<u8").tobytes())[:12]


@given(st.lists(WORDS, min_size=1, max_size=9), st.data())
def test_rows_that_differ_have_other_tags(row: list[int], data: st.DataObject) -> None:
    """Another word, words that change places, one more, even if it looks like padding: another tag."""
    at = data.draw(st.integers(0, len(row) - 1))
    other = [*row[:at], row[at] ^ data.draw(st.integers(1, 2**64 - 1)), *row[at + 1 :]]
    rows = {tuple(one) for one in (row, other, row[::-1], [*row, 0x80], [*row, 0, 0], [0, 0, *row])}
    assert len({compute_tags(bytes(32), np.array([one], np.uint64)) for one in rows}) == len(rows)


@pytest.mark.parametrize("size", [16, 31, 33])
def test_tag_keys_have_their_size(size: int) -> None:
    """A key has 32 bytes, never fewer."""
    with pytest.raises(ValueError, match="a tag key has 32 bytes"):
        compute_tags(bytes(size), np.zeros((1, 2), np.uint64))


@pytest.mark.parametrize(("width", "mark"), [(np.uint8, "u1"), (np.uint32, "<u4"), (np.uint64, "<u8")])
def test_a_page_is_the_same_however_it_is_read(width: Width, mark: str) -> None:
    """Words one by one, many at once and as a stream are the same little-endian bytes."""
    rows, page, which = keyed(3, 2**96 - 1), 700, np.array([1, 0, 1])
    words = rows.words(which, page, 101, width)
    assert words.dtype == width
    assert words.shape == (3, 101)
    for i, row in enumerate(which.tolist()):
        one = [int(rows.word(np.array([row]), page, at, width)[0]) for at in range(101)]
        streamed = rows.stream(row, page).array(101, width)
        assert one == words[i].tolist() == streamed.tolist()
        data = rows.words(np.array([row]), page, 101 * words.itemsize, np.uint8)
        assert words[i].astype(mark).tobytes() == data.tobytes()
    places = np.array([7, 100, 0])
    assert rows.word(which, page, places, width).tolist() == words[[0, 1, 2], places].tolist()


def test_a_stream_ends_with_its_page() -> None:
    """A stream is the page's bytes in order, each once; integers take whole bytes; its end is an error."""
    rows = keyed(9)
    data = rows.words(np.array([0]), 512, 1000, np.uint8)[0].tobytes()
    bits, taken = rows.stream(0, 512), 0
    for k in (1, 32, 0, 17, 64, 700, 8, 3000):
        size = (k + 7) // 8
        assert bits.integer(k) == int.from_bytes(data[taken : taken + size], "little") >> -k % 8
        taken += size
    last = rows.stream(0, 1023)
    last.array(PAGE_BYTES, np.uint8)
    with pytest.raises(OverflowError, match="a row has 1024 pages"):
        last.integer(1)


def test_rows_pages_and_keys_are_apart() -> None:
    """A different tag, page or key gives a different stream."""
    bits = [rows.stream(row, page) for rows, row, page in places()]
    assert len({stream.integer(128) for stream in bits}) == len(bits) == 8


def places() -> list[tuple[KeyedRows, int, int]]:
    """Two keys, two rows, two pages."""
    tags = tag(0) + tag(1)
    return [
        (KeyedRows(bytes([k]) * 32, tags), row, page) for k in (0, 1) for row in (0, 1) for page in (0, 1)
    ]


def test_no_rows_are_rows() -> None:
    """A batch may be empty, and so may what is asked of one."""
    none = np.zeros(0, np.int64)
    for rows in (keyed(), keyed(1)):
        assert rows.words(none, 0, 5, np.uint32).shape == (0, 5)
        assert rows.word(none, 0, 0, np.uint64).shape == (0,)
    assert keyed(1).words(np.array([0]), 0, 0, np.uint64).shape == (1, 0)


@pytest.mark.parametrize(("key", "size"), [(31, 12), (33, 12), (16, 12), (32, 11), (32, 25)])
def test_keys_and_tags_have_their_sizes(key: int, size: int) -> None:
    """A key has 32 bytes, never fewer; a tag 12."""
    with pytest.raises(ValueError, match="a noise key has 32 bytes and a tag 12"):
        KeyedRows(bytes(key), bytes(size))


def test_a_key_stays_where_it_is() -> None:
    """Rows of a key are neither pickled nor copied, and show nothing of it."""
    rows = keyed(1)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a key cannot be pickled"):
            take(rows)
    assert bytes(range(8)).hex() not in repr(rows)
    assert not any(isinstance(value, bytes) for value in vars(rows).values())


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `cryptography` is missing the error says what to install."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ImportError, match="needs cryptography, from the extra 'archive'"):
        keyed(1)


# The suite of mechanisms, on noise from a key ----------------------------------------------------------


@dataclass(frozen=True, init=False)
class Keyed(LInfLaplace):
    """The mechanism with noise from a key; key and tags come from the bits that are given."""

    def release(self, windows: Any, *, bits: Bits | None = None) -> NDArray[np.int64]:
        """Each window has a tag of its own."""
        source, values = SystemBits() if bits is None else bits, np.asarray(windows)
        rows = values.reshape(-1, self.n)
        key, own = (source.array(size, np.uint8).tobytes() for size in (32, 12 * len(rows)))
        return self.release_rows(rows, KeyedRows(key, own)).reshape(values.shape)


@dataclass(frozen=True, init=False)
class Bound(LInfLaplace):
    """The same with the tags of labels, each window that of another meter."""

    def release(self, windows: Any, *, bits: Bits | None = None) -> NDArray[np.int64]:
        """Each window is bound to its data."""
        source, values = SystemBits() if bits is None else bits, np.asarray(windows, np.int64)
        rows = values.reshape(-1, self.n)
        keys = [source.array(32, np.uint8).tobytes() for _ in range(3)]
        shape = Shape(self.epsilon, self.quantum, "W", "power", self.n, 86_400_000)
        meters, starts = [str(number) for number in range(len(rows))], np.zeros(len(rows), np.int64)
        bits_of_rows = keyed_rows(EpochKey("00000000", "t", *keys), shape, meters, starts, rows)
        return self.release_rows(rows, bits_of_rows).reshape(values.shape)


class TestKeyed(Conformance):
    """Windows of three slots: without the key, the exact law appears."""

    def made(self) -> "partial[Any]":
        """On a lattice of halves."""
        return partial(Keyed, epsilon=Fraction(1, 3), quantum=Fraction(1, 2), n=3)


class TestKeyedNumber(Conformance):
    """Windows of one slot, whose noise is drawn as that of others."""

    def made(self) -> "partial[Any]":
        """As the default configuration has them."""
        return partial(Keyed, epsilon=Fraction(1, 220), quantum=1, n=1)


def test_bound_to_the_data_all_holds_but_for_who_has_the_key() -> None:
    """With tags of labels only that fails which looks at two windows under one key: other data, other noise.

    That is what the digest is for, and who has not the key cannot tell. False alarm 1e-9.
    """
    report = conform(Bound("1/3", "1/2", 3), samples=10_000, false_alarm=1e-9, bits=SeededBits(7))
    assert report.failed == ["same noise for any window"], report.table()
