"""What a message holds: the only place that decides what leaves, byte for byte.

A record says a slot's private value; a descriptor says under which terms, once for many records.
Every record of a stream has the same fields whatever happened in the slot (law 4).

Records are JSON objects (DESIGN 5), or SenML packs (RFC 8428) that say the same: the value as `power` or
`energy` under the meter's name, at the slot's start, and beside it, as `power_for`, `power_sd`, `power_terms`
and of mean days `power_band`, how long the slot is, the standard deviation, the descriptor's id and the band.
kW, Wh and kWh are secondary units (RFC 8798), which version 26 announces (RFC 9100).
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from meteragent.domain import loads
from meteragent.domain.commit import Total
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.terms import Space, Terms
from meteragent.domain.units import DAY_MS, MICRO, Kind
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.mechanism.laplace import LInfLaplace

_COVERAGE = 0.95
_SENML_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]*", re.ASCII)
_quoted = json.encoder.encode_basestring
UTF8 = "utf8:"
"""Begins the SenML name of a meter whose own has other characters: their UTF-8 follows in hex."""


class Wording(NamedTuple):
    """What all messages under the same terms share: the mechanism, the descriptor's facts, its id.

    `sd` is the standard deviation of a number in the unit, by the rounding of the terms; `format` is that of
    records; a descriptor is JSON beside both.
    """

    terms: Terms
    mechanism: LInfLaplace
    id: str
    facts: dict[str, Any]
    after_value: str
    sd: float
    format: str = "json"


def canonical(facts: dict[str, Any]) -> bytes:
    """The canonical JSON of a descriptor: keys sorted, no spaces, UTF-8."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def facts_id(facts: dict[str, Any]) -> str:
    """A descriptor's id: the first 8 hex digits of the SHA-256 of its facts' canonical JSON.

    The facts are all fields but id, meter, valid_from and store.
    """
    return hashlib.sha256(canonical(facts)).hexdigest()[:8]


def wording(terms: Terms, form: str = "json", *, archive: bool = False) -> Wording:
    """The descriptor's facts (DESIGN 5) without id, meter, valid_from and store, and what follows.

    Of an `archive` no clock opens the windows, and the noise is keyed.
    """
    noise = LInfLaplace(epsilon=terms.epsilon, quantum=terms.quantum, n=terms.n)
    exact = sd(noise, terms.rounding)
    deviation = _figure(exact)
    facts: dict[str, Any] = {
        "v": 1,
        "metric": "linf",
        "epsilon": str(terms.epsilon),
        "epsilon_unit": f"1/{terms.unit}",
        "level": str(terms.level),
        "radius": str(terms.radius),
        "hides_wh": str(terms.hides_wh),
        "n": terms.n,
        "quantum": str(terms.quantum),
        "mechanism": "linf-laplace",
        "length": iso_duration(terms.length_ms),
        "step": iso_duration(terms.step_ms),
        "kind": str(terms.kind),
        "unit": terms.unit,
        "sd": deviation,
        "ci95": _figure(half_width(noise, _COVERAGE, terms.rounding)),
        "level_per_day": str(terms.level * DAY_MS / terms.length_ms),
        "unbiased": "of slot values after fill and clamp",
        "schedule": "archive" if archive else str(terms.clock),
        "noise": "prf" if archive else "os",
        "invariants": [],
    }
    facts |= _of_the_shape(terms)
    id_ = facts_id(facts)
    if form == "senml":
        return Wording(terms, noise, id_, facts, _senml_after(terms, deviation, id_), exact, form)
    after = f',"unit":"{terms.unit}","sd":{json.dumps(deviation)},"d":"{id_}"}}'
    return Wording(terms, noise, id_, facts, after, exact)


def _of_the_shape(terms: Terms) -> dict[str, Any]:
    """Return what only some descriptors have: preset, zone, rounding, what the slots are, other streams."""
    facts: dict[str, Any] = {}
    if terms.preset is not None:
        facts["preset"] = terms.preset
    if terms.timezone is not None:
        facts["timezone"] = terms.timezone
    if terms.rounding != "half-up":
        facts["rounding"] = terms.rounding
    if terms.space is Space.CURVE:
        facts |= {"space": "curve", "reconstruction": "steps"}
    if terms.space is Space.PROFILE:
        durations = {band.name: iso_duration(terms.slot_ms(i)) for i, band in enumerate(terms.bands)}
        facts |= {"space": "profile", "bands": durations}
    if terms.others_per_day:
        facts |= {"meter_epsilon_per_day": str(terms.per_day + terms.others_per_day)}
        facts |= {"meter_epsilon_unit": "1/W"}
    return facts | _of_the_source(terms)


def _of_the_source(terms: Terms) -> dict[str, Any]:
    """What is known of how readings follow the load, and, if that is all of it, the level for loads."""
    readings: dict[str, Any] = {}
    if terms.every_ms is not None:
        readings["every"] = iso_duration(terms.every_ms)
    if terms.dead_band is not None:
        readings["dead_band"] = str(terms.dead_band)
    if terms.counters > 1:
        readings["counters"] = terms.counters
    facts: dict[str, Any] = {"readings": readings} if readings else {}
    if not loads.unknown(terms):
        facts["level_of_loads"] = str(terms.level * loads.factor(terms))
    return facts


