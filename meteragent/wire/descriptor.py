"""Descriptors: the terms under which records are released, stated once for many records.

A descriptor is always JSON, whatever the format of the records. The id is a hash of the facts, so equal terms
have equal ids in every store, and a receiver can verify the id from the descriptor alone.
"""

import hashlib
import json
import re
from typing import Any, NamedTuple

from meteragent.domain import loads
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS
from meteragent.wire import shapes
from meteragent.wire.number import shorten

_COVERAGE = 0.95

LATEST_SUFFIX = "/privacy"
"""The suffix that makes a sink topic the topic of its latest descriptor."""


class TermsDescriptor(NamedTuple):
    """The part that all descriptors of the same terms have in common; `id` is the hash of the `facts`."""

    terms: Terms
    facts: dict[str, Any]
    id: str

    def encode_message(self, public_id: str, valid_from_ms: int, store: str | None = None) -> bytes:
        """Encode a meter's descriptor, valid from `valid_from_ms`; `store` is the releasing store's mark."""
        fields = {"v": 1, "id": self.id, "meter": public_id, **self.facts}
        if store is not None:
            fields["store"] = store
        fields["valid_from"] = iso_time(valid_from_ms)
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def describe_terms(terms: Terms, *, is_archive: bool = False) -> TermsDescriptor:
    """Return the part of a descriptor that follows from its terms (DESIGN 5), of an agent or an archive."""
    facts: dict[str, Any] = {
        "v": 1,
        "metric": str(terms.metric),
        "epsilon": str(terms.epsilon),
        "epsilon_unit": f"1/{terms.value_unit}",
        "level": str(terms.level),
        "radius": str(terms.radius),
        "hides_wh": str(terms.hides_wh),
        "n": terms.n,
        "quantum": str(terms.quantum),
        "mechanism": "linf-laplace",
        "length": iso_duration(terms.length_ms),
        "step": iso_duration(terms.step_ms),
        "kind": str(terms.readings.kind),
        "unit": terms.value_unit,
        "sd": shorten(terms.sd),
        "ci95": shorten(terms.half_width(_COVERAGE)),
        "level_per_day": str(terms.level * DAY_MS / terms.length_ms),
        "unbiased": "of slot values after fill and clamp",
        "schedule": "archive" if is_archive else str(terms.clock),
        "noise": "prf" if is_archive else "os",
        "invariants": [],
    }
    facts |= _shape_facts(terms) | _source_facts(terms)
    return TermsDescriptor(terms, facts, facts_id(facts))


def _shape_facts(terms: Terms) -> dict[str, Any]:
    """Return the facts about preset, calendar, rounding, slots and values, and all charges of the meter."""
    facts: dict[str, Any] = {"preset": terms.preset, "timezone": terms.timezone}
    facts = {name: text for name, text in facts.items() if text is not None}
    facts |= {"rounding": terms.rounding, **shapes.shape_fields(terms.shape)}
    if terms.metric.is_sum:
        facts["in_all"] = True
    if terms.others_per_day:
        facts |= {"meter_epsilon_per_day": str(terms.epsilon_per_w_day + terms.others_per_day)}
        facts |= {"meter_epsilon_unit": "1/W"}
    return facts


def _source_facts(terms: Terms) -> dict[str, Any]:
    """Return the facts about how readings follow the load and, if all are known, the level for loads."""
    readings: dict[str, Any] = {}
    if terms.readings.every_ms is not None:
        readings["every"] = iso_duration(terms.readings.every_ms)
    if terms.readings.dead_band is not None:
        readings["dead_band"] = str(terms.readings.dead_band)
    if terms.readings.counters > 1:
        readings["counters"] = terms.readings.counters
    facts: dict[str, Any] = {"readings": readings} if readings else {}
    if not loads.unknown_keys(terms):
        facts["level_of_loads"] = str(terms.level * loads.level_factor(terms))
    return facts


def canonical_json(facts: dict[str, Any]) -> bytes:
    """Encode facts as canonical JSON (sorted keys, no spaces, UTF-8). Raises ValueError if not possible."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def facts_id(facts: dict[str, Any]) -> str:
    """Return a descriptor's id: the first 8 hex digits of the SHA-256 of its facts' canonical JSON."""
    return hashlib.sha256(canonical_json(facts)).hexdigest()[:8]


def descriptor_topics(sink_topic: str, id_: str) -> tuple[str, str]:
    """Return the topics on which a descriptor is retained: one for the latest descriptor, one for its id."""
    return f"{sink_topic}{LATEST_SUFFIX}", f"{sink_topic}{LATEST_SUFFIX}/{id_}"


def described_topic(topic: str) -> str:
    """Return the sink topic of a descriptor's topic; the topic of any other message is returned as it is."""
    return re.sub(f"{LATEST_SUFFIX}(/[^/]+)?$", "", topic)
