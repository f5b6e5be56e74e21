"""What left, with its error bands, for Prometheus: the receiving side of private streams.

    python exporter.py --url mqtt://utility.example --topic 'private/#' --listen 0.0.0.0:9321

It subscribes, reads records and descriptors with `meteragent.consume`, and tells of each home's newest slot
the private value, the ends of its 95 % interval, and the standard deviation of its noise; and of all
homes the mean with its own interval, which is the sharper the more there are. A stream is a topic in which
`+` stands for the home; homes are told apart by the names under which they leave.

Rules:
1. Of each stream the two newest slots are kept. A home is told from the newer one that has it, the mean
   is that of the newer one once as many homes have arrived in it as in the one before: an average over
   those that came first would jump with every slot. A home that is in neither is no longer told.
2. Prometheus notes a value when it asks for it, not when it was so: a slot's value is on the time axis
   from when it arrived, the slot's length late. `slot_end_seconds` says which slot it is.
3. What is no record, no descriptor or not in agreement is counted, never shown.
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
"""Streams, and homes of each; further ones are refused and counted."""
TERMS = 10_000
"""Descriptors that are remembered; further ones are refused and counted."""
RECONNECT_MAX_S = 30
"""How long it waits at most before it tries to connect again."""

_PARTS = {
    "": "the private value of the newest slot, or of all homes the mean; negative values are normal",
    "_low": "where its 95 % interval begins",
    "_high": "where its 95 % interval ends",
    "_sd": "the standard deviation of its noise",
}


class Stream(NamedTuple):
    """What homes have in common that have a mean: topic, unit, and how long a slot lasts."""

    topic: str
    unit: str
    slot: str


class Home(NamedTuple):
    """A home; of a mean day one of its bands."""

    meter: str
    band: str


class Shown(NamedTuple):
    """What is told of a home: its record as a series, and the estimate from it."""

    series: Series
    estimate: Estimate


Slot = dict[Home, Shown]


class Board(Collector):
    """What is known of all homes just now; fed by one thread, collected by another."""

    def __init__(self) -> None:
        self.connected = False
        self._messages = self._refused = 0
        self._terms: dict[str, Descriptor] = {}
        self._slots: dict[Stream, dict[int, Slot]] = {}
        self._lock = threading.Lock()

    def take(self, topic: str, payload: bytes) -> None:
        """A message has come."""
        with self._lock:
            self._messages += 1
            try:
                if "privacy" in topic.split("/")[-2:]:
                    self._describe(Descriptor.parse(payload))
                elif not topic.endswith("/total"):
                    self._note(topic, Record.parse(payload))
            except (RecordError, ValueError):
                self._refused += 1

    def _describe(self, terms: Descriptor) -> None:
        if len(self._terms) >= TERMS and terms.id not in self._terms:
            raise ValueError("more descriptors than are remembered")
        self._terms[terms.id] = terms

    def _note(self, topic: str, record: Record) -> None:
        """A record of one of the two newest slots of its stream."""
        series = Series.of([record], self._terms)
        shown = Shown(series, series.value(record.time_ms, COVERAGE, record.band))
        segments = ("+" if segment == record.meter else segment for segment in topic.split("/"))
        stream = Stream("/".join(segments), record.unit, _lasting(record.step_ms))
        if len(self._slots) >= STREAMS and stream not in self._slots:
            raise ValueError("more streams than are told")
        slots = self._slots.setdefault(stream, {})
        slot = slots.setdefault(record.time_ms, {})
        home = Home(record.meter, record.band or "")
        if len(slot) >= HOMES and home not in slot:
            raise ValueError("more homes than are told")
        slot[home] = shown
        for old_ms in sorted(slots)[:-2]:
            del slots[old_ms]

    def collect(self) -> Iterator[Metric]:
        """All metrics, at one moment."""
        with self._lock:
            yield GaugeMetricFamily(
                "meteragent_exporter_connected", "1: there is a connection to the broker", self.connected
            )
            yield CounterMetricFamily("meteragent_exporter_messages", "messages taken in", self._messages)
            yield CounterMetricFamily(
                "meteragent_exporter_refused",
                "messages that are no record or not in agreement",
                self._refused,
            )
            yield from self._homes()
            yield from self._means()
            yield from self._times()

    def _homes(self) -> Iterator[Metric]:
        rows = [
            ([*stream, *home], shown.estimate)
            for stream, slots in self._slots.items()
            for home, shown in _newest(slots).items()
        ]
        yield from _family("meteragent_private_value", (*Stream._fields, *Home._fields), rows)

    def _means(self) -> Iterator[Metric]:
        rows, counts = (
            [],
            GaugeMetricFamily(
                "meteragent_private_homes", "homes that the mean is of", labels=(*Stream._fields, "band")
            ),
        )
        for stream, slots in self._slots.items():
            time_ms = _complete(slots)
            bands: defaultdict[str, list[Series]] = defaultdict(list)
            for home, shown in slots[time_ms].items():
                bands[home.band].append(shown.series)
            for band, homes in bands.items():
                rows.append(([*stream, band], mean_value(homes, time_ms, COVERAGE, band or None)))
                counts.add_metric([*stream, band], len(homes))
        yield from _family("meteragent_private_mean", (*Stream._fields, "band"), rows)
        yield counts

    def _times(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "meteragent_private_slot_end_seconds", "when the newest slot ended", labels=Stream._fields
        )
        lengths = GaugeMetricFamily(
            "meteragent_private_slot_seconds", "how long the newest slot lasts", labels=Stream._fields
        )
        for stream, slots in self._slots.items():
            series = next(iter(slots[max(slots)].values())).series
            begin_ms, end_ms = int(series.time_ms[0]), int(series.end_ms[0])
            ends.add_metric(stream, end_ms / 1000)
            lengths.add_metric(stream, (end_ms - begin_ms) / 1000)
        yield ends
        yield lengths


def _lasting(step_ms: int) -> str:
    """How long a slot lasts, by a name that does not change with summer time or the month."""
    if step_ms < 22 * HOUR_MS:
        return f"{step_ms / 60_000:g}min"
    return "1d" if step_ms < 1.5 * DAY_MS else "1w" if step_ms < 8 * DAY_MS else "1mo"


def _newest(slots: dict[int, Slot]) -> Slot:
    """Of each home what there is of the newest slot that has it."""
    found: Slot = {}
    for time_ms in sorted(slots):
        found |= slots[time_ms]
    return found


def _complete(slots: dict[int, Slot]) -> int:
    """The slot that the mean is of: the newest, once it has as many homes as the one before (rule 1)."""
    *earlier, newest = sorted(slots)
    return earlier[-1] if earlier and len(slots[newest]) < len(slots[earlier[-1]]) else newest


def _family(
    name: str, labels: Sequence[str], rows: Sequence[tuple[Sequence[str], Estimate]]
) -> Iterator[Metric]:
    """An estimate's value, ends and standard deviation as four metrics."""
    for part, text in _PARTS.items():
        family = GaugeMetricFamily(name + part, text, labels=labels)
        for values, one in rows:
            number = {"": one.value, "_low": one.low, "_high": one.high, "_sd": one.sd}[part]
            family.add_metric(values, number)
        yield family


