"""What the receivers of a configuration cost together, because one person may read the records of all."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from meteragent import config
from meteragent.domain import loads
from meteragent.domain.figures import exact_text
from meteragent.report.format import figures_text, odds_text
from meteragent.report.language import say
from meteragent.report.sharing import receivers

CHANGE_WH = Fraction(110)
"""The energy of the example: boiling a kettle once, within one slot of each stream."""


def level_together(settings: config.Config) -> Fraction:
    """Return the total level of a change by `CHANGE_WH` in one slot of each stream that is sent to anyone."""
    streams = (stream for stream in settings.stream if stream.is_received)
    return sum((loads.level(config.terms(stream), CHANGE_WH) for stream in streams), Fraction(0))


def epsilon_per_day(settings: config.Config) -> Fraction:
    """Return the sum of the daily charges, in 1/W, of all streams that are sent to anyone."""
    streams = (stream for stream in settings.stream if stream.is_received)
    return sum((config.terms(stream).epsilon_per_w_day for stream in streams), Fraction(0))


def receiver_lines(settings: config.Config) -> Iterator[str]:
    """Yield a line for each receiver, then the sentences that apply to all of them."""
    yield from (row.text for row in receivers(settings))
    yield say("receivers.same")
    level, epsilon = level_together(settings), epsilon_per_day(settings)
    yield say("receivers.together", wh=CHANGE_WH, odds=odds_text(level), epsilon=figures_text(epsilon))


def receiver_facts(settings: config.Config) -> dict[str, Any]:
    """Return the receivers and their total cost, for `check --json`; empty if there are no receivers."""
    if not settings.receiver:
        return {}
    level, epsilon = exact_text(level_together(settings)), exact_text(epsilon_per_day(settings))
    together = {"moved_wh": str(CHANGE_WH), "level": level, "epsilon_per_day": epsilon, "epsilon_unit": "1/W"}
    return {"receivers": [row._asdict() for row in receivers(settings)], "together": together}
