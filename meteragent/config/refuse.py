"""Settings that cannot keep the promise, refused with the key, what was found and what would do."""

import difflib
import ipaddress
import re
import zoneinfo
from fractions import Fraction
from itertools import pairwise

from meteragent.config.files import address
from meteragent.config.model import Config, Page, Source, Stream
from meteragent.config.source import (
    FORMATS,
    branches,
    interval_ms,
    nearest_profile,
    profile,
    quantity,
    topic_of,
)
from meteragent.config.terms import hours, length_ms, quantum, shapes, sink_url, space, terms, unit
from meteragent.decode import json as json_profile
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import CALENDAR_UNITS, Hours, format_duration
from meteragent.domain.presets import PRESETS
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MICRO, UNITS, Kind
from meteragent.mqtt import Endpoint

RATIO_MAX = 2**45
"""n / (epsilon * quantum) stays below this (THEORY 2.1)."""

BANDS_MAX = 96
"""Bands of a mean day: more would take seconds to check, and longer to open."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


def refuse(config: Config, *, flat: bool) -> None:
    """Refuse a configuration that cannot keep its promise.

    Raises ConfigError for the first key that is wrong; `flat` says how keys are named.
    """
    for at, stream in enumerate(config.stream):
        _check_stream(stream, "" if flat else f"stream[{at}].")
    _check_together(config, flat=flat)
    if config.page is not None:
        _check_page(config.page)


def _check_page(page: Page) -> None:
    host, _, port = page.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError("page.listen", repr(page.listen), "an address and a port, such as '127.0.0.1:8321'")
    if page.token_file is None and not _is_local(host):
        expected = "a file that holds a token: the page shows raw readings, and others reach this address"
        raise ConfigError("page.token_file", "nothing", expected)


def _check_stream(stream: Stream, at: str) -> None:
    _check_name(stream, at)
    _check_source(stream, at)
    _check_zone(stream, at)
    _check_slots(stream, at)
    _check_grid(stream, at)
    _check_privacy(stream, at)
    _check_budget(stream, at)
    _check_home_assistant(stream, at)


def _check_name(stream: Stream, at: str) -> None:
    if not _NAME.fullmatch(stream.name):
        raise ConfigError(f"{at}name", repr(stream.name), "letters, digits, - and _")
    if stream.privacy.preset not in PRESETS:
        known = ", ".join(map(repr, PRESETS))
        raise ConfigError(f"{at}privacy.preset", repr(stream.privacy.preset), f"one of {known}")


def _check_source(stream: Stream, at: str) -> None:
    source = stream.source
    address(f"{at}source", source.url, source, None)
    address(f"{at}sink", sink_url(stream), stream.sink, None)
    if source.unit not in UNITS[source.kind]:
        right = " or ".join(map(repr, UNITS[source.kind]))
        raise ConfigError(f"{at}source.unit", repr(source.unit), f"{right} for kind '{source.kind}'")
    try:
        topic_of(source)
    except ValueError as error:
        raise ConfigError(f"{at}source.topic", repr(source.topic), str(error)) from None
    if source.shard is not None and source.meter is not None:
        expected = "no shard: source.meter names the only meter, and a fleet has many"
        raise ConfigError(f"{at}source.shard", repr(str(source.shard)), expected)
    if source.meter is not None and not _leaves(stream, source.meter):
        expected = "a name without $, +, # and control characters: it stands in the sink's topic"
        raise ConfigError(f"{at}source.meter", repr(source.meter), expected)
    _check_kind(source, at)
    if source.profile not in FORMATS:
        _check_device(stream, at)
        return
    if source.id is not None:
        expected = "no id, or the profile of a device whose messages name meters"
        raise ConfigError(f"{at}source.id", repr(source.id), expected)
    if source.kind is Kind.INTERVAL_ENERGY and source.interval is None:
        expected = "what a reading covers, such as '15min': kind 'interval_energy' needs it"
        raise ConfigError(f"{at}source.interval", "nothing", expected)
    _check_format(source, at)


def _leaves(stream: Stream, meter: str) -> bool:
    """Return whether a meter's name, or its pseudonym, can stand in the sink's topic."""
    return stream.sink.pseudonym_key_file is not None or identity.holds_name(meter)


def _check_kind(source: Source, at: str) -> None:
    """Keys that only one kind has."""
    if source.modulus is not None and source.kind is not Kind.REGISTER:
        expected = "no modulus, or kind = 'register': only there it means something"
        raise ConfigError(f"{at}source.modulus", exact(source.modulus), expected)
    if source.phases is not None and source.kind is Kind.INTERVAL_ENERGY:
        expected = "kind 'power' or 'register', or one phase: energies of intervals that differ have no sum"
        raise ConfigError(f"{at}source.phases", ", ".join(map(repr, source.phases)), expected)


def _check_device(stream: Stream, at: str) -> None:
    """A device's profile, and what is asked of it."""
    source, device = stream.source, profile(stream.source)
    if device is None:
        raise ConfigError(f"{at}source.profile", repr(source.profile), nearest_profile(source.profile))
    if source.time is not None:
        expected = f"no time: the profile {device.name!r} says where it is"
        raise ConfigError(f"{at}source.time", repr(source.time), expected)
    one = quantity(source)
    if one is None:
        names = [name for name, other in device.quantities.items() if other.kind is source.kind]
        if source.value is not None and names:
            found, key, known = repr(source.value), "value", ", ".join(map(repr, names))
        else:
            found, key = repr(str(source.kind)), "kind"
            known = ", ".join(sorted({repr(str(other.kind)) for other in device.quantities.values()}))
        raise ConfigError(f"{at}source.{key}", found, f"one of {known}: what {device.title} sends")
    if source.kind is Kind.INTERVAL_ENERGY and not interval_ms(source):
        expected = "what a reading covers, such as '15min': kind 'interval_energy' needs it"
        raise ConfigError(f"{at}source.interval", "nothing", expected)
    if device.needs_id and source.id is None:
        expected = "the meter's id: messages of other meters come on the same topic"
        raise ConfigError(f"{at}source.id", "nothing", expected)
    named = source.meter is not None or stream.sink.pseudonym_key_file is not None
    if device.identifies is not None and not named:
        expected = (
            f"a key file, or source.meter = 'home': {{meter}} is {device.identifies}; it must not leave"
        )
        raise ConfigError(f"{at}sink.pseudonym_key_file", "nothing", expected)


