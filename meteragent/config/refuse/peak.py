"""Refusals of windows, parts and readings that give no useful peak."""

from fractions import Fraction

from meteragent.config.model import Stream
from meteragent.config.refuse.check import PROMISE, Problems, reads
from meteragent.config.source import interval_ms, period_ms
from meteragent.config.terms import length_ms, quantum, space, step_ms, terms, unit
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import figures
from meteragent.domain.grid import format_duration
from meteragent.domain.loads import width_w
from meteragent.domain.shape import Space
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, UNIT_FACTOR, Kind
from meteragent.privacy.exact import round_half_up


@reads(*PROMISE, "source.every", "sink.total")
def parts(stream: Stream) -> Problems:
    """Yield refusals of unsuitable windows and parts, of readings that do not fit, and of running totals."""
    if space(stream) is not Space.PEAK:
        return
    step = step_ms(stream, length_ms(stream))
    if stream.window.blocks is not None:
        expected = "window.step = '15min' instead: a peak is the largest mean of equal parts"
        yield ConfigError("window.blocks", str(stream.window.blocks), expected)
    if unit(stream) is None and length_ms(stream) < DAY_MS:
        expected = "'1mo', '1w' or '1d' with window.timezone: a largest mean needs many parts"
        yield ConfigError("window.length", repr(format_duration(length_ms(stream))), expected)
    if HOUR_MS % step:
        expected = "a divisor of an hour, such as '15min', '30min' or '1h'"
        yield ConfigError("window.step", repr(format_duration(step)), expected)
        return
    yield from _readings(stream, step)
    if stream.sink.total:
        yield ConfigError("sink.total", "true", "false: peaks have no sum")


def _readings(stream: Stream, step: int) -> Problems:
    """Yield refusals of readings, or of a quantum, that do not fit the parts."""
    source, interval = stream.source, interval_ms(stream.source)
    if source.kind is Kind.INTERVAL_ENERGY and step % interval:
        expected = f"a divisor of window.step = {format_duration(step)!r}: longer intervals hide the peak"
        yield ConfigError("source.interval", repr(format_duration(interval)), expected)
    elif source.kind is not Kind.POWER and round_half_up(quantum(stream) * MICRO) * interval * step % HOUR_MS:
        expected = "a coarser quantum, such as 1 W, whose energy over one part is a whole number"
        yield ConfigError("privacy.quantum", figures(quantum(stream)), expected)
    every = period_ms(source)
    if source.kind is not Kind.INTERVAL_ENERGY and every is not None and every > step:
        expected = f"{format_duration(step)!r} or less: each part of {format_duration(step)} needs a reading"
        yield ConfigError("source.every", repr(format_duration(every)), expected)


@reads(*PROMISE, "window.range")
def usefulness(stream: Stream) -> Problems:
    """Yield a refusal if the peak would be useless: its 95% interval would be wider than `window.range`."""
    if space(stream) is not Space.PEAK or HOUR_MS % step_ms(stream, length_ms(stream)):
        return
    usual = terms(stream)
    half_w = Fraction(usual.half_width(0.95)) * UNIT_FACTOR[usual.value_unit]
    if 2 * half_w > width_w(usual):
        key = "radius" if stream.privacy.radius is not None else "hide"
        expected = (
            f"less: the peak would be within ± {figures(half_w)} W, and window.range is"
            f" {figures(width_w(usual))} W wide"
        )
        yield ConfigError(f"privacy.{key}", f"{figures(usual.hides_wh)} Wh in each part", expected)
