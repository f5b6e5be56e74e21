"""Energy above a threshold: exact, 1-Lipschitz, and what the energy while above would be."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.window import Window
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.loads import in_all_wh, step_wh
from meteragent.domain.metric import Metric
from meteragent.domain.reading import Message
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Excess, Space
from meteragent.domain.units import HOUR_MS, MICRO
from meteragent.privacy import SeededBits
from tests.support.configurations import refused, written
from tests.support.terms import terms_with
from tests.support.weighted import QUIET
from tests.support.windows import window_of
from tests.support.world import stream

START_MS = parse_time("2033-05-16T00:00:00Z")
THRESHOLD_W = 3000
EXACT = f"hide = '110Wh'\nquantum = 0.000001\n{QUIET}"


def schedule(window: str = "", privacy: str = EXACT, source: str = "hold = '20min'") -> Schedule:
    """Windows of an hour of the energy above 3 kW, by the event clock."""
    keys = f"length = '1h'\nthreshold = {THRESHOLD_W}\nclock = 'event'\nahead = '9999d'\n{window}"
    return config.schedule(config.parse(written(window=keys, privacy=privacy, source=source)).stream[0])


def released(readings: Sequence[tuple[int, int]], known: Schedule) -> dict[str, Fraction]:
    """What leaves for readings (ms after the start, W), by the times of the windows."""
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    messages = [
        Message(
            "meters/m1/power", b'{"t":%d,"power":%d}' % (START_MS + at, watts), False, START_MS + at, None
        )
        for at, watts in readings
    ]
    end_ms = messages[-1].received_ms
    rows = pipeline.feed(messages, end_ms, end_ms).commit.outgoing
    records = [json.loads(row.payload, parse_float=Decimal) for row in rows if not row.retain]
    return {record["t"]: Fraction(record["value"]) for record in records}


times = st.lists(st.integers(1, 3 * HOUR_MS), min_size=1, max_size=30, unique=True).map(sorted)
powers = st.one_of(st.integers(0, 25_000), st.integers(THRESHOLD_W - 2, THRESHOLD_W + 2))


@given(at=times, data=st.data(), gap=st.sampled_from([0, 2999, 3500]))
def test_the_energy_above_the_threshold_is_exact(at: list[int], data: st.DataObject, gap: int) -> None:
    """Each reading counts by its part above the threshold while it stands, clamped; a gap by its own part."""
    watts = data.draw(st.lists(powers, min_size=len(at), max_size=len(at)))
    readings = [(0, 4000), *zip(at, watts, strict=True), (4 * HOUR_MS, 0)]
    values = released(readings, schedule(f"gap = {gap}\nrange = [0, 20000]"))
    assert len(values) == 4
    for hour, value in enumerate(values.values()):
        energy = 0
        for (from_ms, power), (until_ms, _) in pairwise(readings):
            stands_ms = min(until_ms, from_ms + 20 * 60_000)
            for start, end, counted in ((from_ms, stands_ms, min(power, 20_000)), (stands_ms, until_ms, gap)):
                inside_ms = min(end, (hour + 1) * HOUR_MS) - max(start, hour * HOUR_MS)
                energy += max(inside_ms, 0) * max(counted - THRESHOLD_W, 0)
        assert abs(value - Fraction(energy, HOUR_MS)) < Fraction(1, MICRO)


Stretches = list[tuple[int, int]]
stretches = st.lists(st.tuples(st.integers(1, HOUR_MS), st.integers(-3, 30)), min_size=1, max_size=12)


def energy_above(load: Stretches, threshold_u: int) -> int:
    """The accumulator of a window for stretches (ms, units) that fill it."""
    usual = schedule("range = [-100, 20000]").usual
    terms = terms_with(usual, shape=Excess(usual.length_ms, Fraction(threshold_u, MICRO)))
    window = Window(0, terms, terms.id, (), "m1")
    window.open_slot(0, 0, 0)
    at_ms = 0
    for lasts_ms, value_u in load:
        window.add_value(at_ms, min(at_ms + lasts_ms, HOUR_MS), value_u)
        at_ms = min(at_ms + lasts_ms, HOUR_MS)
    window.seal_slots(at_ms)
    return window.slots[0]


def energy_while(load: Stretches, threshold_u: int) -> int:
    """The energy while the power is above the threshold."""
    at_ms = total = 0
    for lasts_ms, value_u in load:
        until_ms = min(at_ms + lasts_ms, HOUR_MS)
        total += value_u * (until_ms - at_ms) if value_u > threshold_u else 0
        at_ms = until_ms
    return total


def moved(load: Stretches, other: Stretches) -> int:
    """The energy between two loads of the same stretches."""
    at_ms = total = 0
    for (lasts_ms, value_u), (_, other_u) in zip(load, other, strict=True):
        until_ms = min(at_ms + lasts_ms, HOUR_MS)
        total += abs(value_u - other_u) * (until_ms - at_ms)
        at_ms = until_ms
    return total


@given(load=stretches, data=st.data(), threshold_u=st.integers(0, 20))
def test_it_moves_by_no_more_than_the_energy(load: Stretches, data: st.DataObject, threshold_u: int) -> None:
    """Two loads: the difference of what they release is at most the integral of their difference."""
    others = data.draw(st.lists(st.integers(-3, 30), min_size=len(load), max_size=len(load)))
    other = [(lasts_ms, value_u) for (lasts_ms, _), value_u in zip(load, others, strict=True)]
    difference = abs(energy_above(load, threshold_u) - energy_above(other, threshold_u))
    assert difference <= moved(load, other)


@pytest.mark.parametrize(("energy", "is_lipschitz"), [(energy_above, True), (energy_while, False)])
def test_the_energy_while_above_jumps(energy: Callable[[Stretches, int], int], is_lipschitz: bool) -> None:
    """A load that crosses the threshold by one unit moves the energy while above by the threshold's own."""
    below, across = [(HOUR_MS, 3_000)], [(HOUR_MS, 3_001)]
    difference = energy(across, 3_000) - energy(below, 3_000)
    assert (difference <= moved(below, across)) == is_lipschitz
    assert difference == (1 if is_lipschitz else 3_001) * HOUR_MS


