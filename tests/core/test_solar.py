"""A real day of a home with solar panels: what leaves adds up to what the meter's registers say.

The load is a day of UK-DALE, the sun a clear day with clouds. Noise is negligible; the error is bounded by
the lattice: one quantum in each slot.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from meteragent import config
from meteragent.agent.parts import core_of
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy.sampling import SystemBits
from simulators.traces.trace import load
from tests.support.configurations import written

START_MS = 1_790_812_800_000
"""2026-10-01T00:00:00Z."""
MINUTE_MS = 60_000
DAY_MINUTES = 24 * 60
SLOTS = 48
EXACT = "level = 100000\nradius = 220\nquantum = 0.01"
BOTH_WAYS = "clock = 'event'\nrange = [-20000, 20000]"


@dataclass(frozen=True)
class Home:
    """A day of a home, minute by minute: the powers of its three phases in W, with panels on the second."""

    phases: Sequence[tuple[int, int, int]]

    @property
    def net(self) -> list[int]:
        """The net power, as a balanced meter sees it."""
        return [sum(powers) for powers in self.phases]

    def registers(self, *, balanced: bool) -> tuple[list[Fraction], list[Fraction]]:
        """Import and export in Wh at the start of each minute, and at the end of the day."""
        rows = [(power,) for power in self.net] if balanced else self.phases
        drawn = [sum(max(power, 0) for power in powers) for powers in rows]
        fed_in = [sum(max(-power, 0) for power in powers) for powers in rows]
        return _register(drawn), _register(fed_in)


def _register(watts: Sequence[int]) -> list[Fraction]:
    return [Fraction(minutes, 60) for minutes in accumulate(watts, initial=0)]


@pytest.fixture(scope="module")
def home(data: Path) -> Home:
    """A day of UK-DALE House 2, with 3 kW of panels."""
    trace = load(data / "homes" / "UKDALE_House2.parquet")
    first = next(place for place, watts in enumerate(trace.watts) if place >= DAY_MINUTES and watts > 0)
    loads = [round(float(watts)) for watts in trace.watts[first : first + DAY_MINUTES]]
    sun = [max(0.0, math.sin(math.pi * (minute - 360) / 720)) for minute in range(DAY_MINUTES)]
    clouds = [0.35 if minute % 97 < 30 else 1.0 for minute in range(DAY_MINUTES)]
    made = [round(3000 * height * cloud) for height, cloud in zip(sun, clouds, strict=True)]
    return Home([(watts - watts // 3, -made[minute], watts // 3) for minute, watts in enumerate(loads)])


def released(values: Sequence[Fraction | int], **sections: str) -> list[Fraction]:
    """The values that leave for readings at the start of each minute, of the slots of the day."""
    keys = {"window": BOTH_WAYS, "privacy": EXACT} | sections
    keys["source"] = f"profile = 'json'\ntime = 't'\nevery = '1min'\n{keys.get('source', '')}"
    keys["window"] = f"{keys['window']}\nlength = '30min'"
    stream = config.parse(written(**keys)).stream[0]
    known = core_of(stream, Fraction(0), None, b"s" * 32)
    pipeline = Pipeline(known, Snapshot({}, {}, {}), Spending(), SystemBits(), Counts())
    numbers: dict[str, Fraction] = {}
    for minute, value in enumerate(values):
        time_ms = START_MS + minute * MINUTE_MS
        payload = json.dumps({"power": round(float(value), 6), "t": time_ms}).encode()
        message = Message("meters/house/power", payload, False, time_ms, None)
        for record in _records(pipeline, message):
            numbers[record["t"]] = Fraction(str(record["value"]))
    return list(numbers.values())[:SLOTS]


def _records(pipeline: Pipeline, message: Message) -> Iterator[dict[str, Any]]:
    effects = pipeline.feed([message], message.received_ms, message.received_ms)
    for outgoing in effects.commit.outgoing:
        if not outgoing.retain:
            yield json.loads(outgoing.payload)


def assert_equal(released_wh: Fraction, counted_wh: Fraction, quantum_wh: Fraction) -> None:
    """The energies differ by less than one quantum in each slot."""
    assert abs(released_wh - counted_wh) <= SLOTS * quantum_wh


def test_net_power_adds_up_to_import_minus_export(home: Home) -> None:
    """One stream of net power: its day is the difference of the registers, feed-in included."""
    drawn, fed_in = home.registers(balanced=True)
    assert fed_in[-1] > 5000
    assert drawn[-1] > 1000
    numbers = released([*home.net, *[0] * 120])
    assert len(numbers) == SLOTS
    assert min(numbers) < -1000
    assert_equal(sum(numbers, Fraction(0)) / 2, drawn[-1] - fed_in[-1], Fraction("0.01") / 2)


def test_a_range_that_ends_at_zero_makes_every_total_too_high(home: Home) -> None:
    """Without a negative lower end, what is fed in counts as nothing: the sum is the import alone."""
    drawn, fed_in = home.registers(balanced=True)
    total = sum(released([*home.net, *[0] * 120], window="clock = 'event'"), Fraction(0)) / 2
    assert_equal(total, drawn[-1], Fraction("0.01") / 2)
    assert total > drawn[-1] - fed_in[-1] + 5000


REGISTER = "kind = 'register'\nunit = 'Wh'\ndead_band = 0"
EXACT_WH = "level = 100000\nradius = 110\nquantum = 0.01"


@pytest.mark.parametrize("balanced", [True, False], ids=["balanced", "each phase"])
def test_two_streams_add_up_to_the_same_net_energy(home: Home, balanced: bool) -> None:
    """Import and export differ between ways of adding phases; their difference is the same."""
    totals = []
    for register in home.registers(balanced=balanced):
        values = [*register, *[register[-1]] * 120]
        numbers = released(values, source=REGISTER, window="clock = 'event'", privacy=EXACT_WH)
        assert_equal(sum(numbers, Fraction(0)), register[-1], Fraction("0.01"))
        totals.append(sum(numbers, Fraction(0)))
    assert_equal(totals[0] - totals[1], Fraction(sum(home.net), 60), Fraction("0.02"))


def test_a_meter_that_counts_each_phase_counts_more(home: Home) -> None:
    """While one phase feeds in and another draws, both registers of such a meter grow."""
    (drawn, fed_in), (drawn_each, fed_in_each) = (
        home.registers(balanced=True),
        home.registers(balanced=False),
    )
    assert drawn_each[-1] - drawn[-1] == fed_in_each[-1] - fed_in[-1] > 1000


def test_a_register_that_turns_back_is_one_of_net_energy(home: Home) -> None:
    """A Ferraris meter without a backstop: with a range below zero, a fall is energy fed in, not a reset."""
    drawn, fed_in = home.registers(balanced=True)
    net = [100_000 + a - b for a, b in zip(drawn, fed_in, strict=True)]
    numbers = released([*net, *[net[-1]] * 120], source=REGISTER, privacy=EXACT_WH)
    assert min(numbers) < -500
    assert_equal(sum(numbers, Fraction(0)), net[-1] - net[0], Fraction("0.01"))
