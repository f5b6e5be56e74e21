"""Refusals of a source and of settings that must fit it: names, brokers, kinds, devices and formats."""

from meteragent.config.files import address_refusals, sink_broker
from meteragent.config.model import Broker, Source, Stream
from meteragent.config.refuse.check import Refusals, check_of, repeated_places
from meteragent.config.refuse.window import unknown_zone_refusal
from meteragent.config.source import (
    FORMATS,
    has_times,
    interval_ms,
    nearest_profile,
    part_sources,
    profile_of,
    quantity_of,
    topic_of,
)
from meteragent.config.terms import sink_url
from meteragent.decode import ARRIVAL
from meteragent.decode import json as json_profile
from meteragent.decode.profile import Profile
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact_text
from meteragent.domain.units import UNITS, Kind

_BROKER = ("url", *Broker.model_fields)
_PART_KEYS = ("profile", "value", "time", "id")
_NOT_WITH_PARTS = {
    "phases": "no phases, each of which can be a part,",
    "shard": "no shard",
    "unit_topic": "no unit_topic",
}


@check_of(*(f"source.{key}" for key in _BROKER))
def _source_broker_refusals(stream: Stream) -> Refusals:
    """Yield refusals of keys that do not form the address of the source's broker."""
    yield from address_refusals("source", stream.source.url, stream.source)


@check_of(*(f"{section}.{key}" for section in ("source", "sink") for key in _BROKER))
def _sink_broker_refusals(stream: Stream) -> Refusals:
    """Yield refusals of keys that do not form the address of the sink's broker."""
    yield from address_refusals("sink", sink_url(stream), sink_broker(stream))
    is_same = stream.source.client_id == stream.sink.client_id and sink_url(stream) == stream.source.url
    if stream.sink.client_id is not None and is_same:
        expected = (
            "an id other than source.client_id: a broker ends the connection of a client whose id returns"
        )
        yield ConfigError("sink.client_id", repr(stream.sink.client_id), expected)


@check_of("source.kind", "source.unit")
def _unit_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a unit that does not fit the kind."""
    source = stream.source
    if source.unit not in UNITS[source.kind]:
        expected = f"{' or '.join(map(repr, UNITS[source.kind]))} for kind '{source.kind}'"
        yield ConfigError("source.unit", repr(source.unit), expected)


@check_of("source.topic", "source.part", "source.meter", "source.phases", "source.shard", "source.unit_topic")
def _topic_refusals(stream: Stream) -> Refusals:
    """Yield refusals of topics whose placeholders do not fit the keys, and of a shard for a single meter."""
    source = stream.source
    if source.part and source.meter is None:  # `_part_refusals` asks for the name
        source = source.model_copy(update={"meter": "home"})
    for key, part in (("topic", source.model_copy(update={"unit_topic": None})), ("unit_topic", source)):
        try:
            topic_of(part)
        except ValueError as error:
            yield ConfigError(f"source.{key}", repr(getattr(source, key)), str(error))
            break
    else:
        if source.shard is not None and source.meter is not None and not source.part:
            expected = "no shard: source.meter names the only meter, so there is nothing to divide"
            yield ConfigError("source.shard", repr(str(source.shard)), expected)


@check_of(*(f"source.{key}" for key in ("part", "meter", "kind", *_NOT_WITH_PARTS, *_PART_KEYS)))
def _part_refusals(stream: Stream) -> Refusals:
    """Yield refusals of keys that exclude parts, of equal topics, and of a part's own keys."""
    source = stream.source
    if not source.part:
        return
    if source.meter is None:
        expected = "the meter's name, such as 'home': the topics of [[source.part]] are of one meter"
        yield ConfigError("source.meter", "nothing", expected)
    for key, expected in _NOT_WITH_PARTS.items():
        if (value := getattr(source, key)) is not None:
            yield ConfigError(f"source.{key}", repr(str(value)), f"{expected} together with [[source.part]]")
    if source.kind is Kind.INTERVAL_ENERGY:
        expected = "kind 'power' or 'register', or no parts: energies of different intervals cannot be added"
        yield ConfigError("source.kind", "'interval_energy' together with [[source.part]]", expected)
    sources = part_sources(source)
    for index in repeated_places(part.topic for part in sources):
        expected = "another topic for each part: a value that is a sum itself needs a JMESPath expression"
        yield ConfigError(f"source.part[{index - 1}].topic", repr(sources[index].topic), expected)
    for index, part in enumerate(source.part):
        if not part.model_fields_set.isdisjoint(_PART_KEYS):
            own_stream = stream.model_copy(update={"source": sources[index + 1]})
            yield from _part_key_refusals(own_stream, f"source.part[{index}]")


def _part_key_refusals(stream: Stream, path: str) -> Refusals:
    """Yield refusals of a part's own keys; `stream` reads only this part."""
    for check in (_device_refusals, _meter_id_refusals, _expression_refusals):
        for error in check.refusals(stream):
            key = error.key.removeprefix("source.")
            yield error.with_key(f"{path}.{key}" if key in _PART_KEYS else path)


@check_of("source.meter", "sink.pseudonym_key_file")
def _meter_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a meter name that cannot be a segment of the sink's topic."""
    name, has_pseudonym = stream.source.meter, stream.sink.pseudonym_key_file is not None
    if name is not None and not has_pseudonym and (not identity.fits_segment(name) or "/" in name):
        expected = "a name without /, $, +, # or control characters: it is a segment of the sink's topic"
        yield ConfigError("source.meter", repr(name), expected)


