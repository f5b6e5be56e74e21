"""A page for the file of whoever is responsible: what leaves, under which guarantee, and what follows.

All of it is said by the configuration, the versions, and the terms that the store has known. Nothing is
measured and there is no date: the same facts make the same page, byte for byte.
"""

import json
import platform
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from meteragent import __version__, config
from meteragent.config.files import address
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.report import archive, guarantee, wording
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import rate
from meteragent.report.guarantee import MONTH_DAYS, Guarantee
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor, canonical, describe
from meteragent.wire.record import RecordFormat

_WIDTH = 100
_ANYBODY = "whoever sees it, whatever else they know and however they compute"
_EXAMPLE_MS = 1_795_129_200_000
_MEANINGS = {
    "v": "the version of the format; public",
    "meter": "the meter's name, as below; public",
    "t": "where the slot starts, in UTC; public",
    "for": "how long the slot is; public",
    "band": "which hours of the day the number is for; public",
    "value": "**private**: what was measured in the slot, with noise",
    "unit": "its unit; public",
    "sd": "the standard deviation of the noise; public",
    "d": "the id of the descriptor; public",
}
_MEANINGS_SENML = {
    "bn": "the meter's name, as below; public",
    "bt": "where the slot starts, in seconds since 1970, UTC; public",
    "bver": "the version of SenML that has the unit; public",
    "": "**private**: what was measured in the slot, with noise, and its unit",
    "_band": "which hours of the day the number is for; public",
    "_for": "how long the slot is; public",
    "_sd": "the standard deviation of the noise; public",
    "_terms": "the id of the descriptor; public",
}

Known = Mapping[str, Sequence[Terms]]
"""The terms that a store knows, by stream."""


class Part(NamedTuple):
    """What a stream's part of the statement is made of.

    `shapes` are the descriptors, by id, of all windows that differ in what is said of them, an ordinary one
    first; `known` are the terms in the store, None without one.
    """

    settings: config.Config
    stream: config.Stream
    guarantee: Guarantee
    shapes: Mapping[str, TermsDescriptor]
    known: Known | None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return self.guarantee.terms


def page(settings: config.Config, events: Sequence[Event] = EVENTS, known: Known | None = None) -> str:
    """Return the statement of a configuration; `known` is None where there is no store."""
    blocks = _head(settings)
    for stream in settings.stream:
        others = config.others_per_day(settings, stream)
        archived = settings.archive is not None
        promised = guarantee.of(stream, events, known or (), others, archived=archived)
        part = Part(settings, stream, promised, _shapes(stream, promised), None if archived else known)
        blocks.append(f"## Stream {stream.name}")
        for title, section in _SECTIONS.items():
            blocks += [f"### {title}", *section(part)]
    return "\n\n".join(blocks) + "\n"


def _shapes(stream: config.Stream, promised: Guarantee) -> dict[str, TermsDescriptor]:
    usual = promised.terms
    shapes = (
        replace(terms, others_per_day=usual.others_per_day) for terms in config.shapes(stream, usual.rounding)
    )
    descriptors = (describe(terms, archive=promised.is_archive) for terms in shapes)
    return {described.id: described for described in (promised.descriptor, *descriptors)}


def _text(text: str, indent: str = "") -> str:
    """Return a paragraph."""
    lines = textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def _list(*items: str) -> str:
    return "\n".join(_text(f"- {item}", "  ") for item in items)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def _head(settings: config.Config) -> list[str]:
    names = ", ".join(stream.name for stream in settings.stream)
    return [
        "# Smart-meter data: what leaves, and under which guarantee",
        _text(
            "Made from the configuration by `meteragent check --statement`; nothing in it was measured."
            " Keep each version of this page: where two differ, what leaves or what is said of it has"
            " changed."
        ),
        _list(
            f"Streams: {names}",
            f"Versions: meteragent {__version__}, Python {platform.python_version()}, format v1",
            *(archive.HEAD if settings.archive is not None else _of_the_agent(settings)),
        ),
    ]


def _of_the_agent(settings: config.Config) -> Sequence[str]:
    """What holds of every stream that the agent releases."""
    kept = format_duration(settings.store.keep)
    return (
        (
            "Readings are never stored and never sent. The noise of a slot is drawn from the operating"
            " system's random numbers before its first reading is added, and no key takes it off again."
        ),
        (
            "A copy of the disk tells of each open slot its energy so far under that slot's noise, and what"
            " is left of it beside whole quanta; with what leaves later, the energy from then to the slot's"
            " end. Encrypt the disk where it can be stolen."
        ),
        f"What left is kept for {kept} and can be exported; what was spent is kept for ever.",
    )


