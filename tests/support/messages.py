"""Messages of an agent, for terms of every kind and unit, and altered messages."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.stores import TERMS
from tests.support.terms import terms_with

NOON_MS = 1_795_176_000_000
HALF_HOUR_MS = 1_800_000
TEN_MIN_MS = 600_000

HOURLY = terms_with(TERMS, length_ms=6 * TEN_MIN_MS, step_ms=TEN_MIN_MS)  # n = 6
SPLIT = terms_with(TERMS, step_ms=TEN_MIN_MS)  # n = 3
KILO = terms_with(TERMS, unit="kW", radius=Fraction(22, 100), quantum_u=1000)
ENERGY = terms_with(TERMS, kind=Kind.INTERVAL_ENERGY, unit="Wh", radius=Fraction(110))
KILO_ENERGY = terms_with(ENERGY, unit="kWh", radius=Fraction(11, 100), quantum_u=1000)
HALF_UP = replace(TERMS, rounding="half-up")
_OF_ONE_METER = {"id", "meter", "valid_from", "store"}
ALL_TERMS = [TERMS, HOURLY, SPLIT, KILO, ENERGY, KILO_ENERGY, HALF_UP]


def described(terms: Terms, meter: str = "m1") -> bytes:
    """Return the descriptor of a meter."""
    return describe_terms(terms).encode_message(meter, NOON_MS)


def recorded(terms: Terms, quanta: Sequence[int], meter: str = "m1", first: int = 0) -> list[bytes]:
    """Return records of consecutive slots from noon on, or from `first` slots later."""
    shared, start_ms = describe_terms(terms), NOON_MS + first * terms.step_ms
    return [RecordFormat.of(shared).encode(meter, start_ms, i, z) for i, z in enumerate(quanta)]


def changed(message: bytes, *, is_sealed: bool = False, **fields: Any) -> bytes:
    """Return a message with changed fields (`None` removes a field) and, if `is_sealed`, a new id.

    The id is the hash of whatever stands in the fields, as anybody can make it.
    """
    facts = {name: value for name, value in {**json.loads(message), **fields}.items() if value is not None}
    if is_sealed:
        named = {name: fact for name, fact in facts.items() if name not in _OF_ONE_METER}
        text = json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        facts["id"] = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return json.dumps(facts).encode()
