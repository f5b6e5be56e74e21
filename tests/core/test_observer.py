"""Who looks at the page sees what counts of the meters watched, and as long as they look."""

from collections.abc import Collection
from dataclasses import dataclass, field

from meteragent.core.timeline import Timeline
from meteragent.domain.units import MICRO
from tests.core.test_pipeline import SLOT, core
from tests.support.world import BASE_MS, message

WATT = MICRO


@dataclass
class Watcher:
    """Takes what it is shown, of the meters that it watches."""

    meters: Collection[str]
    readings: list[tuple[str, int, int]] = field(default_factory=list)
    spans: list[tuple[str, int, int, object]] = field(default_factory=list)

    def note_reading(self, meter: str, time_ms: int, value_u: int) -> None:
        """Write a reading down."""
        self.readings.append((meter, time_ms - BASE_MS, value_u // WATT))

    def note_span(self, meter: str, start_ms: int, end_ms: int, value: object) -> None:
        """Write a span down."""
        watts = value // WATT if isinstance(value, int) else value
        self.spans.append((meter, start_ms - BASE_MS, end_ms - BASE_MS, watts))


def test_an_observer_sees_readings_and_the_spans_of_its_meters() -> None:
    """Readings of all meters, spans of the watched one as they are added: values, and the gap after them."""
    pipeline, watcher = core(), Watcher({"m1"})
    for time_ms in (1, 3, 6, 20):
        batch = [message(time_ms, 100 + time_ms, meter=meter) for meter in ("m1", "m2")]
        pipeline.feed(batch, BASE_MS + time_ms, BASE_MS + time_ms, watcher)
    assert watcher.readings == [
        (meter, time_ms, 100 + time_ms) for time_ms in (1, 3, 6, 20) for meter in ("m1", "m2")
    ]
    hold_ms = SLOT.readings.hold_ms
    assert {meter for meter, *_ in watcher.spans} == {"m1"}
    spans = [(start_ms, end_ms, value) for _, start_ms, end_ms, value in watcher.spans if end_ms > start_ms]
    assert [start_ms for start_ms, *_ in spans[1:]] == [end_ms for _, end_ms, _ in spans[:-1]]
    by_ms = {at_ms: value for start_ms, end_ms, value in spans for at_ms in range(start_ms, end_ms)}
    held = {
        at_ms: 100 + time_ms
        for time_ms, next_ms in ((1, 3), (3, 6), (6, 20))
        for at_ms in range(time_ms, min(next_ms, time_ms + hold_ms))
    }
    assert {at_ms: value for at_ms, value in by_ms.items() if value is not None} == {
        at_ms: value for at_ms, value in held.items() if at_ms in by_ms
    }
    assert None in by_ms.values()


def test_who_no_longer_looks_sees_nothing() -> None:
    """The next feed without an observer shows nothing to the last one, nor does a change of meters."""
    pipeline, one, other = core(), Watcher({"m1", "unknown"}), Watcher({"m2"})
    said = [message(time_ms, 100, meter=meter) for time_ms in (1, 3) for meter in ("m1", "m2")]
    pipeline.feed(said, BASE_MS + 3, BASE_MS + 3, None)
    feeds: list[tuple[int, Watcher | None]] = [(5, one), (6, other), (7, None), (8, None)]
    shown = []
    for time_ms, watcher in feeds:
        batch = [message(time_ms, 100, meter=meter) for meter in ("m1", "m2")]
        pipeline.feed(batch, BASE_MS + time_ms, BASE_MS + time_ms, watcher)
        shown.append([sorted({meter for meter, *_ in seen.spans}) for seen in (one, other)])
    assert shown == [[["m1"], []], [["m1"], ["m2"]], [["m1"], ["m2"]], [["m1"], ["m2"]]]
    assert [len(seen.readings) for seen in (one, other)] == [2, 2]
    timelines: list[Timeline] = list(pipeline._timelines.values())
    assert [timeline.observe for timeline in timelines] == [None, None]
