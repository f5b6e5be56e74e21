"""The receiver of energies above a threshold: an estimate, and nothing that mistakes them for energies."""

import json
from fractions import Fraction

import pytest

from meteragent import config
from meteragent.consume import collect, curve, energy_above, highest_mean, total
from meteragent.consume.message import Descriptor
from meteragent.consume.slots import Slots
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.shapes import Excess
from meteragent.domain.units import HOUR_MS
from meteragent.wire.descriptor import describe_terms, facts_id
from tests.support.configurations import written

START_MS = parse_time("2026-11-01T00:00:00Z")


def messages(value: str = "1500") -> list[bytes]:
    """A descriptor and a record of an hour."""
    terms = config.terms(config.parse(written(window="length = '1h'\nthreshold = 3000")).stream[0])
    described = describe_terms(terms)
    facts = described.facts | {"id": described.id, "meter": "m1", "valid_from": iso_time(START_MS)}
    record = (
        f'{{"v":1,"meter":"m1","t":"{iso_time(START_MS)}","for":"PT1H","value":{value},"unit":"Wh",'
        f'"sd":{facts["sd"]},"d":"{described.id}"}}'
    )
    return [json.dumps(facts).encode(), record.encode()]


def test_the_energy_above_a_threshold_is_estimated() -> None:
    """In kWh, with an exact interval; the threshold is the descriptor's."""
    home = collect(messages())["m1"]
    estimate = energy_above(home, START_MS)
    assert (estimate.value, estimate.unit) == (1.5, "kWh")
    assert estimate.sd == pytest.approx(2**0.5 * 0.11, rel=1e-3)
    assert estimate.high - estimate.value == pytest.approx(0.33, abs=1e-3)
    terms = home.descriptor_of(home.records[0])
    assert terms.shape == Excess(HOUR_MS, Fraction(3000))


def test_it_is_never_taken_for_an_energy() -> None:
    """Sums, means, curves and totals refuse it; a window of another space has no energy above a threshold."""
    home = collect(messages())["m1"]
    for wrong in (
        lambda: home.energy(START_MS, home.end_ms[0]),
        lambda: home.value(START_MS),
        lambda: total(home),
        lambda: Slots.of([home]),
    ):
        with pytest.raises(ValueError, match=r"'above' are neither energies nor .* use .*energy_above"):
            wrong()
    with pytest.raises(ValueError, match="'curve' have a curve"):
        curve(home, START_MS)
    with pytest.raises(ValueError, match="'peak'"):
        highest_mean(home, START_MS)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"threshold_w": "0"}, "threshold_w"),
        ({"threshold_w": 3000}, "threshold_w"),
        ({"threshold_w": "x"}, "threshold_w"),
        ({"kind": "register"}, "kind"),
        ({"n": 2, "step": "PT30M"}, "n"),
        ({"unit": "W", "epsilon_unit": "1/W"}, "unit"),
        ({"space": "linf"}, "threshold_w"),
    ],
)
def test_descriptors_that_contradict_themselves_are_refused(changed: dict[str, object], field: str) -> None:
    """A threshold is a power above zero, as text, of one energy of a power."""
    facts = json.loads(messages()[0]) | changed
    facts["id"] = facts_id({k: v for k, v in facts.items() if k not in ("id", "meter", "valid_from")})
    with pytest.raises(RecordError, match=rf"\b{field}\b"):
        Descriptor.parse(json.dumps(facts))


def test_a_descriptor_without_its_threshold_is_refused() -> None:
    """Nobody could tell above what the energy is."""
    facts = json.loads(messages()[0])
    del facts["threshold_w"]
    facts["id"] = facts_id({k: v for k, v in facts.items() if k not in ("id", "meter", "valid_from")})
    with pytest.raises(RecordError, match="threshold_w"):
        Descriptor.parse(json.dumps(facts))
