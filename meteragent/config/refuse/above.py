"""Refusals of energies above a threshold: readings, slots and settings with which they mean nothing."""

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, Problems, reads
from meteragent.config.terms import space
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.shape import Space
from meteragent.domain.units import Kind


@reads(*GRID, "window.threshold", "window.range", "source.kind", "sink.total", "sink.format")
def threshold(stream: Stream) -> Problems:
    """Yield a threshold that is missing or has no effect, and settings that do not go with it."""
    window, height = stream.window, stream.window.threshold
    if space(stream) is not Space.ABOVE:
        if height is not None:
            expected = "privacy.space = 'above', or left out: a threshold makes energies above it"
            yield ConfigError("privacy.space", repr(str(space(stream))), expected)
        return
    if height is None:
        yield ConfigError("window.threshold", "nothing", "a power in W, such as 3000")
    elif not window.range[0] <= height < window.range[1]:
        low, high = map(exact, window.range)
        expected = f"a power within window.range = [{low}, {high}] W, below its end"
        yield ConfigError("window.threshold", exact(height), expected)
    if stream.source.kind is not Kind.POWER:
        expected = (
            "'power': an energy tells only the mean power between two readings, and each reading's step would"
            " count on its own"
        )
        yield ConfigError("source.kind", repr(str(stream.source.kind)), expected)
    for key in ("step", "blocks", "bands"):
        if getattr(window, key) is not None:
            expected = "window.length alone: a window has one energy above the threshold"
            yield ConfigError(f"window.{key}", "slots of a window", expected)
    if stream.sink.total:
        expected = "false: the running total is one of whole energies"
        yield ConfigError("sink.total", "true", expected)
    if stream.sink.format != "json":
        expected = "'json': in SenML it would look like a whole energy"
        yield ConfigError("sink.format", repr(stream.sink.format), expected)
