"""What a source says and how it is read: profiles, and what they state where nothing is written."""

import difflib
from fractions import Fraction

from meteragent.config.model import Source
from meteragent.decode import Decoder, one
from meteragent.decode import json as json_format
from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profile import decoder as decoder_of
from meteragent.decode.profiles import PROFILES
from meteragent.domain.identity import SourceTopic
from meteragent.domain.units import DAY_MS, HOUR_MS, UNIT_FACTOR, Kind

_HOLD_MS = 15 * 60_000
FORMATS = ("number", "json")
"""The profiles of payloads that any device may send."""


def topic_of(source: Source) -> SourceTopic:
    """The source's topic; raises ValueError when its placeholders do not fit its other keys."""
    return SourceTopic.parse(source.topic, source.meter, source.phases or (), source.shard)


def branches(source: Source) -> tuple[str, ...]:
    """The segments of the source's template as all agents of its fleet read it: {shard} is any of them."""
    return tuple(source.topic.split("/"))


def held(source: Source) -> str:
    """Which meters of a fleet the source has, as the store keeps it: all are those of one agent alone."""
    if source.shard is None:
        return "0/1 by name"
    return f"{source.shard} by {'name' if topic_of(source).shard else 'topic'}"


def profile(source: Source) -> Profile | None:
    """The device's profile; None for a format, and for a name that there is none of."""
    return PROFILES.get(source.profile)


def quantity(source: Source) -> Quantity | None:
    """What of a device's messages is read; None where there is no such quantity of the source's kind."""
    device = profile(source)
    return None if device is None else device.quantity(source.kind, source.value)


def decoder(source: Source) -> Decoder:
    """The decoder of a source whose keys fit each other."""
    device, scale = quantity(source), source.scale or Fraction(1)
    if device is not None:
        own = UNIT_FACTOR[source.unit] if device.scale is None else device.scale
        return decoder_of(device.read, own * scale, source.unit, source.id)
    if source.profile == "number":
        return decoder_of(bare, scale * UNIT_FACTOR[source.unit], source.unit)
    return one(json_format.decoder(source.value or "power", source.time, scale))


def has_times(source: Source) -> bool:
    """Whether readings have a time of their own; else that of their arrival counts."""
    device = quantity(source)
    return source.time is not None if device is None else device.timed


def hold_ms(source: Source) -> int:
    """How long a power reading stands."""
    device = profile(source)
    return source.hold or (_HOLD_MS if device is None else device.hold_ms)


def interval_ms(source: Source) -> int:
    """What the values of an energy are per: an interval's own length, a register's hour; 0 for power."""
    if source.kind is Kind.POWER:
        return 0
    if source.kind is Kind.REGISTER:
        return HOUR_MS
    device = quantity(source)
    return source.interval or (device.interval_ms if device else None) or 0


def every_ms(source: Source) -> int:
    """How far apart readings usually are: as written, else the device's; 0: not known."""
    device = profile(source)
    return source.every or source.interval or (0 if device is None else device.every_ms)


def period_ms(source: Source) -> int | None:
    """Return how far apart readings are at most; 0: they are sent on change; None: not known.

    A power with a dead band is sent on change, whatever the device does without one.
    """
    if source.every is not None:
        return source.every
    if source.kind is not Kind.POWER:
        return None
    device = profile(source)
    return 0 if source.dead_band else None if device is None else device.period_ms


def lateness_ms(source: Source, written: int | None) -> int:
    """A slot's lateness: as written, else as long as a device's energies take to be told."""
    if written is not None:
        return written
    return 0 if source.kind is Kind.POWER or profile(source) is None else every_ms(source)


def reports_on_change(source: Source) -> bool:
    """Return whether the device may say nothing as long as nothing changes."""
    device = profile(source)
    if source.every is not None:
        return source.every == 0
    if source.kind is Kind.POWER and source.dead_band:
        return True
    return device is not None and (device.dead_band_w > 0 or not device.dead_band_known)


def forget_ms(source: Source, written: int | None) -> int:
    """Return how long a meter may be silent: as written, else a day; 30 days where it reports on change.

    A device that rests says nothing: if its records stopped soon, they would tell when it is used.
    """
    if written is not None:
        return written
    return 30 * DAY_MS if reports_on_change(source) else DAY_MS


def dead_band(source: Source) -> Fraction | None:
    """Return how far the power may be from what was sent last, or the step of a count, in the unit.

    Of summed phases each power may be off; the step is that of one count (`counters`). None: not known.
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
    each_w = device.dead_band_w * (source.scale or 1)
    return each_w * len(source.phases or "1") / UNIT_FACTOR[source.unit]


def _step(source: Source) -> Fraction | None:
    """Return the step in which a device counts an energy, in the unit; None: not known."""
    one = quantity(source)
    if one is None or not (one.is_count or one.step_wh):
        return None
    each = Fraction(1) if one.step_wh is None else one.step_wh / UNIT_FACTOR[source.unit]
    return each * (source.scale or 1)


def counters(source: Source) -> int:
    """Return how many counts, each with its own step, are summed in one number of an energy."""
    one = quantity(source)
    return 1 if source.kind is Kind.POWER else len(source.phases or "1") * (one.counters if one else 1)


def nearest_profile(name: str) -> str:
    """The names there are, the likeliest first."""
    close = difflib.get_close_matches(name, [*FORMATS, *PROFILES], n=1)
    known = "'number' or 'json', or a device: " + ", ".join(PROFILES)
    return f"{close[0]!r}? Else {known}" if close else known
