"""Refusals for nested streams: excluded settings, wrong shares, and windows that do not nest."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import gcd

from meteragent.config.model import Stream
from meteragent.config.nested import ms_of, parts
from meteragent.config.refuse.check import WITHOUT_SLOTS, Problems, not_allowed, reads
from meteragent.config.refuse.window import zone
from meteragent.config.terms import SHAPES_END_MS, SHAPES_FROM_MS, grid
from meteragent.config.value import parse_length
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import counted, exact
from meteragent.domain.grid import Epoch, format_duration
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import SHAPES, Equal

_ALLOWED = {
    "window": WITHOUT_SLOTS | {"timezone"},
    "privacy": ("shares", "preset", "level", "hide", "accept"),
}
"""The keys of `[window]` and `[privacy]` that may be set beside `privacy.shares`."""

_REASONS = {
    "window.length": "each share sets the length of its windows",
    "privacy.radius": "each length has its own radius; set privacy.hide",
    "privacy.quantum": "each length has its own lattice",
    "privacy.budget": "the same level is a different epsilon in each stream",
}
_SLOTS = "a window of nested streams is one slot"


@reads("privacy.shares", "window", "privacy.preset")
def beside(stream: Stream) -> Problems:
    """Yield a refusal of every setting that nested streams exclude."""
    if stream.privacy.shares is None:
        return
    for table, name in not_allowed(stream, _ALLOWED):
        reason = _REASONS.get(f"{table}.{name}", _SLOTS)
        yield ConfigError(f"{table}.{name}", "a value", f"no {name} together with privacy.shares: {reason}")
    if not issubclass(SHAPES[PRESETS[stream.privacy.preset].space], Equal):
        expected = f"a preset with equal slots, such as 'appliance', together with privacy.shares: {_SLOTS}"
        yield ConfigError("privacy.preset", repr(stream.privacy.preset), expected)


@reads("privacy.shares", "privacy.preset", "window.timezone", "source.kind", "source.unit")
def nesting(stream: Stream) -> Problems:
    """Yield refusals of shares that do not divide the level, and of lengths whose windows do not nest.

    Fewer than two shares are refused, too, and so is a time zone that is wrong or that no length needs.
    """
    shares = stream.privacy.shares
    if shares is None:
        return
    if len(shares) < 2:
        expected = (
            "two or more shares, such as { '30min' = 0.8, '1d' = 0.2 }; for one stream, set window.length"
        )
        yield ConfigError("privacy.shares", counted(len(shares), "share"), expected)
        return
    total = sum(shares.values(), Fraction(0))
    if total > 1:
        expected = "shares that add up to at most 1, because together they spend the level"
        yield ConfigError("privacy.shares", f"a sum of {exact(total)}", expected)
    streams = parts(stream)
    zone_problems = [problem for part in streams for problem in zone.problems(part)]
    if zone_problems:
        yield zone_problems[0]
        return
    if stream.window.timezone is not None and not any(part.window.timezone for part in streams):
        expected = "no time zone, because no share is for local days, weeks or months"
        yield ConfigError("window.timezone", repr(stream.window.timezone), expected)
    lengths = sorted(shares, key=ms_of)
    for fine, coarse in pairwise(zip(lengths, streams, strict=True)):
        yield from _misfit(*fine, *coarse)


def _misfit(fine: str, fine_stream: Stream, coarse: str, coarse_stream: Stream) -> Iterator[ConfigError]:
    """Yield a refusal if the windows of a stream do not fill the windows of the next coarser stream."""
    fine_grid, coarse_grid = grid(fine_stream), grid(coarse_stream)
    key, value = f"privacy.shares.{fine}", f"a share of {fine!r} together with one of {coarse!r}"
    if ms_of(fine) == ms_of(coarse):
        yield ConfigError(key, value, "lengths that differ")
    elif isinstance(coarse_grid, Epoch):
        if not isinstance(fine_grid, Epoch):
            yield ConfigError(
                f"privacy.shares.{coarse}", value, "'1w' or '1mo': local days fill no other length"
            )
        elif coarse_grid.length_ms % fine_grid.length_ms:
            yield ConfigError(key, value, f"a length that divides {coarse!r}")
    elif not isinstance(fine_grid, Epoch):
        if parse_length(fine) == "1w":
            yield ConfigError(key, value, "'1d': weeks do not fill months")
    elif (common_ms := _common_ms(coarse_stream)) % fine_grid.length_ms:
        nearest = format_duration(gcd(common_ms, fine_grid.length_ms))
        expected = (
            f"a length that fills every {coarse!r} of {coarse_stream.window.timezone}, such as {nearest!r}"
        )
        yield ConfigError(key, value, expected)


def _common_ms(stream: Stream) -> int:
    """Return the largest length that divides every window boundary of a stream in ten years."""
    windows = grid(stream)
    start_ms = windows.first_ms(SHAPES_FROM_MS)
    common_ms = start_ms
    while start_ms < SHAPES_END_MS:
        start_ms = windows.end_ms(start_ms)
        common_ms = gcd(common_ms, start_ms)
    return common_ms