def _check_format(source: Source, at: str) -> None:
    """The expressions of a document; a bare number has none."""
    if source.profile == "number":
        for key in ("value", "time"):
            if getattr(source, key) is not None:
                found = repr(getattr(source, key))
                expected = "profile = 'json': a bare number has no fields"
                raise ConfigError(f"{at}source.{key}", found, expected)
        return
    for key in ("value", "time"):
        expression = getattr(source, key)
        try:
            json_profile.compile_expression("power" if expression is None else expression)
        except ValueError as error:
            raise ConfigError(f"{at}source.{key}", repr(expression), str(error)) from None


def _check_zone(stream: Stream, at: str) -> None:
    """A window of the calendar has a time zone, and only it needs one."""
    zone, key = stream.window.timezone, f"{at}window.timezone"
    if zone is None:
        if unit(stream) is not None:
            expected = f"a zone, such as 'Europe/Amsterdam' or 'UTC': windows of {unit(stream)!r} need one"
            raise ConfigError(key, "nothing", expected)
        return
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(zone, zoneinfo.available_timezones(), n=1)
        expected = f"a time zone such as {close[0] if close else 'Europe/Amsterdam'!r}"
        raise ConfigError(key, repr(zone), expected) from None
    if unit(stream) is None:
        found = format_duration(length_ms(stream))
        expected = (
            f"one of {', '.join(map(repr, CALENDAR_UNITS))}: with a time zone windows are of the calendar"
        )
        raise ConfigError(f"{at}window.length", repr(found), expected)


