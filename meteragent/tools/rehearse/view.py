"""The terminal output of a rehearsal."""

from collections.abc import Callable, Iterator, Sequence

from meteragent import __version__
from meteragent import config as settings
from meteragent.agent import parts
from meteragent.domain.figures import count_text
from meteragent.domain.grid import duration_text
from meteragent.domain.problem import PROBLEMS
from meteragent.domain.units import Kind
from meteragent.report.format import energy_text, full_text
from meteragent.tools.lines import format_column, silence_texts, wrap_sentence
from meteragent.tools.rehearse.rehearsal import Rehearsal, Row

_ROW = "{:<14} {:<8} {:>9} {:>11} {:>8} {:>9} {:>9} {}"
HEAD = _ROW.format("meter", "time", "measured", "to be sent", "sd", "95%: low", "high", "unit")


class View:
    """The display of one stream in a rehearsal; `write` is called with each line."""

    def __init__(
        self,
        stream: settings.Stream,
        rehearsal: Rehearsal,
        write: Callable[[str], None],
        local_time: Callable[[int], str],
    ) -> None:
        self._stream = stream
        self._rehearsal = rehearsal
        self._write = write
        self._local_time = local_time
        self._codes = set[str]()
        self._warning_count = 1
        self._sums: dict[tuple[str, str], tuple[int, float, float]] = {}

    def begin(self) -> None:
        """Describe the stream and the time that represents a slot."""
        for text in _about_lines(self._stream, self._rehearsal):
            self._say(text)
        self._write("")
        self._write(HEAD)

    def show(self, rows: Sequence[Row]) -> None:
        """Write the slots that ended, and each problem with arriving messages once."""
        clamped_count = self._rehearsal.counts["clamped"]
        if clamped_count >= self._warning_count:
            self._warning_count = 10 * clamped_count
            self._codes.add("all_clamped")
            self._say(f"Warning: {_clamped_text(clamped_count, self._stream)} {PROBLEMS['all_clamped'].cure}")
        for row in rows:
            self._write(self._line(row))
            count, measured, number = self._sums.get((row.meter, row.unit), (0, 0.0, 0.0))
            self._sums[row.meter, row.unit] = count + 1, measured + row.measured, number + row.number
        for item in self._rehearsal.problems():
            if item.code not in self._codes:
                self._codes.add(item.code)
                self._say(f"{item.text}. {item.cure}")

    def _say(self, text: str) -> None:
        for line in wrap_sentence(text):
            self._write(line)

    def _line(self, row: Row) -> str:
        name = row.meter if row.band is None else f"{row.meter} {row.band}"
        low, high = row.number - row.half_width, row.number + row.half_width
        values = map(format_column, (row.measured, row.number, row.sd, low, high))
        return _ROW.format(name, self._local_time(row.time_ms), *values, row.unit)

    def end(self) -> None:
        """Write each meter's means over all slots, and the number of clamped readings."""
        for (meter, unit), (count, measured, number) in self._sums.items():
            self._say(
                f"{meter}: {count_text(count, 'slot')}, measured {format_column(measured / count)} {unit} on"
                f" average; the mean of what would be sent is {format_column(number / count)} {unit}"
            )
        if clamped_count := self._rehearsal.counts["clamped"]:
            self._say(_clamped_text(clamped_count, self._stream))


def _about_lines(stream: settings.Stream, rehearsal: Rehearsal) -> Iterator[str]:
    """Yield lines about what a stream's rehearsal shows, and how it differs from a run."""
    terms, source = settings.terms(stream), stream.source
    slot = "a band" if terms.shape.names else duration_text(terms.step_ms)
    head = f"meteragent {__version__}: rehearsal of stream {stream.name}."
    yield f"{head} Nothing is sent, and nothing is written."
    kind = str(source.kind).replace("_", " ")
    yield f"Reads {kind} in {source.unit} on {settings.topics_formula(source)} from {source.url}."
    by_receiver = settings.streams_by_receiver(stream)
    if places := [f"{part.sink.topic} at {settings.sink_url(part)}" for part in by_receiver.values()]:
        yield f"A run would send each number to {' and to '.join(places)}."
    else:
        yield "A run would send nothing: all receivers of this stream are paused or have ended."
    yield from silence_texts(stream.receivers)
    yield (
        f"Here a slot ({slot}) takes {duration_text(rehearsal.slot_ms)}. The noise is that of a real"
        f" slot and hides {energy_text(terms.hides_wh)}; no run ever uses it again."
    )
    if source.kind is not Kind.POWER or terms.is_energy:
        yield "Energies are shown as if the use in these seconds continued for the whole slot."
    if parts.price_topic(stream) is not None:
        yield "Prices from window.weights.topic are not read here: window.weights.default applies."
    yield (
        f"The column `measured` shows your readings, clamped to window.range ({_range(stream)}): it is never"
        " sent. Press Ctrl-C to stop."
    )


def _range(stream: settings.Stream) -> str:
    low, high = map(full_text, stream.window.range)
    return f"{low} to {high} W"


def _clamped_text(count: int, stream: settings.Stream) -> str:
    readings = "1 reading was" if count == 1 else f"{count:,} readings were"
    return (
        f"{readings} outside window.range ({_range(stream)}), with source.unit = {stream.source.unit!r}:"
        " `measured` shows the limit of the range instead, and a run would use it, too."
    )