@check_of("source.kind", "source.modulus", "source.phases")
def _kind_refusals(stream: Stream) -> Refusals:
    """Yield refusals of keys that do not apply to the kind."""
    source = stream.source
    if source.modulus is not None and source.kind is not Kind.REGISTER:
        expected = "no modulus, or kind = 'register': only a register wraps to 0"
        yield ConfigError("source.modulus", exact_text(source.modulus), expected)
    if source.phases is not None and source.kind is Kind.INTERVAL_ENERGY:
        expected = "kind 'power' or 'register', or no phases: energies of different intervals cannot be added"
        yield ConfigError("source.phases", ", ".join(map(repr, source.phases)), expected)


@check_of("source.profile", "source.kind", "source.value", "source.time")
def _device_refusals(stream: Stream) -> Refusals:
    """Yield refusals of an unknown profile, of a quantity that it lacks, and of `time` next to a profile."""
    source, device_profile = stream.source, profile_of(stream.source)
    if source.profile in FORMATS:
        return
    if device_profile is None:
        meant, expected = nearest_profile(source.profile, source.profiles)
        yield ConfigError("source.profile", repr(source.profile), expected, meant=meant)
        return
    if source.time is not None:
        expected = f"no time: the profile {device_profile.name!r} finds it in the payload"
        yield ConfigError("source.time", repr(source.time), expected)
    if quantity_of(source) is None:
        yield _quantity_refusal(source, device_profile)


def _quantity_refusal(source: Source, device: Profile) -> ConfigError:
    """Return the refusal of a quantity that a device does not send."""
    names = [name for name, quantity in device.quantities.items() if quantity.kind is source.kind]
    if source.value is not None and names:
        value, key, choices = repr(source.value), "value", ", ".join(map(repr, names))
    else:
        value, key = repr(str(source.kind)), "kind"
        choices = ", ".join(sorted({repr(str(quantity.kind)) for quantity in device.quantities.values()}))
    return ConfigError(f"source.{key}", value, f"one of {choices}: what {device.title} sends")


@check_of("source.timezone", "source.profile", "source.kind", "source.value")
def _local_time_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a time zone that does not exist, or that the source's times do not need."""
    source, key = stream.source, "source.timezone"
    if source.timezone is None:
        return
    device_quantity = quantity_of(source)
    if device_quantity is None or device_quantity.in_zone is None:
        expected = (
            "no time zone, or profile = 'dsmr-p1': other profiles' times state their zone or are not used"
        )
        yield ConfigError(key, repr(source.timezone), expected)
    elif source.timezone != ARRIVAL:
        refusal = unknown_zone_refusal(key, source.timezone, ", or 'arrival' to ignore the meter's time")
        if refusal is not None:
            yield refusal


@check_of("source.profile", "source.kind", "source.value", "source.interval")
def _interval_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of an interval energy whose interval is unknown."""
    source = stream.source
    if source.kind is Kind.INTERVAL_ENERGY and not interval_ms(source):
        expected = "the time that a reading covers, such as '15min', which kind 'interval_energy' needs"
        yield ConfigError("source.interval", "nothing", expected)


@check_of("source.profile", "source.kind", "source.value", "source.time", "source.timezone", "source.stamp")
def _stamp_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of `stamp` for readings that cover no interval, or that have no timestamp."""
    source = stream.source
    if source.stamp == "end" or (source.kind is Kind.INTERVAL_ENERGY and has_times(source)):
        return
    missing = "kind = 'interval_energy'" if source.kind is not Kind.INTERVAL_ENERGY else "source.time as well"
    expected = f"{missing}, or no stamp: it is where an interval's time lies"
    yield ConfigError("source.stamp", "'start'", expected)


@check_of("source.profile", "source.id")
def _meter_id_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a missing id that the profile needs, or of an id without a device's profile."""
    source, device_profile = stream.source, profile_of(stream.source)
    if device_profile is None and source.id is not None:
        expected = "no id, or a profile of a device whose messages name the meter"
        yield ConfigError("source.id", repr(source.id), expected)
    if device_profile is not None and device_profile.needs_id and source.id is None:
        expected = "the meter's id, because messages of other meters arrive on the same topic"
        yield ConfigError("source.id", "nothing", expected)


@check_of("source.profile", "source.meter", "sink.pseudonym_key_file")
def _identifier_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a topic that would reveal the identifier of a device or a person."""
    source, device_profile = stream.source, profile_of(stream.source)
    is_named = source.meter is not None or stream.sink.pseudonym_key_file is not None
    if device_profile is not None and device_profile.identifies is not None and not is_named:
        identifier_name = device_profile.identifies
        expected = f"a key file, or source.meter = 'home': {{meter}} is {identifier_name}, and must not leave"
        yield ConfigError("sink.pseudonym_key_file", "nothing", expected)


@check_of("source.profile", "source.value", "source.time")
def _expression_refusals(stream: Stream) -> Refusals:
    """Yield refusals of expressions that are invalid, or set although the payload is a bare number."""
    source = stream.source
    for key in ("value", "time") if source.profile in FORMATS else ():
        expression = getattr(source, key)
        if expression is None:
            continue
        if source.profile == "number":
            expected = "profile = 'json': a bare number has no fields"
            yield ConfigError(f"source.{key}", repr(expression), expected)
            continue
        try:
            json_profile.compile_expression(expression)
        except ValueError as error:
            yield ConfigError(f"source.{key}", repr(expression), str(error))


CHECKS = (
    *(_source_broker_refusals, _sink_broker_refusals, _unit_refusals, _topic_refusals, _part_refusals),
    *(_meter_refusals, _kind_refusals, _device_refusals, _local_time_refusals, _interval_refusals),
    *(_stamp_refusals, _meter_id_refusals, _identifier_refusals, _expression_refusals),
)
"""The checks in their order."""
