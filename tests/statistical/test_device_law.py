"""A device's messages through configuration and core: what leaves shows its values as often as the law says.

A plug's power is another one each minute, in small whole watts, so that a record may well show a power by
chance: its own slot's with the probability of no noise, another slot's with that of their difference. Seeds
are fixed; ALARM of `tests.integration.law` is the chance that a right core fails one of these.
"""

import json
import random
from fractions import Fraction
from math import exp, sqrt, tanh

import pytest

from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import MINUTE_MS
from tests.core.test_profile_leaks import core
from tests.integration.law import ALARM, maxima_p, passes_scale_test, sign_p

SLOTS = 3000
START_MS = 1795176000000
RADIUS_W = 20
A = 1 / RADIUS_W
DEVIATIONS = 4.9
"""A normal variable exceeds this with a chance of ALARM."""
CONFIGURATION = f"""
[source]
topic = "tele/{{meter}}/SENSOR"
profile = "tasmota"
kind = "power"
unit = "W"
[window]
length = "1min"
range = [-20000, 20000]
[privacy]
radius = {RADIUS_W}
quantum = 1
[sink]
topic = "private/{{meter}}/power"
pseudonym_key_file = "key"
"""


def power_w(slots: int) -> list[int]:
    """A power for each slot."""
    draw = random.Random(1)
    return [draw.randrange(60) for _ in range(slots)]


@pytest.fixture(scope="module")
def noise() -> tuple[list[int], list[int]]:
    """The powers of the slots, and the noise in what left about each."""
    powers, running, left = power_w(SLOTS), core(CONFIGURATION, Counts(), seed=11), dict[int, int]()
    for at in range(SLOTS + 2):
        now_ms = START_MS + at * MINUTE_MS
        watts = powers[at] if at < SLOTS else 0
        payload = f'{{"Time": "2026-11-20T13:30:00", "ENERGY": {{"Total": 7.5, "Power": {watts}}}}}'
        message = Message("tele/plug/SENSOR", payload.encode(), False, now_ms, None)
        for one in running.feed([message], now_ms, now_ms).commit.outgoing:
            record = json.loads(one.payload)
            if not one.retain:
                left[(parse_time(record["t"]) - START_MS) // MINUTE_MS] = record["value"]
    return powers, [left[at] - powers[at] for at in range(SLOTS)]


def agrees(observed: int, chances: list[float]) -> bool:
    """Whether a count is what independent events of these chances give."""
    deviation = sqrt(sum(p * (1 - p) for p in chances))
    return abs(observed - sum(chances)) <= DEVIATIONS * deviation


def chance(difference: int) -> float:
    """The probability of noise that is exactly so large: e^(-a |z|) tanh(a / 2)."""
    return exp(-A * abs(difference)) * tanh(A / 2)


def test_a_slots_own_power_leaves_as_often_as_the_law_says(noise: tuple[list[int], list[int]]) -> None:
    """A record is its slot's power as often as the noise is 0: no more, no less."""
    assert agrees(sum(z == 0 for z in noise[1]), [chance(0)] * SLOTS)


@pytest.mark.parametrize("shift", [1, 2, 7])
def test_another_slots_power_leaves_as_often_as_the_law_says(
    noise: tuple[list[int], list[int]], shift: int
) -> None:
    """A record shows the power of an earlier slot as often as noise makes it, never because it was said."""
    powers, drawn = noise
    differences = [powers[at - shift] - powers[at] for at in range(shift, SLOTS)]
    observed = sum(z == d for z, d in zip(drawn[shift:], differences, strict=True))
    assert agrees(observed, [chance(d) for d in differences])


def test_the_noise_has_the_exact_law(noise: tuple[list[int], list[int]]) -> None:
    """Scale, distribution and sign of the noise are those of the l_inf Laplace mechanism for one slot."""
    windows = [[z] for z in noise[1]]
    assert passes_scale_test(windows, Fraction(1, RADIUS_W))
    assert maxima_p(windows, Fraction(1, RADIUS_W)) > ALARM
    assert sign_p(windows) > ALARM
