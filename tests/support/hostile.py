"""Messages of hostile senders: altered descriptors with the ids of their facts, and records under them.

Half of the descriptors agree with themselves: their numbers are drawn from the edges of what is allowed, and
what follows from them is computed. The other half have a field that is wrong, or strange, or of no version.
"""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from meteragent.collect.core import Message
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.metric import Metric
from meteragent.domain.units import DAY_MS, UNITS, Kind
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire import shapes
from meteragent.wire.number import parse_ms, shorten
from tests.support.collecting import NOW_MS, topic
from tests.support.conformance_cases import descriptor, every_terms
from tests.support.messages import changed

FACTS: tuple[dict[str, Any], ...] = tuple(
    json.loads(descriptor(terms, iso_time(NOW_MS))) for terms in every_terms().values()
)
"""A descriptor of every space, kind and unit."""
EXACT = ("1", "2", "1/3", "0.000001", "0.01", "3", "220", "1000000", "9223372036854", "1e3", "0", "-1", "x")
DURATIONS = (
    "PT0.001S",
    "PT1S",
    "PT1M",
    "PT10M",
    "PT30M",
    "PT1H",
    "PT23H",
    "PT24H",
    "PT720H",
    "PT9600H",
    "PT9601H",
)
ZONES = (None, None, "UTC", "Europe/Amsterdam", "Asia/Kathmandu", "America/St_Johns", "No/Where", "../UTC")
NUMBERS = (0, -1, 1, 1.5, 1e-9, 1e18, 1e19, 1e308, float("inf"), float("nan"), 2**31, 2**63, 10**40, 10**4000)
TEXTS = (
    *(
        "",
        "x" * 128,
        "x" * 300,
        "Zähler 1/ß",
        "'; DROP TABLE record; --",
        "%s %(x)s {0}",
        "\\N",
        "a\tb",
        "=1+1",
    ),
    *("\x00", "\x1b[2J", "\u202eabc", "\u2028", "\ud800", "\uffff", "😀", " ", "..", "NULL", '"', "a,b\nc"),
)
STRANGE: tuple[Any, ...] = (None, True, [], {}, [[]], {"a": {"b": [1, None]}}, *NUMBERS, *TEXTS)
"""Values for any field."""
VALUES = (
    "0",
    "-0",
    "-7",
    "5e0",
    "9223372036854",
    "-9223372036854",
    "9223372036855",
    "1e12",
    "1e30",
    "1e31",
    "1e999",
)
TIMES_MS = (-500 * DAY_MS, -399 * DAY_MS, -40 * DAY_MS, -DAY_MS, 0, DAY_MS - 1, 2 * DAY_MS, 10**13)
"""Times of records, from now."""


def consistent(rng: random.Random) -> dict[str, Any] | None:
    """Return the facts of terms that agree with each other, or None if the numbers make no terms."""
    facts = dict(rng.choice(FACTS))
    unit = rng.choice([unit for unit in UNITS[Kind(facts["kind"])] if facts["space"] != "weighted"] or ["W"])
    for name in rng.sample(["level", "radius", "quantum"], rng.randrange(3)):
        facts[name] = rng.choice(EXACT[:9])
    if rng.random() < 0.5 and facts["space"] in {"linf", "curve", "peak", "above"}:
        facts["step"] = rng.choice(DURATIONS[:-1])
        facts["length"] = iso_duration(parse_ms(facts["step"]) * rng.choice([1, 1, 2, 48, 96, 1440, 50_000]))
        facts["timezone"] = rng.choice(ZONES[:6])
    if "bands" in facts and rng.random() < 0.5:
        names = rng.sample(TEXTS, len(facts["bands"]))
        facts["bands"] = dict(zip(names, facts["bands"].values(), strict=True))
    if rng.random() < 0.5:
        facts[rng.choice([*TEXTS, "quality"])] = rng.choice(STRANGE)
    try:
        return with_consequences({name: fact for name, fact in facts.items() if fact is not None}, unit)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
        return None