def _leaves(part: Part) -> list[str]:
    stream, terms = part.stream, part.terms
    if part.guarantee.is_archive:
        return _leaves_of_an_archive(part)
    where = address("sink", config.sink_url(stream), stream.sink, None)
    keyed = stream.sink.pseudonym_key_file is not None
    named = "by a keyed pseudonym of its name" if keyed else "by its name in the source's topic"
    latest, by_id = descriptor.topics(stream.sink.topic, "<id>")
    return [
        _text(f"To the broker {where.host}:{where.port}, {'with' if where.tls else 'without'} TLS:"),
        _list(
            f"a record for each {'band' if terms.bands else 'slot'} of each meter, on `{stream.sink.topic}`;"
            f" a meter is named {named}",
            f"the terms of the records, their descriptor, retained on `{latest}` and `{by_id}`",
        ),
        _table(["field of a record", "what it says"], _named(_meanings(part))),
        _text(
            "Nothing else leaves but the signs of a connection. All fields but `value` follow from the"
            " configuration, the clock, and when a meter is first heard."
        ),
        _list(*_schedule(stream, terms)),
    ]


def _leaves_of_an_archive(part: Part) -> list[str]:
    stream, terms = part.stream, part.terms
    keyed = stream.sink.pseudonym_key_file is not None
    return [
        _text(archive.WHERE),
        _table(["column", "what it says"], _named(archive.columns(keyed=keyed, bands=bool(terms.bands)))),
        _list(*archive.BESIDE, *_counted(stream, terms)),
    ]


def _named(meanings: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in meanings.items()]


def _meanings(part: Part) -> dict[str, str]:
    """What each field of a record says, or each name of a SenML pack."""
    example = json.loads(
        RecordFormat.of(part.guarantee.descriptor, part.stream.sink.format).record("m1", _EXAMPLE_MS, 0, 0)
    )
    if isinstance(example, dict):
        return {name: _MEANINGS[name] for name in example}
    value = example[0]["n"]
    of_pack = {name: meaning for name, meaning in _MEANINGS_SENML.items() if name in example[0]}
    return of_pack | {record["n"]: _MEANINGS_SENML[record["n"].removeprefix(value)] for record in example}


def _counted(stream: config.Stream, terms: Terms) -> list[str]:
    """How many numbers there are, and what counts where nothing was read or too much."""
    low, high = (f"{exact(bound)} W" for bound in stream.window.range)
    per = {Kind.INTERVAL_ENERGY: " an interval", Kind.REGISTER: " an hour"}.get(terms.kind, "")
    return [
        f"{terms.n} in each of the {wording.windows(terms)}",
        f"time without a reading counts as {exact(stream.window.gap)} {terms.unit}{per}",
        f"values are clamped to {low} .. {high}",
    ]


def _schedule(stream: config.Stream, terms: Terms) -> list[str]:
    late = f"{format_duration(terms.lateness_ms)} after its end" if terms.lateness_ms else "at its end"
    number, *counted = _counted(stream, terms)
    lines = [
        number,
        f"each is closed {late}, and its record leaves, whatever was measured in it",
        *counted,
    ]
    if terms.clock is Clock.EVENT:
        return [*lines, "`clock = 'event'`: when a record leaves tells when a reading came"]
    if stream.sink.spread:
        upto = format_duration(stream.sink.spread)
        lines.append(f"a meter's records leave later by a fixed time of its own, up to {upto}")
    silence = format_duration(config.forget_ms(stream.source, stream.window.forget))
    return [*lines, f"a meter that is silent for {silence} stops sending: that is not hidden"]


