"""JSON messages to the browser: the facts, the history and the events, with floats to be drawn."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from meteragent import __version__
from meteragent.agent.page.view import Allowance, MeterState, Promises, StreamView
from meteragent.agent.viewers import News, Viewer
from meteragent.config.model import Stream
from meteragent.core.arrivals import BAD_MIN
from meteragent.core.noiseless import SlotMean
from meteragent.crowd.group import ROLES, Group
from meteragent.domain.counters import COUNTERS, REFUSALS, Counts
from meteragent.domain.problem import Problem
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, MICRO, POWER_UNIT, Kind
from meteragent.report import facts as report
from meteragent.report import wording
from meteragent.report.guarantee import Guarantee
from meteragent.report.language import say

if TYPE_CHECKING:
    from meteragent.agent.page.history import History

METERS_MAX = 500
"""The largest number of meters in the list of a stream; any other meter can be shown with `?meter=`."""


def encode_event(name: str, data: Mapping[str, Any]) -> bytes:
    """Encode a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def encode_facts(
    streams: Sequence[StreamView],
    promises: Sequence[Promises],
    counts: Counts,
    problems: Sequence[Problem] = (),
) -> bytes:
    """Encode the version, the state, counters' meanings, and each stream's promises, meters and arrivals."""
    views = [
        {
            "name": stream.name,
            "own": _promise_facts(stream_promises.guarantee),
            "presets": {name: _promise_sentences(preset) for name, preset in stream_promises.presets.items()},
            "meters": list_meters(stream),
            "receivers": _receiver_rows(stream.stream),
            "group": _group_fields(stream.stream.group),
            "arrivals": list_arrivals(stream),
        }
        for stream, stream_promises in zip(streams, promises, strict=True)
    ]
    meanings = {name: say(f"counter.{name}") for name in COUNTERS}
    document = {"version": __version__, "streams": views, "counters": meanings}
    return json.dumps(document | problem_fields(problems, counts)).encode()


def problem_fields(problems: Sequence[Problem], counts: Counts) -> dict[str, Any]:
    """Return the problems, and what has arrived if it is no reading, in the language of the page."""
    uncounted = _uncounted_sentence(counts)
    cure = say("cure.none_accepted") if uncounted and not problems else ""
    return {"problems": _problem_rows(problems), "uncounted": uncounted, "cure": cure}


def _uncounted_sentence(counts: Counts) -> str | None:
    """Return how many messages have come, and what most of them are, if none was a reading."""
    if counts["received"] < BAD_MIN or counts["accepted"] or counts["early"]:
        return None
    names = (*REFUSALS, "other", "retained", "late", "duplicate")
    common = Counter({name: counts[name] for name in names if counts[name]}).most_common(3)
    reasons = "; ".join(f"{say(f'counter.{name}')} ({count})" for name, count in common)
    return say("now.uncounted", count=counts["received"], reasons=reasons)


def _receiver_rows(stream: Stream) -> list[dict[str, Any]]:
    """Return who gets a stream's records: its receivers or, without any, whoever reads its sink's topic."""
    shown = {"name", "topic", "start", "end", "paused"}
    rows = [receiver.model_dump(include=shown) for receiver in stream.receivers]
    return rows or [{"name": "", "topic": stream.sink.topic, "start": None, "end": None, "paused": False}]


