"""The log lines at a start: version and store and, for each stream, source, hidden energy, group and sinks.

The lines depend only on the configuration, the clock, the schedule and the stored windows, not on readings.
URLs that contain a password were refused earlier.
"""

from collections.abc import Iterator

from meteragent import __version__, config
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.grid import duration_text, iso_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Clock
from meteragent.report import sharing
from meteragent.report.format import hidden_text

_IN_SECONDS = 120
"""Waits shorter than this are stated in seconds, all others in minutes."""


def startup_lines(settings: config.Config) -> Iterator[str]:
    """Yield the lines that `run` logs before it opens the store."""
    yield f"meteragent {__version__}; store {settings.store.path.absolute()}"
    for stream in settings.stream:
        terms = config.schedule(stream, config.other_charges_per_day(settings, stream)).usual
        name = f"stream {stream.name}"
        source = stream.source
        kind = str(source.kind).replace("_", " ")
        yield (
            f"{name}: reads {kind} in {source.unit} from {source.url}, topic {config.topics_formula(source)},"
            f" profile {source.profile}"
        )
        yield f"{name}: hides {hidden_text(terms)}"
        if (group := stream.group) is not None:
            yield (
                f"{name}: counts in the total of the group {group.name} ({group.id.hex()}), which"
                f" {group.leader.name} and {group.helper.name} publish for {group.smallest_crowd:,} or more"
                " homes; no number of a home leaves"
            )
        if not stream.receivers:
            yield f"{name}: sends to {config.sink_url(stream)}, topic {stream.sink.topic}"
        yield from (f"{name}: {row.text}" for row in sharing.receivers(settings) if row.stream == stream.name)


def number_line(stream: config.Stream, core: Stream, pipeline: Pipeline, now_ms: int, listen_s: float) -> str:
    """Return the line about the stream's next number; a new meter's first window waits for `listen_s`."""
    noun, name = "number" if stream.group is None else "report", f"stream {stream.name}"
    if core.terms.clock is Clock.EVENT:
        return f"{name}: the next {noun} leaves when the readings' timestamps have passed the end of a slot"
    slots = [slot for meter in pipeline.meters() if (slot := pipeline.upcoming_slot(meter)) is not None]
    if not slots:
        first_ms = first_number_ms(core.schedule, now_ms + (round(listen_s * 1000) if core.listens else 0))
        return (
            f"{name}: a new meter's first {noun} leaves at {_time_text(first_ms, now_ms)} at the earliest,"
            " after the first whole slot that follows its first reading"
        )
    leaves_ms = min(slot.leaves_ms for slot in slots)
    caught_up_ms = now_ms + stream.window.catch_up
    if leaves_ms > caught_up_ms:
        return f"{name}: the next {noun} leaves at {_time_text(leaves_ms, now_ms)} at the earliest"
    due = f"is due at {iso_time(leaves_ms)}"
    if leaves_ms <= now_ms:
        due = f"has been due since {iso_time(leaves_ms)}"
    return (
        f"{name}: a {noun} {due}. It leaves at {_time_text(caught_up_ms, now_ms)} at the earliest:"
        f" {duration_text(stream.window.catch_up)} after the source's broker has confirmed the subscription,"
        " so that readings that waited there count. Time without a reading counts as window.gap"
    )


def _time_text(time_ms: int, now_ms: int) -> str:
    wait_s = -(-(time_ms - now_ms) // 1000)
    wait = f"{wait_s} s" if wait_s < _IN_SECONDS else f"{-(-wait_s // 60)} min"
    return f"{iso_time(time_ms)} (in {wait})"


def first_number_ms(schedule: Schedule, time_ms: int) -> int:
    """Return when the first slot closes, lateness included, if windows may start at `time_ms` or later."""
    start_ms = schedule.first_start_ms(time_ms)
    terms = schedule.terms_at(start_ms)
    ends_ms = [stretches[-1][1] for stretches in terms.stretches]
    return start_ms + min(ends_ms) + terms.lateness_ms
