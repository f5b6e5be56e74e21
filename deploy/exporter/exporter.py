"""Export private streams with their error bands to Prometheus, on the receiving side.

    python exporter.py --url mqtt://utility.example --topic 'private/#' --listen 0.0.0.0:9321

The exporter subscribes, and reads records and descriptors with `meteragent.consume`. For each home's newest
slot it exports the private value, the ends of its 95% interval, and the standard deviation of its noise.
For all homes it exports the mean with its interval, which narrows as the number of homes grows. A stream is
a topic in which `+` stands for the home; homes are distinguished by their public ids.

Rules:
1. The two newest slots of each stream are kept. A home's value is that of the newest slot that contains the
   home; a home in neither slot is not exported. The mean is that of the newest slot once this slot contains
   as many homes as the slot before: a mean over the homes that arrive first would jump with every slot.
2. Prometheus stamps a value with the time of the scrape: on its time axis, a slot's value begins when the
   record arrives, one slot length late. `slot_end_seconds` identifies the slot.
3. A message that is neither a record nor a descriptor, or contradicts its descriptor, is counted and not
   exported.
"""

import argparse
import ssl
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from meteragent.consume import Descriptor, Estimate, Record, Series, mean_value
from meteragent.domain.errors import RecordError
from meteragent.domain.units import DAY_MS, HOUR_MS

COVERAGE = 0.95
STREAMS = 100
HOMES = 10_000
"""The largest numbers of streams, and of homes in each; messages of further ones are refused and counted."""
TERMS = 10_000
"""The largest number of descriptors in memory; further ones are refused and counted."""
TOPICS = 100_000
"""The largest number of topics with descriptors."""
TERMS_OF_TOPIC = 64
"""The largest number of descriptors of one topic."""
RECONNECT_MAX_S = 30
"""The longest pause before the client reconnects."""

_PARTS = {
    "": "the private value of the newest slot, or the mean of all homes; negative values are normal",
    "_low": "the lower end of its 95% interval",
    "_high": "the upper end of its 95% interval",
    "_sd": "the standard deviation of its noise",
}


class Stream(NamedTuple):
    """The properties that the homes of a mean share: topic, unit, and the length of a slot."""

    topic: str
    unit: str
    slot: str


class Home(NamedTuple):
    """A home, or one band of a home's mean day."""

    meter: str
    band: str


class HomeValue(NamedTuple):
    """A home's record as a series, and the estimate from it."""

    series: Series
    estimate: Estimate


Slot = dict[Home, HomeValue]


class Board(Collector):
    """The newest slots of all homes; one thread writes them, another collects the metrics."""

    def __init__(self) -> None:
        self.connected = False
        self._message_count = self._refused_count = 0
        self._terms: dict[str, Descriptor] = {}
        self._of_topic: dict[str, dict[str, Descriptor]] = {}
        self._slots: dict[Stream, dict[int, Slot]] = {}
        self._lock = threading.Lock()

    def take(self, topic: str, payload: bytes) -> None:
        """Process a message."""
        with self._lock:
            self._message_count += 1
            try:
                if "privacy" in topic.split("/")[-2:]:
                    self._describe(topic.rpartition("/privacy")[0], Descriptor.parse(payload))
                elif not topic.endswith("/total"):
                    self._keep(topic, Record.parse(payload))
            except (RecordError, ValueError):
                self._refused_count += 1

    def _describe(self, topic: str, terms: Descriptor) -> None:
        """Keep what the meter of a topic announces; an id is known within its topic only."""
        terms_by_id = self._of_topic.get(topic, {})
        is_new = terms.digest not in self._terms
        if (is_new and len(self._terms) >= TERMS) or len(terms_by_id.keys() | {terms.id}) > TERMS_OF_TOPIC:
            raise ValueError("too many descriptors")
        if not terms_by_id and len(self._of_topic) >= TOPICS:
            raise ValueError("too many topics")
        self._of_topic[topic] = terms_by_id
        if terms_by_id.setdefault(terms.id, terms).digest != terms.digest:
            raise ValueError("two descriptors with one id")
        terms_by_id[terms.id] = self._terms.setdefault(terms.digest, terms)

    def _keep(self, topic: str, record: Record) -> None:
        """Keep a record if its slot is one of the two newest of its stream."""
        series = Series.of([record], self._of_topic.get(topic, {}))
        home_value = HomeValue(series, series.value(record.time_ms, COVERAGE, record.band))
        segments = ("+" if segment == record.meter else segment for segment in topic.split("/"))
        stream = Stream("/".join(segments), record.unit, _slot_length(record.step_ms))
        if len(self._slots) >= STREAMS and stream not in self._slots:
            raise ValueError("too many streams")
        slots = self._slots.setdefault(stream, {})
        slot = slots.setdefault(record.time_ms, {})
        home = Home(record.meter, record.band or "")
        if len(slot) >= HOMES and home not in slot:
            raise ValueError("too many homes")
        slot[home] = home_value
        for expired_ms in sorted(slots)[:-2]:
            del slots[expired_ms]

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as of one moment."""
        with self._lock:
            yield GaugeMetricFamily(
                "meteragent_exporter_connected", "1: there is a connection to the broker", self.connected
            )
            yield CounterMetricFamily(
                "meteragent_exporter_messages", "messages received", self._message_count
            )
            yield CounterMetricFamily(
                "meteragent_exporter_refused",
                "messages that are not records, or contradict their descriptor",
                self._refused_count,
            )
            yield from self._homes()
            yield from self._means()
            yield from self._times()

    def _homes(self) -> Iterator[Metric]:
        rows = [
            ([*stream, *home], home_value.estimate)
            for stream, slots in self._slots.items()
            for home, home_value in _newest(slots).items()
        ]
        yield from _family("meteragent_private_value", (*Stream._fields, *Home._fields), rows)

    def _means(self) -> Iterator[Metric]:
        rows, counts = (
            [],
            GaugeMetricFamily(
                "meteragent_private_homes",
                "the number of homes in the mean",
                labels=(*Stream._fields, "band"),
            ),
        )
        for stream, slots in self._slots.items():
            time_ms = _complete(slots)
            bands: defaultdict[str, list[Series]] = defaultdict(list)
            for home, home_value in slots[time_ms].items():
                bands[home.band].append(home_value.series)
            for band, homes in bands.items():
                rows.append(([*stream, band], mean_value(homes, time_ms, COVERAGE, band or None)))
                counts.add_metric([*stream, band], len(homes))
        yield from _family("meteragent_private_mean", (*Stream._fields, "band"), rows)
        yield counts

    def _times(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "meteragent_private_slot_end_seconds", "the end of the newest slot", labels=Stream._fields
        )
        lengths = GaugeMetricFamily(
            "meteragent_private_slot_seconds", "the length of the newest slot", labels=Stream._fields
        )
        for stream, slots in self._slots.items():
            series = next(iter(slots[max(slots)].values())).series
            begin_ms, end_ms = int(series.time_ms[0]), int(series.end_ms[0])
            ends.add_metric(stream, end_ms / 1000)
            lengths.add_metric(stream, (end_ms - begin_ms) / 1000)
        yield ends
        yield lengths


def _slot_length(step_ms: int) -> str:
    """Return the length of a slot under a name that does not depend on summer time or the month."""
    if step_ms < 22 * HOUR_MS:
        return f"{step_ms / 60_000:g}min"
    return "1d" if step_ms < 1.5 * DAY_MS else "1w" if step_ms < 8 * DAY_MS else "1mo"


def _newest(slots: dict[int, Slot]) -> Slot:
    """Return each home's value in the newest slot that contains the home."""
    homes: Slot = {}
    for time_ms in sorted(slots):
        homes |= slots[time_ms]
    return homes


