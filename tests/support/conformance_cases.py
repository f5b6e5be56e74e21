"""The cases of docs/contracts/conformance.json: messages, and what a receiver must make of them.

Messages are what an agent writes under the configurations below, or altered. What they mean is stated here by
hand, so that neither the writer nor the reader is its own judge.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from meteragent import config
from meteragent.domain.grid import parse_time
from meteragent.domain.terms import Terms
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.messages import changed
from tests.support.tariffs import text_of_bands
from tests.support.weighted import text_of_prices

NOON = "2026-11-20T12:00:00Z"
SPRING = "2026-03-28T23:00:00Z"
"""The start of 2026-03-29 in Amsterdam, a day of 23 hours."""
JUNE = "2026-05-31T22:00:00Z"
"""The start of June 2026 in Amsterdam."""
AMSTERDAM = "timezone = 'Europe/Amsterdam'"

_TEXTS = {
    "power": written(),
    "six": written(window="length = '1h'\nstep = '10min'"),
    "curve": written(window="length = '1h'\nstep = '10min'", privacy="space = 'curve'"),
    "kilowatt": written(source="unit = 'kW'"),
    "energy": written(source="kind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'"),
    "register": written(source="kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001"),
    "day": written(privacy="preset = 'day'", window=AMSTERDAM),
    "mean day": written(privacy="preset = 'typical-day'", window=AMSTERDAM),
    "tariff": text_of_bands(),
    "tariff of a register": text_of_bands(
        source="kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001"
    ),
    "amount": text_of_prices(),
    "peak": written(privacy="preset = 'peak'", window=AMSTERDAM),
    "above": written(window="length = '1h'\nthreshold = 3000"),
}


@cache
def terms_of(name: str, start: str = NOON) -> Terms:
    """Return the terms of the window that starts at a time, under one of the configurations."""
    return config.schedule(config.parse(_TEXTS[name]).stream[0]).terms_at(parse_time(start))


def every_terms() -> dict[str, Terms]:
    """Return terms of every space, kind and unit, by the name of their configuration."""
    starts = {"day": SPRING, "mean day": JUNE, "tariff": JUNE, "tariff of a register": JUNE}
    starts |= {"amount": JUNE, "peak": JUNE}
    return {name: terms_of(name, starts.get(name, NOON)) for name in _TEXTS}


def descriptor(terms: Terms, start: str, meter: str = "m1") -> bytes:
    """Return a meter's descriptor, valid from a time."""
    return describe_terms(terms).encode_message(meter, parse_time(start), "0000000000000000")


def record(terms: Terms, start: str, value: str, slot: int = 0, draws: int = 1, meter: str = "m1") -> bytes:
    """Return the record of a slot whose value is an exact number."""
    quanta = Fraction(value) / terms.quantum
    assert quanta.denominator == 1
    records = RecordFormat.of(describe_terms(terms))
    return records.encode(meter, parse_time(start), slot, quanta.numerator, draws)


def cases() -> list[dict[str, Any]]:
    """Return all cases, the accepted ones first."""
    return [*_accepted(), *_refused()]


def _case(name: str, *messages: bytes, **outcome: Any) -> dict[str, Any]:
    return {"name": name, "messages": [message.decode() for message in messages], **outcome}


def _with(message: bytes, name: str, value: Any) -> bytes:
    """Return a message in which a field has another value, or is missing if the value is None."""
    fields: dict[str, Any] = {name: value}
    return changed(message, **fields)


def _meaning(start: str, end: str, value: str, unit: str, kwh: str | None, **fields: Any) -> dict[str, Any]:
    """Return what one record says; `kwh` is its exact energy, None if none follows."""
    return {"meter": "m1", "from": start, "to": end, "value": value, "unit": unit, "kwh": kwh, **fields}


def _accepted() -> Iterator[dict[str, Any]]:
    power = terms_of("power")
    about = descriptor(power, NOON)
    payload, half_past = record(power, NOON, "512"), "2026-11-20T12:30:00Z"
    meaning = _meaning(NOON, half_past, "512", "W", "0.256")
    yield _case("a record and its descriptor", about, payload, accepted=[meaning])
    yield _case("the record comes first", payload, about, accepted=[meaning])
    yield _case("a repeated record counts once", about, payload, payload, about, accepted=[meaning])
    later = record(power, half_past, "-37")
    rows = [meaning, _meaning(half_past, "2026-11-20T13:00:00Z", "-37", "W", "-0.0185")]
    yield _case("a value may be negative", about, payload, later, accepted=rows)
    yield _case("a gap is no mistake", about, record(power, half_past, "-37"), accepted=rows[1:])
    far = record(power, NOON, "123456789012345678901234567890")
    far_kwh = "61728394506172839450617283.945"
    values = _meaning(NOON, half_past, "123456789012345678901234567890", "W", far_kwh)
    yield _case("numbers are exact beyond binary floating point", about, far, accepted=[values])
    yield _case(
        "a later version added a field to a record", about, changed(payload, quality=3), accepted=[meaning]
    )
    other = changed(about, is_sealed=True, new_fact=True)
    renamed = changed(payload, d=json.loads(other)["id"])
    yield _case("a later version added a fact to a descriptor", other, renamed, accepted=[meaning])
    yield _case("meters share descriptors", descriptor(power, NOON, "m2"), payload, accepted=[meaning])
    zoned = changed(payload, t="2026-11-20T13:00:00+01:00")
    yield _case("a time in another zone", about, zoned, accepted=[meaning])
    old = replace(power, rounding="half-up")
    yield _case("rounded half up", descriptor(old, NOON), record(old, NOON, "512"), accepted=[meaning])
    archived = describe_terms(config.terms(config.parse(_TEXTS["power"]).stream[0]), is_archive=True)
    released = RecordFormat.of(archived).encode("m1", parse_time(NOON), 0, 512)
    about_archive = archived.encode_message("m1", parse_time(NOON))
    yield _case("a record of an archive", about_archive, released, accepted=[meaning])
    named = {**meaning, "meter": "Zähler 1/ß"}
    yield _case("a name in UTF-8", about, record(power, NOON, "512", meter="Zähler 1/ß"), accepted=[named])
    yield from _accepted_shapes()