def _check_slots(stream: Stream, at: str) -> None:
    """One way to say what the slots are, and one that fits the space."""
    window, profile = stream.window, space(stream) is Space.PROFILE
    ways = [name for name in ("step", "blocks", "bands") if getattr(window, name) is not None]
    if len(ways) > 1:
        expected = f"only one of window.{' and window.'.join(ways)}: each says what the slots are"
        raise ConfigError(f"{at}window.{ways[1]}", "a second way", expected)
    if window.bands is not None and not profile:
        raise ConfigError(f"{at}window.bands", "hours of the day", "privacy.space = 'profile': a mean day")
    if not profile:
        return
    if window.step is not None:
        expected = "window.bands or window.blocks: a profile has hours of the day"
        raise ConfigError(f"{at}window.step", repr(format_duration(window.step)), expected)
    if unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: bands are hours of local days"
        raise ConfigError(f"{at}window.length", repr(format_duration(length_ms(stream))), expected)
    if window.blocks is not None and 24 * 60 % window.blocks:
        expected = "a number that divides 1440, the minutes of a day"
        raise ConfigError(f"{at}window.blocks", str(window.blocks), expected)
    bands = hours(stream)
    if len(bands) > BANDS_MAX:
        key = "blocks" if window.bands is None else "bands"
        expected = f"at most {BANDS_MAX}: bands of a quarter of an hour or more"
        raise ConfigError(f"{at}window.{key}", str(len(bands)), expected)
    _check_overlap(bands, at)


def _check_overlap(bands: tuple[Hours, ...], at: str) -> None:
    parts = sorted((part, band.name) for band in bands for part in band.parts)
    for (one, name), (other, second) in pairwise(parts):
        if other[0] < one[1]:
            raise ConfigError(f"{at}window.bands", f"{name} and {second}", "bands that do not overlap")


def _check_grid(stream: Stream, at: str) -> None:
    blocks, step = stream.window.blocks, stream.window.step
    for one in shapes(stream) if not hours(stream) else ():
        length = one.length_ms
        if blocks is not None and length % blocks:
            expected = f"a number that divides every window, also one of {format_duration(length)!r}"
            raise ConfigError(f"{at}window.blocks", str(blocks), expected)
        if step is not None and length % step:
            _refuse_step(length, step, at)
    low, high = stream.window.range
    if low >= high:
        raise ConfigError(f"{at}window.range", f"[{exact(low)}, {exact(high)}]", "[lowest, highest] in W")
    if not terms(stream).low_u <= terms(stream).gap_u <= terms(stream).high_u:
        expected = f"a value inside window.range = [{exact(low)}, {exact(high)}] W"
        raise ConfigError(f"{at}window.gap", exact(stream.window.gap), expected)


