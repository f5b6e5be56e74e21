"""Registers on the real store: no commit has one on the disk, nor two numbers from which it follows."""

import json
import random
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy import Bits, LInfLaplace, SeededBits
from meteragent.store import schema
from meteragent.wire.record import RecordFormat, RecordFormats
from tests.support.stores import bytes_on_disk, fresh, persist, state, with_mechanism
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, message, stream

REGISTER = terms_with(
    TERMS,
    kind=Kind.REGISTER,
    unit="kWh",
    length_ms=3000,
    step_ms=1000,
    hold_ms=0,
    interval_ms=3_600_000,
    level=Fraction(1, 1000),
    quantum_u=1000,
    high_u=10**15,
)


@pytest.mark.parametrize("seed", range(3))
def test_no_register_is_on_the_disk(seed: int) -> None:
    """Neither as sent nor in the accumulators' unit, at any commit, in any file of the store (law 3)."""
    chance = random.Random(seed)
    known = stream(REGISTER)
    counts = Counts()
    with fresh() as store:
        core = Pipeline(known, store.snapshot("main"), Spending(), SeededBits(1), counts)
        register_u, time_ms, masked = 7_391_155_204_813, 0, 0
        while time_ms < 9000:
            time_ms += chance.randrange(1, 700)
            register_u += chance.randrange(10**6)
            value = f"{register_u // MICRO}.{register_u % MICRO:06d}"
            read = message(time_ms, value, token=time_ms)
            persist(store, core.feed([read], read.received_ms, read.received_ms).commit)
            actual = bytes_on_disk(store.path)
            for secret in (register_u, register_u * REGISTER.readings.interval_ms, value):
                assert str(secret).encode() not in actual
            windows = store.snapshot("main").states["m1"].windows
            masked += any(window.masked_slot is not None for window in windows)
            if chance.random() < 1 / 4:
                core = Pipeline(known, store.snapshot("main"), Spending(), SeededBits(time_ms), counts)
                persist(store, core.feed([read], read.received_ms, read.received_ms).commit)
        assert masked
        assert counts["released"]


class Shifted(LInfLaplace):
    """Noise that is some quanta more than the mechanism's, from a noise bound that all share."""

    shift: int

    @classmethod
    def of(cls, terms: Terms, shift: int) -> "Shifted":
        """The mechanism of some terms, shifted."""
        self = cls(terms.epsilon, terms.quantum, terms.n)
        object.__setattr__(self, "shift", shift)
        return self

    def draw_slot(self, radius: int, bits: Bits) -> int:
        """The noise and the shift."""
        return super().draw_slot(radius, bits) + self.shift


class ShiftedFormats(RecordFormats):
    """Formats of terms whose noise is shifted."""

    shift = 0

    def make_format(self, terms: Terms) -> RecordFormat:
        """The format of some terms."""
        return with_mechanism(super().make_format(terms), Shifted.of(terms, self.shift))


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 50)), min_size=2, max_size=12),
    st.integers(-(10**6), 10**6),
)
def test_what_is_stored_of_the_open_slot_fits_any_register(steps: list[tuple[int, int]], shift: int) -> None:
    """Two homes whose registers and noises differ by the same leave the same numbers in the store.

    So whoever has all of a commit knows of the register what is known of the noise, and no more. Slots
    before the open one say what was used in them, behind their own noise.
    """
    actual = []
    for more in (0, shift):
        formats = ShiftedFormats({})
        formats.shift = more
        with patch("meteragent.core.pipeline.RecordFormats", lambda _, formats=formats: formats):
            core = Pipeline(stream(REGISTER), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
        time_ms, register = 0, 10**7 + more
        numbers = []
        for after_ms, used in [(1, 0), (3000, 0), *steps]:
            time_ms, register = time_ms + after_ms, register + used
            read = message(time_ms, f"{register // 1000}.{register % 1000:03d}", token=time_ms)
            after = core.feed([read], read.received_ms, read.received_ms).commit.states["m1"]
            assert after is not None
            numbers += [
                (window.start_ms - BASE_MS, window.noise_bound, slot)
                for window in after.windows
                for slot in window.slots
                if window.masked_slot == slot.slot_index
            ]
        actual.append(numbers)
    assert actual[0] == actual[1]
    assert actual[0]


@pytest.mark.parametrize("value", ["1/3", "1", 1.5, None, True])
def test_an_accumulator_that_is_not_whole_is_an_unreadable_state(value: object) -> None:
    """It is refused like any other state that is not one."""
    known = json.loads(schema.unseal(schema.encode_state(state(1)).decode()))
    known["windows"][0]["slots"] = [[0, value]]
    with pytest.raises(StoreError, match="not readable"):
        schema.decode_state(schema.seal(json.dumps(known)).encode())
