"""What is probably wrong with an input: a run with checks is refused unless its operator accepts them.

The texts contain exact counts: show them only to people who may see the readings.
"""

from collections.abc import Iterator

from meteragent.archive.acceptance import Layout
from meteragent.archive.number import Counts
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ChecksRefused
from meteragent.domain.figures import count_text
from meteragent.domain.grid import format_duration, iso_time
from meteragent.domain.units import Kind

_COVERAGE_MIN, _COVERAGE_MAX = 0.9, 1.05
"""Bounds for the fraction of time that readings cover; outside these bounds, a setting is probably wrong."""
_SMALL_SHARE = 0.9
"""If more than this fraction of the numbers is small, they are probably in another unit."""


def find_checks(
    policy: Policy, layout: Layout, counts: Counts | None, windows: int, similar_meters: int = 0
) -> Iterator[str]:
    """Yield what the operator should check, from the counts of numbers (None: not counted) and windows."""
    if similar_meters:
        names = f"{similar_meters:,} meters differ from another only by case, spaces or Unicode form"
        yield f"{names}: if they are one meter, its intervals are released once for each name"
    if counts is None:
        return
    if counts.first_conflict is not None:
        readings, (meter, time_ms) = count_text(counts.conflicting, "reading"), counts.first_conflict
        place = (
            f"next to a smaller one of the meter at the same time, first of {meter!r} at {iso_time(time_ms)}"
        )
        yield f"{readings} {place}, left out: are times local, or do homes share a name?"
    if layout == "long" and windows:
        yield from _coverage_checks(policy, counts.present, windows)
    unit = policy.usual.readings.unit
    if counts.are_mostly_clamped:
        percent = 100 * counts.clamped // counts.present
        yield f"{percent}% of the numbers are outside window.range and are clamped to it: are they in {unit}?"
    if counts.small > _SMALL_SHARE * counts.present:  # such as kW instead of W
        share = f"{counts.small / counts.present:.0%}"
        yield f"{share} of the numbers are tiny compared with window.range: are they in {unit}?"


def require_no_checks(checks: Iterator[str]) -> None:
    """Raise ChecksRefused, which names all checks, if there are any."""
    if texts := [f"\n  Check: {text}" for text in checks]:
        raise ChecksRefused(
            f"nothing was charged or released, because the input may not be what the configuration says:"
            f"{''.join(texts)}\nCorrect either of them, or add --accept-checks if all of this is meant"
        )


def _coverage_checks(policy: Policy, numbers: int, windows: int) -> Iterator[str]:
    """Yield a check if readings of the long layout leave gaps or (interval energies) overlap."""
    usual = policy.usual
    share = numbers * policy.reach_ms / (windows * usual.length_ms)
    is_energy = usual.readings.kind is Kind.INTERVAL_ENERGY
    setting = f"{'source.interval' if is_energy else 'source.hold'} = {format_duration(policy.reach_ms)!r}"
    if share < _COVERAGE_MIN:
        yield f"readings cover at most {share:.0%} of the time with {setting}; the rest is gap"
    elif is_energy and share > _COVERAGE_MAX:
        yield f"readings cover {share:.0%} of the time with {setting}; overlaps are dropped"
