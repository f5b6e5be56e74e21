"""Refusals of conflicts between or within streams (loops, shared topics, names), of tariffs and of pages."""

import ipaddress
from collections.abc import Collection, Sequence

from meteragent.config.model import Config, Page, Stream
from meteragent.config.refuse.check import GRID_KEYS, Refusals, Table, is_wrong, repeated_places
from meteragent.config.shapes import row_of, space
from meteragent.config.source import topic_branches
from meteragent.config.tariff import band_names
from meteragent.config.terms import metric, sink_url
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path
from meteragent.domain.refusal import similar
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.mqtt import Endpoint

_TOPIC_KEYS = ("source.topic", "source.part", "source.url", "sink.topic", "sink.url")
"""Keys that determine the topics that a stream reads and writes."""


def name_refusals(tables: Sequence[Table]) -> Refusals:
    """Yield refusals of names that an earlier stream already has."""
    for number in repeated_places(table.stream.name for table in tables):
        stream, prefix, wrong_paths = tables[number]
        if not is_wrong(wrong_paths, "name"):
            yield ConfigError(f"{prefix}name", repr(stream.name), "a different name for each stream")


def topic_refusals(tables: Sequence[Table]) -> Refusals:
    """Yield at most one refusal per stream: of a sink or status topic that is also read, or used twice."""
    sound_tables = [table for table in tables if not is_wrong(table.wrong_paths, *_TOPIC_KEYS)]
    streams = [table.stream for table in sound_tables]
    for index, (stream, prefix, wrong_paths) in enumerate(sound_tables):
        problem = _sink_refusal(stream, streams, streams[:index])
        if problem is None and not is_wrong(wrong_paths, "sink.status"):
            problem = _status_refusal(stream, streams, streams[:index])
        if problem is not None:
            yield problem.with_key(prefix + problem.key)


def _sink_refusal(stream: Stream, streams: Sequence[Stream], earlier: Sequence[Stream]) -> ConfigError | None:
    """Return the refusal of a stream's sink topic; None if the topic can be used."""
    template, broker = identity.parse_sink_template(stream.sink.topic), _broker_of(sink_url(stream))
    for reader in streams:
        if broker == _broker_of(reader.source.url) and _reads(reader, template):
            expected = "a topic that no source on this broker reads"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    for writer in earlier:
        peer_topic = identity.parse_sink_template(writer.sink.topic)
        is_shared = identity.can_overlap(peer_topic, template) or identity.can_overlap(template, peer_topic)
        if is_shared and broker == _broker_of(sink_url(writer)):
            expected = "a different topic for each stream: records of two streams would mix"
            return ConfigError("sink.topic", repr(stream.sink.topic), expected)
    return None


def _status_refusal(
    stream: Stream, streams: Sequence[Stream], earlier_streams: Sequence[Stream]
) -> ConfigError | None:
    """Return the refusal of a status topic that two streams share, or that readings or records use."""
    status = stream.sink.status
    if status is None:
        return None
    segments, broker = tuple(status.split("/")), _broker_of(sink_url(stream))
    for peer in streams:
        is_read = _broker_of(peer.source.url) == broker and _reads(peer, segments)
        template = identity.parse_sink_template(peer.sink.topic)
        is_written = _broker_of(sink_url(peer)) == broker and identity.can_overlap(segments, template)
        if is_read or is_written:
            expected = "a topic that no reading and no record uses"
            return ConfigError("sink.status", repr(status), expected)
    for peer in earlier_streams:
        if peer.sink.status == status and _broker_of(sink_url(peer)) == broker:
            expected = f"a different topic for each stream, such as '{status}/{stream.name}'"
            return ConfigError("sink.status", repr(status), expected)
    return None


def price_topic_refusals(tables: Sequence[Table]) -> Refusals:
    """Yield refusals of price topics that a stream also uses: prices could depend on the home's use."""
    sound_tables = [table for table in tables if not is_wrong(table.wrong_paths, *_TOPIC_KEYS)]
    for stream, prefix, wrong_paths in sound_tables:
        topic = None if stream.window.weights is None else stream.window.weights.topic
        if topic is None or is_wrong(wrong_paths, "window.weights"):
            continue
        if any(_uses(peer.stream, topic, _broker_of(stream.source.url)) for peer in sound_tables):
            expected = "a topic with public prices that no stream writes to or gets readings from"
            yield ConfigError(f"{prefix}window.weights.topic", repr(topic), expected)


def _uses(stream: Stream, topic: str, broker: tuple[str, int]) -> bool:
    """Return whether a stream gets readings from a broker's topic, or writes to it."""
    segments, template = tuple(topic.split("/")), identity.parse_sink_template(stream.sink.topic)
    is_read = _broker_of(stream.source.url) == broker and _reads(stream, segments)
    is_written = identity.can_overlap(segments, template) or topic == stream.sink.status
    return is_read or (is_written and _broker_of(sink_url(stream)) == broker)


