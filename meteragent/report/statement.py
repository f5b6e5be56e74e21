"""A page for the file of whoever is responsible: what leaves, under which guarantee, and what follows.

All of it is said by the configuration, the versions, and the terms that the store has known. Nothing is
measured and there is no date: the same facts make the same page, byte for byte.
"""

import json
import platform
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent import __version__, config
from meteragent.config.files import address
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import DAY_MS, Kind
from meteragent.report import archive, check
from meteragent.report.check import odds, slot, windows
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import amount, rate
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


class Page(NamedTuple):
    """What a stream's part is made of: its settings, what `check` finds, its shapes, what the store knows."""

    settings: config.Config
    stream: config.Stream
    terms: Terms
    found: Mapping[str, Any]
    shapes: Mapping[str, TermsDescriptor]
    known: Known | None


def page(settings: config.Config, events: Sequence[Event] = EVENTS, known: Known | None = None) -> str:
    """The page of a configuration, in Markdown; `known` is None where there is no store."""
    lines = _head(settings)
    for stream in settings.stream:
        others = config.others_per_day(settings, stream)
        archived = settings.archive is not None
        terms = check.terms_of(stream, others, archived=archived)
        found = check.facts(stream, events, known or (), others, archived=archived)
        shapes = _shapes(stream, others, archived=archived)
        one = Page(settings, stream, terms, found, shapes, None if archived else known)
        lines += ["", f"## Stream {stream.name}"]
        for title, section in _SECTIONS.items():
            lines += ["", f"### {title}", "", *section(one)]
    return "\n".join(lines) + "\n"


def _shapes(stream: config.Stream, others: Fraction, *, archived: bool) -> dict[str, TermsDescriptor]:
    """The descriptors of all windows that differ in what is said of them, an ordinary one first; by id."""
    usual = check.terms_of(stream, others, archived=archived)
    shapes = (replace(terms, others_per_day=others) for terms in config.shapes(stream, usual.rounding))
    descriptors = (describe(terms, archive=archived) for terms in (usual, *shapes))
    return {described.id: described for described in descriptors}


