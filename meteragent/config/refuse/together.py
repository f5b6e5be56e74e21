"""Refusals of conflicts between streams, or of a stream with itself: loops, shared topics and names."""

import ipaddress
from collections.abc import Collection, Sequence

from meteragent.config.lines import Path, path_of
from meteragent.config.model import Page, Stream
from meteragent.config.refuse.check import Problems, depends
from meteragent.config.source import branches
from meteragent.config.terms import sink_url
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.mqtt import Endpoint

_PLACES = tuple(map(path_of, ("source.topic", "source.url", "sink.topic", "sink.url")))
"""Keys that determine what a stream reads and writes."""

Wrong = Sequence[Collection[Path]]
"""For each stream, the keys that are already wrong."""


def names(streams: Sequence[Stream], prefixes: Sequence[str], wrong: Wrong) -> Problems:
    """Yield a stream's name that an earlier stream already has."""
    known: set[str] = set()
    for stream, prefix, wrong_keys in zip(streams, prefixes, wrong, strict=True):
        if stream.name in known and not _is_wrong("name", wrong_keys):
            yield ConfigError(f"{prefix}name", repr(stream.name), "a different name for each stream")
        known.add(stream.name)


def topics(streams: Sequence[Stream], prefixes: Sequence[str], wrong: Wrong) -> Problems:
    """Yield topics on which streams would read or overwrite what they must not, at most one per stream."""
    sound = [number for number in range(len(streams)) if _is_sound(wrong[number])]
    others = [streams[number] for number in sound]
    for place, number in enumerate(sound):
        problem = _sink(streams[number], others, others[:place])
        if problem is None and not _is_wrong("sink.status", wrong[number]):
            problem = _status(streams[number], others, others[:place])
        if problem is not None:
            yield problem.under(prefixes[number])


def _is_sound(wrong: Collection[Path]) -> bool:
    """Return whether the topics that a stream reads and writes are known."""
    return not any(depends(key, path) for key in _PLACES for path in wrong)


def _is_wrong(key: str, wrong: Collection[Path]) -> bool:
    """Return whether a key, or a table around it, is already wrong."""
    return any(depends(path_of(key), path) for path in wrong)


def _sink(stream: Stream, streams: Sequence[Stream], earlier: Sequence[Stream]) -> ConfigError | None:
    """Return why records cannot go to a stream's sink; None if they can."""
    out, broker = identity.parse_template(stream.sink.topic), _broker(sink_url(stream))
    for other in streams:
        if broker == _broker(other.source.url) and identity.overlap(branches(other.source), out):
            expected = "a topic that no source of this broker reads back"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    for other in earlier:
        other_out = identity.parse_template(other.sink.topic)
        meet = identity.overlap(other_out, out) or identity.overlap(out, other_out)
        if meet and broker == _broker(sink_url(other)):
            expected = "a topic of its own: records of two streams would mix"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    return None


def _status(stream: Stream, streams: Sequence[Stream], earlier: Sequence[Stream]) -> ConfigError | None:
    """Return why a status topic belongs to two connections, or could be taken for a reading or a record."""
    status = stream.sink.status
    if status is None:
        return None
    segments, broker = tuple(status.split("/")), _broker(sink_url(stream))
    for other in streams:
        reads = _broker(other.source.url) == broker and identity.overlap(branches(other.source), segments)
        out = identity.parse_template(other.sink.topic)
        writes = _broker(sink_url(other)) == broker and identity.overlap(segments, out)
        if reads or writes:
            expected = "a topic that no reading and no record uses"
            return ConfigError("sink.status", repr(status), expected)
    for other in earlier:
        if other.sink.status == status and _broker(sink_url(other)) == broker:
            expected = f"a topic of its own, such as '{status}/{stream.name}': each stream has its connection"
            return ConfigError("sink.status", repr(status), expected)
    return None


def page(table: Page, wrong: Collection[Path]) -> Problems:
    """Yield an address on which no page can be served, or that others could reach without a token."""
    if _is_wrong("listen", wrong):
        return
    host, _, port = table.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        yield ConfigError(
            "page.listen", repr(table.listen), "an address and a port, such as '127.0.0.1:8321'"
        )
    elif table.token_file is None and not _is_wrong("token_file", wrong) and not _is_local(host):
        expected = "a file that holds a token: the page shows raw readings, and others can reach this address"
        yield ConfigError("page.token_file", "nothing", expected)


def _broker(url: str) -> tuple[str, int]:
    """Return the host and port of a broker; all names of this machine count as one."""
    place = Endpoint.parse(url)
    return "loopback" if _is_loopback(place.host) else place.host, place.port


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _is_local(host: str) -> bool:
    """Return whether only this machine can reach a server that listens there."""
    return _is_loopback(host) and not (host != "localhost" and ipaddress.ip_address(host).is_unspecified)