def _complete(slots: dict[int, Slot]) -> int:
    """Return the slot of the mean: the newest, once it has as many homes as the one before (rule 1)."""
    *earlier, newest = sorted(slots)
    return earlier[-1] if earlier and len(slots[newest]) < len(slots[earlier[-1]]) else newest


def _family(
    name: str, labels: Sequence[str], rows: Sequence[tuple[Sequence[str], Estimate]]
) -> Iterator[Metric]:
    """Yield an estimate's value, interval ends and standard deviation as four metrics."""
    for part, text in _PARTS.items():
        family = GaugeMetricFamily(name + part, text, labels=labels)
        for values, estimate in rows:
            numbers = {"": estimate.value, "_low": estimate.low, "_high": estimate.high, "_sd": estimate.sd}
            family.add_metric(values, numbers[part])
        yield family


def client(board: Board, url: str, topic: str, username: str | None, password: str | None) -> Client:
    """Return a client that is connecting, subscribes at each connection, and feeds the board.

    Raises:
        ValueError: the URL is not an MQTT URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"mqtt", "mqtts"} or not parts.hostname:
        raise ValueError(f"{url} is not a URL such as mqtts://utility.example:8883")
    mqtt_client = Client(CallbackAPIVersion.VERSION2)
    mqtt_client.reconnect_delay_set(1, RECONNECT_MAX_S)
    if username is not None:
        mqtt_client.username_pw_set(username, password)
    if parts.scheme == "mqtts":
        mqtt_client.tls_set_context(ssl.create_default_context())

    def on_connect(
        mqtt_client: Client, _: object, __: ConnectFlags, code: ReasonCode, ___: Properties | None
    ) -> None:
        """Subscribe."""
        board.connected = not code.is_failure
        mqtt_client.subscribe(topic, qos=1)

    def on_disconnect(
        _: Client, __: object, ___: DisconnectFlags, ____: ReasonCode, _____: Properties | None
    ) -> None:
        """Record the end of the connection."""
        board.connected = False

    def on_message(_: Client, __: object, message: MQTTMessage) -> None:
        """Pass the message to the board."""
        board.take(message.topic, bytes(message.payload))

    mqtt_client.on_connect, mqtt_client.on_disconnect, mqtt_client.on_message = (
        on_connect,
        on_disconnect,
        on_message,
    )
    mqtt_client.connect_async(parts.hostname, parts.port or (8883 if parts.scheme == "mqtts" else 1883))
    return mqtt_client


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve metrics until the process ends."""
    parser = argparse.ArgumentParser(description="Private streams with their error bands, for Prometheus.")
    add = parser.add_argument
    add("--url", required=True, metavar="mqtts://HOST", help="the broker at which private records arrive")
    add("--topic", default="private/#", help="the topic filter; default %(default)s")
    add("--username")
    add("--password-file", type=Path, metavar="FILE")
    add("--listen", default="127.0.0.1:9321", metavar="HOST:PORT", help="default %(default)s")
    options = parser.parse_args(arguments)
    host, _, port = options.listen.rpartition(":")
    password = None if options.password_file is None else options.password_file.read_text().rstrip("\r\n")
    board, registry = Board(), CollectorRegistry()
    registry.register(board)
    try:
        mqtt_client = client(board, options.url, options.topic, options.username, password)
    except ValueError as error:
        parser.error(str(error))
    start_http_server(int(port), host, registry)
    mqtt_client.loop_forever(retry_first_connection=True)


if __name__ == "__main__":
    main()