def with_consequences(facts: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return facts with what follows from them. Raises an error if they make no terms."""
    kind = Kind(facts["kind"])
    shape = shapes.read_shape(facts, parse_ms(facts["length"]), parse_ms(facts["step"]))
    if shape.n > 50_000:
        raise ValueError("computing its errors would take minutes")
    level, radius, quantum = (Fraction(facts[name]) for name in ("level", "radius", "quantum"))
    noise = LInfLaplace(level / radius, quantum, 1 if facts["metric"] == Metric.L1 else shape.n)
    value_unit = facts["unit"] if facts["space"] == "weighted" else shape.value_unit(unit, kind)
    hides_wh = radius * shape.wh_per_value(value_unit, kind) * shape.hours_per_value(kind)
    return facts | {
        "n": shape.n,
        "unit": value_unit,
        "step": iso_duration(shape.step_ms),
        "epsilon": str(noise.epsilon),
        "epsilon_unit": f"1/{value_unit}",
        "hides_wh": str(hides_wh),
        "sd": shorten(sd(noise, facts["rounding"])),
        "ci95": shorten(half_width(noise, 0.95, facts["rounding"])),
    }


def mutation(rng: random.Random, meter: str) -> dict[str, Any]:
    """Return the facts of a descriptor of a meter, with the id of its facts."""
    facts = consistent(rng) if rng.random() < 0.7 else None
    if facts is None:
        facts = dict(rng.choice(FACTS))
        for name in rng.choices(
            [*facts, "timezone", "in_all", "bands", "readings", "y"], k=rng.randrange(1, 3)
        ):
            facts[name] = rng.choice([*EXACT, *DURATIONS, *ZONES] if rng.random() < 0.6 else STRANGE)
    sealed: dict[str, Any] = json.loads(changed(json.dumps(facts).encode(), is_sealed=True, meter=meter))
    return sealed


def records(rng: random.Random, facts: dict[str, Any], count: int) -> Iterator[bytes]:
    """Yield records that name a descriptor, each of another slot, most of them under its terms."""
    bands = list(facts["bands"]) if isinstance(facts.get("bands"), dict) else []
    slot_ms = _length_ms(facts.get("length") if bands or facts.get("space") == "peak" else facts.get("step"))
    for index in range(count):
        from_ms = NOW_MS + rng.choice(TIMES_MS) if rng.random() < 0.3 else NOW_MS - DAY_MS
        start_ms = from_ms - from_ms % slot_ms - index * slot_ms
        payload = {
            "v": 1,
            "meter": facts["meter"],
            "t": iso_time(start_ms) if start_ms > 0 else "1969-12-31T23:30:00Z",
            "for": iso_duration(slot_ms),
            "value": "VALUE",
            "unit": facts.get("unit"),
            "sd": facts.get("sd"),
            "d": facts.get("id"),
        }
        if bands:
            payload["band"] = rng.choice(bands)
        if facts.get("space") == "peak":
            payload["draws"] = rng.choice([1, 2, 2**31 - 1, 2**31])
        if rng.random() < 0.2:
            payload[rng.choice([*payload, "y", "band", "draws"])] = rng.choice(STRANGE)
        multiple = Fraction(rng.randrange(-1000, 1000)) * _quantum(facts)
        value = rng.choice(VALUES) if rng.random() < 0.3 else f"{float(multiple):.6f}"
        yield json.dumps(payload).replace('"VALUE"', value).encode()


def _length_ms(text: Any) -> int:
    try:
        return parse_ms(text)
    except (ValueError, TypeError):
        return 1_800_000


def _quantum(facts: dict[str, Any]) -> Fraction:
    try:
        return min(Fraction(facts["quantum"]), Fraction(10**30))
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return Fraction(1)


def mutations(rng: random.Random, first: int, count: int) -> list[Message]:
    """Return at least `count` altered messages: of meters with a descriptor and some records each."""
    messages: list[Message] = []
    number = first
    while len(messages) < count:
        name = rng.choice(TEXTS) if rng.random() < 0.05 else ""
        meter = f"m{number}{name}".replace("/", "").replace("\ud800", "")
        number += 1
        facts = mutation(rng, meter)
        place = topic(meter)
        own_messages = [Message(f"{place}/privacy", json.dumps(facts).encode())]
        own_messages += [Message(place, payload) for payload in records(rng, facts, rng.randrange(6))]
        if rng.random() < 0.1:
            rng.shuffle(own_messages)
        messages += own_messages
    return messages


def sent_records(messages: Sequence[Message]) -> dict[tuple[str, int, str], set[tuple[Any, ...]]]:
    """Return what records say, by meter, start and band: the end, the exact value, the unit and the draws.

    Read with Python's JSON alone, so that what is stored is compared with what was sent.
    """
    contents: dict[tuple[str, int, str], set[tuple[Any, ...]]] = {}
    for message in messages:
        if message.topic.endswith("/power"):
            try:
                facts = json.loads(message.payload, parse_float=Fraction, parse_int=Fraction)
                start_ms = _ms(facts["t"])
                key = facts["meter"], start_ms, facts.get("band") or ""
                end_ms = start_ms + parse_ms(facts["for"])
                says = end_ms, Fraction(facts["value"]), facts["unit"], int(facts.get("draws", 1))
                contents.setdefault(key, set()).add(says)
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
                continue
    return contents


def _ms(text: str) -> int:
    time = datetime.fromisoformat(text)
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