def _accepted_shapes() -> Iterator[dict[str, Any]]:
    """Yield a case for each space, kind and unit."""
    kilowatt, ten_past = terms_of("kilowatt"), "2026-11-20T12:10:00Z"
    half_past = "2026-11-20T12:30:00Z"
    rows = [_meaning(NOON, half_past, "0.512", "kW", "0.256")]
    yield _shaped("kW", kilowatt, NOON, rows)
    yield _shaped("an energy", terms_of("energy"), NOON, [_meaning(NOON, half_past, "256.5", "Wh", "0.2565")])
    rows = [_meaning(NOON, half_past, "0.2565", "kWh", "0.2565")]
    yield _shaped("an energy from a register", terms_of("register"), NOON, rows)
    rows = [
        _meaning(NOON, ten_past, "600", "W", "0.1"),
        _meaning(ten_past, "2026-11-20T12:20:00Z", "-6", "W", "-0.001"),
    ]
    yield _shaped("slots of one window", terms_of("six"), NOON, rows)
    yield _shaped("blocks of a curve", terms_of("curve"), NOON, rows)
    rows = [_meaning(SPRING, "2026-03-29T22:00:00Z", "412.5", "W", "9.4875")]
    yield _shaped("a local day of 23 hours", terms_of("day", SPRING), SPRING, rows)
    month = JUNE, "2026-06-30T22:00:00Z"
    rows = [
        _meaning(*month, "250", "W", "45", band="00:00/06:00"),
        _meaning(*month, "300.25", "W", "54.045", band="06:00/12:00"),
    ]
    yield _shaped("bands of a mean day", terms_of("mean day", JUNE), JUNE, rows)
    rows = [
        _meaning(*month, "90000", "Wh", "90", band="night"),
        _meaning(*month, "120001", "Wh", "120.001", band="day"),
    ]
    yield _shaped("energies of a tariff's bands", terms_of("tariff", JUNE), JUNE, rows)
    unknown = [_meaning(*month, "-2.001", "kWh", "-2.001", band="unknown")]
    yield _shaped("energy whose band is unknown", terms_of("tariff of a register", JUNE), JUNE, unknown)
    yield _shaped("an amount", terms_of("amount", JUNE), JUNE, [_meaning(*month, "61.2", "EUR", None)])
    rows = [_meaning(*month, "4321", "W", None, draws=2)]
    yield _shaped("a peak whose noise was drawn twice", terms_of("peak", JUNE), JUNE, rows)
    rows = [_meaning(NOON, "2026-11-20T13:00:00Z", "1500", "Wh", None)]
    yield _shaped("energy above a threshold", terms_of("above"), NOON, rows)