def _guarantee(part: Part) -> list[str]:
    terms, unit, promised = part.terms, part.terms.unit, part.guarantee
    whom = archive.WHO if promised.is_archive else _ANYBODY
    odds = wording.indistinguishable(promised)
    loads = f"{wording.of_curves(promised)} {wording.of_loads(promised)}"
    return [
        _text(f"{odds} That holds against {whom}. {wording.hidden(promised)}"),
        _text(loads.strip()),
        "Exactly: for all readings x and y of a window, and all sets S of what may leave of it,",
        "    P(what leaves of x is in S) <= exp(epsilon d(x, y)) P(what leaves of y is in S)",
        _text(
            f"with epsilon = {terms.epsilon} per {unit} and d(x, y) the largest difference of"
            f" {wording.slot_values(terms)}, after fill and clamp, rounded to multiples of"
            f" {exact(terms.quantum)} {unit}. Where some windows are longer than others, the radius"
            " and epsilon of each are under Changes."
        ),
    ]


def _hidden(part: Part) -> list[str]:
    return [
        _text(f"{wording.guesses()}:"),
        _table(wording.GUESS_COLUMNS, wording.guess_rows(part.guarantee)),
        f"{wording.NOT_HIDDEN}:",
        _list(*wording.not_hidden(part.guarantee)),
    ]


def _adds(part: Part) -> list[str]:
    promised, budget = part.guarantee, part.stream.privacy.budget
    day, month = (rate(promised.level_in(days)) for days in (1, MONTH_DAYS))
    average = f"on average {day} a day, {month} in {MONTH_DAYS} days"
    add = _text(f"{wording.windows_add(promised)} {wording.streams_add(promised)}".strip())
    lines = [f"level {exact(part.terms.level)} in each window; {average}"]
    if promised.is_archive:
        return [add, _list(*lines, archive.SPENT)]
    if budget is not None:
        lines.append(
            f"a budget of level {exact(budget.level)} in {format_duration(budget.per)} over all streams of a"
            " meter: a window beyond it never opens"
        )
    lines.append("`meteragent ledger` says what each meter has spent, by day and stream")
    return [add, _list(*lines)]


def _invariants(part: Part) -> list[str]:
    invariants = part.guarantee.descriptor.facts["invariants"]
    return [f"What leaves exactly, without noise: {', '.join(invariants) or 'nothing'}."]


def _errors(part: Part) -> list[str]:
    costs = wording.costs(part.guarantee)
    return [_list(*(": ".join([label, "; ".join(filter(None, texts))]) for label, *texts in costs))]


def _changes(part: Part) -> list[str]:
    unit, shapes = part.terms.unit, [(id_, shape.terms) for id_, shape in part.shapes.items()]
    rows = [
        (
            f"`{id_}`",
            format_duration(terms.length_ms),
            terms.n,
            f"{exact(terms.radius)} {unit}",
            terms.epsilon,
        )
        for id_, terms in shapes
    ]
    return [
        _text(
            "Every record names its descriptor by an id that is made of its facts: other terms have another"
            " id. A change holds from the first window that overlaps nothing released. The ids of this"
            " configuration:"
        ),
        _table(["id", "window", "slots", "radius", f"epsilon (1/{unit})"], rows),
        _text(_earlier(part)),
    ]


def _earlier(part: Part) -> str:
    """Terms in the store that are not those of the configuration."""
    if part.guarantee.is_archive:
        return archive.EARLIER
    if part.known is None:
        return "There is no store yet: nothing has left under other terms, as far as this page can know."
    ids = {describe(terms).id for terms in part.known.get(part.stream.name, ())}
    others = ", ".join(f"`{id_}`" for id_ in sorted(ids - part.shapes.keys()))
    return f"Other terms that the store has known: {others or 'none'}."


def _warnings(part: Part) -> list[str]:
    return [_list(*part.guarantee.warnings or ["none"])]


def _descriptors(part: Part) -> list[str]:
    usual = part.guarantee.descriptor
    facts = json.dumps({"id": usual.id, **usual.facts}, indent=2, ensure_ascii=False)
    named = "\n".join(canonical(shape.facts).decode() for shape in part.shapes.values())
    return [
        _text("That of an ordinary window, without the meter and the time from which it holds:"),
        f"```json\n{facts}\n```",
        _text("And of all windows what their ids are made of, the first 8 hex digits of its SHA-256:"),
        f"```\n{named}\n```",
    ]


_SECTIONS: Mapping[str, Callable[[Part], list[str]]] = {
    "What leaves": _leaves,
    "The guarantee": _guarantee,
    wording.HIDDEN: _hidden,
    "What repeats and adds": _adds,
    "Invariants": _invariants,
    wording.COSTS: _errors,
    "Changes": _changes,
    wording.WARNINGS: _warnings,
    "Descriptors": _descriptors,
}
