"""A source's readings and their decoding, as set by the source's keys or else by its device's profile."""

import difflib
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from meteragent.config.model import Part, Source, Window
from meteragent.decode import ARRIVAL, Decoder, make_start_decoder, wrap_single
from meteragent.decode import json as json_format
from meteragent.decode.number import read_bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profile import make_decoder as decoder_of
from meteragent.decode.profiles import PROFILES
from meteragent.domain.identity import ALL_METERS, SourceTopic
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, ENERGIES_WH, HOUR_MS, POWERS_W, UNIT_FACTOR, Kind

_HOLD_MS = 15 * 60_000
_SPARE_MS = 10_000
"""The least time by which the default lateness exceeds the period of the readings."""
_PREFIX_MIN = 3
"""The shortest beginning of a profile's name for which the profile is suggested."""

_STATESTREAM = "homeassistant-statestream"
FORMATS = ("number", "json")
"""Names of formats that any device may send and that need no profile."""


def topic_of(source: Source) -> SourceTopic:
    """Parse the source's topics. Raises ValueError if their placeholders do not fit the other keys."""
    keys = source.meter, source.phases or (), source.shard
    template = SourceTopic.parse(source.topic, *keys)
    if source.part:
        return _parts(template, source)
    if (unit_topic := _unit_topic(source)) is None:
        return template
    units = dict.fromkeys(template.phases or (None,), _unit_names(source))
    return replace(template, unit=SourceTopic.parse(unit_topic, *keys), units=units)


def _parts(template: SourceTopic, source: Source) -> SourceTopic:
    """Return the topics of a source with parts; each part is a phase, whose name is its topic."""
    sources = part_sources(source)
    topics = {part.topic: part.topic for part in sources}
    template = replace(template, phases=tuple(topics), parts=topics)
    unit_topics = {name: part.topic for part in sources if (name := _unit_topic(part)) is not None}
    return replace(
        template,
        subtracted=frozenset(part.topic for part in source.part if part.sign == "-"),
        unit=replace(template, parts=unit_topics) if unit_topics else None,
        units={part.topic: _unit_names(part) for part in sources},
    )


def part_sources(source: Source) -> tuple[Source, ...]:
    """Return one source without parts for each topic: the source's own topic, and the topics of its parts."""
    if not source.part:
        return (source,)
    return tuple(source.model_copy(update={"part": (), **_part_keys(part)}) for part in (None, *source.part))


def _part_keys(part: Part | None) -> dict[str, object]:
    """Return the keys of a part that differ from the source's; a part's own profile replaces them all."""
    if part is None:
        return {}
    keys = {name: getattr(part, name) for name in Part.model_fields if name != "sign"}
    if part.profile is None:
        return {name: value for name, value in keys.items() if value is not None}
    return {**keys, "timezone": None}


def topics_formula(source: Source) -> str:
    """Return the topics of a source with the signs of its parts, such as ``net/power + pv/power``."""
    return " ".join([source.topic, *(f"{part.sign} {part.topic}" for part in source.part)])


def _unit_names(source: Source) -> tuple[str, ...]:
    """Return other programs' names for the unit in which payloads are written."""
    factor = UNIT_FACTOR[source.unit] * (source.scale or 1)
    units = POWERS_W if source.kind is Kind.POWER else ENERGIES_WH
    return tuple(name for name, value in units.items() if value == factor)


def _unit_topic(source: Source) -> str | None:
    """Return the topic that states the unit of readings; None if there is none."""
    base = source.topic.removesuffix("/state")
    if source.unit_topic is None and source.profile == _STATESTREAM and base != source.topic:
        return f"{base}/unit_of_measurement"
    return source.unit_topic


def topic_branches(source: Source) -> list[tuple[str, ...]]:
    """Return the segments of the source's topics, where `{shard}` stands for any agent of the fleet."""
    return [tuple(part.topic.split("/")) for part in part_sources(source)]


def fleet_share(source: Source) -> str:
    """Return the agent's shard of a fleet, as the store records it; a single agent has all meters."""
    if source.shard is None:
        return ALL_METERS
    return f"{source.shard} by {'name' if topic_of(source).shard else 'topic'}"


