"""Refusals that follow from the row of a kind of window, or from what its shape states."""

from itertools import pairwise

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, PROMISE, Problems, reads
from meteragent.config.shapes import OWN_KEYS, ROWS, band_rules, row_of, shape_class, space
from meteragent.config.terms import metric, terms, unit
from meteragent.config.value import SPACES
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import WEEKDAYS
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import SHAPES, Space

HOURS_MAX = 96
"""The largest number of bands or prices; more would take seconds to check, and longer when windows open."""
DAY_MIN = 24 * 60


@reads(*GRID)
def keys(stream: Stream) -> Problems:
    """Yield refusals of keys of `[window]` that belong to other kinds, are missing, or define other slots."""
    row, window = row_of(stream), stream.window
    for key in OWN_KEYS:
        if key not in row.own_keys and getattr(window, key):
            yield _elsewhere(stream, key)
    for key, example in row.own_keys.items():
        if example is not None and not getattr(window, key):
            yield ConfigError(f"window.{key}", "nothing", example)
    for key, expected in row.excludes.items():
        if getattr(window, key) is not None:
            yield ConfigError(f"window.{key}", "slots of another kind", expected)


def _elsewhere(stream: Stream, key: str) -> ConfigError:
    """Return the refusal of a key that other kinds have, with the settings that choose them."""
    kinds = [kind for kind, row in ROWS.items() if key in row.own_keys]
    for kind in kinds:
        if ROWS[kind].implied_by == key:
            expected = f"'{kind}', which window.{key} implies"
            return ConfigError("privacy.space", repr(str(space(stream))), expected)
    names = [f"privacy.preset = '{name}'" for name, preset in PRESETS.items() if preset.space in kinds]
    names += [f"privacy.space = '{kind}'" for kind in kinds]
    return ConfigError(f"window.{key}", "a value", f"{' or '.join(names)}, or no {key}")


@reads("privacy.metric", "source.kind", "sink.total", *GRID)
def numbers(stream: Stream) -> Problems:
    """Yield refusals of a metric, of readings, and of a running total that the values do not support."""
    shape, distance = shape_class(stream), metric(stream)
    if distance not in shape.metrics:
        spaces = [f"'{name}'" for name in SPACES if distance in SHAPES[Space(name)].metrics]
        expected = (
            f"'{shape.metrics[0]}', the default, or privacy.space = {' or '.join(spaces)}: other spaces do"
            f" not support '{distance}'"
        )
        yield ConfigError("privacy.metric", f"'{distance}'", expected)
    if stream.source.kind not in shape.kinds:
        kinds = " or ".join(f"'{kind}'" for kind in sorted(shape.kinds))
        expected = f"{kinds}: {row_of(stream).readings}"
        yield ConfigError("source.kind", f"'{stream.source.kind}'", expected)
    if stream.sink.total and not shape.is_additive:
        expected = "false: only energies and means have a running total, which is the sum of all energy"
        yield ConfigError("sink.total", "true", expected)


@reads(*GRID, "source.kind")
def hours(stream: Stream) -> Problems:
    """Yield refusals of hours that are too many or overlap, and of hours without local days."""
    row, blocks = row_of(stream), stream.window.blocks
    if row.rules is None:
        return
    if blocks is not None and DAY_MIN % blocks:
        expected = f"a number that divides {DAY_MIN}, the number of minutes in a day"
        yield ConfigError("window.blocks", str(blocks), expected)
        return
    rules, key = band_rules(stream).rules, "window.blocks" if blocks is not None else f"window.{row.hours}"
    if rules and unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: hours are those of local days"
        yield ConfigError("window.length", "a window without local days", expected)
    if len(rules) > HOURS_MAX:
        yield ConfigError(key, str(len(rules)), f"at most {HOURS_MAX}")
    for day, weekday in enumerate(WEEKDAYS):
        parts = sorted((part, rule.name) for rule in rules if day in rule.weekdays for part in rule.parts)
        for ((_, to_min), name), ((from_min, _), next_name) in pairwise(parts):
            if from_min < to_min:
                problem = f"{name} and {next_name} on {weekday} from {clock_text(from_min)}"
                yield ConfigError(key, problem, "hours that do not overlap")
                return


def clock_text(minute: int) -> str:
    """Return a minute of the day as a time."""
    return f"{minute // 60:02}:{minute % 60:02}"


@reads(*PROMISE, "source.every", "window.range")
def further(stream: Stream) -> Problems:
    """Yield the refusals of the kind's own."""
    refusals = row_of(stream).refusals
    if refusals is not None:
        yield from refusals(stream, terms(stream))
