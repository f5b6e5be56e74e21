"""The state of the agent in words, as the page shows it."""

from meteragent.domain.problem import Problem
from meteragent.report.catalogue import say
from meteragent.report.format import duration


def problem(item: Problem) -> str:
    """Return a problem's cause as a sentence, after the stream's name if there is one."""
    fields = {
        name.removesuffix("_ms"): duration(int(value), 2) if name.endswith("_ms") else value
        for name, value in item.fields.items()
    }
    cause = say(f"problem.{item.code}", **fields)
    return cause if item.stream is None else say("problem.of_stream", stream=item.stream, cause=cause)
