"""The lines on the terminal: slots that were sent, the open slot, refusals, and silence."""

import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from meteragent import config as settings
from meteragent.agent.first_minutes import why_none
from meteragent.consume import Record
from meteragent.domain import identity
from meteragent.domain.counters import COUNTERS, Counts
from meteragent.domain.errors import PayloadError, RecordError
from meteragent.domain.grid import Calendar, floor, iso_time
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.report.format import column
from meteragent.tools.tap.trace import Raw, Stretch, Trace
from meteragent.wire.descriptor import describe

SILENCE_MS = 20_000
"""How long a subscribed source may be silent before a line of advice is written."""
WIDTH = 79
_ROW = "{:<10} {:<14} {:>10} {:>9} {:>7} {:>8} {:>8} {:>6}"
HEAD = _ROW.format("meter", "slot, UTC", "measured", "sent", "sd", "95%: low", "high", "err/sd")
LEGEND = "* = measured only since this meter's first reading here, so not compared"


class StreamView:
    """One stream: its meters' traces, and the decoding of its messages."""

    def __init__(
        self, config: settings.Config, stream: settings.Stream, key: bytes | None, meter: str | None
    ) -> None:
        """Start without readings; `key` is the pseudonym key. Only `meter` is shown, unless it is None."""
        others_per_day = settings.others_per_day(config, stream)
        self.name = stream.name
        self._stream = stream
        self._source = settings.topic_of(stream.source)
        self._decode = settings.decoder(stream.source)
        self._max_payload, self._max_meters = stream.source.max_payload, stream.source.max_meters
        self._sink_topic = stream.sink.topic
        self._key, self._only = key, meter
        self._schedule = settings.schedule(stream, others_per_day)
        self.value_unit = self._schedule.usual.value_unit
        self._traces: dict[str, Trace] = {}
        self._meters: dict[str, str] = {}
        self._half_widths = _half_widths(settings.shapes(stream), self._schedule.usual)
        self.last: tuple[str, int] | None = None

    @property
    def receiver(self) -> str | None:
        """The name of the receiver whose records are shown; None unless several share the stream."""
        receivers = self._stream.receivers
        return settings.first_receiver(receivers).name if len(receivers) > 1 else None

    @property
    def filters(self) -> tuple[str, str]:
        """The topic filters to subscribe to, for the source and the sink."""
        public_id = "+" if self._only is None else self._public_id(self._only)
        return self._source.filter, identity.render(self._sink_topic, public_id)

    def _public_id(self, meter: str) -> str:
        return meter if self._key is None else identity.pseudonym(self._key, meter)

    def raw(self, topic: str, payload: bytes, retain: bool, now_ms: int) -> bool:
        """Process a message; return whether it contains readings of a meter that is shown.

        Raises PayloadError with the reason if the topic is not one of the source's topics, or if a shown
        meter's message is refused or has no reading.
        """
        place = self._source.place(topic)
        if place is None:
            raise PayloadError("refused_topic")
        meter, phase = place
        if self._only not in (None, meter) or not self._source.holds(meter):
            return False
        self._admit(meter, payload, retain)
        readings = list(self._decode(payload))
        for reading in readings:
            time_ms = now_ms if reading.time_ms is None else reading.time_ms
            time_ms += now_ms if time_ms < 0 else 0
            self._trace(meter).add(phase, time_ms, reading.value_u)
            self.last = (meter, reading.value_u)
        if not readings:
            raise PayloadError("refused_missing")
        return True

    def _admit(self, meter: str, payload: bytes, retain: bool) -> None:
        """Raise PayloadError if a message cannot be a reading, regardless of its content."""
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._max_payload:
            raise PayloadError("refused_size")
        if meter not in self._traces and len(self._traces) >= self._max_meters:
            raise PayloadError("refused_meters")

    def _trace(self, meter: str) -> Trace:
        if meter not in self._traces:
            self._traces[meter] = Trace(self._source.phases, self._schedule.usual)
            self._meters[identity.render(self._sink_topic, self._public_id(meter))] = meter
        return self._traces[meter]

    def released(self, topic: str, payload: bytes) -> str | None:
        """Return the line for a record; None if the message is not a record."""
        try:
            record = Record.parse(payload)
        except RecordError:
            return None
        meter = self._meters.get(topic)
        raw = None
        if meter is not None:
            stretches = self._stretches(record)
            raw = self._traces[meter].used(stretches, stretches[-1][1], self._terms_at(record.time_ms))
            self._traces[meter].forget(record.time_ms)
        return self._row(meter or record.meter, record, raw)

    def _row(self, meter: str, record: Record, raw: Raw | None) -> str:
        half_width = self._half_widths.get(record.descriptor)
        value = float(record.value)
        error = "-"
        if raw is not None and not raw.partial and record.sd:
            error = f"{(value - float(raw.value)) / record.sd:+.2f}"
        return _ROW.format(
            _cut(meter, 10),
            iso_time(record.time_ms)[5:19].replace("T", " ") if record.band is None else record.band,
            "-" if raw is None else f"{column(float(raw.value))}{'*' if raw.partial else ' '}",
            column(value),
            column(record.sd),
            "?" if half_width is None else column(value - half_width),
            "?" if half_width is None else column(value + half_width),
            error,
        )

    def _terms_at(self, window_ms: int) -> Terms:
        return self._schedule.terms(self._window_ms(window_ms))

    def _window_ms(self, time_ms: int) -> int:
        """Return the start of the window that contains `time_ms`."""
        grid = self._schedule.grid
        if isinstance(grid, Calendar):
            return grid.start_ms(time_ms)
        return floor(time_ms, self._schedule.usual.length_ms)

    def _stretches(self, record: Record) -> list[Stretch]:
        """Return the stretches of time of a record's slot: for a band, all its hours in the window."""
        terms = self._terms_at(record.time_ms)
        for band in terms.bands:
            if band.name == record.band:
                return [(record.time_ms + a, record.time_ms + b) for a, b in band.stretches]
        return [(record.time_ms, record.time_ms + record.step_ms)]

    def silence(self) -> str | None:
        """Return advice on a source that has been silent for SILENCE_MS; None for a shard without meters."""
        reason = why_none(self._stream, Counts(), SILENCE_MS)
        if reason is None or self._only is None:
            return reason
        return f"{reason} Only the meter {self._only} is shown (--meter)."

    def status(self, now_ms: int) -> str:
        """Return the line with the newest reading and the use in the open slot; "" if there is no reading."""
        if self.last is None:
            return ""
        meter, value_u = self.last
        text = f"{_cut(meter, 16)}: {column(value_u / MICRO)} {self._stream.source.unit}"
        start_ms = self._window_ms(now_ms)
        terms = self._schedule.terms(start_ms)
        for index in range(terms.n):
            stretches = [(start_ms + a, start_ms + b) for a, b in terms.stretches(index)]
            if any(a <= now_ms < b for a, b in stretches):
                return f"{text}; {self._so_far(meter, stretches, now_ms, terms)}"
        return text

    def _so_far(self, meter: str, stretches: list[Stretch], now_ms: int, terms: Terms) -> str:
        trace = self._traces[meter]
        raw = trace.used(stretches, now_ms, terms)
        start_ms, end_ms = stretches[0][0], stretches[-1][1]
        is_long = end_ms - start_ms >= DAY_MS
        moment = _date_and_clock if is_long else _clock
        slot = f"slot from {moment(start_ms)}" if is_long else f"slot {moment(start_ms)}-{moment(end_ms)}"
        if raw is None:
            return slot
        quantity = "used" if terms.is_energy else "mean"
        if terms.space is Space.PEAK:
            quantity = "largest mean"
        return f"{slot}: {quantity} {column(float(raw.value))} since {moment(max(start_ms, trace.since_ms))}"


