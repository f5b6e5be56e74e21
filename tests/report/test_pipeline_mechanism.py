"""The pipeline as a mechanism: without noise it is the rounding of exact means, whatever the settings."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.noise import Noise
from meteragent.core.release import Releases
from meteragent.core.window import Window
from meteragent.domain.terms import Clock, Terms
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.dithered import DitheredLaplace
from meteragent.report.pipeline_mechanism import PipelineMechanism
from meteragent.wire.record import RecordFormat
from tests.support.configurations import energy, settled, written

LEVEL = "level = 100\nquantum = 1\n"
"""With 100 for a quantum there is no noise, but for a chance of e^-90."""

SETTINGS: dict[str, dict[str, str]] = {
    "one slot": {"privacy": LEVEL + "radius = 1"},
    "slots, a short hold": {
        "source": "hold = '10s'",
        "window": "length = '30min'\nstep = '5min'\ngap = 7.5",
        "privacy": LEVEL + "radius = 1",
    },
    "late": {
        "window": "length = '3min'\nstep = '1min'\nlateness = '7min'\ngap = -3\nrange = [-5, 5]",
        "privacy": LEVEL + "radius = 1",
    },
    "milliseconds": {
        "source": "hold = '1ms'",
        "window": "length = '3ms'\nstep = '1ms'\nlateness = '2ms'\ngap = 3",
        "privacy": LEVEL + "radius = 1",
    },
    "energy": {"source": energy("kWh"), "window": "gap = 0.25", "privacy": LEVEL + "radius = 1"},
    "energy of intervals that do not divide a slot": {
        "source": energy("Wh", "7min"),
        "window": "length = '30min'\nstep = '5min'\ngap = 20\nlateness = '3min'",
        "privacy": LEVEL + "radius = 1",
    },
    "energy by the millisecond": {
        "source": energy("Wh", "1ms"),
        "window": "length = '10ms'\nstep = '5ms'\ngap = 0.001",
        "privacy": LEVEL + "radius = 1",
    },
    "a mean day": {
        "window": "timezone = 'Europe/Amsterdam'\nbands = ['22:00/06:00', '06:00/18:00']\ngap = 11",
        "privacy": LEVEL + "preset = 'typical-day'\nradius = 1",
    },
    "above a threshold": {
        "source": "hold = '10s'",
        "window": "length = '10min'\nthreshold = 5\ngap = 7",
        "privacy": LEVEL + "radius = 1",
    },
    "an amount": {
        "window": "length = '1d'\ntimezone = 'Europe/Amsterdam'\ngap = 11\n"
        "weights = { bound = 1, default = -1, price = [{ hours = ['06-18'], price = 0.3 }] }",
        "privacy": LEVEL + "radius = 1",
    },
}


REGISTERS: dict[str, dict[str, str]] = {
    "one slot": {"privacy": LEVEL + "radius = 1"},
    "slots": {"window": "length = '30min'\nstep = '5min'\ngap = 20", "privacy": LEVEL + "radius = 1"},
    "late": {"window": "length = '3min'\nstep = '1min'\nlateness = '7min'", "privacy": LEVEL + "radius = 1"},
    "milliseconds": {"window": "length = '3ms'\nstep = '1ms'", "privacy": LEVEL + "radius = 1"},
    "a quantum of odd millionths": {"privacy": "level = 100\nquantum = 0.000001\nradius = 0.000001"},
    "a mean day": SETTINGS["a mean day"],
    "an amount": SETTINGS["an amount"],
}
SETTINGS |= {
    f"register: {name}": {"source": "kind = 'register'\nunit = 'kWh'", **setting}
    for name, setting in REGISTERS.items()
}


def windows(terms: Terms, data: st.DataObject) -> Any:
    """Some windows, in steps."""
    numbers = st.integers(-(10**9), 10**9)
    row = st.lists(numbers, min_size=terms.n, max_size=terms.n)
    return np.array(data.draw(st.lists(row, min_size=1, max_size=3)))


@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize("half_quantum", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_without_noise_what_leaves_is_the_rounded_mean(name: str, half_quantum: bool, clock: Clock) -> None:
    """Whole quanta leave as they are, and what lies between as one of its neighbours.

    With half a quantum as dither, each number is floor(x/q + 1/2), for all kinds, slots, holds, intervals,
    gaps, latenesses, clocks.
    """
    terms = replace(settled(**SETTINGS[name]), clock=clock)
    tried = PipelineMechanism(terms)
    per = tried.quantum / tried.step

    @settings(max_examples=10)
    @given(st.data())
    def rounds(data: st.DataObject) -> None:
        given_windows = windows(terms, data)
        with pytest.MonkeyPatch.context() as patch:
            if half_quantum:
                patch.setattr(
                    Noise,
                    "draw_dither",
                    lambda _, terms, slot_index: terms.steps_per_quantum[slot_index] // 2,
                )
            released = tried.release(given_windows, bits=SeededBits(1))
        if half_quantum:
            assert released.tolist() == ((2 * given_windows + per) // (2 * per)).tolist()
        else:
            assert (given_windows // per <= released).all()
            assert (released <= -(given_windows // -per)).all()

    rounds()


def test_quarters_are_tried_where_time_can_be_quartered() -> None:
    """Windows are counted in quarter quanta, or in the finest part that is a whole accumulator."""
    assert PipelineMechanism(settled()).step == Fraction(1, 4)
    odd = replace(settled(window="length = '5ms'", privacy="radius = 1"), quantum_u=1)
    assert PipelineMechanism(odd).step == odd.quantum
    assert PipelineMechanism(replace(odd, quantum_u=2)).step == odd.quantum


def test_it_promises_what_is_configured() -> None:
    """Its loss is the configured mechanism's, for as many slots."""
    tried = PipelineMechanism(settled(window="length = '1h'\nstep = '30min'"))
    assert tried.loss(Fraction(220)) == 1
    assert tried.space.n == tried.n == 2


