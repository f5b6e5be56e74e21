"""Build the JSON messages to the browser: the facts, the history and the events, with floats for drawing."""

import json
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from meteragent import __version__
from meteragent.agent.page.view import Allowance, MeterState, Promises, StreamView
from meteragent.agent.viewers import News, Viewer
from meteragent.config.model import Config, Receiver, Stream
from meteragent.crowd.group import ROLES, Group
from meteragent.domain.counters import COUNTERS, Counts
from meteragent.domain.identity import END
from meteragent.domain.problem import Problem
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, MICRO, POWER_UNIT, Kind
from meteragent.report import facts as report
from meteragent.report import together, wording
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
    problems: Sequence[Problem],
    sharing: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """Encode version, state, counters' meanings, each stream's promises, and `sharing` (`sharing_fields`)."""
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
    state = {"counts": counts, "problems": problem_rows(problems)}
    return json.dumps({**document, **state, **sharing}).encode()


def sharing_fields(config: Config, known_id: int, nonce: str | None) -> dict[str, Any]:
    """Return all receivers, with what `check` says of their cost and, if they may be acted on, the nonce.

    `config` is the configuration after the actions up to `known_id`.
    """
    receivers = list(map(_receiver_row, config.receiver))
    costs = [*together.receiver_lines(config)][len(receivers) :] if receivers else []
    return {"receivers": receivers, "costs": costs, "acted": known_id, "nonce": nonce, "final": END}


def _receiver_rows(stream: Stream) -> list[dict[str, Any]]:
    """Return who gets a stream's records: its receivers or, without any, all who read its sink's topic."""
    rows = [_receiver_row(receiver) for receiver in stream.receivers]
    return rows or [{"name": None, "topic": stream.sink.topic, "start": None, "end": None, "state": ""}]


def _receiver_row(receiver: Receiver) -> dict[str, Any]:
    row = receiver.model_dump(include={"name", "topic", "start", "end"})
    return row | {"state": receiver.state, "verbs": receiver.verbs}


def problem_rows(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Return each problem's code, text and cure, in the language of the page."""
    texts = map(wording.problem_sentence, problems)
    cures = [say(f"cure.{problem.code}", **problem.fields) for problem in problems]
    rows = zip(problems, texts, cures, strict=True)
    return [{"code": problem.code, "text": text, "cure": cure} for problem, text, cure in rows]


def list_meters(stream: StreamView) -> list[str]:
    """List a stream's meters, at most `METERS_MAX`."""
    return sorted(stream.meters())[:METERS_MAX]


def list_arrivals(stream: StreamView) -> list[dict[str, Any]]:
    """List what has arrived from each of a stream's meters and phases, and what is wrong with it."""
    return [row._asdict() for row in stream.arrivals()]


def _group_fields(group: Group | None) -> dict[str, Any] | None:
    if group is None:
        return None
    operators = {role: getattr(group, role).name for role in ROLES}
    promise = {"hide_wh": float(group.hide_wh), "level": float(group.level), "smallest": group.smallest_crowd}
    return {"name": group.name, "id": group.id.hex(), "operators": operators} | promise


def _promise_facts(guarantee: Guarantee) -> dict[str, Any]:
    """Return the facts that `check` states, and the numbers to draw, in W or kW and milliseconds.

    `per_power` is a slot's value at 1 W or 1 kW; bands count as the shortest, and prices as the largest.
    """
    terms, readings = guarantee.terms, guarantee.terms.readings
    per_power = terms.step_ms / HOUR_MS * float(terms.value_per_reading) if terms.is_energy else 1.0
    return {
        **report.facts_of(guarantee),
        "said": _promise_sentences(guarantee),
        "power_unit": POWER_UNIT[readings.unit],
        "per_power": per_power,
        "step_ms": terms.step_ms,
        "event_clock": terms.clock is Clock.EVENT,
        "hold_ms": readings.hold_ms if readings.kind is Kind.POWER else readings.interval_ms,
        "radius_power": float(terms.radius) / per_power,
        "hides_wh_number": float(terms.hides_wh),
    }


def _promise_sentences(guarantee: Guarantee) -> dict[str, Any]:
    """Return the sentences and figures of `check`, and its table of an attacker's chances, header first."""
    preset = guarantee.terms.preset
    return {
        "name": say(f"preset.{preset}") if preset else "",
        "promise": wording.promise_lines(guarantee),
        "summary": wording.summary_figures(guarantee),
        "table": [wording.guess_columns(), *wording.guess_rows(guarantee)],
    }


def first_event_fields(viewer: Viewer, history: Collection[bytes]) -> dict[str, Any]:
    """Return the fields of a page's first event: its topic, and the latest earlier records and means."""
    records = [_decode(payload) for payload in history]
    means = [mean._asdict() for mean in viewer.new_means()]
    return {"topic": viewer.topic, "records": records, "means": means}


def news_fields(batch: News) -> dict[str, Any]:
    """Return readings as (time in ms, value), records, the count of dropped events, and means of slots."""
    readings = [(time_ms, value_u / MICRO) for time_ms, value_u in batch.readings]
    records = [_decode(record) for record in batch.records]
    means = [mean._asdict() for mean in batch.means]
    return {"readings": readings, "records": records, "missed": batch.missed_count, "means": means}


def state_fields(state: MeterState, terms: Terms, counts: Counts) -> dict[str, Any]:
    """Return a meter's state; `spent` states epsilon in 1/W, and its level at the stream's radius."""
    radius_w, message = terms.radius_w, state.last_message
    connected = {"source": state.source_is_connected, "sink": state.sink_is_connected}
    queue = {"outbox": state.waiting_count, "lag_ms": state.lag_ms, "clock": state.now_ms is not None}
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
        "health": connected | queue,
        "counts": counts,
    }


def _allowance_fields(allowance: Allowance | None, terms: Terms) -> dict[str, Any] | None:
    """Return a budget's period, limit and remainder as levels at the radius, and how many windows remain."""
    if allowance is None:
        return None
    remainder = max(allowance.limit - allowance.spent, Fraction(0))
    levels = {"limit": float(allowance.limit * terms.radius_w), "left": float(remainder * terms.radius_w)}
    period = {"start_ms": allowance.start_ms, "end_ms": allowance.end_ms}
    return levels | period | {"windows": remainder // terms.epsilon_per_w}


def encode_history(meter_history: "History") -> bytes:
    """Encode a meter's history; an energy or a cost is [value, low, high]."""
    periods = [period._asdict() for period in meter_history.periods]
    costs = [window.costs and window.costs._asdict() for window in meter_history.windows]
    windows = [
        window._asdict() | {"costs": cost} for window, cost in zip(meter_history.windows, costs, strict=True)
    ]
    return json.dumps({"zone": meter_history.zone, "periods": periods, "windows": windows}).encode()


def _decode(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