def client(board: Board, url: str, topic: str, username: str | None, password: str | None) -> Client:
    """A client that has begun to connect, subscribes whenever it is connected, and feeds the board.

    Raises:
        ValueError: the URL is none of MQTT.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"mqtt", "mqtts"} or not parts.hostname:
        raise ValueError(f"{url} is not a URL such as mqtts://utility.example:8883")
    made = Client(CallbackAPIVersion.VERSION2)
    made.reconnect_delay_set(1, RECONNECT_MAX_S)
    if username is not None:
        made.username_pw_set(username, password)
    if parts.scheme == "mqtts":
        made.tls_set_context(ssl.create_default_context())

    def on_connect(
        made: Client, _: object, __: ConnectFlags, code: ReasonCode, ___: Properties | None
    ) -> None:
        board.connected = not code.is_failure
        made.subscribe(topic, qos=1)

    def on_disconnect(
        _: Client, __: object, ___: DisconnectFlags, ____: ReasonCode, _____: Properties | None
    ) -> None:
        board.connected = False

    def on_message(_: Client, __: object, message: MQTTMessage) -> None:
        board.take(message.topic, bytes(message.payload))

    made.on_connect, made.on_disconnect, made.on_message = on_connect, on_disconnect, on_message
    made.connect_async(parts.hostname, parts.port or (8883 if parts.scheme == "mqtts" else 1883))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="Private streams with their error bands, for Prometheus.")
    add = parser.add_argument
    add("--url", required=True, metavar="mqtts://HOST", help="the broker that private records arrive at")
    add("--topic", default="private/#", help="what to subscribe to; default %(default)s")
    add("--username")
    add("--password-file", type=Path, metavar="FILE")
    add("--listen", default="127.0.0.1:9321", metavar="HOST:PORT", help="default %(default)s")
    given = parser.parse_args(arguments)
    host, _, port = given.listen.rpartition(":")
    password = None if given.password_file is None else given.password_file.read_text().rstrip("\r\n")
    board, registry = Board(), CollectorRegistry()
    registry.register(board)
    try:
        made = client(board, given.url, given.topic, given.username, password)
    except ValueError as error:
        parser.error(str(error))
    start_http_server(int(port), host, registry)
    made.loop_forever(retry_first_connection=True)


if __name__ == "__main__":
    main()