def profile_of(source: Source) -> Profile | None:
    """Return the device's profile; None if the source names a plain format or an unknown profile."""
    return source.profiles.get(source.profile) or PROFILES.get(source.profile)


def quantity_of(source: Source) -> Quantity | None:
    """Return the quantity to read from a device; None if there is no profile that has such a quantity."""
    device_profile = profile_of(source)
    return None if device_profile is None else device_profile.find_quantity(source.kind, source.value)


def build_decoder(source: Source) -> Decoder:
    """Build the decoder for a source's own topic, not those of its parts; its keys must be consistent."""
    decode = _decoder(source)
    return decode if source.stamp == "end" else make_start_decoder(decode, interval_ms(source))


def part_decoders(source: Source) -> dict[str | None, Decoder]:
    """Build the decoders of a source's parts, by topic; none if the source has no parts."""
    return {part.topic: build_decoder(part) for part in part_sources(source)} if source.part else {}


def _decoder(source: Source) -> Decoder:
    device_quantity, scale = quantity_of(source), source.scale or Fraction(1)
    if device_quantity is not None:
        factor = UNIT_FACTOR[source.unit] if device_quantity.scale is None else device_quantity.scale
        read = device_quantity.read
        if source.timezone is not None and device_quantity.in_zone is not None:
            read = device_quantity.in_zone(source.timezone)
        return decoder_of(read, factor * scale, source.unit, source.id)
    if source.profile == "number":
        return decoder_of(read_bare, scale * UNIT_FACTOR[source.unit], source.unit)
    return wrap_single(json_format.make_decoder(source.value or "power", source.time, scale, source.unit))


def has_times(source: Source) -> bool:
    """Return whether readings carry a time; otherwise, their time of arrival is used."""
    return all(map(_has_times, part_sources(source)))


def _has_times(source: Source) -> bool:
    if (device_quantity := quantity_of(source)) is None:
        return source.time is not None
    return device_quantity.has_time and source.timezone != ARRIVAL


def has_local_times(source: Source) -> bool:
    """Return whether readings carry local times, which are right only in the source's time zone."""
    return any(map(_has_local_times, part_sources(source)))


def _has_local_times(source: Source) -> bool:
    device_quantity = quantity_of(source)
    return device_quantity is not None and device_quantity.in_zone is not None and source.timezone != ARRIVAL


def hold_ms(source: Source) -> int:
    """Return the longest time for which a power reading applies: as set, or the longest of its profiles."""
    profiles = map(profile_of, part_sources(source))
    return source.hold or max(part.hold_ms if part else _HOLD_MS for part in profiles)


def interval_ms(source: Source) -> int:
    """Return the duration that an energy refers to (an hour for a register); 0 for power or if unknown."""
    if source.kind is Kind.POWER:
        return 0
    if source.kind is Kind.REGISTER:
        return HOUR_MS
    device_quantity = quantity_of(source)
    return source.interval or (device_quantity.interval_ms if device_quantity else None) or 0


def every_ms(source: Source) -> int:
    """Return the usual time between readings: `every`, `interval` or the profiles' longest period, else 0."""
    devices = ((profile_of(part), quantity_of(part)) for part in part_sources(source))
    times = [0 if device is None else device.usual_period_ms(quantity) for device, quantity in devices]
    return source.every or source.interval or (max(times) if all(times) else 0)


def period_ms(source: Source) -> int | None:
    """Return the longest time between readings; 0 if they are sent on change, None if unknown.

    For energies without `every`, the time is unknown. Power with a configured dead band is sent on change,
    even if the profile states a fixed period. A sum is sent on change if one of its parts is.
    """
    if source.every is not None:
        return source.every
    if source.kind is not Kind.POWER:
        return None
    periods = [part.period_ms if part else None for part in map(profile_of, part_sources(source))]
    stated = [period for period in periods if period is not None]
    return 0 if source.dead_band else None if len(stated) < len(periods) else min(stated) and max(stated)


def completes_slots(source: Source, window: Window) -> bool:
    """Return whether a slot waits for the reading after its end: slots of energies do, by the wall clock."""
    return source.kind is not Kind.POWER and window.clock is Clock.WALL


