"""A source's readings and their decoding, as set by the source's keys or else by its device's profile."""

import difflib
from collections.abc import Iterable
from fractions import Fraction

from meteragent.config.model import Source
from meteragent.decode import Decoder, single_reading
from meteragent.decode import json as json_format
from meteragent.decode.number import bare
from meteragent.decode.p1 import ARRIVAL
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profile import decoder as decoder_of
from meteragent.decode.profiles import PROFILES
from meteragent.domain.identity import SourceTopic
from meteragent.domain.units import DAY_MS, HOUR_MS, UNIT_FACTOR, Kind

_HOLD_MS = 15 * 60_000
_PREFIX_MIN = 3
"""The beginning of a profile's name leads to a suggestion if it is at least this long."""

FORMATS = ("number", "json")
"""Names of formats that any device may send and that need no profile."""


def topic_of(source: Source) -> SourceTopic:
    """Parse the source's topic. Raises ValueError if its placeholders do not fit the other keys."""
    return SourceTopic.parse(source.topic, source.meter, source.phases or (), source.shard)


def branches(source: Source) -> tuple[str, ...]:
    """Return the segments of the source's topic, where `{shard}` stands for any agent of the fleet."""
    return tuple(source.topic.split("/"))


def fleet_share(source: Source) -> str:
    """Return which of a fleet's meters the agent has, as the store records it; a single agent has all."""
    if source.shard is None:
        return "0/1 by name"
    return f"{source.shard} by {'name' if topic_of(source).shard else 'topic'}"


def profile(source: Source) -> Profile | None:
    """Return the device's profile; None if the source names a plain format or an unknown profile."""
    return source.profiles.get(source.profile) or PROFILES.get(source.profile)


def quantity(source: Source) -> Quantity | None:
    """Return the quantity to read from a device; None if there is no profile that has such a quantity."""
    device = profile(source)
    return None if device is None else device.quantity(source.kind, source.value)


def decoder(source: Source) -> Decoder:
    """Build the decoder of a source whose keys are consistent."""
    device, scale = quantity(source), source.scale or Fraction(1)
    if device is not None:
        factor = UNIT_FACTOR[source.unit] if device.scale is None else device.scale
        read = device.read
        if source.timezone is not None and device.in_zone is not None:
            read = device.in_zone(source.timezone)
        return decoder_of(read, factor * scale, source.unit, source.id)
    if source.profile == "number":
        return decoder_of(bare, scale * UNIT_FACTOR[source.unit], source.unit)
    return single_reading(json_format.decoder(source.value or "power", source.time, scale))


def has_times(source: Source) -> bool:
    """Return whether readings carry a time; otherwise, their time of arrival counts."""
    device = quantity(source)
    return source.time is not None if device is None else device.timed and source.timezone != ARRIVAL


def has_local_times(source: Source) -> bool:
    """Return whether readings carry local times, which are right only in the source's time zone."""
    device = quantity(source)
    return device is not None and device.in_zone is not None and source.timezone != ARRIVAL


def hold_ms(source: Source) -> int:
    """Return the longest time for which a power reading counts.

    It is `hold`, or else the profile's time, or else 15 minutes.
    """
    device = profile(source)
    return source.hold or (_HOLD_MS if device is None else device.hold_ms)


def interval_ms(source: Source) -> int:
    """Return the duration that an energy refers to: its interval, or an hour for a register.

    Return 0 for power, and for an interval energy whose interval is unknown.
    """
    if source.kind is Kind.POWER:
        return 0
    if source.kind is Kind.REGISTER:
        return HOUR_MS
    device = quantity(source)
    return source.interval or (device.interval_ms if device else None) or 0


def every_ms(source: Source) -> int:
    """Return the usual time between readings: `every`, or else `interval`, or else the profile's.

    A duration of 0 counts as not set. Return 0 if the time is unknown.
    """
    device = profile(source)
    return source.every or source.interval or (0 if device is None else device.every_ms)


def period_ms(source: Source) -> int | None:
    """Return the longest time between readings; 0 if they are sent on change, None if unknown.

    Without `every`, the time is unknown for energies. A power with a configured dead band and without `every`
    is sent on change, even if the device's profile states a fixed period.
    """
    if source.every is not None:
        return source.every
    if source.kind is not Kind.POWER:
        return None
    device = profile(source)
    return 0 if source.dead_band else None if device is None else device.period_ms


def lateness_ms(source: Source, configured_ms: int | None) -> int:
    """Return a slot's lateness: as configured, or else the time until a device sends the next energy.

    The default is 0 for power, and for a source without a device's profile.
    """
    if configured_ms is not None:
        return configured_ms
    return 0 if source.kind is Kind.POWER or profile(source) is None else every_ms(source)


def reports_on_change(source: Source) -> bool:
    """Return whether the device may be silent while nothing changes."""
    device = profile(source)
    if source.every is not None:
        return source.every == 0
    if source.kind is Kind.POWER and source.dead_band:
        return True
    return device is not None and (device.dead_band_w > 0 or not device.dead_band_known)


def forget_ms(source: Source, configured_ms: int | None) -> int:
    """Return how long a meter may be silent: as configured, or else a day (30 days if it reports on change).

    A device that reports on change is silent while the load is constant. If its records stopped after a
    day of silence, the time at which they stop would reveal when something was last used.
    """
    if configured_ms is not None:
        return configured_ms
    return 30 * DAY_MS if reports_on_change(source) else DAY_MS


def dead_band(source: Source) -> Fraction | None:
    """Return the dead band of a power, or the step of a counter, in the unit; None if unknown.

    A configured dead band is returned unchanged. Otherwise, a power that is sent at a configured interval
    (`every`) has no dead band, so 0 is returned. If phases are summed, the dead bands of their powers add up,
    but the step remains that of a single counter (see `counters`).
    """
    if source.dead_band is not None:
        return source.dead_band
    if source.kind is not Kind.POWER:
        return _step(source)
    if source.every:
        return Fraction(0)
    device = profile(source)
    if device is None or not device.dead_band_known:
        return None
    phase_w = device.dead_band_w * (source.scale or 1)
    return phase_w * len(source.phases or "1") / UNIT_FACTOR[source.unit]


def _step(source: Source) -> Fraction | None:
    """Return the step, in the unit, in which a device counts energy; None if unknown."""
    device = quantity(source)
    if device is None or not (device.is_count or device.step_wh):
        return None
    step = Fraction(1) if device.step_wh is None else device.step_wh / UNIT_FACTOR[source.unit]
    return step * (source.scale or 1)


def counters(source: Source) -> int:
    """Return how many counters, each with its own step, are summed in one energy; 1 for power."""
    device = quantity(source)
    return 1 if source.kind is Kind.POWER else len(source.phases or "1") * (device.counters if device else 1)


def nearest_profile(name: str, more_names: Iterable[str] = ()) -> tuple[str | None, str]:
    """Return, in words, the profiles that were probably meant (or None), and the names of all profiles.

    `more_names` come first among the names of devices.

    A prefix of a profile's name is a closer match than a name that differs by a character: `shelly-gen2`
    means the second-generation devices, not `shelly-gen1`.
    """
    devices = [*more_names, *PROFILES]
    names = [*FORMATS, *devices]
    matches = [profile for profile in names if profile.startswith(name)] if len(name) >= _PREFIX_MIN else []
    matches = matches or difflib.get_close_matches(name, names, n=1)
    return " or ".join(map(repr, matches)) or None, "'number' or 'json', or a device: " + ", ".join(devices)