def _reads(stream: Stream, segments: tuple[str, ...]) -> bool:
    """Return whether a topic of the stream's source could be this topic or one of its subtopics."""
    return any(identity.can_overlap(topic, segments) for topic in topic_branches(stream.source))


def archive_refusals(tables: Sequence[Table]) -> Refusals:
    """Yield refusals of streams that `sanitise` cannot release."""
    for stream, prefix, wrong_paths in tables:
        if stream.sink.crowd is not None:
            yield ConfigError(f"{prefix}sink.crowd", "a table together with [archive]", "a file of its own")
        is_known = not is_wrong(wrong_paths, "privacy.metric", "privacy.space")
        if is_known and metric(stream).is_sum:
            expected = "the metric 'linf', the only metric that archives support"
            yield ConfigError(f"{prefix}privacy.metric", "'l1' together with [archive]", expected)
        if is_known and not row_of(stream).is_archived:
            problem, expected = f"'{space(stream)}' together with [archive]", "a space that archives support"
            yield ConfigError(f"{prefix}privacy.space", problem, f"{expected}, such as 'linf' or 'profile'")


# Tariffs ------------------------------------------------------------------------------------------


def tariff_refusals(config: Config, tables: Sequence[Table], wrong_paths: Collection[Path]) -> Refusals:
    """Yield refusals of repeated names, of a second currency, and of missing, unknown or unpriced bands."""
    if is_wrong(wrong_paths, "tariff"):
        return
    for number in repeated_places(tariff.name for tariff in config.tariff):
        value, expected = repr(config.tariff[number].name), "a different name for each tariff"
        yield ConfigError(f"tariff[{number}].name", value, expected)
    for number, tariff in enumerate(config.tariff):
        if tariff.currency != config.tariff[0].currency:
            expected = f"{config.tariff[0].currency!r}, as in the first tariff, because costs are compared"
            yield ConfigError(f"tariff[{number}].currency", repr(tariff.currency), expected)
    if config.tariff and not any(is_wrong(table.wrong_paths, *GRID_KEYS, "source.kind") for table in tables):
        yield from _band_refusals(config, tables)


def _band_refusals(config: Config, tables: Sequence[Table]) -> Refusals:
    """Yield refusals of tariffs without a stream that has bands, of unknown bands, and of missing prices."""
    by_stream = [bands for table in tables if (bands := band_names(table.stream))]
    if not by_stream:
        expected = "a stream with privacy.preset = 'tariff': tariffs price its bands"
        yield ConfigError("tariff", "tariffs without bands", expected)
        return
    all_bands = list(dict.fromkeys(band for bands in by_stream for band in bands))
    for number, tariff in enumerate(config.tariff):
        unknown_bands = [band for band in tariff.prices if band not in all_bands]
        for band in unknown_bands:
            expected = f"one of {', '.join(map(repr, all_bands))}"
            key, meant = f"tariff[{number}].prices.{band}", similar(band, all_bands)
            yield ConfigError(key, "a price", expected, meant=meant)
        priced = [*tariff.prices, UNKNOWN_BAND]  # the band for energy of unknown time needs no price
        unpriced_bands = min((set(bands).difference(priced) for bands in by_stream), key=len)
        if unpriced_bands and not unknown_bands:  # an unknown band may be the missing one, misspelt
            expected = "a price for each band of a stream"
            names = ", ".join(map(repr, sorted(unpriced_bands)))
            yield ConfigError(f"tariff[{number}].prices", f"no price for {names}", expected)


# Pages --------------------------------------------------------------------------------------------


def page_refusals(table: Page, wrong_paths: Collection[Path]) -> Refusals:
    """Yield a refusal if the page's address is wrong, or if other machines can reach it without a token."""
    if is_wrong(wrong_paths, "page.listen"):
        return
    host, _, port = table.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        expected = "an address and a port, such as '127.0.0.1:8321'"
        yield ConfigError("page.listen", repr(table.listen), expected)
    elif table.token_file is None and not is_wrong(wrong_paths, "page.token_file"):
        if not _is_local(host):
            expected = "a token file: the page shows raw readings, and other machines can reach this address"
            yield ConfigError("page.token_file", "nothing", expected)
        elif table.actions:
            yield ConfigError("page.token_file", "nothing", "a token file: page.actions needs a login")


def _broker_of(url: str) -> tuple[str, int]:
    """Return the host and port of a broker; localhost, loopback and unspecified addresses are one host."""
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
