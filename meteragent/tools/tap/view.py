"""The lines on the terminal: slots that were sent, the open slot, refusals, and silence."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from meteragent import config as settings
from meteragent.agent.vitals import intake_limits
from meteragent.config.source import part_decoders
from meteragent.config.tables import first_receiver
from meteragent.consume import Record
from meteragent.core.arrivals import Arrivals
from meteragent.core.pending import Pending
from meteragent.domain import identity
from meteragent.domain.counters import COUNTERS, Counts
from meteragent.domain.errors import PayloadError, RecordError
from meteragent.domain.grid import iso_time
from meteragent.domain.reading import Reading
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.tools.lines import WIDTH, format_column, silence_texts, wrap_sentence
from meteragent.tools.tap.trace import RawUse, Trace
from meteragent.wire.descriptor import describe_terms

SILENCE_MS = 20_000
"""How long a subscribed source may be silent before a line of advice is written."""
_ROW = "{:<10} {:<14} {:>10} {:>9} {:>7} {:>8} {:>8} {:>6}"
HEAD = _ROW.format("meter", "slot, UTC", "measured", "sent", "sd", "95%: low", "high", "err/sd")
LEGEND = "* = measured only since this meter's first reading here, so not compared"


class StreamView:
    """One stream: its meters' traces, and the decoding of its messages."""

    def __init__(
        self, config: settings.Config, stream: settings.Stream, key: bytes | None, meter: str | None
    ) -> None:
        """Start without readings; `key` is the pseudonym key. If `meter` is None, all meters are shown."""
        others_per_day = settings.other_charges_per_day(config, stream)
        self.name, self.receivers = stream.name, stream.receivers
        self._stream = stream
        self._source = settings.topic_of(stream.source)
        self._decode, self._decoders = settings.build_decoder(stream.source), part_decoders(stream.source)
        self._key, self._only = key, meter
        self._schedule = settings.schedule(stream, others_per_day)
        self.value_unit = self._schedule.usual.value_unit
        self._traces: dict[str, Trace] = {}
        self._meters: dict[str, str] = {}
        self.arrivals = Arrivals(stream.name, self._source.phases, stream.source.max_meters, Counts())
        self._half_widths = _half_widths(settings.distinct_terms(stream), self._schedule.usual)
        self.last: tuple[str, int] | None = None

    @property
    def receiver(self) -> str | None:
        """The name of the receiver whose records are shown; None unless several share the stream."""
        first = first_receiver(self.receivers) if len(self.receivers) > 1 else None
        return None if first is None or first.state else first.name

    @property
    def filters(self) -> tuple[Sequence[str], Sequence[str]]:
        """The topic filters to subscribe to, for the source and the sink."""
        public_id = "+" if self._only is None else self._public_id(self._only)
        return self._source.filters, [identity.render_topic(self._stream.sink.topic, public_id)]

    def _public_id(self, meter: str) -> str:
        return meter if self._key is None else identity.pseudonym(self._key, meter)

    def take_source_message(self, topic: str, payload: bytes, retain: bool, now_ms: int) -> bool:
        """Process a message; return whether it contains readings of a meter that is shown.

        Raises PayloadError with the reason if the topic or a shown meter's message holds no reading.
        """
        place = self._source.place_of(topic)
        if place is None:
            raise PayloadError("refused_topic")
        meter, phase = place
        if self._only not in (None, meter) or not self._source.holds(meter):
            return False
        history = self.arrivals.history_of(meter, phase)
        try:
            readings = self._readings(meter, phase, payload, retain)
        except PayloadError as error:
            history.note_outcome(error.reason, self.arrivals.now_ms)
            raise
        for reading in readings:
            time_ms = now_ms if reading.time_ms is None else reading.time_ms
            time_ms += now_ms if time_ms < 0 else 0
            history.note_outcome("accepted", self.arrivals.now_ms)
            pending = Pending(time_ms, reading.value_u, None, is_stamped=reading.time_ms is None)
            if self._trace(meter).add(phase, pending, now_ms) and phase is not None:
                self.arrivals.history_of(meter).note_outcome("accepted", self.arrivals.now_ms)
            self.last = (meter, reading.value_u)
        return True

    def _readings(self, meter: str, phase: str | None, payload: bytes, retain: bool) -> Sequence[Reading]:
        """Return the readings of a shown meter's message. Raises PayloadError if there is none."""
        if retain:
            raise PayloadError("retained")
        if len(payload) > self._stream.source.max_payload:
            raise PayloadError("refused_size")
        if meter not in self._traces and len(self._traces) >= self._stream.source.max_meters:
            raise PayloadError("refused_meters")
        if not (readings := self._decoders.get(phase, self._decode)(payload)):
            raise PayloadError("refused_missing")
        return readings

    def _trace(self, meter: str) -> Trace:
        if meter not in self._traces:
            source = self._source
            self._traces[meter] = Trace(source.phases, self._schedule, source.subtracted)
            self._meters[identity.render_topic(self._stream.sink.topic, self._public_id(meter))] = meter
        return self._traces[meter]

    def record_line(self, topic: str, payload: bytes) -> str | None:
        """Return the line for a record; None if the message is not a record."""
        try:
            record = Record.parse(payload)
        except RecordError:
            return None
        meter = self._meters.get(topic)
        raw = None
        if meter is not None:
            trace, end_ms = self._traces[meter], record.time_ms + record.step_ms
            trace.end_at(end_ms)
            terms = self._schedule.terms_at(self._schedule.grid.start_ms(record.time_ms))
            raw = trace.use_between(record.time_ms, end_ms, record.band or "", terms)
        return self._row(meter or record.meter, record, raw)

    def _row(self, meter: str, record: Record, raw: RawUse | None) -> str:
        half_width, value, error = self._half_widths.get(record.descriptor), float(record.value), "-"
        if raw is not None and not raw.is_partial and record.sd:
            error = f"{(value - raw.value) / record.sd:+.2f}"
        limits = None if half_width is None else (value - half_width, value + half_width)
        return _ROW.format(
            _cut_text(meter, 10),
            iso_time(record.time_ms)[5:19].replace("T", " ") if record.band is None else record.band,
            "-" if raw is None else f"{format_column(raw.value)}{'*' if raw.is_partial else ' '}",
            format_column(value),
            format_column(record.sd),
            *(map(format_column, limits) if limits else "??"),
            error,
        )

    def advice(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield each problem's code, and what to do; that a shard gets no messages is not a problem."""
        self.arrivals.advance_clock(now_ms, is_connected=True)
        hint = "" if self._only is None else f" Only the meter {self._only} is shown (--meter)."
        limits = intake_limits(self._stream)._replace(first_ms=SILENCE_MS)
        for item in self.arrivals.problems(limits):
            if item.code != "no_message" or self._stream.source.shard is None:
                yield item.code, f"{item.text}. {item.cure}{hint}"

    def status_line(self, now_ms: int) -> str:
        """Return the line with the newest reading and the use in the open slot; "" if there is no reading."""
        if self.last is None:
            return ""
        meter, value_u = self.last
        text = f"{_cut_text(meter, 16)}: {format_column(value_u / MICRO)} {self._stream.source.unit}"
        start_ms = self._schedule.grid.start_ms(now_ms)
        terms = self._schedule.terms_at(start_ms)
        for index in range(terms.n):
            if any(start_ms + a <= now_ms < start_ms + b for a, b in terms.stretches[index]):
                return f"{text}; {self._so_far(meter, start_ms, index, terms)}"
        return text

    def _so_far(self, meter: str, window_ms: int, slot_index: int, terms: Terms) -> str:
        trace, band = self._traces[meter], terms.shape.names[slot_index] if terms.shape.names else ""
        from_ms, to_ms = (window_ms + at_ms for at_ms in terms.shape.extent_ms(slot_index))
        raw = trace.use_between(from_ms, to_ms, band, terms)
        stretches = terms.stretches[slot_index]
        start_ms, end_ms = window_ms + stretches[0][0], window_ms + stretches[-1][1]
        is_long = end_ms - start_ms >= DAY_MS

        def moment(time_ms: int) -> str:
            """Return the time of day or, if slots are long, the date and the time to the minute."""
            return iso_time(time_ms)[5:16].replace("T", " ") if is_long else iso_time(time_ms)[11:19]

        slot = f"slot from {moment(start_ms)}" if is_long else f"slot {moment(start_ms)}-{moment(end_ms)}"
        if raw is None:
            return slot
        quantity = "used" if terms.is_energy else "mean"
        if terms.shape.has_parts:
            quantity = f"{terms.shape.accumulator} mean"
        return f"{slot}: {quantity} {format_column(raw.value)} since {moment(max(start_ms, trace.since_ms))}"


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
        self._listening: dict[StreamView, set[str]] = {}

    def begin(self) -> None:
        """Write which receiver's records of a shared stream are shown, who gets none, and the headings."""
        for stream in self._streams:
            if stream.receiver is not None:
                self.write_line(f"Stream {stream.name}: records are shown as {stream.receiver} gets them.")
            for text in silence_texts(stream.receivers):
                self.write_line(text)
        self.write_line(LEGEND)
        self.write_line(HEAD)

    def note_listening(self, stream: StreamView) -> None:
        """Record that a stream's source is subscribed; its silence is timed from the first subscription."""
        self._listening.setdefault(stream, set())

    def tick(self) -> None:
        """Write each problem of each stream's arrivals once, with what to do."""
        for stream, codes in self._listening.items():
            for code, text in stream.advice(self._now_ms()):
                if code not in codes:
                    codes.add(code)
                    for line in wrap_sentence(text):
                        self.write_line(line)

    def show_source_message(self, stream: StreamView, topic: str, payload: bytes, retain: bool) -> None:
        """Process a message: show a new reading of a shown meter, or write why it is not a reading."""
        try:
            is_shown = stream.take_source_message(topic, payload, retain, self._now_ms())
        except PayloadError as error:
            self._refused[stream.name, error.reason] += 1
            count = self._refused[stream.name, error.reason]
            if str(count).strip("0") == "1":  # 1, 10, 100 and so on
                times = "" if count == 1 else f" ({count:,} messages so far)"
                reason = f"{COUNTERS[error.reason]} ({error.reason})"
                self.write_line(f"not a reading: {topic}: {reason}{times}")
            return
        if is_shown:
            name = f"{stream.name}, " if len(self._streams) > 1 else ""
            self._write("\r" + _cut_text(name + stream.status_line(self._now_ms()), WIDTH).ljust(WIDTH))

    def show_sink_message(self, stream: StreamView, topic: str, payload: bytes, retain: bool) -> None:
        """Process a message from the sink, and write its line if it is a record that was not retained."""
        line = None if retain else stream.record_line(topic, payload)
        if line is None:
            return
        if stream is not self._latest:
            self.write_line(f"-- stream {stream.name}, in {stream.value_unit}")
            self._latest = stream
        self.write_line(line)

    def write_line(self, text: str) -> None:
        """Write a line that is not overwritten."""
        self._write("\r" + text.ljust(WIDTH) + "\n")


def _half_widths(shapes: tuple[Terms, ...], usual: Terms) -> dict[str, float]:
    """Return the half-width of the 95% interval, by id, for each of the configuration's descriptors."""
    kinds = {replace(terms, others_per_day=usual.others_per_day) for terms in (*shapes, usual)}
    return {descriptor.id: float(descriptor.facts["ci95"]) for descriptor in map(describe_terms, kinds)}


def _cut_text(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"
