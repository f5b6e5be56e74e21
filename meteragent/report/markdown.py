"""A configuration's statement for data protection records: the data that are sent, and their guarantee.

The statement follows from the configuration, the events, the versions, and the terms in the store. It
contains no measurement and no date, so the same facts give the same text, byte for byte.
"""

import json
import platform
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from meteragent import __version__, config
from meteragent.config.files import parse_endpoint
from meteragent.domain.grid import duration_text
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.report import archive, crowd, tariffs, together, whole, wording
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import full_text, level_text
from meteragent.report.guarantee import MONTH_DAYS, Guarantee
from meteragent.report.language import say
from meteragent.report.shapes import METRICS
from meteragent.wire import descriptor, total
from meteragent.wire.descriptor import TermsDescriptor, canonical_json, describe_terms
from meteragent.wire.grammar import RECORD
from meteragent.wire.record import RecordFormat

_WIDTH = 100
_ANYBODY = "anyone who sees it, whatever else they know and whatever computing power they have"
_NEVER_STORED = (
    "Readings are never stored and never sent. The noise of a slot is drawn from the operating system's"
    " random number generator before its first reading is added, and no key can remove it."
)
_COPY = (
    "A copy of the disk shows, for each open slot, its energy so far, as well hidden by the slot's noise as"
    " in the number that leaves later. Together with that number, it shows the energy from the time of the"
    " copy to the slot's end or, for a register, the count at the slot's end, to within a quantum. Encrypt"
    " the disk if it can be stolen."
)
StoredTerms = Mapping[str, Sequence[Terms]]
"""The terms in a store, by stream."""


class Part(NamedTuple):
    """The facts for one stream's part of the statement.

    `shapes` maps ids to the descriptors of all kinds of windows, beginning with that of an ordinary window;
    `stored_terms` are the terms in the store, or None if there is no store.
    """

    stream: config.Stream
    guarantee: Guarantee
    shapes: Mapping[str, TermsDescriptor]
    stored_terms: StoredTerms | None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return self.guarantee.terms


def statement_text(
    settings: config.Config, events: Sequence[Event] = EVENTS, stored_terms: StoredTerms | None = None
) -> str:
    """Return a configuration's statement; `stored_terms` is None if there is no store."""
    blocks = _head_lines(settings)
    if settings.receiver:
        blocks += ["## Receivers", _list(*together.receiver_lines(settings))]
    for stream in settings.stream:
        promise = whole.compute_whole_guarantee(settings, stream, events, stored_terms or ())
        part = Part(stream, promise, _shapes(stream, promise), stored_terms)
        blocks.append(f"## Stream {stream.name}")
        for title, section in _SECTIONS.items():
            blocks += [f"### {title}", *section(part)]
    return "\n\n".join(blocks) + "\n"


def _shapes(stream: config.Stream, promise: Guarantee) -> dict[str, TermsDescriptor]:
    usual = promise.terms
    shapes = (
        replace(terms, others_per_day=usual.others_per_day)
        for terms in config.distinct_terms(stream, usual.rounding)
    )
    descriptors = (describe_terms(terms, is_archive=promise.is_archive) for terms in shapes)
    return {described.id: described for described in (promise.descriptor, *descriptors)}


