"""Guarantees and next steps as commands print them, with paragraphs wrapped at `format.WIDTH`."""

from collections.abc import Iterable, Sequence

from meteragent import config
from meteragent.domain.terms import Clock
from meteragent.report import sharing, tariffs, warn, wording
from meteragent.report.catalogue import say
from meteragent.report.format import duration, filled
from meteragent.report.guarantee import Guarantee

_INDENT = "  "
_LABEL_MIN = 26
"""The smallest width of a column of labels."""


def text(guarantees: Sequence[Guarantee], settings: config.Config) -> str:
    """Return the warnings that concern no single stream, the receivers, and all guarantees, as text."""
    warnings = "\n".join(_warnings(warn.of_config(settings)))
    return "\n\n".join(filter(None, [warnings, _receivers(settings), *map(_stream_text, guarantees)]))


def _receivers(settings: config.Config) -> str:
    """Return the receivers and their total cost; empty if there is a sink instead."""
    if not settings.receiver:
        return ""
    lines = (filled(line, _INDENT, _INDENT * 2) for line in sharing.lines(settings))
    return "\n".join([say("receivers.head"), *lines])


def next_step(
    guarantees: Sequence[Guarantee],
    settings: config.Config,
    path: str,
    *,
    refused: bool,
    program: str = "meteragent",
    is_new: bool = False,
) -> str:
    """Return the next step for a configuration: to correct it, to run it, or to release an archive.

    Each command is alone on its line, however long, so that it can be copied. Each command starts with
    `program`. For a configuration that `is_new`, the first step is a rehearsal.
    """
    if refused:
        return filled(say("next.refused"))
    if any(guarantee.is_archive for guarantee in guarantees):
        return f"{say('next.sanitise', program=program, config=path)}\n{_INDENT}{say('next.dry_run')}"
    command = say("next.then" if is_new else "next.run", program=program, config=path)
    if is_new:
        rehearsal = say("next.rehearse", program=program, config=path)
        command = f"{rehearsal}\n{_INDENT}{say('next.rehearsal')}\n{command}"
    if any(guarantee.terms.clock is Clock.EVENT for guarantee in guarantees):
        return f"{command}\n{_INDENT}{say('next.event_clock')}"
    earliest_ms, latest_ms = zip(*map(_first_number_ms, guarantees), strict=True)
    spread_ms = max(stream.sink.spread for stream in settings.stream)
    durations = {
        "earliest": duration(min(earliest_ms)),
        "latest": duration(max(latest_ms) + spread_ms),
    }
    return f"{command}\n{_INDENT}{say('next.first_number', **durations)}"


def _first_number_ms(guarantee: Guarantee) -> tuple[int, int]:
    """Return the shortest and longest time from a meter's first reading until its first number is due.

    A meter whose first reading falls into a window starts with the next window (law 4), and its first number
    is due once the first slot of that window has closed. The delay of `sink.spread` is not included.
    """
    terms = guarantee.terms
    first_ms = min(stretches[-1][1] for stretches in map(terms.stretches, range(terms.n))) + terms.lateness_ms
    return first_ms, terms.length_ms + first_ms


def _stream_text(guarantee: Guarantee) -> str:
    parts = (_head, _promise, _costs, _tariffs, _guesses, _not_hidden, _warned)
    sections = (section(guarantee) for section in parts)
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _head(guarantee: Guarantee) -> list[str]:
    lines, fleet = [filled(wording.head(guarantee))], guarantee.fleet
    if fleet is not None:
        lines.append(_INDENT + say("stream.shard", shard=fleet.shard, meters=wording.shard_meters(fleet)))
    if guarantee.parts is not None:
        lines.append(filled(say("stream.parts", formula=guarantee.parts), _INDENT, _INDENT))
    if guarantee.is_archive:
        lines.append(_INDENT + say("stream.archive"))
    return lines


def _promise(guarantee: Guarantee) -> list[str]:
    return [say("promise.title"), *(filled(line, _INDENT, _INDENT) for line in wording.promise(guarantee))]


def _costs(guarantee: Guarantee) -> list[str]:
    rows = wording.costs(guarantee)
    width = max(_LABEL_MIN, *(len(label) + 2 for label, _, _ in rows))
    lines = [say("cost.title")]
    lines += [f"  {label:<{width}}{cost}{' *' if useful else ''}" for label, cost, useful in rows]
    marked = any(useful for _, _, useful in rows)
    return [*lines, f"  * {wording.useful()}"] if marked else lines


def _tariffs(guarantee: Guarantee) -> list[str]:
    rows = tariffs.lines(guarantee)
    if not rows:
        return []
    width = max(_LABEL_MIN, *(len(label) + 2 for label, _ in rows))
    notes = (filled(note, _INDENT, _INDENT) for note in tariffs.notes(guarantee))
    return [say("tariff.title"), *(f"  {label:<{width}}{error}" for label, error in rows), *notes]


def _guesses(guarantee: Guarantee) -> list[str]:
    if not guarantee.exposures:
        return []
    rows = [wording.guess_columns(), *wording.guess_rows(guarantee)]
    width = max(_LABEL_MIN, *(len(row[0]) + 2 for row in rows))
    lines = [wording.guesses()]
    for name, moves, *cells in rows:
        lines.append(f"  {name:<{width}}{moves:>10}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def _not_hidden(guarantee: Guarantee) -> list[str]:
    items = wording.not_hidden(guarantee)
    return [f"{say('hidden.not')}:", *(filled(item, "  - ", "    ") for item in items)]


def _warned(guarantee: Guarantee) -> list[str]:
    return _warnings(guarantee.warnings)


def _warnings(texts: Iterable[str]) -> list[str]:
    return [filled(say("hidden.warning", text=text), "", _INDENT) for text in texts]
