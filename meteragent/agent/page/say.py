"""What the browser is told, as JSON: facts once, then events.

Exact numbers become floats here, because they are drawn; what has left is told as the text it is.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from meteragent import __version__
from meteragent.agent.page.view import Glance, Promises, StreamView
from meteragent.agent.page.viewers import News, Viewer
from meteragent.domain.counters import COUNTERS, Counts
from meteragent.domain.problem import Problem
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, UNIT_FACTOR, Kind
from meteragent.report import facts as report
from meteragent.report import wording
from meteragent.report.guarantee import Guarantee

METERS = 500
"""Meters that are offered for choice at most; the others are reached by `?meter=`."""


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def facts(
    streams: Sequence[StreamView], promises: Sequence[Promises], problems: Sequence[Problem] = ()
) -> bytes:
    """Every stream's promise, that of every other preset on the same readings, and what is wrong."""
    told = [
        {
            "name": stream.name,
            "own": _promise(promised.own),
            "presets": {name: _promise(preset) for name, preset in promised.presets.items()},
            "meters": meters(stream),
        }
        for stream, promised in zip(streams, promises, strict=True)
    ]
    known = {"version": __version__, "streams": told, "counters": COUNTERS}
    return json.dumps(known | {"problems": wrong(problems)}).encode()


def wrong(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Problems as the page shows them."""
    return [{"code": one.code, "text": one.text, "cure": one.cure} for one in problems]


def meters(stream: StreamView) -> list[str]:
    """The meters of a stream that are offered for choice."""
    return sorted(stream.meters())[:METERS]


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    """Return what `check` says, and the numbers that drawing takes: in W or kW, and milliseconds.

    `per_power` is what one W or kW over a slot is in the unit of its records, 1 for powers. `said` are the
    sentences of `check`, and the table of guesses whose first row is its head.
    """
    terms = guarantee.terms
    energy = terms.kind is not Kind.POWER
    per_power = terms.step_ms / HOUR_MS if energy else 1.0
    return {
        **report.of(guarantee),
        "said": {
            "promise": wording.promise(guarantee),
            "summary": wording.summary(guarantee),
            "guesses": wording.guesses(),
            "table": [wording.GUESS_COLUMNS, *wording.guess_rows(guarantee)],
        },
        "power_unit": {"Wh": "W", "kWh": "kW"}.get(terms.unit, terms.unit),
        "watts": UNIT_FACTOR[terms.unit],
        "per_power": per_power,
        "step_ms": terms.step_ms,
        "length_ms": terms.length_ms,
        "hold_ms": terms.interval_ms if energy else terms.hold_ms,
        "interval_ms": terms.interval_ms,
        "radius_power": float(terms.radius) / per_power,
        "level_number": float(terms.level),
        "quantum_power": float(terms.quantum) / per_power,
        "hides_wh_number": float(terms.hides_wh),
        "slots": [
            {"name": terms.bands[place].name if terms.bands else "", "ms": terms.slot_ms(place)}
            for place in range(terms.n)
        ]
        if terms.bands
        else [],
    }


def start(viewer: Viewer, history: Collection[bytes]) -> dict[str, Any]:
    """What a page is told first: whom it sees, and what has left before it was opened."""
    records = [_text(each) for each in history]
    return {"stream": viewer.stream, "meter": viewer.meter, "topic": viewer.topic, "records": records}


def news(new: News) -> dict[str, Any]:
    """Return readings as (ms, value), records as they leave, and means of slots, by schedule."""
    readings = [(time_ms, value_u / MICRO) for time_ms, value_u in new.readings]
    records = [_text(record) for record in new.records]
    means = {name: [mean._asdict() for mean in known] for name, known in new.means.items()}
    return {"readings": readings, "records": records, "missed": new.missed, "means": means}


def glance(found: Glance, terms: Terms, counts: Counts) -> dict[str, Any]:
    """How things stand; `spent` as epsilon in 1/W and as the level at the stream's radius."""
    radius_w = terms.radius_w
    last = found.last
    return {
        "now_ms": found.now_ms,
        "spent": {
            name: {"epsilon": float(epsilon), "exact": str(epsilon), "level": float(epsilon * radius_w)}
            for name, epsilon in found.spent.items()
        },
        "last": last and {"topic": last.topic, "payload": _text(last.payload), "left_ms": last.left_ms},
        "health": {
            "outbox": found.outbox,
            "lag_ms": found.lag_ms,
            "source": found.source,
            "sink": found.sink,
            "clock": found.now_ms is not None,
        },
        "counts": {name: counts[name] for name in COUNTERS},
    }


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
