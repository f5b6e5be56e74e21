"""Refusals of conflicts between or within streams (loops, shared topics and names), and of wrong pages."""

import ipaddress
from collections.abc import Collection, Sequence

from meteragent.config.model import Page, Stream
from meteragent.config.refuse.check import Problems, depends, repeated
from meteragent.config.shapes import row_of, space
from meteragent.config.source import branches
from meteragent.config.terms import metric, sink_url
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of
from meteragent.domain.shapes import Metric
from meteragent.mqtt import Endpoint

_TOPIC_KEYS = tuple(map(path_of, ("source.topic", "source.part", "source.url", "sink.topic", "sink.url")))
"""Keys that determine the topics that a stream reads and writes."""

WrongPaths = Sequence[Collection[Path]]
"""For each stream, the paths of the keys that have already been refused."""


def names(streams: Sequence[Stream], prefixes: Sequence[str], wrong_paths: WrongPaths) -> Problems:
    """Yield refusals of names that an earlier stream already has."""
    for number in repeated(stream.name for stream in streams):
        if not _is_wrong("name", wrong_paths[number]):
            value, expected = repr(streams[number].name), "a different name for each stream"
            yield ConfigError(f"{prefixes[number]}name", value, expected)


def topics(streams: Sequence[Stream], prefixes: Sequence[str], wrong_paths: WrongPaths) -> Problems:
    """Yield refusals of sink and status topics that a source reads, or that would be used twice.

    At most one topic of each stream is refused.
    """
    sound_indices = [number for number in range(len(streams)) if _is_sound(wrong_paths[number])]
    sound_streams = [streams[number] for number in sound_indices]
    for index, number in enumerate(sound_indices):
        problem = _sink(streams[number], sound_streams, sound_streams[:index])
        if problem is None and not _is_wrong("sink.status", wrong_paths[number]):
            problem = _status(streams[number], sound_streams, sound_streams[:index])
        if problem is not None:
            yield problem.under(prefixes[number])


def _is_sound(wrong_paths: Collection[Path]) -> bool:
    """Return whether no key that determines the stream's topics has been refused."""
    return not any(depends(key, path) for key in _TOPIC_KEYS for path in wrong_paths)


def _is_wrong(key: str, wrong_paths: Collection[Path]) -> bool:
    """Return whether a key, a table around it or a key within it has already been refused."""
    return any(depends(path_of(key), path) for path in wrong_paths)


def _sink(stream: Stream, streams: Sequence[Stream], earlier_streams: Sequence[Stream]) -> ConfigError | None:
    """Return the refusal of a stream's sink topic; None if the topic can be used."""
    template, broker = identity.parse_template(stream.sink.topic), _broker(sink_url(stream))
    for reader in streams:
        if broker == _broker(reader.source.url) and _reads(reader, template):
            expected = "a topic that no source on this broker reads"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    for writer in earlier_streams:
        writer_template = identity.parse_template(writer.sink.topic)
        is_shared = identity.overlap(writer_template, template) or identity.overlap(template, writer_template)
        if is_shared and broker == _broker(sink_url(writer)):
            expected = "a different topic for each stream: records of two streams would mix"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    return None


def _status(
    stream: Stream, streams: Sequence[Stream], earlier_streams: Sequence[Stream]
) -> ConfigError | None:
    """Return the refusal of a status topic that two streams share, or that readings or records use."""
    status = stream.sink.status
    if status is None:
        return None
    segments, broker = tuple(status.split("/")), _broker(sink_url(stream))
    for peer in streams:
        is_read = _broker(peer.source.url) == broker and _reads(peer, segments)
        template = identity.parse_template(peer.sink.topic)
        is_written = _broker(sink_url(peer)) == broker and identity.overlap(segments, template)
        if is_read or is_written:
            expected = "a topic that no reading and no record uses"
            return ConfigError("sink.status", repr(status), expected)
    for peer in earlier_streams:
        if peer.sink.status == status and _broker(sink_url(peer)) == broker:
            expected = f"a different topic for each stream, such as '{status}/{stream.name}'"
            return ConfigError("sink.status", repr(status), expected)
    return None


