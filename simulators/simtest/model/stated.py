"""What descriptors state, compared with the windows that they describe."""

import hashlib
import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

from meteragent.domain.units import DAY_MS, MICRO
from meteragent.privacy import accuracy
from meteragent.privacy.mechanism.laplace import LInfLaplace
from simulators.invariant import check
from simulators.simtest.model.clock_text import duration_text
from simulators.simtest.model.spec import ReadingSpec, WindowSpec

Facts = dict[str, Any]
_OF_METER = ("id", "meter", "valid_from", "store")
_COVERAGE = 0.95


@lru_cache(maxsize=1024)
def read(payload: bytes) -> tuple[str, str]:
    """Return a descriptor's id and its facts as canonical text; the id must be the digest of the facts.

    The bound for loads that are counted in steps is left out, because it does not affect releases.
    """
    facts = json.loads(payload)
    id_ = str(facts["id"])
    text = _canonical({name: value for name, value in facts.items() if name not in _OF_METER})
    digest = hashlib.sha256(text.encode()).hexdigest()
    check(id_ == digest[:8], "a descriptor's id is not the digest of its facts", id_)
    facts.pop("level_of_loads", None)
    return id_, _canonical({name: value for name, value in facts.items() if name not in _OF_METER})


@lru_cache(maxsize=1024)
def facts_of(spec: WindowSpec) -> str:
    """Return the facts that the descriptor of a window must state, as canonical text."""
    mechanism = _mechanism(spec)
    facts: Facts = {
        "v": 1,
        "metric": "l1" if spec.is_in_all else "linf",
        "epsilon": str(spec.epsilon),
        "epsilon_unit": f"1/{spec.unit}",
        "level": "1",
        "radius": str(spec.radius),
        "hides_wh": str(spec.hides_wh),
        "n": spec.n,
        "quantum": str(mechanism.quantum),
        "mechanism": "linf-laplace",
        "length": duration_text(spec.length_ms),
        "step": duration_text(spec.step_ms),
        "kind": spec.readings.kind,
        "unit": spec.unit,
        "sd": sd_of(spec),
        "ci95": _figure(accuracy.half_width(mechanism, _COVERAGE, "dithered")),
        "level_per_day": str(Fraction(DAY_MS, spec.length_ms)),
        "unbiased": "of slot values after fill and clamp",
        "schedule": spec.clock,
        "noise": "os",
        "invariants": [],
        "rounding": "dithered",
        "space": spec.space,
    }
    if spec.is_in_all:
        facts["in_all"] = True
    if spec.timezone is not None:
        facts["timezone"] = spec.timezone
    if spec.others_per_day:
        facts["meter_epsilon_per_day"] = str(spec.charge_per_day + spec.others_per_day)
        facts["meter_epsilon_unit"] = "1/W"
    if readings := _facts_of_readings(spec.readings):
        facts["readings"] = readings
    return _canonical(facts | _own_facts(spec))


@lru_cache(maxsize=1024)
def sd_of(spec: WindowSpec) -> float:
    """Return the standard deviation of a value that descriptors and records state."""
    return _figure(accuracy.sd(_mechanism(spec), "dithered"))


def _mechanism(spec: WindowSpec) -> LInfLaplace:
    return LInfLaplace(spec.epsilon, Fraction(spec.quantum_u, MICRO), 1 if spec.is_in_all else spec.n)


def _own_facts(spec: WindowSpec) -> Facts:
    """Return the facts that only descriptors of this kind of window state."""
    if spec.has_bands:
        return {"bands": {place.name: duration_text(place.duration_ms) for place in spec.places}}
    if spec.price is not None:
        bound, default = (str(Fraction(price_u, MICRO)) for price_u in spec.price)
        return {"weights": {"bound": bound, "default": default, "unit": spec.unit, "source": "topic"}}
    if spec.space == "above":
        return {"threshold_w": str(Fraction(spec.readings.threshold_u, MICRO))}
    constants: dict[str, Facts] = {"curve": {"reconstruction": "steps"}, "peak": {"each_draw": True}}
    return constants.get(spec.space, {})


def _facts_of_readings(rules: ReadingSpec) -> Facts:
    """Return what is stated of a register's step, and of how many registers are summed."""
    counters = len(rules.phases) if rules.kind == "register" else 0
    facts: Facts = {"counters": counters} if counters > 1 else {}
    if rules.is_on_change:
        facts["every"] = duration_text(0)
    if rules.step_u:
        facts["dead_band"] = str(Fraction(rules.step_u, MICRO * max(1, counters)))
    return facts


def _figure(number: float) -> float:
    """Round a number to the four digits that descriptors state."""
    return float(f"{number:.4g}")


def _canonical(facts: Facts) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
