"""What is fuzzed: one function a target, from bytes to the name of what became of them.

A target raises AssertionError, or lets another exception pass, where something is wrong: an exception that
is not of the agent's own for bad input, one that repeats what it was given, more than a second, or a result
that must not be. Names that are returned are counted by the command, so that it is seen that a target
reaches more than its first refusal.
"""

import asyncio
import random
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from meteragent import config, consume
from meteragent.consume import Descriptor, Record
from meteragent.decode import Decoder, p1
from meteragent.decode import json as json_profile
from meteragent.decode.profile import make_decoder
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError, FormatError, MeteragentError, PayloadError, RecordError
from meteragent.domain.units import Kind
from meteragent.tools.discover import candidate, configuration, propose, search
from meteragent.tools.discover.listener import Listener
from meteragent.tools.redact import Redactor
from tests.fuzz.broker import hostile
from tests.fuzz.page import asked
from tests.fuzz.stored import opened
from tests.support import bare_numbers
from tests.support.profile_contract import NAMES

LIMIT_S = 1.0
"""Processor time that one input may take."""

_DIGITS = re.compile(rb"\d{6,}")
_SECRET = re.compile(r"://[^\s/\"':@]*:([^\s/\"'@]{4,})@")


def measured(name: str, data: bytes) -> str:
    """Run a target; raises AssertionError when it takes too long."""
    start_s = time.process_time()
    became = TARGETS[name](data)
    took_s = time.process_time() - start_s
    assert took_s < LIMIT_S, f"{name}: {took_s:.1f} s for {len(data)} bytes"
    return became


def silent(error: MeteragentError, given: bytes) -> None:
    """An error, its causes and their frames as they are printed repeat no number of what was given."""
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)
    for number in _DIGITS.findall(given):
        assert number.decode() not in told, type(error).__name__


# Decoders -----------------------------------------------------------------------------------------


def _read(decode: Callable[[bytes], object], payload: bytes) -> str:
    """Readings, or a refusal that is its counter's name and nothing else."""
    try:
        decode(payload)
    except PayloadError as error:
        refusal = error
    else:
        return "read"
    assert refusal.args == (refusal.reason,)
    assert refusal.reason in NAMES
    assert refusal.__cause__ is None
    assert refusal.__context__ is None
    return refusal.reason


def _json(data: bytes) -> str:
    """A JMESPath expression, a line end, a payload."""
    expression, _, payload = data.partition(b"\n")
    try:
        read = json_profile.make_reader(expression.decode(errors="replace"), "t")
    except ValueError:
        return "no expression"
    return _read(read, payload)


@cache
def _of_profile(name: str) -> Sequence[Decoder]:
    """Every quantity of a device, with its own meters and with another's."""
    device, found = PROFILES[name], list[Decoder]()
    named = [] if device.named is None else [device.named(kind, "power") for kind in Kind]
    for one in [*device.quantities.values(), *named]:
        if one is not None:
            unit = "W" if one.kind is Kind.POWER else "Wh"
            found += [make_decoder(one.read, one.scale, unit, meter) for meter in (None, "33333333")]
    return found


def _profiles(data: bytes) -> str:
    """The number of a profile, then a payload."""
    name = list(PROFILES)[(data[0] if data else 0) % len(PROFILES)]
    return _any(name, data[1:])


def _senml(data: bytes) -> str:
    return _any("senml", data)


def _any(name: str, payload: bytes) -> str:
    """Whether any quantity is read; else why not."""
    found = {_read(decode, payload) for decode in _of_profile(name)}
    return "read" if "read" in found else min(found)


# What is not a reading ----------------------------------------------------------------------------


def _configuration(data: bytes) -> str:
    """A configuration, or a ConfigError, which repeats no address."""
    text = data.decode(errors="replace")
    try:
        known = config.parse(text)
    except ConfigError as error:
        refusal = error
    else:
        return _settled(known)
    told = "".join(traceback.format_exception(refusal))
    assert not [one for one in _SECRET.findall(text) if one in told and one not in refusal.key]
    return refusal.key.rpartition(".")[2] or "file"


def _settled(known: config.Config) -> str:
    for stream in known.stream:
        config.terms(stream)
        config.build_decoder(stream.source)
        config.budget(stream)
    return "accepted"


def _consumer(data: bytes) -> str:
    """A record, a descriptor, or neither; and messages of one stream, one a line."""
    became = "refused"
    for parse in (Record.parse, Descriptor.parse):
        try:
            parse(data)
            became = parse.__qualname__
        except RecordError as error:
            silent(error, data)
    try:
        meters = consume.collect(data.split(b"\n"))
    except RecordError as error:
        silent(error, data)
        return became
    for series in meters.values():
        for time_ms in series.time_ms[:3].tolist():
            series.value(int(time_ms))
    return "series" if meters else became


def _redact(data: bytes) -> str:
    """A payload is as long as before, but for the zeros of a checksum; otherwise it is refused."""
    redactor = Redactor(random.Random(1).randbytes)
    try:
        redacted = redactor.redact_payload(data)
    except FormatError as error:
        silent(error, data)
        return "refused"
    assert 0 <= len(redacted.decode()) - len(data.decode()) <= 3 * data.count(b"!")
    return max(redactor.replaced_counts, default="nothing")


def _discover(data: bytes) -> str:
    """Messages, one a line: a topic, a blank, a payload."""
    listener = Listener(lambda: 0)
    for line in data.split(b"\n")[:20]:
        topic, _, payload = line.partition(b" ")
        listener.on_message(topic.decode(errors="replace"), payload, False)
    found = search.search_log(listener).candidates
    propose.report_text(listener, configuration.Access("mqtt://127.0.0.1"), 1)
    for one in found:
        assert isinstance(one, candidate.Candidate)
    return "found" if found else "nothing"


def _served(data: bytes) -> str:
    return asyncio.run(hostile(data))


def _asked(data: bytes) -> str:
    return asyncio.run(asked(data))


TARGETS: Mapping[str, Callable[[bytes], str]] = {
    "number": lambda data: _read(bare_numbers.decode, data),
    "json": _json,
    "p1": lambda data: _read(p1.parse_telegram, data),
    "senml": _senml,
    "profiles": _profiles,
    "config": _configuration,
    "store": opened,
    "consume": _consumer,
    "redact": _redact,
    "discover": _discover,
    "mqtt": _served,
    "page": _asked,
}
"""By name."""