def _problem_rows(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Return each problem's code, text and cure, in the language of the page."""
    return [
        {
            "code": problem.code,
            "text": wording.problem_sentence(problem),
            "cure": say(f"cure.{problem.code}", **problem.fields),
        }
        for problem in problems
    ]


def list_meters(stream: StreamView) -> list[str]:
    """List a stream's meters, at most `METERS_MAX`."""
    return sorted(stream.meters())[:METERS_MAX]


def list_arrivals(stream: StreamView) -> list[dict[str, Any]]:
    """List what has arrived of each of a stream's meters and phases, with the judgement of it."""
    return [row._asdict() for row in stream.arrivals()]


def _group_fields(group: Group | None) -> dict[str, Any] | None:
    if group is None:
        return None
    return {
        "name": group.name,
        "id": group.id.hex(),
        "operators": {role: getattr(group, role).name for role in ROLES},
        "hide_wh": float(group.hide_wh),
        "level": float(group.level),
        "smallest": group.smallest_crowd,
    }


def _promise_facts(guarantee: Guarantee) -> dict[str, Any]:
    """Return the facts that `check` states, and the numbers to draw, in W or kW and milliseconds.

    `per_power` is the value of 1 W or 1 kW over a slot (the shortest band, or the largest price).
    """
    terms = guarantee.terms
    per_power = 1.0
    if terms.is_energy:
        per_power = terms.step_ms / HOUR_MS * float(terms.value_per_reading)
    return {
        **report.facts_of(guarantee),
        "said": _promise_sentences(guarantee),
        "power_unit": POWER_UNIT[terms.readings.unit],
        "per_power": per_power,
        "step_ms": terms.step_ms,
        "event_clock": terms.clock is Clock.EVENT,
        "hold_ms": terms.readings.hold_ms
        if terms.readings.kind is Kind.POWER
        else terms.readings.interval_ms,
        "interval_ms": terms.readings.interval_ms,
        "radius_power": float(terms.radius) / per_power,
        "hides_wh_number": float(terms.hides_wh),
    }


def _promise_sentences(guarantee: Guarantee) -> dict[str, Any]:
    """Return sentences of `check`, figures, and an attacker's success limits: as lists, and a whole table."""
    preset = guarantee.terms.preset
    return {
        "name": say(f"preset.{preset}") if preset else "",
        "promise": wording.promise_lines(guarantee),
        "summary": wording.summary_figures(guarantee),
        "events": wording.split_events(guarantee),
        "table": [wording.guess_columns(), *wording.guess_rows(guarantee)],
    }


def first_event_fields(viewer: Viewer, history: Collection[bytes]) -> dict[str, Any]:
    """Return the first event of a page: its meter, with the latest records and means from before."""
    records, means = [_decode(payload) for payload in history], _mean_rows(viewer.new_means())
    names = {"stream": viewer.stream, "meter": viewer.meter, "topic": viewer.topic}
    return names | {"records": records, "means": means}


def news_fields(batch: News) -> dict[str, Any]:
    """Return readings as (time in ms, value), records, the count of dropped events, and means of slots."""
    readings = [(time_ms, value_u / MICRO) for time_ms, value_u in batch.readings]
    records = [_decode(record) for record in batch.records]
    means = _mean_rows(batch.means)
    return {"readings": readings, "records": records, "missed": batch.missed_count, "means": means}


def _mean_rows(means: Sequence[SlotMean]) -> list[dict[str, Any]]:
    return [mean._asdict() for mean in means]


def state_fields(state: MeterState, terms: Terms, counts: Counts) -> dict[str, Any]:
    """Return a meter's state; `spent` states epsilon in 1/W, and its level at the stream's radius."""
    radius_w, message = terms.radius_w, state.last_message
    return {
        "now_ms": state.now_ms,
        "upcoming": state.upcoming and state.upcoming._asdict(),
        "spent": {
            name: {"epsilon": float(epsilon), "exact": str(epsilon), "level": float(epsilon * radius_w)}
            for name, epsilon in state.spent.items()
        },
        "allowance": _allowance_fields(state.allowance, terms),
        "reports": state.reports and state.reports._asdict(),
        "last": message
        and {"topic": message.topic, "payload": _decode(message.payload), "left_ms": message.delivered_ms},
        "health": {
            "outbox": state.waiting_count,
            "lag_ms": state.lag_ms,
            "source": state.source_is_connected,
            "sink": state.sink_is_connected,
            "clock": state.now_ms is not None,
        },
        "counts": {name: counts[name] for name in COUNTERS},
    }


def _allowance_fields(allowance: Allowance | None, terms: Terms) -> dict[str, Any] | None:
    """Return a budget's period, limit and remainder as levels at the radius, and how many windows remain."""
    if allowance is None:
        return None
    remainder = max(allowance.limit - allowance.spent, Fraction(0))
    return {
        "limit": float(allowance.limit * terms.radius_w),
        "left": float(remainder * terms.radius_w),
        "windows": remainder // terms.epsilon_per_w,
        "start_ms": allowance.start_ms,
        "end_ms": allowance.end_ms,
    }


def encode_history(meter_history: "History") -> bytes:
    """Encode a meter's history; an energy or a cost is [value, low, high]."""
    document = {
        "zone": meter_history.zone,
        "periods": [period._asdict() for period in meter_history.periods],
        "windows": [
            window._asdict() | {"costs": window.costs and window.costs._asdict()}
            for window in meter_history.windows
        ],
    }
    return json.dumps(document).encode()


def _decode(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