def _wrap(text: str, indent: str = "") -> str:
    """Wrap a paragraph."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _list(*items: str) -> str:
    return "\n".join(_wrap(f"- {item}", "  ") for item in items)


def _table_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def _head_lines(settings: config.Config) -> list[str]:
    names = ", ".join(stream.name for stream in settings.stream)
    return [
        "# Smart-meter data: what leaves, and under which guarantee",
        _wrap(
            "`meteragent check --statement` wrote this page from the configuration; nothing in it was"
            " measured. Keep each version of it. If two versions differ, what leaves or its guarantee may"
            " have changed: compare the sections."
        ),
        _list(
            f"Streams: {names}",
            f"Versions: meteragent {__version__}, Python {platform.python_version()}, format v1",
            *(archive.HEAD if settings.archive is not None else _agent_lines(settings)),
        ),
    ]


def _agent_lines(settings: config.Config) -> Sequence[str]:
    if all(stream.group is not None for stream in settings.stream):
        return crowd.HEAD
    keep = duration_text(settings.store.keep)
    retention = f"Released records are kept for {keep} and can be exported"
    return (_NEVER_STORED, _COPY, f"{retention}; the account of privacy spent is kept for ever.")


def _leaving_lines(part: Part) -> list[str]:
    stream, terms = part.stream, part.terms
    if part.guarantee.is_archive:
        return _archive_lines(part)
    if stream.group is not None:
        return [_wrap(crowd.reports_text(stream)), _list(*_schedule_lines(stream, terms))]
    if not (by_receiver := config.streams_by_receiver(stream)):
        return [_wrap("Nothing: all receivers of this stream are paused or have ended.")]
    restarts = "restarts of the agent, " if terms.shape.is_redrawn else ""
    record = json.loads(RecordFormat.of(part.guarantee.descriptor).encode("m1", 0, 0, 0))
    return [
        *(block for name, item in by_receiver.items() for block in _topic_lines(item, terms, name)),
        _table_text(["field of a record", "what it says"], _named_fields(_fields(record))),
        _wrap(
            "Nothing else leaves except the protocol traffic of the connection. Every field but the measured"
            f" value follows from the configuration, the meter's name, the clock, {restarts}and the"
            " time of a meter's first reading."
        ),
        _list(*_schedule_lines(stream, terms)),
    ]


def _topic_lines(stream: config.Stream, terms: Terms, receiver: str) -> list[str]:
    """Return the paragraphs about what is sent to a receiver or, if `receiver` is empty, to the sink."""
    broker = parse_endpoint("sink", config.sink_url(stream), config.sink_broker(stream), None)
    keyed = stream.sink.pseudonym_key_file is not None
    name = "its name in source.meter" if stream.source.meter is not None else "its name in the source's topic"
    identity = "by a keyed pseudonym of its name" if keyed else f"by {name}"
    latest, by_id = descriptor.descriptor_topics(stream.sink.topic, "<id>")
    prefix = f"{receiver}, at " if receiver else ""
    tls = "with" if broker.tls else "without"
    return [
        _wrap(f"To {prefix}the broker {broker.host}:{broker.port}, {tls} TLS:"),
        _list(
            f"a record for each {'band' if terms.places else 'slot'} of each meter, on `{stream.sink.topic}`;"
            f" a meter is identified {identity}",
            f"the descriptor, which states the terms of the records, retained on `{latest}` and `{by_id}`",
            *_beside_lines(stream),
        ),
    ]


def _beside_lines(stream: config.Stream) -> Iterator[str]:
    """Yield a line about each further kind of message that the keys of `sink` switch on."""
    sink = stream.sink
    if sink.total:
        yield f"the running total of each meter's numbers, on `{total.total_topic(sink.topic)}`"
    if sink.status is not None:
        yield f"whether the agent is online, retained on `{sink.status}`"
    if sink.home_assistant is not None:
        prefix = sink.home_assistant
        yield f"for Home Assistant, the names and units of what leaves, retained below `{prefix}/`"


def _archive_lines(part: Part) -> list[str]:
    stream, terms = part.stream, part.terms
    keyed = stream.sink.pseudonym_key_file is not None
    return [
        _wrap(archive.WHERE),
        _table_text(
            ["column", "what it says"],
            _named_fields(archive.column_meanings(is_keyed=keyed, has_bands=bool(terms.places))),
        ),
        _list(*archive.BESIDE, *_count_lines(stream, terms)),
    ]


def _fields(names: Iterable[str]) -> dict[str, str]:
    """Return, for each of these fields of a record, what it means and whether it is private."""
    privacy = {"value": "**Private.**"}
    return {name: f"{privacy.get(name, 'Public.')} {RECORD.rows[name].words}" for name in names}


def _named_fields(meanings: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in meanings.items()]


def _count_lines(stream: config.Stream, terms: Terms) -> list[str]:
    """Return sentences about the number of values, about gaps, and about values out of range."""
    low, high = (f"{full_text(bound)} W" for bound in stream.window.range)
    per = {Kind.INTERVAL_ENERGY: " per interval", Kind.REGISTER: " per hour"}.get(terms.readings.kind, "")
    return [
        f"{wording.windows_phrase(terms)}, with {terms.n:,} {'number' if terms.n == 1 else 'numbers'} each",
        f"time without a reading counts as {full_text(stream.window.gap)} {terms.readings.unit}{per}",
        f"values are clamped to the range from {low} to {high}",
    ]


def _schedule_lines(stream: config.Stream, terms: Terms) -> list[str]:
    late = f"{duration_text(terms.lateness_ms)} after its end" if terms.lateness_ms else "at its end"
    number, *counts = _count_lines(stream, terms)
    closes = f"each slot closes {late}, and its record leaves, whatever was measured in it"
    lines = [number, closes, *counts]
    if terms.clock is Clock.EVENT:
        return [*lines, "`clock = 'event'`: the time at which a record leaves shows when a reading arrived"]
    if stream.sink.spread:
        spread = duration_text(stream.sink.spread)
        lines.append(f"records leave later by a delay of up to {spread}, which is fixed for each meter")
    silence = duration_text(config.forget_ms(stream.source, stream.window.forget))
    return [*lines, f"after {silence} of silence, a meter's records stop, which is not hidden"]


def _guarantee_lines(part: Part) -> list[str]:
    terms, unit, promise = part.terms, part.terms.value_unit, part.guarantee
    adversary = archive.WHO if promise.is_archive else crowd.WHO if part.stream.group else _ANYBODY
    odds = wording.odds_sentence(promise)
    distance = METRICS[terms.metric].distance
    of_loads = wording.curves_sentence, wording.space_sentence, wording.loads_sentence
    loads = " ".join(filter(None, (sentence(promise) for sentence in of_loads)))
    return [
        _wrap(f"{wording.hidden_sentence(promise)} {odds} That holds against {adversary}."),
        _wrap(loads),
        _wrap(wording.in_all_sentences(promise)),
        "Exactly: for any two series of readings x and y in a window, and every set S of possible outputs,",
        "    P(output of x is in S) <= exp(epsilon d(x, y)) P(output of y is in S)",
        _wrap(
            f"with epsilon = {terms.epsilon} per {unit} and d(x, y) the {distance} of"
            f" {wording.slot_values(terms)}, after gaps are filled and values clamped, rounded up"
            f" to multiples of {full_text(terms.quantum)} {unit}. If windows differ in length, the section"
            " Changes lists the radius and epsilon of each."
        ),
    ]


def _hidden_lines(part: Part) -> list[str]:
    return [
        _wrap(f"{say('guess.title')}:"),
        _table_text(wording.guess_columns(), wording.guess_rows(part.guarantee)),
        f"{say('hidden.not')}:",
        _list(*wording.exposed_sentences(part.guarantee)),
    ]


def _adding_lines(part: Part) -> list[str]:
    promise, budget = part.guarantee, part.stream.privacy.budget
    day, month = (level_text(promise.level_in(days)) for days in (1, MONTH_DAYS))
    average = f"on average {day} per day, {month} in {MONTH_DAYS} days"
    add = _wrap(f"{wording.windows_sentence(promise)} {wording.streams_sentence(promise)}".strip())
    lines = [f"level {full_text(part.terms.level)} in each window; {average}"]
    lines += wording.recharge_sentences(promise)
    if promise.is_archive:
        return [add, _list(*lines, archive.SPENT)]
    if budget is not None:
        lines.append(
            f"a budget of level {full_text(budget.level)} for each period of {duration_text(budget.per)},"
            " shared by all streams of a meter: a window that would exceed it never opens"
        )
    lines.append("`meteragent ledger` shows what each meter has spent, by day and stream")
    return [add, _list(*lines)]


def _invariant_lines(part: Part) -> list[str]:
    invariants = part.guarantee.descriptor.facts["invariants"]
    return [f"Released exactly, without noise: {', '.join(invariants) or 'nothing'}."]


def _error_lines(part: Part) -> list[str]:
    costs, rows = wording.cost_rows(part.guarantee), tariffs.tariff_lines(part.guarantee)
    lines = [_list(*(f"{label}: {error}" + (f" ({use})" if use else "") for label, error, use in costs))]
    if not rows:
        return lines
    priced = _list(*(f"{label}: {error}" for label, error in rows), *tariffs.tariff_notes(part.guarantee))
    return [*lines, f"{say('tariff.title')}:", priced]


def _change_lines(part: Part) -> list[str]:
    unit, rows = part.terms.value_unit, []
    for id_, terms in ((id_, shape.terms) for id_, shape in part.shapes.items()):
        size = duration_text(terms.length_ms), f"{terms.n:,}", f"{full_text(terms.radius)} {unit}"
        rows.append((f"`{id_}`", *size, terms.epsilon))
    return [
        _wrap(
            "Every record names its descriptor by an id that is computed from the terms, so different terms"
            " have different ids. A change takes effect with the first window that overlaps no window that"
            " has opened before. The ids of this configuration:"
        ),
        _table_text(["id", "window", "slots", "radius", f"epsilon (1/{unit})"], rows),
        _wrap(_earlier_sentence(part)),
    ]


def _earlier_sentence(part: Part) -> str:
    """Return a sentence about the terms in the store that are not in the configuration."""
    if part.guarantee.is_archive:
        return archive.EARLIER
    if part.stored_terms is None:
        return "No store can be read here: as far as this page can tell, nothing has left under other terms."
    ids = {describe_terms(terms).id for terms in part.stored_terms.get(part.stream.name, ())}
    names = ", ".join(f"`{id_}`" for id_ in sorted(ids - part.shapes.keys()))
    return f"Other terms in the store: {names or 'none'}."


def _warning_lines(part: Part) -> list[str]:
    return [_list(*part.guarantee.warnings or ["none"])]


def _descriptor_lines(part: Part) -> list[str]:
    if part.stream.group is not None:
        return [_wrap(crowd.DESCRIPTOR_SENTENCE)]
    usual, store = part.guarantee.descriptor, "" if part.guarantee.is_archive else "the store, "
    facts = json.dumps({"id": usual.id, **usual.facts}, indent=2, ensure_ascii=False)
    lines = "\n".join(canonical_json(shape.facts).decode() for shape in part.shapes.values())
    return [
        _wrap(
            f"The descriptor of an ordinary window, without the meter, {store}and the time from which it"
            " applies:"
        ),
        f"```json\n{facts}\n```",
        _wrap("Each kind of window has its own id, the first 8 hex digits of the SHA-256 of its line:"),
        f"```\n{lines}\n```",
    ]


_SECTIONS: Mapping[str, Callable[[Part], list[str]]] = {
    "What leaves": _leaving_lines,
    "The guarantee": _guarantee_lines,
    say("hidden.title"): _hidden_lines,
    "What repeats and adds up": _adding_lines,
    "Invariants": _invariant_lines,
    say("cost.title"): _error_lines,
    "Changes": _change_lines,
    say("hidden.warnings"): _warning_lines,
    "Descriptors": _descriptor_lines,
}