def _text(text: str) -> list[str]:
    """A paragraph."""
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> list[str]:
    """An item of a list."""
    return textwrap.wrap(
        f"- {text}", _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _items(*texts: str) -> list[str]:
    return [line for text in texts for line in _item(text)]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rows(*heads: str) -> list[str]:
    return [_row(*heads), "|" + "---|" * len(heads)]


def _head(settings: config.Config) -> list[str]:
    names = ", ".join(stream.name for stream in settings.stream)
    return [
        "# Smart-meter data: what leaves, and under which guarantee",
        "",
        *_text(
            "Made from the configuration by `meteragent check --statement`; nothing in it was measured."
            " Keep each version of this page: where two differ, what leaves or what is said of it has"
            " changed."
        ),
        "",
        *_items(
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


def _leaves(one: Page) -> list[str]:
    stream, terms = one.stream, one.terms
    if one.settings.archive is not None:
        return _leaves_of_an_archive(one)
    where = address("sink", config.sink_url(stream), stream.sink, None)
    keyed = stream.sink.pseudonym_key_file is not None
    named = "by a keyed pseudonym of its name" if keyed else "by its name in the source's topic"
    latest, by_id = descriptor.topics(stream.sink.topic, "<id>")
    return [
        *_text(f"To the broker {where.host}:{where.port}, {'with' if where.tls else 'without'} TLS:"),
        "",
        *_items(
            f"a record for each {'band' if terms.bands else 'slot'} of each meter, on `{stream.sink.topic}`;"
            f" a meter is named {named}",
            f"the terms of the records, their descriptor, retained on `{latest}` and `{by_id}`",
        ),
        "",
        *_rows("field of a record", "what it says"),
        *(_row(f"`{name}`", meaning) for name, meaning in _meanings(one).items()),
        "",
        *_text(
            "Nothing else leaves but the signs of a connection. All fields but `value` follow from the"
            " configuration, the clock, and when a meter is first heard."
        ),
        "",
        *_items(*_schedule(stream, terms)),
    ]


def _leaves_of_an_archive(one: Page) -> list[str]:
    stream, terms = one.stream, one.terms
    keyed = stream.sink.pseudonym_key_file is not None
    rows = archive.columns(keyed=keyed, bands=bool(terms.bands))
    return [
        *_text(archive.WHERE),
        "",
        *_rows("column", "what it says"),
        *(_row(f"`{name}`", meaning) for name, meaning in rows.items()),
        "",
        *_items(*archive.BESIDE, *_counted(stream, terms)),
    ]


def _meanings(one: Page) -> dict[str, str]:
    """What each field of a record says, or each name of a SenML pack."""
    example = json.loads(
        RecordFormat.of(one.shapes[one.found["id"]], one.stream.sink.format).record("m1", _EXAMPLE_MS, 0, 0)
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
        f"{terms.n} in each of the {windows(terms)}",
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


def _guarantee(one: Page) -> list[str]:
    terms, unit = one.terms, one.terms.unit
    what = "means" if terms.kind is Kind.POWER else "energies"
    hides = amount(float(terms.hides_wh), "Wh")
    return [
        *_text(
            f"Take any two courses of a home's readings whose slot {what} differ by at most"
            f" {exact(terms.radius)} {unit} in a window. What leaves of that window changes the odds"
            f" between the two by a factor of at most e^{exact(terms.level)} = {odds(terms):.3g}, for"
            f" {_whom(one)}. So it hides, in what the readings"
            f" say, whatever moves at most {hides} within any {slot(terms)}."
        ),
        "",
        *_text(check.of_loads(one.found, terms)),
        "",
        "Exactly: for all readings x and y of a window, and all sets S of what may leave of it,",
        "",
        "    P(what leaves of x is in S) <= exp(epsilon d(x, y)) P(what leaves of y is in S)",
        "",
        *_text(
            f"with epsilon = {one.found['epsilon']} per {unit} and d(x, y) the largest difference of slot"
            f" {what}, after fill and clamp, rounded to multiples of {exact(terms.quantum)} {unit}. Where"
            " some windows are longer than others, the radius and epsilon of each are under Changes."
        ),
    ]


def _whom(one: Page) -> str:
    """Against whom the guarantee holds."""
    return archive.WHO if one.settings.archive is not None else _ANYBODY


def _hidden(one: Page) -> list[str]:
    rows = []
    for found in one.found["hidden"]:
        right = (found["right_of_100"].get(str(often), "-") for often in check.TIMES)
        rows.append(_row(found["event"], amount(float(Fraction(found["wh"])) / 1000, "kWh"), *right))
    return [
        *_text("Whoever guesses whether it happened is right at most so many times of 100 (50 is a coin):"),
        "",
        *_rows("what happened", "moves", "once", *(f"on {days} days" for days in check.TIMES[1:])),
        *rows,
        "",
        "Not hidden:",
        "",
        *_items(*one.found["does_not_hide"]),
    ]


def _adds(one: Page) -> list[str]:
    terms, days = one.terms, check.MONTH_DAYS
    per_day = terms.level * DAY_MS / terms.length_ms
    budget = one.stream.privacy.budget
    average = f"on average {rate(per_day)} a day, {rate(days * per_day)} in {days} days"
    lines = [f"this stream: level {exact(terms.level)} in each window; {average}"]
    if "meter_epsilon_per_day" in one.found:
        total = float(Fraction(one.found["meter_epsilon_per_day"]))
        lines.append(
            f"all streams on one meter: epsilon {total:.3g} per W a day (levels of different radii have no"
            " sum)"
        )
    if one.settings.archive is not None:
        return [
            *_text("Levels of windows add. What repeats is learnt in the end."),
            "",
            *_items(lines[0], archive.SPENT),
        ]
    if budget is not None:
        lines.append(
            f"a budget of level {exact(budget.level)} in {format_duration(budget.per)} over all streams of a"
            " meter: a window beyond it never opens"
        )
    lines.append("`meteragent ledger` says what each meter has spent, by day and stream")
    return [*_text("Levels of windows add. What repeats is learnt in the end."), "", *_items(*lines)]


def _invariants(one: Page) -> list[str]:
    return [f"What leaves exactly, without noise: {', '.join(one.found['invariants']) or 'nothing'}."]


def _errors(one: Page) -> list[str]:
    errors, unit = one.found["errors"], one.terms.unit
    names = {"day_kwh": "a day's energy", "month_kwh": f"the energy of {check.MONTH_DAYS} days"}
    return _items(
        f"a number: {amount(errors['number'], unit)}; 95 of 100 within {amount(errors['ci95'], unit)}",
        *(f"{text}: {amount(errors[key], 'kWh')}" for key, text in names.items() if key in errors),
        *(f"the mean of {n:,} homes: {amount(errors[f'mean_of_{n}'], unit)}" for n in check.HOMES),
    )


def _changes(one: Page) -> list[str]:
    rows = []
    for id_, described in one.shapes.items():
        terms = described.terms
        radius = f"{exact(terms.radius)} {terms.unit}"
        rows.append(
            _row(f"`{id_}`", format_duration(terms.length_ms), terms.n, radius, described.facts["epsilon"])
        )
    return [
        *_text(
            "Every record names its descriptor by an id that is made of its facts: other terms have another"
            " id. A change holds from the first window that overlaps nothing released. The ids of this"
            " configuration:"
        ),
        "",
        *_rows("id", "window", "slots", "radius", f"epsilon (1/{one.terms.unit})"),
        *rows,
        "",
        *_text(_earlier(one)),
    ]


def _earlier(one: Page) -> str:
    """Terms in the store that are not those of the configuration."""
    if one.settings.archive is not None:
        return archive.EARLIER
    if one.known is None:
        return "There is no store yet: nothing has left under other terms, as far as this page can know."
    ids = {describe(terms).id for terms in one.known.get(one.stream.name, ())}
    others = ", ".join(f"`{id_}`" for id_ in sorted(ids - one.shapes.keys()))
    return f"Other terms that the store has known: {others or 'none'}."


def _warnings(one: Page) -> list[str]:
    return _items(*one.found["warnings"] or ["none"])


def _descriptors(one: Page) -> list[str]:
    usual = one.shapes[one.found["id"]]
    lines = [
        *_text("That of an ordinary window, without the meter and the time from which it holds:"),
        "",
        "```json",
        json.dumps({"id": usual.id, **usual.facts}, indent=2, ensure_ascii=False),
        "```",
        "",
        *_text("And of all windows what their ids are made of, the first 8 hex digits of its SHA-256:"),
        "",
        "```",
    ]
    return [*lines, *(canonical(described.facts).decode() for described in one.shapes.values()), "```"]


_SECTIONS: Mapping[str, Callable[[Page], list[str]]] = {
    "What leaves": _leaves,
    "The guarantee": _guarantee,
    "What is hidden, and what is not": _hidden,
    "What repeats and adds": _adds,
    "Invariants": _invariants,
    "What it costs (one standard deviation)": _errors,
    "Changes": _changes,
    "Warnings": _warnings,
    "Descriptors": _descriptors,
}