@pytest.mark.parametrize("n", [1, 2])
def test_dithered_terms_promise_the_dithered_law(n: int) -> None:
    """Loss and law are the dithered mechanism's, also between whole quanta."""
    window = f"length = '1h'\nstep = '{60 // n}min'"
    tried = PipelineMechanism(settled(window=window, privacy="radius = 1\nquantum = 1"))
    right = DitheredLaplace(1, 1, n, "1/4")
    assert (tried.rounding, tried.space) == ("dithered", right.space)
    for distance in (Fraction(1, 4), Fraction(1), Fraction(7, 4)):
        assert tried.loss(distance) == right.loss(distance)
    outputs = np.arange(-3, 5)[:, np.newaxis].repeat(n, axis=1)
    for place in ([0] * n, [1, 6][:n], [-3, 2][:n]):
        assert tried.log_mass(outputs, place).tolist() == right.log_mass(outputs, place).tolist()


def test_a_record_that_does_not_leave_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that keeps back records is detected."""

    def keep(_: Releases, window: Window, slot_index: int, *_more: object) -> None:
        window.close_slot(slot_index)

    monkeypatch.setattr(Releases, "_release", keep)
    with pytest.raises(ValueError, match="has no record"):
        PipelineMechanism(settled()).release([[1]])


def test_what_is_off_the_lattice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a quantum in a record is read back as half a quantum."""
    honest: Callable[..., bytes] = RecordFormat.encode
    said = {b'"value":0': b'"value":0.5'}

    def record(*arguments: Any) -> bytes:
        text = honest(*arguments)
        for right, wrong in said.items():
            text = text.replace(right, wrong)
        return text

    monkeypatch.setattr(RecordFormat, "encode", record)
    stream = config.parse(written(**SETTINGS["one slot"])).stream[0]
    terms = config.terms(stream)
    assert PipelineMechanism(terms).release([[0], [4]], bits=SeededBits(1)).tolist() == [[0.5], [1]]