class View:
    """The display of all streams on one terminal; `write` is called with each piece of text."""

    def __init__(
        self, streams: list[StreamView], write: Callable[[str], None], now_ms: Callable[[], int]
    ) -> None:
        self._streams = streams
        self._write = write
        self._now_ms = now_ms
        self._latest: StreamView | None = None
        self._refused = Counter[tuple[str, str]]()
        self._listening_ms: dict[StreamView, int] = {}
        self._checked: set[StreamView] = set()

    def begin(self) -> None:
        """Write which receiver's records of a shared stream are shown, the legend and the column headings."""
        for stream in self._streams:
            if stream.receiver is not None:
                self.say(f"Stream {stream.name}: records are shown as {stream.receiver} gets them.")
        self.say(LEGEND)
        self.say(HEAD)

    def listening(self, stream: StreamView) -> None:
        """Record that a stream's source is subscribed; its silence is counted from the first subscription."""
        self._listening_ms.setdefault(stream, self._now_ms())

    def tick(self) -> None:
        """Write advice, once for each stream, if its source has been silent for SILENCE_MS."""
        for stream, since_ms in self._listening_ms.items():
            if stream not in self._checked and self._now_ms() - since_ms >= SILENCE_MS:
                self._checked.add(stream)
                if reason := stream.silence():
                    name = f"stream {stream.name}: " if len(self._streams) > 1 else ""
                    for line in textwrap.wrap(
                        name + reason, WIDTH, break_long_words=False, break_on_hyphens=False
                    ):
                        self.say(line)

    def raw(self, stream: StreamView, topic: str, payload: bytes, retain: bool) -> None:
        """Process a meter's message: rewrite the open slot's line, or write why the message is refused."""
        try:
            is_shown = stream.raw(topic, payload, retain, self._now_ms())
        except PayloadError as error:
            self._checked.add(stream)
            self._refuse(stream, topic, error.reason)
            return
        if is_shown:
            self._checked.add(stream)
            name = f"{stream.name}, " if len(self._streams) > 1 else ""
            self._write("\r" + _cut(name + stream.status(self._now_ms()), WIDTH).ljust(WIDTH))

    def _refuse(self, stream: StreamView, topic: str, reason: str) -> None:
        """Write why messages are not readings: for each reason, after 1, 10, 100 messages and so on."""
        self._refused[stream.name, reason] += 1
        count = self._refused[stream.name, reason]
        if str(count).strip("0") == "1":
            times = "" if count == 1 else f" ({count:,} messages so far)"
            self.say(f"not a reading: {_printable(topic)}: {COUNTERS[reason]} ({reason}){times}")

    def released(self, stream: StreamView, topic: str, payload: bytes, retain: bool) -> None:
        """Process a message from the sink, and write its line if it is a record that was not retained."""
        line = None if retain else stream.released(topic, payload)
        if line is None:
            return
        if stream is not self._latest:
            self.say(f"-- stream {stream.name}, in {stream.value_unit}")
            self._latest = stream
        self.say(line)

    def say(self, text: str) -> None:
        """Write a line that is not overwritten."""
        self._write("\r" + text.ljust(WIDTH) + "\n")


def _half_widths(shapes: tuple[Terms, ...], usual: Terms) -> dict[str, float]:
    """Return the half-width of the 95% interval, by id, for each of the configuration's descriptors."""
    half_widths = {}
    for terms in {*shapes, usual}:
        descriptor = describe(replace(terms, others_per_day=usual.others_per_day))
        half_widths[descriptor.id] = float(descriptor.facts["ci95"])
    return half_widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"


def _printable(text: str) -> str:
    """Replace control characters in a broker's string, because a terminal would obey them."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _clock(time_ms: int) -> str:
    return iso_time(time_ms)[11:19]


def _date_and_clock(time_ms: int) -> str:
    return iso_time(time_ms)[5:16].replace("T", " ")