def _refuse_step(length: int, step: int, at: str) -> None:
    counts = [count for count in (length // step, length // step + 1) if count]
    near = [format_duration(length // count) for count in counts if length % count == 0]
    right = " or ".join(map(repr, near)) or "a divisor"
    expected = f"one that divides window.length = {format_duration(length)!r}, such as {right}"
    raise ConfigError(f"{at}window.step", repr(format_duration(step)), expected)


def _check_privacy(stream: Stream, at: str) -> None:
    privacy, lattice = stream.privacy, quantum(stream)
    if privacy.hide is not None and privacy.radius is not None:
        expected = "only one of privacy.hide and privacy.radius: they say the same thing twice"
        raise ConfigError(f"{at}privacy.radius", exact(privacy.radius), expected)
    if (lattice * MICRO).denominator != 1:
        expected = "a multiple of 0.000001 of the unit, such as 0.001"
        raise ConfigError(f"{at}privacy.quantum", exact(lattice), expected)
    for one in shapes(stream):
        _check_noise(one, lattice, at)


def _check_noise(one: Terms, lattice: Fraction, at: str) -> None:
    """A radius on the lattice, and noise that stays in its range."""
    if (one.radius / lattice).denominator != 1:
        below = one.radius // lattice * lattice
        near = [exact(r) for r in (below, below + lattice) if r > 0]
        expected = f"a multiple of privacy.quantum = {exact(lattice)}, such as {' or '.join(near)}"
        raise ConfigError(f"{at}privacy.radius", exact(one.radius), expected)
    ratio = one.n / (one.epsilon * lattice)
    if ratio >= RATIO_MAX:
        expected = f"a coarser one: n / (epsilon * quantum) is {float(ratio):.3g}, must be below 2**45"
        raise ConfigError(f"{at}privacy.quantum", exact(lattice), expected)


def _check_budget(stream: Stream, at: str) -> None:
    limit = stream.privacy.budget
    if limit is None:
        return
    if limit.per % DAY_MS:
        found, expected = format_duration(limit.per), "whole days, such as '24h' or '30d'"
        raise ConfigError(f"{at}privacy.budget.per", repr(found), expected)
    level = terms(stream).level
    needed = level * _windows_within(stream, limit.per)
    if needed > limit.level:
        period, length = format_duration(limit.per), unit(stream) or format_duration(length_ms(stream))
        expected = f"at least {exact(needed)}: windows of {length} at level {exact(level)} for {period}"
        raise ConfigError(f"{at}privacy.budget.level", exact(limit.level), expected)


def _windows_within(stream: Stream, period_ms: int) -> int:
    """How many windows may start within an aligned period."""
    if unit(stream) is None:
        return -(-period_ms // length_ms(stream))
    shortest_ms = min(one.length_ms for one in shapes(stream))
    return (period_ms - 1) // shortest_ms + 1


def _check_home_assistant(stream: Stream, at: str) -> None:
    """What Home Assistant cannot do without."""
    sink = stream.sink
    if sink.home_assistant is None:
        return
    if sink.status is None:
        expected = "a topic such as 'meteragent/status': there Home Assistant sees whether the agent runs"
        raise ConfigError(f"{at}sink.status", "nothing", expected)
    if sink.status == f"{sink.home_assistant}/status":
        expected = "a topic of the agent's own: there Home Assistant says that it has started"
        raise ConfigError(f"{at}sink.status", repr(sink.status), expected)
    if sink.format != "json":
        expected = "'json': Home Assistant reads no other"
        raise ConfigError(f"{at}sink.format", repr(sink.format), expected)


def _check_together(config: Config, *, flat: bool) -> None:
    """What several streams must not do to each other, nor one to itself."""
    names = [stream.name for stream in config.stream]
    for at, one in enumerate(config.stream):
        prefix = "" if flat else f"stream[{at}]."
        if names.index(one.name) != at:
            raise ConfigError(f"{prefix}name", repr(one.name), "a name of its own for each stream")
        out = identity.parse_template(one.sink.topic)
        for other in config.stream:
            into = branches(other.source)
            if _broker(sink_url(one)) == _broker(other.source.url) and identity.overlap(into, out):
                expected = "a topic that no source of this broker reads back"
                raise ConfigError(f"{prefix}sink.topic", repr(one.sink.topic), expected)
        for other in config.stream[:at]:
            same = _broker(sink_url(one)) == _broker(sink_url(other))
            before = identity.parse_template(other.sink.topic)
            if same and (identity.overlap(before, out) or identity.overlap(out, before)):
                expected = "a topic of its own: records of two streams would mix"
                raise ConfigError(f"{prefix}sink.topic", repr(one.sink.topic), expected)
        _check_status(one, config.stream, at, prefix)


def _check_status(one: Stream, streams: tuple[Stream, ...], at: int, prefix: str) -> None:
    """A status topic is one connection's, and nobody takes it for a reading or a record."""
    status = one.sink.status
    if status is None:
        return
    key, segments, broker = f"{prefix}sink.status", tuple(status.split("/")), _broker(sink_url(one))
    for other in streams:
        reads = _broker(other.source.url) == broker and identity.overlap(branches(other.source), segments)
        writes = _broker(sink_url(other)) == broker and identity.overlap(
            segments, identity.parse_template(other.sink.topic)
        )
        if reads or writes:
            expected = "a topic that is no reading's and no record's"
            raise ConfigError(key, repr(status), expected)
    for other in streams[:at]:
        if other.sink.status == status and _broker(sink_url(other)) == broker:
            expected = f"a topic of its own, such as '{status}/{one.name}': each stream has its connection"
            raise ConfigError(key, repr(status), expected)


def _broker(url: str) -> tuple[str, int]:
    place = Endpoint.parse(url)
    return "loopback" if _is_loopback(place.host) else place.host, place.port


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _is_local(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    return _is_loopback(host) and not (host != "localhost" and ipaddress.ip_address(host).is_unspecified)
