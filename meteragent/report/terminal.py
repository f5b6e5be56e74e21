"""A guarantee as `check` prints it."""

import textwrap
from collections.abc import Sequence

from meteragent import config
from meteragent.report import warn, wording
from meteragent.report.guarantee import Guarantee

_WIDTH = 106
_INDENT = "  "


def text(guarantees: Sequence[Guarantee], settings: config.Config) -> str:
    """Return the guarantees of all streams in words, after the warnings of what no stream has."""
    warnings = "\n".join(f"Warning: {line}" for line in warn.of_config(settings))
    return "\n\n".join(filter(None, [warnings, *map(_of_stream, guarantees)]))


def _of_stream(guarantee: Guarantee) -> str:
    sections = (section(guarantee) for section in (_head, _promise, _costs, _guesses, _end))
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _head(guarantee: Guarantee) -> list[str]:
    lines, fleet = [wording.head(guarantee)], guarantee.fleet
    if fleet is not None:
        lines.append(f"{_INDENT}Shard {fleet.shard} of a fleet: {wording.shard_meters(fleet)}.")
    if guarantee.is_archive:
        lines.append(_INDENT + wording.ARCHIVE)
    return lines


def _promise(guarantee: Guarantee) -> list[str]:
    lines = ["The promise"]
    for line in wording.promise(guarantee):
        lines += textwrap.wrap(line, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return lines


def _costs(guarantee: Guarantee) -> list[str]:
    rows = (f"  {label:<26}{cost}   {useful}".rstrip() for label, cost, useful in wording.costs(guarantee))
    return [wording.COSTS, *rows]


def _guesses(guarantee: Guarantee) -> list[str]:
    if not guarantee.exposures:
        return []
    lines = [wording.guesses()]
    for name, moves, *cells in [("", *wording.GUESS_COLUMNS[1:]), *wording.guess_rows(guarantee)]:
        lines.append(f"  {name:<26}{moves:>10}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def _end(guarantee: Guarantee) -> list[str]:
    lines = [f"Warning: {line}" for line in guarantee.warnings]
    hidden = f"{wording.NOT_HIDDEN}: {'; '.join(wording.not_hidden(guarantee))}."
    return [*lines, *([""] if lines else []), hidden]