def prices(streams: Sequence[Stream], prefixes: Sequence[str], wrong_paths: WrongPaths) -> Problems:
    """Yield refusals of price topics that a stream also reads or writes.

    Prices are not readings, and if a home's messages served as prices, the prices could depend on the home's
    use.
    """
    for stream, prefix, wrong_keys in zip(streams, prefixes, wrong_paths, strict=True):
        topic = None if stream.window.weights is None else stream.window.weights.topic
        if topic is None or _is_wrong("window.weights", wrong_keys) or not _is_sound(wrong_keys):
            continue
        peers = [peer for peer, paths in zip(streams, wrong_paths, strict=True) if _is_sound(paths)]
        if any(_uses(peer, topic, _broker(stream.source.url)) for peer in peers):
            expected = "a topic with public prices that no stream writes to or gets readings from"
            yield ConfigError("window.weights.topic", repr(topic), expected).under(prefix)


def _uses(stream: Stream, topic: str, broker: tuple[str, int]) -> bool:
    """Return whether a stream gets readings from a broker's topic, or writes to it."""
    segments, template = tuple(topic.split("/")), identity.parse_template(stream.sink.topic)
    is_read = _broker(stream.source.url) == broker and _reads(stream, segments)
    is_written = identity.overlap(segments, template) or topic == stream.sink.status
    return is_read or (is_written and _broker(sink_url(stream)) == broker)


def _reads(stream: Stream, segments: tuple[str, ...]) -> bool:
    """Return whether a topic of the stream's source could be this topic or one of its subtopics."""
    return any(identity.overlap(topic, segments) for topic in branches(stream.source))


def archive(streams: Sequence[Stream], prefixes: Sequence[str], wrong_paths: WrongPaths) -> Problems:
    """Yield refusals of streams that `sanitise` cannot release."""
    for stream, prefix, wrong_keys in zip(streams, prefixes, wrong_paths, strict=True):
        if stream.sink.crowd is not None:
            yield ConfigError(f"{prefix}sink.crowd", "a table together with [archive]", "a file of its own")
        is_known = not any(_is_wrong(key, wrong_keys) for key in ("privacy.metric", "privacy.space"))
        if is_known and metric(stream) is Metric.L1:
            expected = "the metric 'linf', the only metric that archives support"
            yield ConfigError(f"{prefix}privacy.metric", "'l1' together with [archive]", expected)
        if is_known and not row_of(stream).is_archived:
            problem, expected = f"'{space(stream)}' together with [archive]", "a space that archives support"
            yield ConfigError(f"{prefix}privacy.space", problem, f"{expected}, such as 'linf' or 'profile'")


def page(table: Page, wrong_paths: Collection[Path]) -> Problems:
    """Yield a refusal if the page's address is wrong, or if other machines can reach it without a token."""
    if _is_wrong("listen", wrong_paths):
        return
    host, _, port = table.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        yield ConfigError(
            "page.listen", repr(table.listen), "an address and a port, such as '127.0.0.1:8321'"
        )
    elif table.token_file is None and not _is_wrong("token_file", wrong_paths) and not _is_local(host):
        expected = "a token file: the page shows raw readings, and other machines can reach this address"
        yield ConfigError("page.token_file", "nothing", expected)


def _broker(url: str) -> tuple[str, int]:
    """Return the host and port of a broker; localhost, loopback and unspecified addresses count as one."""
    endpoint = Endpoint.parse(url)
    return "loopback" if _is_loopback(endpoint.host) else endpoint.host, endpoint.port


def _is_loopback(host: str) -> bool:
    """Return whether a host is localhost, or a loopback or unspecified address of this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _is_local(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on a host."""
    return _is_loopback(host) and not (host != "localhost" and ipaddress.ip_address(host).is_unspecified)