def _shaped(name: str, terms: Terms, start: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the case of an accepted window; bands are found by name, other slots are in order."""
    bands = [band.name for band in terms.places]
    slots = [bands.index(row["band"]) if bands else place for place, row in enumerate(rows)]
    messages = [
        record(terms, start, row["value"], slot, row.get("draws", 1))
        for slot, row in zip(slots, rows, strict=True)
    ]
    return _case(name, descriptor(terms, start), *messages, accepted=rows)


def _refused() -> Iterator[dict[str, Any]]:
    power = terms_of("power")
    about, payload = descriptor(power, NOON), record(power, NOON, "512")
    for text in ("512", "[]", '"text"', "{", "null"):
        yield _case(f"no JSON object: {text}", about, text.encode(), refused="json")
    for name in ("meter", "t", "for", "value", "unit", "sd", "d"):
        yield _case(f"a record without {name}", about, _with(payload, name, None), refused="field")
    mistakes: list[tuple[str, Any]] = [
        *(("t", "2026-11-20"), ("t", "2026-11-20T12:00:00"), ("t", 1795176000), ("for", "30min")),
        *(
            ("for", "P1D"),
            ("for", "PT0S"),
            ("value", "512"),
            ("value", True),
            ("sd", "311"),
            ("unit", 1),
            ("d", 4),
        ),
    ]
    for name, value in mistakes:
        value_text = json.dumps(value)
        yield _case(
            f"a record whose {name} is {value_text}", about, _with(payload, name, value), refused="field"
        )
    for version in (None, 0, 2, "1"):
        yield _case(f"a record of version {version}", about, changed(payload, v=version), refused="version")
        altered = changed(about, is_sealed=True, v=version)
        yield _case(f"a descriptor of version {version}", altered, payload, refused="version")
    yield from _refused_pairs(power, about, payload)
    yield from _refused_descriptors(about)


def _refused_pairs(power: Terms, about: bytes, payload: bytes) -> Iterator[dict[str, Any]]:
    """Yield records that do not agree with their descriptor or with another record."""
    yield _case("a record without its descriptor", payload, refused="descriptor")
    other = changed(payload, d="00000000")
    yield _case("a record of another descriptor", about, other, refused="descriptor")
    yield _case("a record in another unit", about, changed(payload, unit="kW"), refused="slot")
    yield _case("a record of another duration", about, _with(payload, "for", "PT15M"), refused="slot")
    yield _case(
        "a record with a band that its terms do not have", about, changed(payload, band="day"), refused="band"
    )
    tariff = terms_of("tariff", JUNE)
    banded, about_bands = record(tariff, JUNE, "5"), descriptor(tariff, JUNE)
    yield _case("a record without its band", about_bands, changed(banded, band=None), refused="band")
    yield _case("a record of an unknown band", about_bands, changed(banded, band="noon"), refused="band")
    yield _case("two draws outside a peak", about, changed(payload, draws=2), refused="draws")
    yield _case("no draw", about, changed(payload, draws=0), refused="draws")
    yield _case("a value off the lattice", about, changed(payload, value=512.5), refused="lattice")
    tiny = payload.replace(b'"value":512,', b'"value":512.000000000000000000000001,')
    yield _case("a value just off the lattice", about, tiny, refused="lattice")
    yield _case("an sd that is not the descriptor's", about, changed(payload, sd=280.0), refused="sd")
    yield _case("a slot twice with two values", about, payload, record(power, NOON, "513"), refused="twice")
    shifted = changed(payload, t="2026-11-20T12:15:00Z")
    yield _case("slots that overlap", about, payload, shifted, refused="overlap")


def _refused_descriptors(about: bytes) -> Iterator[dict[str, Any]]:
    """Yield descriptors with one mistake, and a record of each."""

    def case(name: str, refused: str, field: str, value: Any, *, is_sealed: bool = True) -> dict[str, Any]:
        """Return the case of a descriptor whose field is changed, with the id that its facts then have."""
        fields: dict[str, Any] = {field: value}
        altered = changed(about, is_sealed=is_sealed, **fields)
        payload = changed(record(terms_of("power"), NOON, "512"), d=json.loads(altered).get("id", "00000000"))
        return _case(name, altered, payload, refused=refused)

    yield case("facts that were changed", "id", "hides_wh", "500", is_sealed=False)
    yield case("an id of another descriptor", "id", "id", "00000000", is_sealed=False)
    yield case("more slots than a window may have", "field", "n", 10**9)
    yield case("a text without an end", "field", "unbiased", "x" * 20_000)
    yield case("a number that is not finite", "id", "weather", float("inf"))
    yield case("a length of 7,990 years", "field", "length", "PT70000000H")
    fields = ("meter", "metric", "epsilon", "level", "radius", "hides_wh", "n", "quantum")
    more_fields = ("length", "step", "kind", "unit", "space", "rounding", "sd", "ci95", "valid_from")
    for name in (*fields, "mechanism", *more_fields):
        yield case(f"a descriptor without {name}", "field", name, None)
    wrong = {"epsilon": 0.0045, "level": 1, "n": "1", "length": "30min", "kind": "load", "valid_from": "now"}
    for name, value in wrong.items():
        yield case(f"a descriptor whose {name} is {json.dumps(value)}", "field", name, value)
    unknown = {"mechanism": "gaussian", "metric": "l2", "space": "sphere", "rounding": "half-even"}
    for name, value in unknown.items():
        yield case(f"an unknown {name}", "unknown", name, value)
    contradictions = {"epsilon": "1/221", "level": "2", "radius": "221", "hides_wh": "111", "n": 2}
    contradictions |= {"length": "PT1H", "step": "PT15M", "sd": 280.0, "ci95": 600.0, "unit": "kW"}
    contradictions |= {"kind": "register", "in_all": True, "metric": "l1", "epsilon_unit": "1/kW"}
    contradictions |= {"space": "peak", "threshold_w": "3000", "timezone": "Mars/Olympus"}
    for name, value in contradictions.items():
        yield case(
            f"a descriptor whose {name} is {json.dumps(value)}, which others contradict",
            "terms",
            name,
            value,
        )