def test_terms_state_an_energy() -> None:
    """Wh, 110 of which are hidden in a window; the dead band and the time between readings count as ever."""
    terms = schedule(privacy="", source="every = '10s'\ndead_band = 5").usual
    assert (terms.shape.space, terms.metric, terms.n, terms.value_unit) == (Space.ABOVE, Metric.LINF, 1, "Wh")
    assert (terms.hides_wh, terms.shape) == (Fraction(110), Excess(terms.length_ms, Fraction(3000)))
    assert window_of(terms) is Window
    assert terms.epsilon_per_w == Fraction(1, 110)
    assert step_wh(terms) == 10
    assert in_all_wh(terms, Fraction(110), 1) == 110 + 20_000 * Fraction(10, 3600) + 10
    kilo = config.parse(written(window="threshold = 3000", source="unit = 'kW'")).stream[0]
    assert config.terms(kilo).shape.integrand_u(5 * MICRO, "kW") == 2 * MICRO
    assert (config.terms(kilo).value_unit, config.terms(kilo).hides_wh) == ("kWh", Fraction(110))


def test_a_register_would_count_each_of_its_steps() -> None:
    """Uses that differ from the threshold by little count half a step for each reading (theory A.14)."""
    step, spans, eta = 100, 40, 2

    def counted(uses: Sequence[int]) -> int:
        """The sum of what counts exceed the threshold, of one step a span."""
        register, total, shown = step - eta // 2, 0, 0
        for use in uses:
            register += use
            total += max(register // step * step - shown - step, 0)
            shown = register // step * step
        return total

    assert counted([step] * spans) == 0
    assert counted([step + eta, step - eta] * (spans // 2)) == spans * step // 2


ENERGY = "kind = 'register'\nunit = 'kWh'"


@pytest.mark.parametrize(
    ("sections", "key", "expected"),
    [
        ({"privacy": "space = 'above'"}, "window.threshold", "a power in W"),
        ({"window": "threshold = 30000"}, "window.threshold", "within window.range"),
        ({"window": "threshold = 3000\nblocks = 2"}, "window.blocks", "one number"),
        (
            {"window": "threshold = 3000", "privacy": "space = 'linf'"},
            "privacy.space",
            "'above', which window.threshold implies",
        ),
        ({"window": "threshold = 3000", "privacy": "metric = 'l1'"}, "privacy.metric", "'bands'"),
        (
            {"window": "threshold = 3000", "source": ENERGY},
            "source.kind",
            "steps of its readings would add up",
        ),
        ({"window": "threshold = 3000", "sink": "total = true"}, "sink.total", "sum of all energy"),
        ({"window": "while_above = 3000"}, "window.while_above", "jumps when the power crosses it"),
        ({"privacy": "space = 'while'"}, "privacy.space", "jumps when the power crosses it"),
    ],
)
def test_what_makes_no_energy_above_a_threshold_is_refused(
    sections: dict[str, str], key: str, expected: str
) -> None:
    """The text names the key and what would be right; of the energy while above it says why not."""
    error = refused(lambda: config.parse(written(**sections)))
    assert error.key == key
    assert expected in error.expected
