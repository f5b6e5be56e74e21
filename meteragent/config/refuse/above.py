"""Refusals of readings, slots and settings that do not suit energies above a threshold."""

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, Problems, reads
from meteragent.config.terms import space
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.shape import Space
from meteragent.domain.units import Kind


@reads(*GRID, "window.threshold", "window.range", "source.kind", "sink.total", "sink.format")
def threshold(stream: Stream) -> Problems:
    """Yield refusals of a missing or ineffective threshold, and of settings that a threshold excludes."""
    window, threshold_w = stream.window, stream.window.threshold
    if space(stream) is not Space.ABOVE:
        if threshold_w is not None:
            expected = "'above', which window.threshold implies"
            yield ConfigError("privacy.space", repr(str(space(stream))), expected)
        return
    if threshold_w is None:
        yield ConfigError("window.threshold", "nothing", "a power in W, such as 3000")
    elif not window.range[0] <= threshold_w < window.range[1]:
        low, high = map(exact, window.range)
        expected = f"a power within window.range = [{low}, {high}] W and below its upper end"
        yield ConfigError("window.threshold", exact(threshold_w), expected)
    if stream.source.kind is not Kind.POWER:
        expected = (
            "'power': an energy gives only the mean power between two readings, and the rounding steps of"
            " its readings would add up"
        )
        yield ConfigError("source.kind", repr(str(stream.source.kind)), expected)
    for key in ("step", "blocks", "bands"):
        if getattr(window, key) is not None:
            expected = "only window.length: a window has one energy above the threshold"
            yield ConfigError(f"window.{key}", "slots of a window", expected)
    if stream.sink.total:
        expected = "false: the running total is the sum of all energy, not only of energy above the threshold"
        yield ConfigError("sink.total", "true", expected)
    if stream.sink.format != "json":
        expected = "'json': in SenML it would look like the total energy"
        yield ConfigError("sink.format", repr(stream.sink.format), expected)