class Wordings:
    """The wordings of all terms that a stream has and had, each made once; by the id of its terms."""

    def __init__(self, known: Mapping[str, Terms], form: str = "json") -> None:
        self._form = form
        self._by_id = {id_: self.make(terms) for id_, terms in known.items()}

    def make(self, terms: Terms) -> Wording:
        """The wording of some terms."""
        return wording(terms, self._form)

    def __getitem__(self, id_: str) -> Wording:
        return self._by_id[id_]

    def id(self, terms: Terms) -> str:
        """The id of the terms of a window that opens."""
        if terms.id not in self._by_id:
            self._by_id[terms.id] = self.make(terms)
        return terms.id


def _figure(number: float) -> float:
    """A float with four significant digits, as messages show it."""
    return float(f"{number:.4g}")


def descriptor(shared: Wording, label: str, valid_from_ms: int, store: str | None = None) -> bytes:
    """The descriptor of a meter's records from a time on; `store` is the releasing store's mark."""
    facts = {"v": 1, "id": shared.id, "meter": label, **shared.facts}
    if store is not None:
        facts["store"] = store
    facts["valid_from"] = iso_time(valid_from_ms)
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()


def descriptor_topics(sink_topic: str, id_: str) -> tuple[str, str]:
    """Where a descriptor is retained: the latest, and for ever under its id."""
    return f"{sink_topic}/privacy", f"{sink_topic}/privacy/{id_}"


def record(shared: Wording, label: str, window_ms: int, place: int, value_quanta: int) -> bytes:
    """A slot's record: its start, its duration and its private value, in the stream's unit.

    `window_ms` is where its window starts, `place` its place there. A band's record has the window's
    start and duration, and the band's name.
    """
    terms = shared.terms
    start_ms = window_ms if terms.bands else window_ms + place * terms.step_ms
    band = terms.bands[place].name if terms.bands else None
    value = decimal_text(value_quanta * terms.quantum_u)
    if shared.format == "senml":
        return _senml(shared, label, start_ms, value, band)
    duration = iso_duration(_record_ms(terms)) + (f'","band":"{band}' if band else "")
    head = f'{{"v":1,"meter":{_quoted(label)},"t":"{iso_time(start_ms)}","for":"{duration}"'
    return f'{head},"value":{value}{shared.after_value}'.encode()


def _record_ms(terms: Terms) -> int:
    """What a record is for: a slot, or the window of a band."""
    return terms.length_ms if terms.bands else terms.step_ms


def _senml(shared: Wording, label: str, start_ms: int, value: str, band: str | None) -> bytes:
    """A record as a SenML pack."""
    quantity, unit = _quantity(shared.terms), shared.terms.unit
    version = "" if unit == "W" else ',"bver":26'
    head = f'[{{"bn":"{senml_name(label)}/","bt":{decimal_text(start_ms * 1000)}{version}'
    one = f'"n":"{quantity}","u":"{unit}","v":{value}}}'
    of_day = f',{{"n":"{quantity}_band","vs":"{band}"}}' if band else ""
    return f"{head},{one}{of_day}{shared.after_value}".encode()


def _senml_after(terms: Terms, deviation: float, id_: str) -> str:
    """What follows a value and its band in a SenML pack."""
    quantity, duration = _quantity(terms), decimal_text(_record_ms(terms) * 1000)
    return (
        f',{{"n":"{quantity}_for","u":"s","v":{duration}}}'
        f',{{"n":"{quantity}_sd","u":"{terms.unit}","v":{json.dumps(deviation)}}}'
        f',{{"n":"{quantity}_terms","vs":"{id_}"}}]'
    )


def _quantity(terms: Terms) -> str:
    return "power" if terms.kind is Kind.POWER else "energy"


def senml_name(label: str) -> str:
    """A meter's name as SenML allows it: itself, or `UTF8` and its bytes in hex."""
    if _SENML_NAME.fullmatch(label) and not label.startswith(UTF8):
        return label
    return UTF8 + label.encode().hex()


def total_topic(sink_topic: str) -> str:
    """Where the running total leaves."""
    return f"{sink_topic}/total"


def total(shared: Wording, label: str, sums: Total, end_ms: int) -> bytes:
    """The running total of what left, at the end of a slot: JSON whatever the records are.

    `sd` is that of the total now, `since` when it was 0; `d` names the slot's descriptor.
    """
    facts = {
        "v": 1,
        "meter": label,
        "t": iso_time(end_ms),
        "value": None,
        "unit": sums.unit,
        "sd": _figure(math.sqrt(sums.variance)),
        "since": iso_time(sums.since_ms),
        "d": shared.id,
    }
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
    return text.replace('"value":null', f'"value":{decimal_text(sums.value_u)}', 1).encode()


def decimal_text(value_u: int) -> str:
    """Millionths as an exact JSON number: no exponent, no trailing zeros."""
    whole, rest = divmod(abs(value_u), MICRO)
    sign = "-" if value_u < 0 else ""
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}"
