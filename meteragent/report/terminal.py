"""Guarantees and next steps as commands print them, with paragraphs wrapped at `format.WIDTH`."""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction

from meteragent import config
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO, Kind
from meteragent.report import facts, tariffs, together, warn, wording
from meteragent.report.format import duration, full_text, percent_text, wrap_text
from meteragent.report.guarantee import HARDLY_HIDDEN_AT_PERCENT, REPETITIONS, Guarantee
from meteragent.report.language import say

_INDENT = "  "
_LABEL_MIN = 26
"""The smallest width of a column of labels."""


def guarantees_text(guarantees: Sequence[Guarantee], settings: config.Config) -> str:
    """Return the warnings that concern no single stream, the receivers, and all guarantees, as text."""
    warnings = "\n".join(_warning_lines(warn.config_warnings(settings)))
    return "\n\n".join(filter(None, [warnings, _receivers_text(settings), *map(_stream_text, guarantees)]))


def guarantees_json(guarantees: Sequence[Guarantee], settings: config.Config) -> str:
    """Return the facts of all streams as JSON, with the receivers of the configuration, if it has any."""
    streams = [facts.facts_of(guarantee) for guarantee in guarantees]
    return json.dumps({"streams": streams, **together.receiver_facts(settings)}, indent=2)


def _receivers_text(settings: config.Config) -> str:
    if not settings.receiver:
        return ""
    lines = (wrap_text(line, _INDENT, _INDENT * 2) for line in together.receiver_lines(settings))
    return "\n".join([say("receivers.head"), *lines])


def next_step(
    guarantees: Sequence[Guarantee],
    settings: config.Config,
    path: str,
    *,
    program: str = "meteragent",
    is_new: bool = False,
) -> str:
    """Return the next step, a rehearsal if `is_new` or a run, with each command alone on its line."""
    if any(guarantee.is_archive for guarantee in guarantees):
        return f"{say('next.sanitise', program=program, config=path)}\n{_INDENT}{say('next.dry_run')}"
    command = say("next.then" if is_new else "next.run", program=program, config=path)
    if is_new:
        rehearsal = say("next.rehearse", program=program, config=path)
        command = f"{rehearsal}\n{_INDENT}{say('next.rehearsal')}\n{command}"
    if any(guarantee.terms.clock is Clock.EVENT for guarantee in guarantees):
        return f"{command}\n{_INDENT}{say('next.event_clock')}"
    # A meter whose first reading falls into a window starts with the next window (law 4), and its first
    # number is due once the first slot of that window has closed.
    terms = [guarantee.terms for guarantee in guarantees]
    earliest_ms = min(part.first_slot_ms[1] + part.lateness_ms for part in terms)
    latest_ms = max(part.length_ms + part.first_slot_ms[1] + part.lateness_ms for part in terms)
    latest_ms += max(stream.sink.spread for stream in settings.stream)
    first = say("next.first_number", earliest=duration(earliest_ms), latest=duration(latest_ms))
    return f"{command}\n{_INDENT}{first}"


def _stream_text(guarantee: Guarantee) -> str:
    promise = wording.promise_lines(guarantee)
    formal_from = promise.index(wording.hidden_sentence(guarantee)) + 1
    hidden_lines = _lines_with_title("hidden.title", [*promise[:formal_from], *_event_texts(guarantee)])
    parts = _guess_lines, _exposed_lines, _cost_lines, _tariff_text_lines
    sections = [_head_lines(guarantee), hidden_lines, *(part(guarantee) for part in parts)]
    sections += [
        _warning_lines(guarantee.warnings),
        _lines_with_title("hidden.formally", promise[formal_from:]),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _head_lines(guarantee: Guarantee) -> list[str]:
    lines, fleet = [wrap_text(wording.head_line(guarantee))], guarantee.fleet
    if fleet is not None:
        lines.append(_INDENT + say("stream.shard", shard=fleet.shard, meters=wording.shard_phrase(fleet)))
    if (readings := guarantee.terms.readings).kind is not Kind.REGISTER:
        gap = f"{full_text(Fraction(readings.gap_u, MICRO))} {readings.unit}"
        text = say(f"stream.reach_{readings.kind}", period=duration(readings.reach_ms), gap=gap)
        lines.append(wrap_text(text, _INDENT, _INDENT))
    if guarantee.parts is not None:
        lines.append(wrap_text(say("stream.parts", formula=guarantee.parts), _INDENT, _INDENT))
    if guarantee.is_archive:
        lines.append(_INDENT + say("stream.archive"))
    return lines


def _event_texts(guarantee: Guarantee) -> list[str]:
    """Return lines that say how well each event is hidden if it happens once, or daily for a month."""
    graded: dict[tuple[str, int], list[str]] = {}
    for event, percent, revealed_days in guarantee.exposures:
        for days in percent.keys() & {REPETITIONS[0], REPETITIONS[-1]}:
            grade = "hidden.hardly" if percent[days] >= HARDLY_HIDDEN_AT_PERCENT else "hidden.well"
            grade = "hidden.nothing" if days in revealed_days else grade
            limit = percent_text(str(percent[days]) if percent[days] < 100 else "> 99")
            text = event.title if days in revealed_days else f"{event.title} ({limit})"
            graded.setdefault((grade, days), []).append(text)
    lines = [
        say(grade, when=wording.guess_columns()[2 + REPETITIONS.index(days)], events="; ".join(events))
        for days in (REPETITIONS[0], REPETITIONS[-1])
        for grade in ("hidden.well", "hidden.hardly", "hidden.nothing")
        if (events := graded.get((grade, days)))
    ]
    return [say("hidden.limits"), *lines] if lines else []


def _lines_with_title(title: str, paragraphs: Iterable[str]) -> list[str]:
    return [say(title), *(wrap_text(text, _INDENT, _INDENT) for text in paragraphs)]


def _cost_lines(guarantee: Guarantee) -> list[str]:
    rows = wording.cost_rows(guarantee)
    cells = [(label, f"{cost}{' *' if useful else ''}") for label, cost, useful in rows]
    marked = [f"  * {wording.useful_note()}"] if any(useful for _, _, useful in rows) else []
    return [say("cost.title"), *_column_lines(cells), *marked]


def _column_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(_LABEL_MIN, *(len(label) + 2 for label, _ in rows))
    return [f"  {label:<{width}}{cell}" for label, cell in rows]


def _tariff_text_lines(guarantee: Guarantee) -> list[str]:
    rows = tariffs.tariff_lines(guarantee)
    if not rows:
        return []
    notes = (wrap_text(note, _INDENT, _INDENT) for note in tariffs.tariff_notes(guarantee))
    return [say("tariff.title"), *_column_lines(rows), *notes]


def _guess_lines(guarantee: Guarantee) -> list[str]:
    if not guarantee.exposures:
        return []
    rows = [
        (name, f"{moves:>10}" + "".join(f"{cell:>16}" for cell in cells))
        for name, moves, *cells in (wording.guess_columns(), *wording.guess_rows(guarantee))
    ]
    return [say("guess.title"), *_column_lines(rows)]


def _exposed_lines(guarantee: Guarantee) -> list[str]:
    items = (wrap_text(item, "  - ", "    ") for item in wording.exposed_sentences(guarantee))
    return [f"{say('hidden.not')}:", *items]


def _warning_lines(texts: Iterable[str]) -> list[str]:
    return [wrap_text(say("hidden.warning", text=text), "", _INDENT) for text in texts]
