"""The start banner: the source, the hidden energy, the sink, and the time of the first number.

The lines repeat the configuration and contain no data from meters. URLs that contain a password were refused
earlier.
"""

from collections.abc import Iterator

from meteragent import __version__, config
from meteragent.crowd.group import Group
from meteragent.domain.grid import format_duration, iso_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.shape import Metric
from meteragent.domain.terms import Clock, Terms
from meteragent.report import sharing
from meteragent.report.format import energy

_IN_SECONDS = 120
"""Shorter waits are stated in seconds, longer waits in minutes."""


def lines(settings: config.Config, now_ms: int) -> Iterator[str]:
    """Yield the lines that `run` logs when it starts."""
    yield f"meteragent {__version__}; store {settings.store.path.absolute()}"
    for stream in settings.stream:
        schedule = config.schedule(stream, config.others_per_day(settings, stream))
        terms, name = schedule.usual, f"stream {stream.name}"
        source = stream.source
        kind = str(source.kind).replace("_", " ")
        yield (
            f"{name}: reads {kind} in {source.unit} from {source.url}, topic {source.topic},"
            f" profile {source.profile}"
        )
        yield f"{name}: hides {energy(terms.hides_wh)} {_scope_text(terms)}"
        if stream.group is not None:
            yield f"{name}: {_group_text(stream.group)}"
        if not stream.receivers:
            yield f"{name}: sends to {config.sink_url(stream)}, topic {stream.sink.topic}"
        yield from (f"{name}: {row.text}" for row in sharing.rows(settings) if row.stream == stream.name)
        noun = "number" if stream.group is None else "report"
        yield f"{name}: {_first_number_text(schedule, now_ms, noun)}"


def _group_text(group: Group) -> str:
    """Return the words that name a group and the two operators that publish its total."""
    return (
        f"counts in the total of the group {group.name} ({group.id.hex()}), which {group.leader.name} and"
        f" {group.helper.name} publish for {group.smallest_crowd:,} or more homes; no number of a home leaves"
    )


def _scope_text(terms: Terms) -> str:
    if terms.weights is not None:
        return "in total within a window"
    if terms.metric is Metric.L1:
        return "in total over all bands of a window"
    return (
        "within any band of a day" if terms.bands else f"within any slot of {format_duration(terms.step_ms)}"
    )


def _first_number_text(schedule: Schedule, now_ms: int, noun: str) -> str:
    """Return the words that say when a new meter's first number, or report to a crowd, will be sent."""
    if schedule.usual.clock is Clock.EVENT:
        return "the first number leaves when the readings' timestamps have passed the end of a slot"
    at_ms = first_number_ms(schedule, now_ms)
    wait_s = -(-(at_ms - now_ms) // 1000)
    wait = f"{wait_s} s" if wait_s < _IN_SECONDS else f"{-(-wait_s // 60)} min"
    return (
        f"a new meter's first {noun} leaves at {iso_time(at_ms)} (in {wait}) at the earliest,"
        " after the first whole slot that follows its first reading"
    )


def first_number_ms(schedule: Schedule, now_ms: int) -> int:
    """Return when a meter's first slot closes if its first reading arrives at `now_ms`; includes lateness."""
    start_ms = schedule.first_ms(now_ms)
    terms = schedule.terms(start_ms)
    ends_ms = [terms.stretches(slot_index)[-1][1] for slot_index in range(terms.n)]
    return start_ms + min(ends_ms) + terms.lateness_ms
