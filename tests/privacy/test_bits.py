"""Random bits are handed out once (meteragent.privacy.bits)."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace
from meteragent.privacy.bits import Bits, SeededBits, SystemBits
from meteragent.privacy.bulk import BulkBits, source_of


class CountingBits(SystemBits):
    """A source whose every 4 bytes are a new number, so that a reuse shows."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def _fresh(self, size: int) -> bytes:
        start, self._next = self._next, self._next + size // 4
        return np.arange(start, self._next, dtype="<u4").tobytes()


@pytest.fixture(params=[SystemBits, BulkBits, partial(SeededBits, 0)])
def bits(request: pytest.FixtureRequest) -> Bits:
    """Each source of bits."""
    source: Bits = request.param()
    return source


def test_an_integer_has_exactly_k_bits(bits: Bits) -> None:
    """An integer of k bits is 0 .. 2^k - 1, and each of the k bits takes both values."""
    for k in (0, 1, 3, 8, 13, 64, 1000):
        drawn = [bits.integer(k) for _ in range(200)]
        assert max(drawn).bit_length() <= k
        ones, zeros = 0, 0
        for value in drawn:
            ones, zeros = ones | value, zeros | ~value
        assert ones % (1 << k) == zeros % (1 << k) == (1 << k) - 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_an_array_has_the_type_and_all_bits(bits: Bits, dtype: type[np.unsignedinteger[Any]]) -> None:
    """An array has the count and type asked for, and every bit of it takes both values."""
    drawn = bits.array(5000, dtype)
    assert drawn.shape == (5000,)
    assert drawn.dtype == dtype
    assert np.bitwise_or.reduce(drawn) == np.bitwise_or.reduce(~drawn) == np.iinfo(dtype).max


def test_no_array_is_an_array(bits: Bits) -> None:
    """An array of nothing is empty."""
    assert bits.array(0, np.uint64).size == 0


@pytest.mark.parametrize("bits", [SystemBits(), SeededBits(0)])
def test_less_than_no_array_is_refused(bits: Bits) -> None:
    """A negative count would be all that is buffered."""
    bits.integer(8)
    with pytest.raises(ValueError, match="a count must not be negative: -1"):
        bits.array(-1, np.uint16)


def test_no_bits_are_handed_out_twice() -> None:
    """Single numbers, small arrays and large ones, mixed, never share a byte of the source."""
    bits = CountingBits()
    seen: list[int] = []
    for _ in range(3000):
        seen.append(bits.integer(32))
        seen.extend(bits.array(7, np.uint32).tolist())
    seen.extend(bits.array(50_000, np.uint32).tolist())
    assert len(set(seen)) == len(seen)


def test_large_requests_are_openssl_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 256 bytes are parts of blocks of the kernel, and more are OpenSSL's, as many as are asked for."""
    fetched: list[tuple[str, int]] = []

    def record(name: str, size: int) -> bytes:
        fetched.append((name, size))
        return bytes(size)

    monkeypatch.setattr("os.urandom", partial(record, "kernel"))
    monkeypatch.setattr("ssl.RAND_bytes", partial(record, "OpenSSL"))
    bits = BulkBits()
    bits.integer(1), bits.array(32, np.uint64), bits.array(257, np.uint8), bits.array(5000, np.uint32)
    assert fetched == [("kernel", 4096), ("OpenSSL", 257), ("OpenSSL", 20_000)]


def test_the_default_source_is_the_thread_s() -> None:
    """Calls that name no source share one, but threads do not."""
    with ThreadPoolExecutor(2) as pool:
        start = Barrier(2)
        sources = pool.map(lambda _: (start.wait(), source_of(None), source_of(None)), range(2))
    (_, one, again), (_, other, _) = sources
    assert isinstance(one, BulkBits)
    assert one is again
    assert one is not other


def test_threads_do_not_share_bits() -> None:
    """Threads that draw from one source at once get different bits of it."""
    bits, workers = CountingBits(), 4
    start = Barrier(workers)
    bits.integer(32)  # fills the first chunk, that of the numbers below 2^14

    def draw(_: int) -> list[int]:
        start.wait()
        return [bits.integer(32) for _ in range(20_000)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(workers) as pool:
            drawn = [value for part in pool.map(draw, range(workers)) for value in part]
    finally:
        sys.setswitchinterval(interval)
    in_one_chunk = [value for value in drawn if value < 1 << 14]
    assert len(set(in_one_chunk)) == len(in_one_chunk)


def test_copies_start_afresh() -> None:
    """A copied or pickled source does not repeat the bits that the original still holds."""
    bits = SystemBits()
    bits.integer(1)
    others = [copy.copy(bits), copy.deepcopy(bits), pickle.loads(pickle.dumps(bits))]
    drawn = [source.integer(128) for source in [bits, *others]]
    assert len(set(drawn)) == len(drawn)


def test_a_child_process_starts_afresh() -> None:
    """After a fork, parent and child do not draw the same bits from what was buffered before."""
    program = """
import os
import numpy as np
from meteragent.privacy import SystemBits
bits = SystemBits()
bits.integer(8), bits.array(10_000, np.uint8)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, bits.integer(256).to_bytes(32, "big") + bits.array(10_000, np.uint8).tobytes()[:32])
    os._exit(0)
mine = bits.integer(256).to_bytes(32, "big"), bits.array(10_000, np.uint8).tobytes()[:32]
theirs = os.read(read, 32), os.read(read, 32)
print(all(own != other for own, other in zip(mine, theirs)))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"


def test_a_seed_repeats_and_another_differs() -> None:
    """The same seed gives the same bits, on every machine and version; 0 is a seed like any other."""
    first, again, other = SeededBits(0), SeededBits(0), SeededBits(1)
    drawn = [first.integer(64) for _ in range(20_000)]
    assert drawn == [again.integer(64) for _ in range(20_000)]
    assert drawn != [other.integer(64) for _ in range(20_000)]
    assert len(set(drawn)) == len(drawn)
    assert drawn[0] == 11300639764389966689


def test_a_missing_seed_is_refused() -> None:
    """None is not a seed: bits are reproducible only when somebody asked for it."""
    with pytest.raises(TypeError, match="a seed is an int"):
        SeededBits(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [1, "seed", np.random.default_rng(0)])
def test_what_is_no_source_of_bits_is_refused(bits: Any) -> None:
    """A seed or a generator of another library is no source: the error names one that is."""
    with pytest.raises(TypeError, match=r"expected a source of random bits, such as SeededBits\(1\)"):
        LInfLaplace("1/220", 1, 2).release([1, 2], bits=bits)
