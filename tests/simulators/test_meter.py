"""simulators.homes.meter: what is shown, when it says so, and what its register counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.homes.meter import Meter

LOADS = st.lists(st.floats(0, 5000), min_size=1, max_size=200)


def test_resolution() -> None:
    """Powers are the nearest multiples of the resolution, halves up, as short decimals."""
    assert Meter().shown_w([0.4, 0.5, 1.49, 2.5]).tolist() == [0, 1, 1, 3]
    assert Meter(resolution_w=0.1).shown_w([0.26, 0.34]).tolist() == [0.3, 0.3]
    assert Meter(resolution_w=10).shown_w([14.9, 15]).tolist() == [10, 20]
    assert Meter(gain=1.01).shown_w([1000]).tolist() == [1010]


def test_clock() -> None:
    """A clock that is 5 s ahead and gains 100 ppm is 5 s and 8.64 s ahead a day later."""
    stamps = Meter(drift_ppm=100, ahead_ms=5000).stamps_ms(np.array([0, 86_400_000]) + 10**12)
    assert (stamps - 10**12).tolist() == [5000, 86_400_000 + 5000 + 8640]


def test_on_grid() -> None:
    """A reading a step, stamped with its begin."""
    readings = Meter().on_grid([1.2, 7.9], 1000, 60)
    assert (readings.times_ms.tolist(), readings.values.tolist()) == ([1000, 61_000], [1, 8])
    assert len(readings) == 2


@given(watts=LOADS, band=st.floats(0, 500), longest=st.integers(1, 30))
def test_on_change(watts: list[float], band: float, longest: int) -> None:
    """The last report stands within the dead band of each reading; none comes without a reason."""
    meter = Meter()
    sent, shown = meter.on_change(watts, 0, 10, band, 10 * longest), meter.shown_w(watts)
    at = sent.times_ms // 10_000
    assert at[0] == 0
    assert np.array_equal(sent.values, shown[at])
    standing = np.searchsorted(at, np.arange(len(shown)), side="right") - 1
    assert (np.abs(shown - sent.values[standing]) <= band).all()
    gaps = np.diff(np.append(at, len(shown)))
    assert gaps.max() <= longest
    changed = np.abs(np.diff(sent.values)) > band
    assert (changed | (np.diff(at) == longest)).all()


@given(watts=LOADS, start=st.floats(0, 1e6))
def test_register(watts: list[float], start: float) -> None:
    """A register counts all energy, never more than a count behind it, and never runs backwards."""
    readings = Meter().register(watts, 0, 900, start)
    energy = start + np.cumsum(watts) / 4
    assert ((readings.values <= energy + 1e-6) & (readings.values > energy - 1 - 1e-6)).all()
    assert (np.diff(readings.values) >= 0).all()
    assert readings.times_ms.tolist() == [900_000 * (at + 1) for at in range(len(watts))]


def test_register_rolls_over_and_counts_whole() -> None:
    """It begins again at its end, and a sum that is a whole count up to rounding is that count."""
    assert Meter(rollover_wh=10).register([3600.0] * 4, 0, 4).values.tolist() == [4, 8, 2, 6]
    assert Meter(register_wh=0.1).register([360.0] * 3, 0, 1).values.tolist() == [0.1, 0.2, 0.3]


def test_drawn_meters() -> None:
    """Homes have meters of their own, within class B, and always the same one."""
    meters = [Meter.random(0, home) for home in range(200)]
    assert meters[7] == Meter.random(0, 7)
    assert len(set(meters)) == 200
    gains, drifts = np.array([(one.gain, one.drift_ppm) for one in meters]).T
    assert 0.015 < np.ptp(gains) <= 0.02
    assert gains.mean() == pytest.approx(1, abs=5 * 0.0058 / 200**0.5)
    assert drifts.std() == pytest.approx(20, rel=0.2)
    assert max(abs(one.ahead_ms) for one in meters) <= 2000


@pytest.mark.parametrize("name", ["resolution_w", "register_wh", "rollover_wh"])
def test_no_meter(name: str) -> None:
    """A resolution of nothing is refused."""
    with pytest.raises(ValueError, match=name):
        Meter(**{name: 0})


@pytest.mark.parametrize(("band", "longest_s"), [(-1, 900), (0, 9)])
def test_no_reports(band: float, longest_s: int) -> None:
    """A negative dead band, and a silence shorter than a step, are refused."""
    with pytest.raises(ValueError, match="dead band"):
        Meter().on_change([1.0], 0, 10, band, longest_s)