def has_period(source: Source) -> bool:
    """Return whether the time between readings is configured, or known from the device's profile."""
    return source.every is not None or every_ms(source) > 0


def lateness_ms(source: Source, window: Window) -> int:
    """Return a slot's lateness: as configured, or else long enough for the reading that completes it.

    The default is the period plus a tenth, at least 10 s; for power or an unknown period, 0. Under the
    event clock it is the period, so that a wrong reading at a slot's end shows before the slot closes.
    """
    if window.lateness is not None or source.kind is Kind.POWER:
        return window.lateness or 0
    period_ms = every_ms(source)
    if window.clock is Clock.EVENT:
        return period_ms
    return period_ms + max(period_ms // 10, _SPARE_MS) if has_period(source) else 0


def reports_on_change(source: Source) -> bool:
    """Return whether the device, or the device of a part, may be silent while nothing changes."""
    profiles = map(profile_of, part_sources(source))
    if source.every is not None:
        return source.every == 0
    if source.kind is Kind.POWER and source.dead_band:
        return True
    return any(part is not None and (part.dead_band_w > 0 or not part.knows_dead_band) for part in profiles)


def forget_ms(source: Source, configured_ms: int | None) -> int:
    """Return how long a meter may be silent: as configured, or else a day (30 if it reports on change)."""
    if configured_ms is not None:
        return configured_ms
    # While the load is constant, a device that reports on change is silent. If a silent meter's records
    # stopped after a day, the time at which they stop would reveal when something was last used.
    return 30 * DAY_MS if reports_on_change(source) else DAY_MS


def dead_band(source: Source) -> Fraction | None:
    """Return the dead band of a power, or the step of a counter, in the unit; None if unknown.

    Power that is sent at a configured interval (`every`) has no dead band unless one is configured. In a sum,
    the dead bands of powers add up; of counters' steps, the largest is used (see `counter_count`).
    """
    if source.dead_band is not None:
        return source.dead_band
    if source.kind is Kind.POWER and source.every:
        return Fraction(0)
    bands = list(map(_dead_band, part_sources(source)))
    stated = [band for band in bands if band is not None]
    if len(stated) < len(bands):
        return None
    return Fraction(sum(stated)) if source.kind is Kind.POWER else max(stated)


def _dead_band(source: Source) -> Fraction | None:
    if source.kind is not Kind.POWER:
        return _step(source)
    if (device_profile := profile_of(source)) is None or not device_profile.knows_dead_band:
        return None
    phase_w = device_profile.dead_band_w * (source.scale or 1)
    return phase_w * len(source.phases or "1") / UNIT_FACTOR[source.unit]


def _step(source: Source) -> Fraction | None:
    """Return the step, in the unit, in which a device counts energy; None if unknown."""
    device_quantity = quantity_of(source)
    if device_quantity is None or not (device_quantity.is_count or device_quantity.step_wh):
        return None
    step_wh = device_quantity.step_wh
    return (1 if step_wh is None else step_wh / UNIT_FACTOR[source.unit]) * Fraction(source.scale or 1)


def counter_count(source: Source) -> int:
    """Return how many counters, each with its own step, are summed in one energy; 1 for power."""
    if source.kind is Kind.POWER:
        return 1
    quantities = map(quantity_of, part_sources(source))
    return len(source.phases or "1") * sum(part.counters if part else 1 for part in quantities)


def nearest_profile(name: str, more_names: Iterable[str] = ()) -> tuple[str | None, str]:
    """Return, in words, the profiles that were probably meant (or None), and the names of all profiles.

    A prefix of a profile's name is a closer match than a name that differs by a character: `shelly-gen2`
    means the second-generation devices, not `shelly-gen1`. `more_names` come first.
    """
    profiles = [*more_names, *PROFILES]
    names = [*FORMATS, *profiles]
    matches = [entry for entry in names if entry.startswith(name)] if len(name) >= _PREFIX_MIN else []
    matches = matches or difflib.get_close_matches(name, names, n=1)
    return " or ".join(map(repr, matches)) or None, "'number' or 'json', or a device: " + ", ".join(profiles)
