"""The state of the agent in words, as the page shows it."""

from meteragent.domain.problem import Problem, fill
from meteragent.report.catalogue import say
from meteragent.report.format import duration


def problem(item: Problem) -> str:
    """Return a problem's cause as a sentence, after the stream's name and the number of its meters."""
    cause = say(f"problem.{item.code}", **dict(fill(item.fields, duration, _meaning)))
    if item.fields.get("of", 1) != 1:
        cause = say("problem.of_meters", meters=item.fields["meters"], of=item.fields["of"], cause=cause)
    return cause if item.stream is None else say("problem.of_stream", stream=item.stream, cause=cause)


def _meaning(counter: str) -> str:
    return say(f"counter.{counter}")
